//! Equal instructions as one: an unrolled loop repeats a load, and its wait, eight times.

use super::chain::{ChainLink, chain};
use super::listing::{CodeAddress, KernelListing, ListingInstruction};
use super::words;

/// Instructions of one line with one opcode, and with producers of equal opcodes and targets.
#[derive(Debug)]
pub(super) struct InstructionFold<'a> {
    /// The hottest of them. Its pc and its producers stand for all.
    pub(super) first: &'a ListingInstruction,
    /// All of them, hottest first.
    pub(super) all: Vec<&'a ListingInstruction>,
}

impl InstructionFold<'_> {
    /// Their samples.
    pub(super) fn samples(&self) -> f64 {
        self.all.iter().map(|instruction| instruction.samples).sum()
    }

    /// `×8 `, or nothing for a single instruction.
    pub(super) fn times(&self) -> String {
        if self.all.len() > 1 { format!("×{} ", self.all.len()) } else { String::new() }
    }
}

/// Folds instructions that are sorted by heat.
pub(super) fn folds<'a>(
    listing: &KernelListing,
    instructions: &[&'a ListingInstruction],
) -> Vec<InstructionFold<'a>> {
    let mut keys: Vec<String> = Vec::new();
    let mut folds: Vec<InstructionFold<'a>> = Vec::new();
    for &instruction in instructions {
        let key = key(listing, instruction);
        let known = keys.iter().position(|known| *known == key);
        if let Some(fold) = known.and_then(|at| folds.get_mut(at)) {
            fold.all.push(instruction);
        } else {
            keys.push(key);
            folds.push(InstructionFold { first: instruction, all: vec![instruction] });
        }
    }
    folds
}

/// Text that equal instructions share.
pub(super) fn key(listing: &KernelListing, instruction: &ListingInstruction) -> String {
    let mut key = alike(listing, instruction.place());
    let nodes = chain(listing, instruction.place());
    if nodes.is_empty() && instruction.source().is_none() && listing.touches(instruction.place()).is_empty() {
        // Arithmetic has an opcode in common, and no more.
        key.extend([format!(" {:x}", instruction.pc)]);
    }
    for node in nodes {
        key.push('|');
        match (node.place, &node.link) {
            (Some(place), _) => key += &alike(listing, place),
            (None, ChainLink::Waited { reason, note, .. }) => key.extend([reason, " ", note]),
            (None, ChainLink::Address { .. }) => {}
        }
    }
    key
}

/// Line, opcode and the name of the first target. Registers and pcs differ between equal instructions.
fn alike(listing: &KernelListing, place: CodeAddress) -> String {
    let Some((_, instruction)) = listing.find(place) else { return String::new() };
    let text = words::text(instruction);
    let opcode = text.split(' ').find(|word| !word.starts_with('@')).unwrap_or_default();
    let target = listing.touches(place).first().map_or("", |touch| touch.tensor.as_str());
    let source = words::source(instruction).unwrap_or_default();
    format!("{} {source} {opcode} {target}", place.0)
}

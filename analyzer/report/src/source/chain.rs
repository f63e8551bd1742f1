//! Chains of dependencies: the producer of a stalled instruction, and the producer of that one's address.

use std::collections::BTreeSet;

use super::listing::{CodeAddress, KernelListing, ListingInstruction};

/// Links of a chain, from the stalled instruction on.
const DEEPEST: usize = 5;
/// Maximum of shown producers of one instruction.
const WIDEST: usize = 4;
/// Maximum of instructions searched from a load back to the producer of its address.
const FARTHEST: usize = 64;

/// A producer in a chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChainNode {
    /// The instruction. None if no producer was found.
    pub(super) place: Option<CodeAddress>,
    /// Its part of the wait.
    pub(super) link: ChainLink,
    /// Producers of its address.
    pub(super) address: Vec<Self>,
    /// True if it is in the chain already: a loop, which ends here.
    pub(super) is_loop: bool,
}

/// Kind of step in a chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ChainLink {
    /// Samples of warps that waited for it, their share of all, and the confidence.
    Waited {
        /// The reason of the stall.
        reason: String,
        /// Samples.
        samples: f64,
        /// Their part of the samples that waited at this instruction.
        share: f64,
        /// Confidence, or the label of a missing producer.
        note: String,
    },
    /// An address that another instruction computes, which waits for this producer.
    Address {
        /// The instruction that waits for it.
        through: CodeAddress,
    },
}

/// The producers of a stalled instruction, most samples first.
pub(super) fn chain(listing: &KernelListing, place: CodeAddress) -> Vec<ChainNode> {
    let producers = listing.producers(place);
    let total: f64 = producers.iter().map(|producer| producer.samples).sum();
    let mut seen = BTreeSet::from([place]);
    let mut nodes = Vec::new();
    for producer in producers.iter().filter(|producer| producer.samples > 0.0).take(WIDEST) {
        let is_queue = producer.producer() == Some(place);
        let of_queue = is_queue.then(|| "the queue of its unit is full".to_owned());
        let note = of_queue
            .or_else(|| producer.remainder.clone())
            .or_else(|| producer.confidence.clone())
            .unwrap_or_default();
        let link = ChainLink::Waited {
            reason: producer.stall_reason.clone(),
            samples: producer.samples,
            share: producer.samples / total,
            note,
        };
        let waited_for = producer.producer().filter(|_| !is_queue);
        nodes.push(node(listing, waited_for, link, &mut seen, 1));
    }
    nodes
}

fn node(
    listing: &KernelListing,
    place: Option<CodeAddress>,
    link: ChainLink,
    seen: &mut BTreeSet<CodeAddress>,
    depth: usize,
) -> ChainNode {
    let is_loop = place.is_some_and(|place| seen.contains(&place));
    let mut address = Vec::new();
    if let (Some(place), false) = (place, is_loop) {
        seen.insert(place);
        if depth < DEEPEST {
            address = addresses(listing, place, seen, depth);
        }
        seen.remove(&place);
    }
    ChainNode { place, link, address, is_loop }
}

/// The loads for which the address of an instruction waited.
fn addresses(
    listing: &KernelListing,
    place: CodeAddress,
    seen: &mut BTreeSet<CodeAddress>,
    depth: usize,
) -> Vec<ChainNode> {
    let Some((through, producers)) = waits_before(listing, place) else { return Vec::new() };
    let nodes = producers.into_iter().take(WIDEST);
    nodes
        .map(|producer| node(listing, Some(producer), ChainLink::Address { through }, seen, depth + 1))
        .collect()
}

/// The nearest instruction in the same block that the registers of this one depend on, and that waits for loads,
/// with those loads.
fn waits_before(listing: &KernelListing, place: CodeAddress) -> Option<(CodeAddress, Vec<CodeAddress>)> {
    let (at, instruction) = listing.find(place)?;
    let before = listing.instructions.get(at.saturating_sub(FARTHEST)..at)?;
    let mut wanted = registers(instruction.reads.as_deref());
    for earlier in before.iter().rev().take_while(|earlier| is_with(earlier, instruction)) {
        let writes = registers(earlier.writes.as_deref());
        if writes.is_disjoint(&wanted) {
            continue;
        }
        let loads = loads(listing, earlier.place());
        if !loads.is_empty() {
            return Some((earlier.place(), loads));
        }
        if earlier.guard.is_none() {
            wanted.retain(|register| !writes.contains(register));
        }
        wanted.extend(registers(earlier.reads.as_deref()));
    }
    // The load itself may wait for the load of its address.
    let loads = loads(listing, place);
    (!loads.is_empty()).then_some((place, loads))
}

fn is_with(earlier: &ListingInstruction, instruction: &ListingInstruction) -> bool {
    earlier.place().0 == instruction.place().0 && earlier.block == instruction.block
}

/// The loads from device and shared memory whose results an instruction waits for.
fn loads(listing: &KernelListing, place: CodeAddress) -> Vec<CodeAddress> {
    let mut loads: Vec<CodeAddress> = Vec::new();
    for wait in listing.waits(place).iter().filter(|wait| wait.link == "reads") {
        let is_load = listing.find(wait.producer()).is_some_and(|(_, producer)| is_load(producer));
        if is_load && !loads.contains(&wait.producer()) {
            loads.push(wait.producer());
        }
    }
    loads
}

/// Constants are no links of a chain: kernel parameters are always near.
fn is_load(instruction: &ListingInstruction) -> bool {
    let is_constant = instruction.text.as_deref().is_some_and(|text| text.contains("LDC"));
    matches!(instruction.memory_kind.as_deref(), Some("read" | "atomic")) && !is_constant
}

/// The registers of a list such as `R2-R3 UR4 P0`, one by one.
fn registers(list: Option<&str>) -> BTreeSet<(&str, u16)> {
    let mut registers = BTreeSet::new();
    for word in list.unwrap_or_default().split_whitespace() {
        let (low, high) = word.split_once('-').unwrap_or((word, word));
        if let (Some((file, low)), Some((_, high))) = (register(low), register(high)) {
            registers.extend((low..=high.min(low.saturating_add(255))).map(|index| (file, index)));
        }
    }
    registers
}

fn register(name: &str) -> Option<(&str, u16)> {
    let (file, index) = name.split_at_checked(name.find(|char: char| char.is_ascii_digit())?)?;
    Some((file, index.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_registers_are_each_of_them() {
        let expected = BTreeSet::from([("R", 2), ("R", 3), ("UR", 4), ("P", 0)]);
        assert_eq!(registers(Some("R2-R3 UR4 P0")), expected);
        assert_eq!(registers(None), BTreeSet::new());
        assert_eq!(registers(Some("R R- -R2 R99999999")), BTreeSet::new());
    }
}

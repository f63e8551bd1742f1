//! The hottest locations of a kernel: source lines, and equal instructions if the code has no lines.

use std::collections::BTreeMap;

use super::fold::key;
use super::listing::{KernelListing, ListingInstruction};
use stallmap_console::args::SourceSort;

/// Instructions that belong together.
#[derive(Debug)]
pub(super) struct InstructionGroup<'a> {
    /// Their line. None if the code has none, and then the instructions are equal.
    pub(super) source: Option<(&'a str, u32)>,
    /// Samples that found warps at them.
    pub(super) samples: f64,
    /// Samples attributed to them.
    pub(super) charged: f64,
    /// Instructions among them with either, hottest first.
    pub(super) instructions: Vec<&'a ListingInstruction>,
}

/// Every location with samples or attributed samples, hottest first.
pub(super) fn groups(listing: &KernelListing, sort: SourceSort) -> Vec<InstructionGroup<'_>> {
    let mut by_line: BTreeMap<(&str, u32), Vec<&ListingInstruction>> = BTreeMap::new();
    let mut alike: BTreeMap<String, Vec<&ListingInstruction>> = BTreeMap::new();
    let is_warm =
        |instruction: &&ListingInstruction| instruction.samples > 0.0 || instruction.charged_samples > 0.0;
    for instruction in listing.instructions.iter().filter(is_warm) {
        match instruction.source() {
            Some(source) => by_line.entry(source).or_default().push(instruction),
            None => alike.entry(key(listing, instruction)).or_default().push(instruction),
        }
    }
    let lines = by_line.into_iter().map(|(source, instructions)| group(Some(source), instructions, sort));
    let others = alike.into_values().map(|instructions| group(None, instructions, sort));
    let mut groups: Vec<InstructionGroup<'_>> = lines.chain(others).collect();
    groups.sort_by(|a, b| heat_of(b, sort).total_cmp(&heat_of(a, sort)));
    groups
}

fn group<'a>(
    source: Option<(&'a str, u32)>,
    mut instructions: Vec<&'a ListingInstruction>,
    sort: SourceSort,
) -> InstructionGroup<'a> {
    instructions.sort_by(|a, b| heat(b, sort).total_cmp(&heat(a, sort)));
    let samples = instructions.iter().map(|instruction| instruction.samples).sum();
    let charged = instructions.iter().map(|instruction| instruction.charged_samples).sum();
    InstructionGroup { source, samples, charged, instructions }
}

fn heat(instruction: &ListingInstruction, sort: SourceSort) -> f64 {
    match sort {
        SourceSort::Samples => instruction.samples,
        SourceSort::Charged => instruction.charged_samples,
    }
}

fn heat_of(group: &InstructionGroup<'_>, sort: SourceSort) -> f64 {
    match sort {
        SourceSort::Samples => group.samples,
        SourceSort::Charged => group.charged,
    }
}

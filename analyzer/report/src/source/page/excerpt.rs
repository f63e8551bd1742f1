//! The shown part of a long kernel: the hottest locations with their surroundings. The rest is counted.

use std::collections::BTreeSet;

use super::super::listing::{CodeAddress, KernelListing, ListingInstruction, ListingLine};

/// Instructions around a hot one.
const AROUND: usize = 4;

/// The shown part.
#[derive(Debug)]
pub(super) struct ListingExcerpt<'a> {
    places: Option<BTreeSet<CodeAddress>>,
    lines: Option<BTreeSet<(&'a str, u32)>>,
}

/// A row of instructions.
#[derive(Debug)]
pub(super) enum ExcerptRow<'a> {
    /// An instruction.
    Row(&'a ListingInstruction),
    /// Number of hidden rows, with their samples.
    Gap(usize, f64),
}

impl<'a> ListingExcerpt<'a> {
    /// About so many instructions and lines: the hottest.
    pub(super) fn for_listing(listing: &'a KernelListing, most_rows: usize) -> Self {
        let places = (listing.instructions.len() > most_rows).then(|| hottest(listing, most_rows));
        let lines = (listing.lines.len() > most_rows).then(|| {
            let mut lines: Vec<&ListingLine> = listing.lines.iter().collect();
            let heat = |line: &ListingLine| line.samples + line.charged_samples;
            lines.sort_by(|a, b| heat(b).total_cmp(&heat(a)));
            lines.iter().take(most_rows).map(|line| (line.file.as_str(), line.number)).collect()
        });
        Self { places, lines }
    }

    /// True if an instruction is shown.
    pub(super) fn has(&self, place: CodeAddress) -> bool {
        self.places.as_ref().is_none_or(|places| places.contains(&place))
    }

    /// True if a line is shown.
    pub(super) fn has_line(&self, file: &str, line: u32) -> bool {
        self.lines.as_ref().is_none_or(|lines| lines.contains(&(file, line)))
    }

    /// A function's rows.
    pub(super) fn rows<'b>(&self, instructions: &[&'b ListingInstruction]) -> Vec<ExcerptRow<'b>> {
        let mut rows = Vec::new();
        for &instruction in instructions {
            match rows.last_mut() {
                _ if self.has(instruction.place()) => rows.push(ExcerptRow::Row(instruction)),
                Some(ExcerptRow::Gap(count, samples)) => {
                    *count += 1;
                    *samples += instruction.samples;
                }
                _ => rows.push(ExcerptRow::Gap(1, instruction.samples)),
            }
        }
        rows
    }
}

/// The hottest instructions, each with some before and after it, until there are enough.
fn hottest(listing: &KernelListing, most_rows: usize) -> BTreeSet<CodeAddress> {
    let instructions = &listing.instructions;
    let heat = |at: usize| instructions.get(at).map_or(0.0, |row| row.samples + row.charged_samples);
    let mut order: Vec<usize> = (0..instructions.len()).collect();
    order.sort_by(|&a, &b| heat(b).total_cmp(&heat(a)).then(a.cmp(&b)));
    let mut places = BTreeSet::new();
    for at in order {
        if places.len() >= most_rows || heat(at) == 0.0 && !places.is_empty() {
            break;
        }
        let around = at.saturating_sub(AROUND)..=at.saturating_add(AROUND);
        places.extend(around.filter_map(|near| instructions.get(near)).map(ListingInstruction::place));
    }
    places
}

//! Arrows next to the instructions: from each producer to its waiting instructions.

use std::collections::BTreeMap;

use super::super::listing::{CodeAddress, KernelListing, ListingInstruction};
use stallmap_console::output::html::HtmlPage;

/// Height of a row in pixels, as in the style.
const ROW: f64 = 22.0;
/// Pixels between arrows that run side by side.
const LANE: f64 = 9.0;
/// Maximum of parallel arrows: others share the outermost lane.
const MAX_LANES: usize = 10;
/// Minimum weight of a drawn wait.
const LEAST_WEIGHT: f64 = 0.05;

/// Arrows of one function's rows.
#[derive(Debug, Default)]
pub(super) struct FunctionArrows {
    arrows: Vec<ListingArrow>,
    lanes: usize,
}

#[derive(Debug, PartialEq)]
struct ListingArrow {
    from: usize,
    to: usize,
    heat: f64,
    lane: usize,
}

impl FunctionArrows {
    /// The arrows between instructions, each at its row.
    pub(super) fn for_listing(listing: &KernelListing, rows: &[(usize, &ListingInstruction)]) -> Self {
        let places: BTreeMap<CodeAddress, usize> = rows.iter().map(|&(at, row)| (row.place(), at)).collect();
        let mut arrows = Vec::new();
        for &(to, row) in rows {
            let producers = listing.producers(row.place());
            let total: f64 = producers.iter().map(|producer| producer.samples).sum();
            for producer in producers.iter().filter(|producer| producer.samples >= LEAST_WEIGHT * total) {
                let from = producer.producer().and_then(|place| places.get(&place));
                if let Some(&from) = from.filter(|from| **from != to) {
                    arrows.push(ListingArrow { from, to, heat: listing.share(producer.samples), lane: 0 });
                }
            }
        }
        Self::laid(arrows)
    }

    /// Short arrows inside, long ones outside, none over another while there is room.
    fn laid(mut arrows: Vec<ListingArrow>) -> Self {
        arrows.sort_by_key(|arrow| (arrow.from.abs_diff(arrow.to), arrow.to, arrow.from));
        let mut ends: Vec<Vec<(usize, usize)>> = Vec::new();
        for arrow in &mut arrows {
            let span = (arrow.from.min(arrow.to), arrow.from.max(arrow.to));
            let is_free =
                |lane: &Vec<(usize, usize)>| lane.iter().all(|&(low, high)| span.1 < low || high < span.0);
            let free = ends.iter().position(is_free);
            arrow.lane = free.unwrap_or_else(|| ends.len().min(MAX_LANES - 1));
            if arrow.lane == ends.len() {
                ends.push(Vec::new());
            }
            if let Some(lane) = ends.get_mut(arrow.lane) {
                lane.push(span);
            }
        }
        Self { arrows, lanes: ends.len() }
    }

    /// Width of the arrows in pixels.
    pub(super) fn width(&self) -> f64 {
        if self.lanes == 0 { 0.0 } else { (self.lanes as f64 + 1.0) * LANE + 8.0 }
    }

    /// Draws the arrows for so many rows. Nothing without arrows.
    pub(super) fn draw(&self, html: &mut HtmlPage, rows: usize) {
        let width = self.width();
        if self.lanes == 0 {
            return;
        }
        html.markup("<svg aria-hidden=\"true\" width=\"").number(width).markup("\" height=\"");
        html.number(rows as f64 * ROW).markup("\">");
        for arrow in &self.arrows {
            let (from, to) = ((arrow.from as f64 + 0.5) * ROW, (arrow.to as f64 + 0.5) * ROW);
            let out = width - 8.0 - (arrow.lane as f64 + 1.0) * LANE;
            html.markup("<path opacity=\"")
                .number(0.35 + 0.65 * arrow.heat.clamp(0.0, 1.0))
                .markup("\" d=\"M");
            html.number(width - 6.0).markup(" ").number(from).markup("H").number(out).markup("V").number(to);
            html.markup("H").number(width - 6.0).markup("\"/><path class=\"head\" d=\"M").number(width);
            html.markup(" ").number(to).markup("l-7 -4v8z\"/>");
        }
        html.markup("</svg>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_meet_run_side_by_side() {
        let arrow = |from, to| ListingArrow { from, to, heat: 0.5, lane: 0 };
        let laid = FunctionArrows::laid(vec![arrow(0, 9), arrow(2, 3), arrow(5, 4), arrow(3, 6)]);
        let lanes: Vec<_> = laid.arrows.iter().map(|arrow| (arrow.from, arrow.to, arrow.lane)).collect();
        assert_eq!(lanes, [(2, 3, 0), (5, 4, 0), (3, 6, 1), (0, 9, 2)]);
        assert_eq!(laid.lanes, 3);
    }

    #[test]
    fn lanes_are_bounded() {
        let arrows = (0..50).map(|to| ListingArrow { from: 100, to, heat: 0.0, lane: 0 }).collect();
        assert_eq!(FunctionArrows::laid(arrows).lanes, MAX_LANES);
    }
}

//! One warp's request against its ideal: its lanes, the sectors that they touch, and the fewest that hold its bytes.

use std::collections::BTreeMap;

use stallmap_console::output::html::HtmlPage;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 32;
/// Lanes of a warp.
const LANES: u32 = 32;
/// Sectors in a drawing. A warp request of more says so.
const MAX_SECTORS: usize = 64;
/// Width of a drawing.
const WIDTH: f64 = 640.0;
/// Height of the row of lanes.
const LANE_HEIGHT: f64 = 10.0;
/// Height of the lines from lanes to sectors.
const REACH_HEIGHT: f64 = 30.0;
/// Height of a row of sectors.
const SECTOR_HEIGHT: f64 = 18.0;

/// The request of one warp.
#[derive(Clone, Debug, Default)]
pub(super) struct WarpLanes {
    /// The first byte of each active lane.
    lanes: BTreeMap<u32, u64>,
    access_bytes: u64,
    /// The used bytes of each sector, one bit a byte, in order of address.
    sectors: BTreeMap<u64, u32>,
}

impl WarpLanes {
    /// A warp request by the addresses of its lanes. Lanes beyond a warp and accesses beyond 255 bytes do not exist.
    pub(super) fn from_addresses(addresses: impl IntoIterator<Item = (u32, u64)>, access_bytes: u64) -> Self {
        let access_bytes = access_bytes.min(u8::MAX.into());
        let lanes: BTreeMap<u32, u64> = addresses.into_iter().filter(|(lane, _)| *lane < LANES).collect();
        let mut sectors: BTreeMap<u64, u32> = BTreeMap::new();
        for byte in lanes.values().flat_map(|first| (0..access_bytes).map(|byte| first.saturating_add(byte)))
        {
            *sectors.entry(byte / SECTOR_BYTES).or_default() |= 1 << (byte % SECTOR_BYTES);
        }
        Self { lanes, access_bytes, sectors }
    }

    /// Active lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Sectors that the lanes touch.
    pub(super) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// Bytes of the union of all lanes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.sectors.values().map(|bytes| u64::from(bytes.count_ones())).sum()
    }

    /// The fewest sectors that hold these bytes.
    pub(super) fn ideal(&self) -> u64 {
        self.used_bytes().div_ceil(SECTOR_BYTES)
    }

    /// Draws lanes, sectors and the ideal, each with its label. Equal widths are equal bytes in the last two rows.
    pub(super) fn draw(&self, html: &mut HtmlPage) {
        if self.sectors.is_empty() {
            return;
        }
        let label = format!(
            "{} lanes touch {} sectors and use {} of {} bytes. Ideal: {} sectors",
            self.lanes(),
            self.sectors(),
            self.used_bytes(),
            self.sectors() as u64 * SECTOR_BYTES,
            self.ideal()
        );
        html.markup("<div class=\"warp\"><div class=\"ends\"><span>").text(&self.lanes().to_string());
        html.markup(" lanes</span><span>")
            .text(&self.sectors().to_string())
            .markup(" sectors</span></div>\n");
        html.markup("<svg role=\"img\" viewBox=\"0 0 640 58\" preserveAspectRatio=\"none\" aria-label=\"");
        html.text(&label).markup("\">");
        self.draw_lanes(html);
        self.draw_sectors(html);
        html.markup("</svg>\n<div>ideal: ").text(&self.ideal().to_string());
        html.markup("</div>\n<svg viewBox=\"0 0 640 18\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
        let cell = self.cell();
        let ideal = (0..self.ideal().min(MAX_SECTORS as u64)).map(|place| (place as f64 * cell, cell - 1.0));
        rectangles(html, "need", (0.0, SECTOR_HEIGHT), ideal);
        html.markup("</svg></div>\n");
        if self.sectors() > MAX_SECTORS {
            html.markup("<p class=\"small dim\">The first 64 sectors are drawn.</p>\n");
        }
    }

    /// Width of a sector.
    fn cell(&self) -> f64 {
        WIDTH / self.sectors().clamp(32, MAX_SECTORS) as f64
    }

    /// The lanes, and lines to their sectors.
    fn draw_lanes(&self, html: &mut HtmlPage) {
        let step = WIDTH / f64::from(LANES);
        let places: BTreeMap<u64, usize> =
            self.sectors.keys().enumerate().map(|(at, key)| (*key, at)).collect();
        html.markup("<path class=\"reach\" d=\"");
        for (lane, first) in &self.lanes {
            let last = first.saturating_add(self.access_bytes.saturating_sub(1)) / SECTOR_BYTES;
            for place in (first / SECTOR_BYTES..=last).filter_map(|sector| places.get(&sector)) {
                if *place < MAX_SECTORS {
                    let (from, to) = ((f64::from(*lane) + 0.5) * step, (*place as f64 + 0.5) * self.cell());
                    html.markup("M").number(from).markup(" ").number(LANE_HEIGHT);
                    html.markup("L").number(to).markup(" ").number(LANE_HEIGHT + REACH_HEIGHT);
                }
            }
        }
        html.markup("\"/>");
        for (class, is_active) in [("lane", true), ("idle", false)] {
            let lanes = (0..LANES).filter(|lane| self.lanes.contains_key(lane) == is_active);
            let places = lanes.map(|lane| (f64::from(lane) * step, step - 2.0));
            rectangles(html, class, (0.0, LANE_HEIGHT), places);
        }
    }

    /// The sectors. The filled part of each is its used bytes.
    fn draw_sectors(&self, html: &mut HtmlPage) {
        let (cell, row) = (self.cell(), (LANE_HEIGHT + REACH_HEIGHT, SECTOR_HEIGHT));
        let byte = (cell - 1.0) / SECTOR_BYTES as f64;
        let sectors = || self.sectors.values().take(MAX_SECTORS).zip(0_u32..);
        let left = |place: u32| f64::from(place) * cell;
        rectangles(html, "moved", row, sectors().map(|(_, place)| (left(place), cell - 1.0)));
        let used = sectors().flat_map(|(bytes, place)| runs(*bytes).map(move |run| (place, run)));
        let used = used
            .map(|(place, (first, count))| (left(place) + f64::from(first) * byte, f64::from(count) * byte));
        rectangles(html, "need", row, used);
    }
}

/// Rectangles of one row, by their left edges and widths, as one path. The row has its top and its height.
fn rectangles(
    html: &mut HtmlPage,
    class: &'static str,
    (top, height): (f64, f64),
    places: impl Iterator<Item = (f64, f64)>,
) {
    html.markup("<path class=").markup(class).markup(" d=\"");
    for (left, width) in places {
        html.markup("M").number(left).markup(" ").number(top).markup("h").number(width);
        html.markup("v").number(height).markup("h").number(-width).markup("z");
    }
    html.markup("\"/>");
}

/// Runs of set bits: the first bit and the length.
fn runs(bits: u32) -> impl Iterator<Item = (u32, u32)> {
    let is_set = move |bit: u32| bits >> bit & 1 == 1;
    let starts = (0..u32::BITS).filter(move |bit| is_set(*bit) && (*bit == 0 || !is_set(bit - 1)));
    starts.map(move |start| (start, (bits >> start).trailing_ones()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(stride: u64, access_bytes: u64) -> WarpLanes {
        WarpLanes::from_addresses((0..32).map(|lane| (lane, 4096 + u64::from(lane) * stride)), access_bytes)
    }

    #[test]
    fn sectors_and_ideals_are_those_of_the_lanes() {
        let counts = |warp: WarpLanes| (warp.lanes(), warp.sectors(), warp.used_bytes(), warp.ideal());
        assert_eq!(counts(strided(2048, 4)), (32, 32, 128, 4));
        assert_eq!(counts(strided(4, 4)), (32, 4, 128, 4));
        assert_eq!(counts(strided(0, 8)), (32, 1, 8, 1));
        // Accesses across the end of a sector touch two.
        assert_eq!(counts(WarpLanes::from_addresses([(0, 30)], 4)), (1, 2, 4, 1));
        assert_eq!(counts(WarpLanes::from_addresses([(40, 0), (3, u64::MAX)], 16)), (1, 1, 1, 1));
        assert_eq!(counts(WarpLanes::default()), (0, 0, 0, 0));
    }

    #[test]
    fn a_row_of_rectangles_is_one_path() {
        let mut html = HtmlPage::default();
        rectangles(&mut html, "need", (40.0, 18.0), [(0.0, 1.1875), (20.0, 19.0)].into_iter());
        assert_eq!(html.finish(), "<path class=need d=\"M0 40h1.188v18h-1.188zM20 40h19v18h-19z\"/>");
    }

    #[test]
    fn runs_of_bytes_are_drawn_once() {
        assert_eq!(runs(0b1011_0001).collect::<Vec<_>>(), [(0, 1), (4, 2), (7, 1)]);
        assert_eq!(runs(u32::MAX).collect::<Vec<_>>(), [(0, 32)]);
        assert_eq!(runs(0).count(), 0);
    }
}

//! Warp requests with excess sectors: one picture for each of the costliest tensors, a sentence for other tensors.

use stallmap::library::queries::{self, CommandQuery};

use super::ask::{SessionAsker, read};
use super::block::PageSection;
use super::links::{PageLinks, tensor_anchor};
use super::table::link;
use super::warp::WarpLanes;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::{counted, grouped, measured};
use stallmap_console::rows;

/// Pictures.
pub(super) const PICTURES: u64 = 6;
/// A picture shows sectors that exceed the ideal by a tenth.
const EXCESS: f64 = 1.1;

rows! {
    /// A tensor's costliest instruction.
    #[derive(Clone, Debug)]
    struct CostliestInstruction {
        tensors: u64,
        excess_tensors: u64,
        samples: f64,
        excess_samples: f64,
        sectors: f64,
        ideal_sectors: f64,
        tensor: Option<String>,
        data_type: Option<String> as "type",
        tensor_id: Option<u64>,
        kernel: Option<String>,
        code_function_id: u64,
        pc: u64,
        text: Option<String>,
        accesses_of: u64,
        low_address: Option<u64>,
        past_address: Option<u64>,
    }

    /// One of its requests, or the part of the lanes that is close together.
    #[derive(Clone, Debug)]
    struct LaneCluster {
        block: Option<u64>,
        warp: Option<u64>,
        access_bytes: Option<u64>,
        lane_mask: Option<u32>,
        address: Option<u64>,
        stride_bytes: Option<i64>,
        offsets: Option<String>,
        offset_shift: Option<u32>,
    }
}

/// A drawn request.
pub(super) struct RequestPicture {
    row: CostliestInstruction,
    part: LaneCluster,
    warp: WarpLanes,
}

/// The pictures of a capture.
pub(super) struct RequestPictures {
    pictures: Vec<RequestPicture>,
    /// The section, still without them. None without recorded accesses.
    block: Option<PageSection>,
}

impl LaneCluster {
    /// The active lanes with their addresses. An irregular lane has a distance of its own.
    fn lanes(&self) -> Vec<(u32, u64)> {
        let (Some(mask), Some(address)) = (self.lane_mask, self.address) else { return Vec::new() };
        let active = (0..32_u32).filter(|lane| mask >> lane & 1 == 1);
        let Some(offsets) = &self.offsets else {
            let stride = self.stride_bytes.unwrap_or(0);
            let first = if stride < 0 { 31 - mask.leading_zeros().min(31) } else { mask.trailing_zeros() };
            let distance = |lane: u32| (i64::from(lane) - i64::from(first)).saturating_mul(stride);
            return active.map(|lane| (lane, address.saturating_add_signed(distance(lane)))).collect();
        };
        let shift = self.offset_shift.unwrap_or(0);
        let offsets = offsets.split(' ').map_while(|text| text.parse::<u64>().ok());
        let offsets = offsets.map(|offset| offset.checked_shl(shift).unwrap_or(u64::MAX));
        active.zip(offsets).map(|(lane, offset)| (lane, address.saturating_add(offset))).collect()
    }
}

impl CostliestInstruction {
    /// The query of its request.
    fn request(&self) -> (CommandQuery, String) {
        let section = queries::page::REQUEST;
        let sql = section.sql(&[
            ("$low", self.low_address.unwrap_or(0)),
            ("$past", self.past_address.unwrap_or(0)),
            ("$kernel", self.accesses_of),
            ("$function", self.code_function_id),
            ("$pc", self.pc),
        ]);
        (section, sql)
    }

    /// True if its sectors exceed the ideal.
    fn is_excessive(&self) -> bool {
        self.excess_samples > 0.0 && self.sectors >= EXCESS * self.ideal_sectors
    }
}

impl RequestPictures {
    /// Queries a capture.
    pub(super) async fn from_session(asker: &SessionAsker<'_>) -> Outcome<Self> {
        let answer = asker.ask(queries::page::WARPS, &[("$top", PICTURES)]).await?;
        let rows: Vec<CostliestInstruction> = read(&answer)?;
        let mut block = PageSection::for_answer("warps", &answer);
        if let Some(row) = rows.first() {
            summary(&mut block.body, row);
        }
        let has_rows = !rows.is_empty();
        let excessive: Vec<CostliestInstruction> =
            rows.into_iter().filter(CostliestInstruction::is_excessive).collect();
        let requests = asker.all(excessive.iter().map(CostliestInstruction::request).collect()).await?;
        // The other queries differ by their numbers.
        if let Some(first) = requests.first() {
            block.asked(first);
        }
        let mut pictures = Vec::new();
        for (row, request) in excessive.into_iter().zip(&requests) {
            pictures.extend(picture(row, read(request)?));
        }
        Ok(Self { pictures, block: has_rows.then_some(block) })
    }

    /// Adds the instruction of each tensor.
    pub(super) fn add(&self, links: &mut PageLinks) {
        for RequestPicture { row, .. } in &self.pictures {
            if let Some(tensor) = row.tensor_id {
                links.add_wait(tensor, (row.code_function_id, row.pc));
            }
        }
    }

    /// The request of a tensor, if it has excess sectors.
    pub(super) fn warp(&self, tensor: u64) -> Option<&WarpLanes> {
        let found = self.pictures.iter().find(|picture| picture.row.tensor_id == Some(tensor));
        found.map(|picture| &picture.warp)
    }

    /// The section. None without recorded accesses.
    pub(super) fn block(self, links: &PageLinks) -> Option<PageSection> {
        let mut block = self.block?;
        block.body.markup("<div class=\"requests\">\n");
        self.pictures.iter().for_each(|picture| figure(&mut block.body, picture, links));
        block.body.markup("</div>\n");
        Some(block)
    }
}

/// The request of one tensor. None without lanes.
fn picture(row: CostliestInstruction, parts: Vec<LaneCluster>) -> Option<RequestPicture> {
    let access_bytes = parts.first()?.access_bytes.unwrap_or(0);
    let warp = WarpLanes::from_addresses(parts.iter().flat_map(LaneCluster::lanes), access_bytes);
    let part = parts.into_iter().next().filter(|_| warp.sectors() > 0)?;
    Some(RequestPicture { row, part, warp })
}

/// A sentence about tensors with and without excess sectors.
fn summary(html: &mut HtmlPage, row: &CostliestInstruction) {
    let fine = row.tensors.saturating_sub(row.excess_tensors);
    let excess = match row.excess_tensors {
        0 => "No tensor has excess sectors".to_owned(),
        count => format!("{} excess sectors", counted(count, "tensor has", "tensors have")),
    };
    let fine = match fine {
        0 => String::new(),
        count => format!(", {} close to the ideal", counted(count, "tensor is", "tensors are")),
    };
    html.markup("<p>").text(&format!("{excess}{fine}.")).markup("</p>\n");
}

fn figure(html: &mut HtmlPage, RequestPicture { row, part, warp }: &RequestPicture, links: &PageLinks) {
    html.markup("<figure class=\"request\"><figcaption><b class=\"code\">");
    let name = row.tensor.as_deref().unwrap_or("(unnamed)");
    match row.tensor_id.and_then(|tensor| links.found(tensor_anchor(tensor))) {
        Some(anchor) => link(html, &anchor, name),
        None => html.text(name),
    };
    html.markup("</b> ").text(row.data_type.as_deref().unwrap_or_default()).markup("<br>");
    html.text(&instruction(row, part)).markup(" ");
    if let Some(anchor) = links.instruction((row.code_function_id, row.pc)) {
        link(html, anchor, "code");
    }
    html.markup("</figcaption>\n");
    warp.draw(html);
    html.markup("<p class=\"dim small\">").text(&facts(row, part, warp)).markup("</p></figure>\n");
}

/// The instruction and its warp.
fn instruction(row: &CostliestInstruction, part: &LaneCluster) -> String {
    let mut words = format!("{} +{:#x}", row.kernel.as_deref().unwrap_or("(unnamed)"), row.pc);
    if let Some(text) = &row.text {
        words.extend([" ", text]);
    }
    if let (Some(block), Some(warp)) = (part.block, part.warp) {
        words.extend([format!(", block {}, warp {warp}", grouped(block.into()))]);
    }
    words
}

/// The numbers of this request and of all.
fn facts(row: &CostliestInstruction, part: &LaneCluster, warp: &WarpLanes) -> String {
    let moved = warp.sectors() as u64 * 32;
    let stride = match part.stride_bytes {
        Some(stride) if part.offsets.is_none() => {
            format!("{} bytes from lane to lane", grouped(stride.into()))
        }
        _ => "irregular distances from lane to lane".to_owned(),
    };
    format!(
        "This request: {stride}, {} bytes moved, {} used. All its requests: {} sectors per request, ideal {}. \
         Its wait: {} samples, {} of them for excess sectors.",
        grouped(moved.into()),
        grouped(warp.used_bytes().into()),
        measured(row.sectors),
        measured(row.ideal_sectors),
        measured(row.samples),
        measured(row.excess_samples)
    )
}

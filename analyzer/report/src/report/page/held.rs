//! Memory at the peak by category: a bar of categories for each GPU, and a sentence about its allocator.

use std::fmt::Write as _;

use super::ask::read;
use super::block::PageSection;
use super::links::PageLinks;
use super::numbers;
use super::table::{TableLayout, data};
use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::{bytes, counted, percent};
use stallmap_console::rows;

/// Colours of categories, by name. All other categories are gray.
const TONES: [(&str, &str); 6] = [
    ("parameters", "t0"),
    ("gradients", "t1"),
    ("optimizer state", "t2"),
    ("activations", "t3"),
    ("temporaries", "t4"),
    ("workspaces", "t5"),
];

rows! {
    /// A category of a GPU.
    #[derive(Clone, Debug)]
    struct HeldCategory {
        share: Option<f64>,
        size_bytes: f64,
        requested_bytes: Option<f64>,
        objects: u64,
        rank: Option<i64>,
        device_id: i64,
        category: Option<String>,
        held_by: Option<String>,
        held_bytes: Option<f64>,
    }

    /// The peak of a GPU.
    #[derive(Clone, Debug)]
    struct DevicePeak {
        rank: Option<i64>,
        device_id: i64,
        peak_bytes: f64,
        requested_bytes: Option<f64>,
        reserved_bytes: Option<f64>,
        unused_bytes: Option<f64>,
        unused_count: Option<u64>,
        largest_unused_bytes: Option<f64>,
        failures: Option<u64>,
        failed_bytes: Option<f64>,
        free_bytes: Option<f64>,
        failed_at: Option<String>,
        peak_at: Option<String>,
    }
}

/// Adds the picture, the sentences and their table to the section of memory.
pub(super) fn add(block: &mut PageSection, held: &SectionAnswer, peaks: &SectionAnswer) -> Outcome<()> {
    let categories: Vec<HeldCategory> = read(held)?;
    let peaks_of: Vec<DevicePeak> = read(peaks)?;
    if categories.is_empty() {
        return Ok(());
    }
    block.asked(held);
    block.asked(peaks);
    let html = &mut block.body;
    html.markup("<h3>").text(held.section.title()).markup("</h3>\n");
    for rows in categories.chunk_by(|a, b| (a.rank, a.device_id) == (b.rank, b.device_id)) {
        let Some(first) = rows.first() else { continue };
        let peak = peaks_of.iter().find(|peak| (peak.rank, peak.device_id) == (first.rank, first.device_id));
        html.markup("<p>").text(&peak.map_or_else(String::new, sentence)).markup("</p>\n");
        bar(html, rows);
    }
    html.markup("<details class=\"data\"><summary>Table</summary>\n");
    let layout = TableLayout {
        caption: "Memory at the peak by category",
        name: "category",
        bar: "share",
        ..TableLayout::default()
    };
    numbers::place(html, "held", layout.caption);
    html.markup("</details>\n");
    block.tables.push(("held", data(&held.rows, &layout, &PageLinks::default())?));
    Ok(())
}

/// The peak of a GPU, its allocator, and a failed allocation.
fn sentence(peak: &DevicePeak) -> String {
    let rank = peak.rank.map(|rank| format!("Rank {rank}, ")).unwrap_or_default();
    let mut text = format!("{rank}GPU {}: {} in use", peak.device_id, bytes(peak.peak_bytes));
    if let Some(line) = &peak.peak_at {
        write!(text, " at the peak, before the launch at {line}").unwrap_or_default();
    } else {
        text += " at the peak";
    }
    if let Some(requested) = peak.requested_bytes {
        write!(text, ". The program asked for {} of it", bytes(requested)).unwrap_or_default();
    }
    if let (Some(reserved), Some(unused), Some(pieces), Some(largest)) =
        (peak.reserved_bytes, peak.unused_bytes, peak.unused_count, peak.largest_unused_bytes)
    {
        write!(text, ". The allocator holds {}, of which {} are unused", bytes(reserved), bytes(unused))
            .unwrap_or_default();
        if pieces > 0 {
            write!(text, " in {}, the largest of {}", counted(pieces, "piece", "pieces"), bytes(largest))
                .unwrap_or_default();
        }
    }
    if let Some(failures) = peak.failures {
        write!(text, ". {} failed", counted(failures, "allocation", "allocations")).unwrap_or_default();
        if let Some(failed) = peak.failed_bytes {
            write!(text, ", the largest of {}", bytes(failed)).unwrap_or_default();
        }
        if let Some(free) = peak.free_bytes {
            write!(text, " while the GPU had {} free", bytes(free)).unwrap_or_default();
        }
        if let Some(line) = &peak.failed_at {
            write!(text, ", at {line}").unwrap_or_default();
        }
    }
    text + "."
}

fn name(row: &HeldCategory) -> &str {
    row.category.as_deref().unwrap_or("other")
}

fn tone(row: &HeldCategory) -> &'static str {
    TONES.iter().find(|(category, _)| *category == name(row)).map_or("unheld", |(_, tone)| tone)
}

/// One bar: its full width is the peak. The list below it has the same shares as text.
fn bar(html: &mut HtmlPage, rows: &[HeldCategory]) {
    let share = |row: &HeldCategory| row.share.unwrap_or(0.0);
    let words: Vec<String> =
        rows.iter().map(|row| format!("{} {}", name(row), percent(share(row)))).collect();
    html.markup("<svg class=\"stack\" role=\"img\" aria-label=\"").text(&words.join(", ")).markup("\">");
    let mut x = 0.0;
    for row in rows {
        html.markup("<rect class=\"").markup(tone(row)).markup("\" height=\"18\" x=\"").percent(x);
        html.markup("\" width=\"").percent(share(row)).markup("\"/>");
        x += share(row);
    }
    html.markup("</svg>\n<ul class=\"legend\">\n");
    for row in rows {
        html.markup("<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"").markup(tone(row));
        html.markup("\" width=\"100%\" height=\"12\"/></svg>").text(&legend(row)).markup("</li>\n");
    }
    html.markup("</ul>\n");
}

fn legend(row: &HeldCategory) -> String {
    let mut text = format!(
        "{} {}, {}, {}",
        name(row),
        percent(row.share.unwrap_or(0.0)),
        bytes(row.size_bytes),
        counted(row.objects, "object", "objects")
    );
    if let Some(requested) = row.requested_bytes.filter(|requested| *requested < row.size_bytes) {
        write!(text, ", {} requested", bytes(requested)).unwrap_or_default();
    }
    if let (Some(held_by), Some(held)) = (&row.held_by, row.held_bytes) {
        write!(text, ", {} by {held_by}", bytes(held)).unwrap_or_default();
    }
    text
}

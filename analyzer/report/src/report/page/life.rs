//! Memory over the program: bytes in use, and lifetimes of the largest objects.

use super::ask::read;
use super::block::PageSection;
use super::links::PageLinks;
use super::numbers;
use super::table::{TableLayout, data};
use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::{bytes, grouped};
use stallmap_console::rows;

/// Width of a curve's drawing, which is stretched to the page's width.
const WIDTH: f64 = 1000.0;
/// Its height.
const HEIGHT: f64 = 120.0;

/// The smallest visible part of a drawing.
const LEAST_WIDTH: f64 = 0.003;

rows! {
    /// Bytes in use in one stretch of launches.
    #[derive(Clone, Debug)]
    struct LaunchStretch {
        memory: String,
        device_id: Option<i64>,
        first_ordinal: u64,
        most_bytes: f64,
        left_bytes: f64,
        launches: u64,
        /// The unit of time: launch, or event of the allocator.
        moment: String,
    }

    /// An object's lifetime.
    #[derive(Clone, Debug)]
    struct ObjectLife {
        name: Option<String> as "object",
        data_type: Option<String> as "type",
        born_at: Option<String>,
        size_bytes: f64,
        /// None for an aggregated row.
        alloc_ordinal: Option<u64>,
        first_use_ordinal: Option<u64>,
        last_use_ordinal: Option<u64>,
        free_ordinal: Option<u64>,
        patterns: Option<String>,
        launches: u64,
    }
}

/// Text for a capture without allocations.
const NO_MEMORY: &str = "No allocation of device memory is in this capture.";

/// The section. `held` and `peaks` say what holds memory at the peak.
pub(super) fn block(
    memory: &SectionAnswer,
    objects: &SectionAnswer,
    (held, peaks): (&SectionAnswer, &SectionAnswer),
) -> Outcome<PageSection> {
    let stretches: Vec<LaunchStretch> = read(memory)?;
    let mut block = PageSection::for_answer("memory", memory);
    if stretches.is_empty() {
        block.doc.clear();
        block.body.markup("<p class=\"dim\">").text(NO_MEMORY).markup("</p>\n");
        return Ok(block);
    }
    block.asked(objects);
    super::held::add(&mut block, held, peaks)?;
    let html = &mut block.body;
    html.markup("<div class=\"curves\">\n");
    for stretches in stretches.chunk_by(|a, b| (&a.memory, a.device_id) == (&b.memory, b.device_id)) {
        curve(html, stretches);
    }
    html.markup("</div>\n");
    lives(html, &read::<ObjectLife>(objects)?, objects);
    html.markup("<details class=\"data\"><summary>Tables</summary>\n");
    for (answer, name, caption) in
        [(memory, "memory", "Bytes in use"), (objects, "object", "Lifetimes of objects")]
    {
        let layout = TableLayout { caption, name, ..TableLayout::default() };
        numbers::place(html, name, caption);
        block.tables.push((name, data(&answer.rows, &layout, &PageLinks::default())?));
    }
    html.markup("</details>\n");
    Ok(block)
}

/// The bytes in use as a stepped area.
fn curve(html: &mut HtmlPage, stretches: &[LaunchStretch]) {
    let Some(first) = stretches.first() else { return };
    let peak = stretches
        .iter()
        .fold(first, |peak, next| if next.most_bytes > peak.most_bytes { next } else { peak });
    let most = peak.most_bytes.max(1.0);
    let last = first.launches.max(1) as f64;
    // Tenths of a pixel, or less: the drawing is stretched.
    let tenths = |length: f64| (length * 10.0).round() / 10.0;
    let x = |ordinal: u64| tenths(WIDTH * ordinal as f64 / last);
    let y = |bytes: f64| tenths(HEIGHT * (1.0 - bytes / most));
    let note = format!(
        "{} on device {}: peak {} from {} {} of {}",
        first.memory,
        first.device_id.map_or_else(|| "?".to_owned(), |device| device.to_string()),
        bytes(peak.most_bytes),
        first.moment,
        grouped(peak.first_ordinal.into()),
        grouped(first.launches.into()),
    );
    html.markup("<figure><figcaption>")
        .text(&note)
        .markup("</figcaption>\n<div class=\"plot\"><div class=\"axis upright-axis\"><span>")
        .text(&bytes(most))
        .markup("</span><span>")
        .text(&bytes(most / 2.0))
        .markup("</span><span>0</span></div>\n<svg class=\"curve\" role=\"img\" aria-label=\"");
    html.text(&note).markup("\" viewBox=\"0 0 1000 120\" preserveAspectRatio=\"none\"><path d=\"M0 120");
    for (at, stretch) in stretches.iter().enumerate() {
        let end = stretches.get(at + 1).map_or(last, |next| next.first_ordinal as f64).min(last);
        let begin = x(stretch.first_ordinal).min(WIDTH);
        html.markup("H").number(begin).markup("V").number(y(stretch.most_bytes));
        // The maximum is drawn at least one pixel wide to keep peaks visible.
        html.markup("H").number((begin + 1.0).min(WIDTH)).markup("V").number(y(stretch.left_bytes));
        html.markup("H").number(tenths(WIDTH * end / last));
    }
    html.markup("V120Z\"/></svg></div>\n<div class=\"axis\"><span>");
    html.text(&first.moment).markup(" 0</span><span>");
    html.text(&grouped(first.launches.into())).markup("</span></div></figure>\n");
}

/// Legend of a lifetime.
const LEGEND: &str = "<ul class=\"legend\">\
<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"freed\" width=\"100%\" height=\"12\"/></svg>allocated</li>\
<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"unfreed\" width=\"100%\" height=\"12\"/></svg>allocated, never freed</li>\
<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"freed\" width=\"100%\" height=\"12\"/><rect class=\"used\" width=\"100%\" y=\"4\" height=\"4\"/></svg>from first to last use</li></ul>\n";

/// A bar from allocation to free for each object, and in it one from its first use to its last.
fn lives(html: &mut HtmlPage, objects: &[ObjectLife], answer: &SectionAnswer) {
    html.markup("<h3>").text(answer.section.title()).markup("</h3>\n<p class=\"doc\">");
    html.text(&answer.section.doc().collect::<Vec<_>>().join(" ")).markup("</p>\n").markup(LEGEND);
    html.markup("<ul class=\"lives\">\n");
    for object in objects {
        let name = object.name.as_deref().unwrap_or("(unnamed)");
        html.markup("<li><span class=\"name\">").text(name).markup("</span><span class=\"n\">");
        html.text(&bytes(object.size_bytes)).markup("</span>");
        if let Some(alloc) = object.alloc_ordinal {
            life(html, object, alloc);
        }
        html.markup("</li>\n");
    }
    html.markup("</ul>\n");
}

fn life(html: &mut HtmlPage, object: &ObjectLife, alloc: u64) {
    let last = object.launches.max(1) as f64;
    let end = object.free_ordinal.map_or(1.0, |free| free as f64 / last);
    let begin = alloc as f64 / last;
    let note = note(object, alloc);
    html.markup("<svg class=\"life\" role=\"img\"><title>").text(&note);
    html.markup("</title><rect class=\"ground\" width=\"100%\" height=\"12\"/><rect class=\"");
    html.markup(if object.free_ordinal.is_none() { "unfreed" } else { "freed" })
        .markup("\" x=\"")
        .percent(begin);
    html.markup("\" width=\"").percent((end - begin).max(LEAST_WIDTH)).markup("\" height=\"12\"/>");
    if let (Some(first), Some(after)) = (object.first_use_ordinal, object.last_use_ordinal) {
        let (first, after) = (first as f64 / last, after as f64 / last);
        html.markup("<rect class=\"used\" x=\"").percent(first).markup("\" width=\"");
        html.percent((after - first).max(LEAST_WIDTH)).markup("\" y=\"4\" height=\"4\"/>");
    }
    html.markup("</svg>");
    let facts = [&object.data_type, &object.born_at, &object.patterns];
    let facts: Vec<&str> = facts.into_iter().flatten().map(String::as_str).collect();
    if !facts.is_empty() {
        html.markup("<span class=\"dim small\">").text(&facts.join(" · ")).markup("</span>");
    }
}

/// A lifetime as text.
fn note(object: &ObjectLife, alloc: u64) -> String {
    let at = |ordinal: u64| grouped(ordinal.into());
    let used = match (object.first_use_ordinal, object.last_use_ordinal) {
        (Some(first), Some(after)) => format!(", used from {} to before {}", at(first), at(after)),
        _ => String::new(),
    };
    let freed = object
        .free_ordinal
        .map_or_else(|| "never freed".to_owned(), |free| format!("freed before {}", at(free)));
    format!("allocated before launch {}{used}, {freed}", at(alloc))
}

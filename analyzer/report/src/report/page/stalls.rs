//! Stall reasons, kernel by kernel: a bar for each, waits for memory first, and hatched.

use std::collections::BTreeSet;

use super::block::Block;
use super::table::{Anchors, Layout, kernel_anchor, table};
use crate::report::page::ask::read;
use stallmap_console::answer::Answer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::Html;
use stallmap_console::output::number::{measured, percent};
use stallmap_console::rows;

/// Reasons that are waits for memory, and the other ones, each with its own colour by position. Further ones share one.
/// Colour is never the only mark: waits for memory are hatched, and every part has its name.
const REASONS: [&[&str]; 2] = [
    &[
        "long_scoreboard",
        "short_scoreboard",
        "lg_throttle",
        "mio_throttle",
        "tex_throttle",
        "drain",
        "membar",
    ],
    &[
        "wait",
        "selected",
        "not_selected",
        "barrier",
        "math_pipe_throttle",
        "branch_resolving",
        "no_instructions",
        "dispatch_stall",
        "imc_miss",
    ],
];
/// The smallest part that its name is written in.
const LABELLED_SHARE: f64 = 0.09;
/// Reasons that are named below a bar.
const NAMED: usize = 6;

rows! {
    /// A kernel's samples with one reason.
    #[derive(Clone, Debug)]
    struct Row {
        function_id: Option<u64>,
        kernel: Option<String>,
        stall_reason: String,
        is_memory: Option<bool>,
        samples: f64,
        share: Option<f64>,
    }
}

impl Row {
    fn is_memory(&self) -> bool {
        self.is_memory == Some(true)
    }

    fn share(&self) -> f64 {
        self.share.unwrap_or(0.0)
    }

    /// The class that colours it.
    fn class(&self) -> String {
        let known = if self.is_memory() { REASONS[0] } else { REASONS[1] };
        let place = known.iter().position(|known| *known == self.stall_reason).map_or(0, |place| place + 1);
        format!("{}{place}", if self.is_memory() { 'm' } else { 's' })
    }
}

/// The anchors of the kernels that have a bar.
pub(super) fn anchors(answer: &Answer) -> Outcome<Anchors> {
    let rows: Vec<Row> = read(answer)?;
    Ok(rows.iter().filter_map(|row| row.function_id).map(kernel_anchor).collect())
}

/// The section.
pub(super) fn block(answer: &Answer, anchors: &Anchors) -> Outcome<Block> {
    let rows: Vec<Row> = read(answer)?;
    let mut block = Block::of("stalls", answer);
    let html = &mut block.body;
    html.markup("<svg class=\"defs\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path d=\"M0 0V6\"/></pattern></defs></svg>\n");
    legend(html, &rows);
    html.markup("<div class=\"stalls\">\n");
    for rows in rows.chunk_by(|a, b| a.function_id == b.function_id) {
        kernel(html, rows, anchors);
    }
    html.markup("</div>\n<details class=\"data\"><summary>Table</summary>\n");
    let layout = Layout {
        caption: "Samples by kernel and stall reason",
        name: "kernel",
        bar: "share",
        ..Layout::default()
    };
    let table = table(&answer.rows, &layout, anchors)?;
    html.piece(&table).markup("</details>\n");
    Ok(block)
}

/// Every reason that occurs, once.
fn legend(html: &mut Html, rows: &[Row]) {
    html.markup("<ul class=\"legend\">");
    let mut seen = BTreeSet::new();
    for memory in [true, false] {
        for row in rows.iter().filter(|row| row.is_memory() == memory) {
            if seen.insert(&row.stall_reason) {
                html.markup("<li><svg class=\"swatch\" aria-hidden=\"true\">");
                part(html, row, 0.0, 1.0);
                html.markup("</svg>").text(&row.stall_reason).markup("</li>");
            }
        }
    }
    html.markup("<li class=\"dim\">hatched: waits for memory</li></ul>\n");
}

fn part(html: &mut Html, row: &Row, x: f64, width: f64) {
    html.markup("<rect class=\"").text(&row.class()).markup("\" x=\"").percent(x).markup("\" width=\"");
    html.percent(width).markup("\" height=\"18\"/>");
    if row.is_memory() {
        html.markup("<rect fill=\"url(#hatch)\" x=\"").percent(x).markup("\" width=\"").percent(width);
        html.markup("\" height=\"18\"/>");
    }
}

fn kernel(html: &mut Html, rows: &[Row], anchors: &Anchors) {
    let Some(first) = rows.first() else { return };
    let name = first.kernel.as_deref().unwrap_or("(unnamed)");
    let samples: f64 = rows.iter().map(|row| row.samples).sum();
    let memory: f64 = rows.iter().filter(|row| row.is_memory()).map(Row::share).sum();
    html.markup("<div class=\"kernel\"");
    if let Some(function) = first.function_id {
        html.markup(" id=\"").text(&kernel_anchor(function)).markup("\"");
    }
    html.markup("><h3 class=\"code\">").text(name).markup("</h3><div class=\"dim\">");
    html.text(&format!("{} samples, {} of them memory stalls", measured(samples), percent(memory)));
    if let Some(code) = first.function_id.map(code_anchor).filter(|code| anchors.contains(code)) {
        html.markup(" · <a href=\"#").text(&code).markup("\">code</a>");
    }
    let note = rows.iter().map(|row| format!("{} {}", row.stall_reason, percent(row.share())));
    let note: Vec<String> = note.collect();
    html.markup("</div>\n<svg class=\"stack\" role=\"img\" aria-label=\"")
        .text(&note.join(", "))
        .markup("\">");
    let mut x = 0.0;
    for (row, note) in rows.iter().zip(&note) {
        html.markup("<g><title>")
            .text(&format!("{note}, {} samples", measured(row.samples)))
            .markup("</title>");
        part(html, row, x, row.share());
        if row.share() >= LABELLED_SHARE {
            html.markup("<svg x=\"").percent(x).markup("\" width=\"").percent(row.share());
            html.markup("\" height=\"18\"><text x=\"5\" y=\"13\">")
                .text(&row.stall_reason)
                .markup("</text></svg>");
        }
        html.markup("</g>");
        x += row.share();
    }
    html.markup("</svg><div class=\"dim small\">").text(&named(rows)).markup("</div></div>\n");
}

/// The most frequent reasons, as text.
fn named(rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| b.samples.total_cmp(&a.samples));
    let mut words: Vec<String> =
        rows.iter().take(NAMED).map(|row| format!("{} {}", row.stall_reason, percent(row.share()))).collect();
    let others: f64 = rows.iter().skip(NAMED).map(|row| row.share()).sum();
    if rows.len() > NAMED {
        words.push(format!("other ({}) {}", rows.len() - NAMED, percent(others)));
    }
    words.join(", ")
}

/// The anchor of a kernel's code.
pub(super) fn code_anchor(function: u64) -> String {
    format!("code-{function:016x}")
}

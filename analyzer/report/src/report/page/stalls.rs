//! Stall reasons, kernel by kernel: a bar for each, waits for memory first, and hatched.

use std::collections::BTreeSet;

use super::block::PageSection;
use super::links::{PageLinks, code_anchor, kernel_anchor, reason_anchor};
use super::numbers;
use super::table::{TableLayout, data, link};
use crate::glossary::meaning;
use crate::reason;
use crate::report::page::ask::read;
use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::{measured, percent};
use stallmap_console::rows;

/// The smallest part that its name is written in.
const LABELLED_SHARE: f64 = 0.09;
/// The smallest part that is drawn: a pixel of a wide bar. The table has all.
const DRAWN_SHARE: f64 = 0.001;
/// Reasons that are named below a bar.
const NAMED: usize = 6;

rows! {
    /// A kernel's samples with one reason.
    #[derive(Clone, Debug)]
    struct StallRow {
        function_id: Option<u64>,
        kernel: Option<String>,
        stall_reason: String,
        is_memory: Option<bool>,
        samples: f64,
        share: Option<f64>,
    }
}

impl StallRow {
    fn is_memory(&self) -> bool {
        self.is_memory == Some(true)
    }

    fn share(&self) -> f64 {
        self.share.unwrap_or(0.0)
    }
}

/// Adds the anchors of kernels that have a bar, and of reasons.
pub(super) fn add(answer: &SectionAnswer, links: &mut PageLinks) -> Outcome<()> {
    for row in read::<StallRow>(answer)? {
        links.add(reason_anchor(&row.stall_reason));
        row.function_id.map(kernel_anchor).into_iter().for_each(|anchor| links.add(anchor));
    }
    Ok(())
}

/// The section.
pub(super) fn block(answer: &SectionAnswer, links: &PageLinks) -> Outcome<PageSection> {
    let rows: Vec<StallRow> = read(answer)?;
    let mut block = PageSection::for_answer("stalls", answer);
    let html = &mut block.body;
    html.markup(reason::HATCH);
    legend(html, &rows);
    html.markup("<div class=\"stalls\">\n");
    for rows in rows.chunk_by(|a, b| a.function_id == b.function_id) {
        kernel(html, rows, links);
    }
    html.markup("</div>\n<details class=\"data\"><summary>Table</summary>\n");
    let layout = TableLayout {
        caption: "Samples by kernel and stall reason",
        name: "kernel",
        bar: "share",
        ..TableLayout::default()
    };
    numbers::place(html, "stalls", layout.caption);
    html.markup("</details>\n");
    block.tables.push(("stalls", data(&answer.rows, &layout, links)?));
    Ok(block)
}

/// Every reason that occurs, once.
fn legend(html: &mut HtmlPage, rows: &[StallRow]) {
    html.markup("<ul class=\"legend reasons-list\">");
    let mut seen = BTreeSet::new();
    for memory in [true, false] {
        for row in rows.iter().filter(|row| row.is_memory() == memory) {
            if seen.insert(&row.stall_reason) {
                html.markup("<li id=\"").text(&reason_anchor(&row.stall_reason));
                html.markup("\"><svg class=\"swatch\" aria-hidden=\"true\">");
                reason::part(html, &row.stall_reason, row.is_memory(), (0.0, 1.0));
                html.markup("</svg><b>").text(&row.stall_reason).markup("</b> ");
                html.text(meaning(&row.stall_reason).unwrap_or_default()).markup("</li>");
            }
        }
    }
    html.markup("<li class=\"dim\">hatched: waits for memory</li></ul>\n");
}

fn kernel(html: &mut HtmlPage, rows: &[StallRow], links: &PageLinks) {
    let Some(first) = rows.first() else { return };
    let name = first.kernel.as_deref().unwrap_or("(unnamed)");
    let samples: f64 = rows.iter().map(|row| row.samples).sum();
    let memory: f64 = rows.iter().filter(|row| row.is_memory()).map(StallRow::share).sum();
    html.markup("<div class=\"kernel\"");
    if let Some(function) = first.function_id {
        html.markup(" id=\"").text(&kernel_anchor(function)).markup("\"");
    }
    html.markup("><h3 class=\"code\">").text(name).markup("</h3><div class=\"dim\">");
    html.text(&format!("{} samples, {} of them memory stalls", measured(samples), percent(memory)));
    if let Some(code) = first.function_id.and_then(|function| links.found(code_anchor(function))) {
        html.markup(" · ");
        link(html, &code, "code");
    }
    html.markup("</div>\n<svg class=stack role=img aria-label=\"").text(&named(rows)).markup("\">");
    let mut x = 0.0;
    for row in rows.iter().filter(|row| row.share() >= DRAWN_SHARE) {
        html.markup("<g><title>").text(&row.stall_reason).markup(" ").text(&percent(row.share()));
        html.markup(", ").text(&measured(row.samples)).markup(" samples</title>");
        reason::part(html, &row.stall_reason, row.is_memory(), (x, row.share()));
        if row.share() >= LABELLED_SHARE {
            html.markup("<svg x=").percent(x).markup(" width=").percent(row.share());
            html.markup(" height=18><text x=5 y=13>").text(&row.stall_reason).markup("</text></svg>");
        }
        html.markup("</g>");
        x += row.share();
    }
    html.markup("</svg><div class=\"dim small\">").text(&named(rows)).markup("</div></div>\n");
}

/// The most frequent reasons, as text.
fn named(rows: &[StallRow]) -> String {
    let mut rows: Vec<&StallRow> = rows.iter().collect();
    rows.sort_by(|a, b| b.samples.total_cmp(&a.samples));
    let mut words: Vec<String> =
        rows.iter().take(NAMED).map(|row| format!("{} {}", row.stall_reason, percent(row.share()))).collect();
    let others: f64 = rows.iter().skip(NAMED).map(|row| row.share()).sum();
    if rows.len() > NAMED {
        words.push(format!("other ({}) {}", rows.len() - NAMED, percent(others)));
    }
    words.join(", ")
}

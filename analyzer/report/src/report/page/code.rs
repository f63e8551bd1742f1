//! The code of the hottest kernels: source and instructions with costs, as in `stallmap source`.

use std::path::Path;

use super::ask::{SessionAsker, read};
use super::block::PageSection;
use super::links::{PageLinks, code_anchor, kernel_anchor};
use super::table::link;
use crate::source::{self, KernelPart, KernelPartSize};
use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::rows;

/// Kernels.
const KERNELS: usize = 4;
/// Hottest locations of each kernel.
const PLACES: usize = 8;
/// Rows of code of all kernels together, by their samples.
const ROWS: f64 = 400.0;
/// Rows of code of one kernel.
const MAX_ROWS: usize = 250;
const LEAST_ROWS: usize = 40;

rows! {
    /// A kernel of the list.
    #[derive(Clone, Debug)]
    struct ListedKernel {
        function_id: Option<u64>,
        samples: f64,
    }
}

/// The hottest kernels, as parts of the page, with their functions.
pub(super) async fn parts(
    asker: &SessionAsker<'_>,
    kernels: &SectionAnswer,
    root: Option<&Path>,
) -> Outcome<Vec<(u64, KernelPart)>> {
    let mut parts = Vec::new();
    let hot = read::<ListedKernel>(kernels)?.into_iter().filter(|kernel| kernel.samples > 0.0);
    let hot = hot.filter_map(|kernel| Some((kernel.function_id?, kernel.samples)));
    let hot: Vec<(u64, f64)> = hot.take(KERNELS).collect();
    let all: f64 = hot.iter().map(|(_, samples)| samples).sum();
    for (place, (function, samples)) in hot.into_iter().enumerate() {
        asker.say(&format!("code {}", place + 1));
        let prefix = format!("k{place}-");
        if let Some(part) =
            source::part(asker.session(), function, size(samples / all), root, &prefix).await?
        {
            parts.push((function, part));
        }
    }
    Ok(parts)
}

/// The size of a kernel's part, by its part of the shown kernels' samples.
fn size(share: f64) -> KernelPartSize {
    let rows = (LEAST_ROWS..=MAX_ROWS).rev().find(|rows| *rows as f64 <= ROWS * share);
    KernelPartSize { places: PLACES, rows: rows.unwrap_or(LEAST_ROWS) }
}

/// Adds the anchors of kernels and of their rows.
pub(super) fn add(parts: &[(u64, KernelPart)], links: &mut PageLinks) {
    for (function, part) in parts {
        links.add(code_anchor(*function));
        links.add_code(part.places.iter().cloned());
    }
}

/// The section. None if no kernel has samples.
pub(super) fn block(parts: &[(u64, KernelPart)], links: &PageLinks) -> Option<PageSection> {
    if parts.is_empty() {
        return None;
    }
    let mut block = PageSection {
        id: "code",
        title: "Code of the hottest kernels".to_owned(),
        doc: vec![
            "Source lines and instructions of the kernels with most samples.",
            "Instructions and lines far from hot ones are counted, but not shown. `stallmap source` shows all.",
            "The queries are those of the first kernel. Those of another have the number of its function.",
        ],
        ..PageSection::default()
    };
    for (place, (function, part)) in parts.iter().enumerate() {
        kernel(&mut block.body, *function, part, links, place == 0);
    }
    block.queries = parts.first().map(|(_, part)| part.queries.clone()).unwrap_or_default();
    Some(block)
}

fn kernel(html: &mut HtmlPage, function: u64, part: &KernelPart, links: &PageLinks, is_open: bool) {
    html.markup("<details class=\"code-of\" id=\"").text(&code_anchor(function)).markup("\"");
    html.markup(if is_open { " open>" } else { ">" });
    html.markup("<summary><h3 class=\"code\" title=\"").text(&part.name);
    html.markup("\">").text(&part.name).markup("</h3> <span class=\"dim\">");
    html.text(&part.facts).markup("</span></summary>\n");
    if let Some(stalls) = links.found(kernel_anchor(function)) {
        html.markup("<p>");
        link(html, &stalls, "stalls by reason").markup("</p>\n");
    }
    html.piece(&part.html).markup("</details>\n");
}

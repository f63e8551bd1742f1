//! The code of the hottest kernels: source and instructions with costs, as in `stallmap source`.

use std::path::Path;

use super::ask::{Asker, read};
use super::block::{Block, queries};
use super::stalls::code_anchor;
use super::table::{Anchors, kernel_anchor};
use crate::source::{self, LEGEND, Part, Size};
use stallmap_console::answer::Answer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::Html;
use stallmap_console::rows;

/// Kernels.
const KERNELS: usize = 4;
/// Size of each part.
const SIZE: Size = Size { places: 8, rows: 250 };

rows! {
    /// A kernel of the list.
    #[derive(Clone, Debug)]
    struct Kernel {
        function_id: Option<u64>,
        samples: f64,
    }
}

/// The hottest kernels, as parts of the page, with their functions.
pub(super) async fn parts(
    asker: &Asker<'_>,
    kernels: &Answer,
    root: Option<&Path>,
) -> Outcome<Vec<(u64, Part)>> {
    let mut parts = Vec::new();
    let hot = read::<Kernel>(kernels)?.into_iter().filter(|kernel| kernel.samples > 0.0);
    for (place, function) in hot.filter_map(|kernel| kernel.function_id).take(KERNELS).enumerate() {
        asker.say(&format!("code {}", place + 1));
        let prefix = format!("k{place}-");
        if let Some(part) = source::part(asker.session(), function, SIZE, root, &prefix).await? {
            parts.push((function, part));
        }
    }
    Ok(parts)
}

/// The section. None if no kernel has samples.
pub(super) fn block(parts: &[(u64, Part)], anchors: &Anchors) -> Option<Block> {
    if parts.is_empty() {
        return None;
    }
    let mut block = Block {
        id: "code",
        title: "Code of the hottest kernels".to_owned(),
        doc: vec![
            LEGEND,
            "Instructions and lines far from hot ones are counted, but not shown. `stallmap source` shows all.",
        ],
        ..Block::default()
    };
    for (place, (function, part)) in parts.iter().enumerate() {
        kernel(&mut block.body, *function, part, anchors, place == 0);
    }
    Some(block)
}

fn kernel(html: &mut Html, function: u64, part: &Part, anchors: &Anchors, is_open: bool) {
    html.markup("<details class=\"code-of\" id=\"").text(&code_anchor(function)).markup("\"");
    html.markup(if is_open { " open>" } else { ">" });
    html.markup("<summary><h3 class=\"code\" title=\"").text(&part.name);
    html.markup("\">").text(&part.name).markup("</h3> <span class=\"dim\">");
    html.text(&part.facts).markup("</span></summary>\n");
    let stalls = kernel_anchor(function);
    if anchors.contains(&stalls) {
        html.markup("<p><a href=\"#").text(&stalls).markup("\">why it stalled</a></p>\n");
    }
    html.piece(&part.html);
    let asked: Vec<(String, String)> =
        part.queries.iter().map(|(title, sql)| ((*title).to_owned(), sql.clone())).collect();
    queries(html, &asked);
    html.markup("</details>\n");
}

//! The code of the hottest kernels: source and instructions with costs, as in `stallmap source`.

use std::path::Path;

use super::ask::{Asker, read};
use super::block::Block;
use super::links::{Links, code_anchor, kernel_anchor};
use super::table::link;
use crate::source::{self, Part, Size};
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

/// Adds the anchors of kernels and of their rows.
pub(super) fn add(parts: &[(u64, Part)], links: &mut Links) {
    for (function, part) in parts {
        links.add(code_anchor(*function));
        links.add_code(part.places.iter().cloned());
    }
}

/// The section. None if no kernel has samples.
pub(super) fn block(parts: &[(u64, Part)], links: &Links) -> Option<Block> {
    if parts.is_empty() {
        return None;
    }
    let mut block = Block {
        id: "code",
        title: "Code of the hottest kernels".to_owned(),
        doc: vec![
            "Source lines and instructions of the kernels with most samples.",
            "Instructions and lines far from hot ones are counted, but not shown. `stallmap source` shows all.",
            "The queries are those of the first kernel. Those of another have the number of its function.",
        ],
        ..Block::default()
    };
    for (place, (function, part)) in parts.iter().enumerate() {
        kernel(&mut block.body, *function, part, links, place == 0);
    }
    block.queries = parts.first().map(|(_, part)| part.queries.clone()).unwrap_or_default();
    Some(block)
}

fn kernel(html: &mut Html, function: u64, part: &Part, links: &Links, is_open: bool) {
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

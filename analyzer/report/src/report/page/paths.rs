//! Call paths as a flame graph that hangs from its root: an icicle, drawn by the page's script.

use serde_json::{Value, json};

use super::block::PageSection;
use super::json::short;
use stallmap_console::answer::SectionAnswer;
use stallmap_console::args::tree::TreeLevel;
use stallmap_console::exit::Outcome;
use stallmap_lists::tree::{GraphNode, graph};

/// Categories of paths, callers first.
const LEVELS: [TreeLevel; 4] = [TreeLevel::User, TreeLevel::Module, TreeLevel::Op, TreeLevel::Kernel];
/// Maximum nodes of the drawing.
const MAX_NODES: usize = 4_000;

/// The section. None if nothing was launched.
pub(super) fn block(answer: &SectionAnswer) -> Outcome<Option<PageSection>> {
    let nodes = graph(&answer.rows, &LEVELS, MAX_NODES)?;
    if nodes.len() < 2 {
        return Ok(None);
    }
    let mut block = PageSection::for_answer("paths", answer);
    block.doc = vec![
        "Cost of call paths: frames of the user's Python code, modules, operators, kernels.",
        "Below each name are its callees, as wide as their share. The stripe is the share of memory stalls.",
        "Every number is a sum over the rows of the query. Small paths are aggregated next to their siblings.",
    ];
    let html = &mut block.body;
    html.markup("<div class=\"icicle\" data-picture=\"paths\"></div>\n");
    html.markup("<noscript><p class=\"doc\">The drawing needs JavaScript. `stallmap tree` prints the same.</p></noscript>\n");
    block.data = Some(("paths", data(&nodes)));
    Ok(Some(block))
}

/// Nodes as the script reads them, and their names, each once. A node: parent, level, number of its name, costs.
fn data(nodes: &[GraphNode]) -> Value {
    let mut names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let node = |node: &GraphNode| {
        let name = names.binary_search(&node.name.as_str()).ok();
        json!([node.parent, node.level, name, node.costs.map(short)])
    };
    json!({ "names": names, "rows": nodes.iter().map(node).collect::<Vec<_>>() })
}

//! The tensor forest, drawn: the costliest tensors with their bases and sources.

use super::ask::SessionAsker;
use super::block::PageSection;
use super::links::PageLinks;
use super::table::{AnchoredRows, TableLayout, table};
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_lists::forest::{DrawingTarget, TensorChoice, batch, draw, forest, sql};

/// Tensors shown for their cost, in addition to their sources.
const TENSORS: usize = 16;
/// Titles of the queries.
const QUERIES: [&str; 3] = ["Tensors of the forest", "Relations between tensors", "Cost outside the trees"];

/// The section. None without tensors.
pub(super) async fn block(asker: &SessionAsker<'_>) -> Outcome<Option<PageSection>> {
    asker.say("forest");
    let forest = forest(asker.session(), false).await?;
    let picture = forest.choose(&TensorChoice { top: TENSORS, tensor: None });
    let Some(picture) = picture.filter(|picture| !picture.is_empty()) else { return Ok(None) };
    let mut block = PageSection {
        id: "forest",
        title: "Tensor forest".to_owned(),
        doc: vec![
            "Tensors with their views and sources: a root is solid, a view dashed, sized by the samples of warps that",
            "waited for it. The path to the costliest is red. Tensors with equal op, line and shape are one (×).",
            "Each leads to its row in the table below.",
        ],
        queries: QUERIES.iter().map(|&about| about.to_owned()).zip(sql()).collect(),
        ..PageSection::default()
    };
    let html = &mut block.body;
    html.markup(
        "<div class=\"scroll drawing\" tabindex=\"0\" role=\"region\" aria-label=\"Tensor forest\">\n",
    );
    html.drawing(&draw(&picture, DrawingTarget::Page)).markup("</div>\n");
    let layout = TableLayout {
        caption: "Tensors of the forest",
        name: "tensor",
        below: &[("type", "type"), ("born_at", "allocated at"), ("stalled_at", "waited at")],
        bar: "share",
        hidden: &["base_tensor_id", "op"],
        is_long: true,
        rows: AnchoredRows::Forest,
    };
    let rows = batch(&picture).map_err(arrow_failure)?;
    html.markup("<details class=\"data\"><summary>Table</summary>\n");
    html.piece(&table(&[rows], &layout, &PageLinks::default())?).markup("</details>\n");
    Ok(Some(block))
}

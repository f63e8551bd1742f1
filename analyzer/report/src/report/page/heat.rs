//! Heat maps of the costliest tensors, or of the most accessed ones, drawn by the page's script.

use serde_json::{Value, json};
use stallmap::library::queries::{self, CommandQuery};

use super::ask::{SessionAsker, read, sql_of_tensors};
use super::block::PageSection;
use super::json::short;
use super::links::PageLinks;
use super::table::{TableLayout, table};
use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::counted;
use stallmap_console::rows;

/// Tensors whose accesses are compared.
const TENSORS: u64 = 24;
/// Heat maps.
const HEAT_MAPS: usize = 6;
/// Accesses are uniform if the touches of a bin vary less, as in `sql/queries/page/accessed.sql`.
const UNIFORM: f64 = 0.1;

/// Maximum bins per direction of a heat map, as in `tensor_cell`.
const MAX_CELLS: u64 = 64;

rows! {
    /// A tensor that is drawn.
    #[derive(Clone, Debug)]
    struct DrawnTensor {
        tensor_id: u64 as "drawn_tensor_id",
        name: Option<String> as "tensor",
        data_type: Option<String> as "type",
        born_at: Option<String>,
    }

    /// Totals of a tensor's heat map for one kind of access.
    #[derive(Clone, Debug)]
    struct HeatSum {
        tensor_id: u64 as "drawn_tensor_id",
        kind: Option<String> as "access",
        accessed_cells_share: Option<f64>,
        variation: Option<f64>,
    }

    /// Accesses of one kind to a bin, or to holes.
    #[derive(Clone, Debug)]
    struct HeatAccess {
        tensor_id: u64,
        kind: Option<String>,
        cell_row: Option<u64>,
        cell_column: Option<u64>,
        row_count: Option<u64>,
        column_count: Option<u64>,
        row_dimension: Option<u64>,
        column_dimension: Option<u64>,
        row_extent: Option<u64>,
        column_extent: Option<u64>,
        /// Elements of a single dimension that is written line after line.
        folded_extent: Option<i64>,
        touches: f64,
        requests: f64,
        blocks: f64,
        sectors: f64,
        blamed_samples: f64,
        block_rate: Option<f64>,
    }
}

impl HeatAccess {
    /// Its index in the heat map. None for holes.
    fn place(&self) -> Option<usize> {
        let (row, column) = (self.cell_row?, self.cell_column?);
        let (_, columns) = self.counts();
        (row < MAX_CELLS && column < columns).then(|| usize::try_from(row * columns + column).ok())?
    }

    fn counts(&self) -> (u64, u64) {
        let count = |count: Option<u64>| count.unwrap_or(1).clamp(1, MAX_CELLS);
        (count(self.row_count), count(self.column_count))
    }

    fn layers(&self) -> [f64; LAYERS.len()] {
        [self.touches, self.requests, self.blocks, self.sectors, self.blamed_samples]
    }
}

/// Layers of a heat map.
const LAYERS: [&str; 5] = ["touches", "requests", "blocks", "sectors", "blamed samples"];

/// Text for a capture without tensors, which has no heat maps.
const NO_TENSORS: &str = "Pictures are of tensors (the views `tensor_cell` and `launch_cell`), and no access to one was \
    recorded: programs without a framework have none. What kernels accessed of each allocation is in `pc_tensor`.";

/// The statement that takes longest: of the accesses of the drawn tensors. None without any.
pub(super) async fn sql_of_accessed(asker: &SessionAsker<'_>) -> Outcome<Option<(CommandQuery, String)>> {
    let tensors: Vec<DrawnTensor> = read(&asker.ask(queries::page::DRAWN, &[("$top", TENSORS)]).await?)?;
    let tensors: Vec<u64> = tensors.iter().map(|tensor| tensor.tensor_id).collect();
    let sql = || sql_of_tensors(queries::page::ACCESSED, &tensors);
    Ok((!tensors.is_empty()).then(|| (queries::page::ACCESSED, sql())))
}

/// The section. None without recorded accesses.
pub(super) async fn block(asker: &SessionAsker<'_>, links: &PageLinks) -> Outcome<Option<PageSection>> {
    let drawn = asker.ask(queries::page::DRAWN, &[("$top", TENSORS)]).await?;
    let tensors: Vec<DrawnTensor> = read(&drawn)?;
    if tensors.is_empty() {
        return Ok(Some(none(&drawn)));
    }
    let identities: Vec<u64> = tensors.iter().map(|tensor| tensor.tensor_id).collect();
    let accessed = asker.of_tensors(queries::page::ACCESSED, &identities).await?;
    let sums: Vec<HeatSum> = read(&accessed)?;
    let tensors = least_uniform(tensors, &sums);
    let identities: Vec<u64> = tensors.iter().take(HEAT_MAPS).map(|tensor| tensor.tensor_id).collect();
    let mut block = PageSection::for_answer("accesses", &accessed);
    "Accesses of tensors".clone_into(&mut block.title);
    block.queries.clear();
    block.asked(&drawn);
    block.asked(&accessed);
    uniform(&mut block.body, &sums);
    if identities.is_empty() {
        tables(&mut block.body, &drawn, &accessed, links)?;
        return Ok(Some(block));
    }
    let heat = asker.of_tensors(queries::page::HEAT, &identities).await?;
    block.doc = heat.section.doc().collect();
    block.asked(&heat);
    let cells: Vec<HeatAccess> = read(&heat)?;
    let pictures: Vec<Value> = tensors
        .iter()
        .take(HEAT_MAPS)
        .filter_map(|tensor| picture(tensor, &accesses_of(tensor, &cells), &sums))
        .collect();
    if pictures.is_empty() {
        block.body.markup("<p class=\"dim\">").text(NO_TENSORS).markup("</p>\n");
    } else {
        block.body.markup("<div class=\"heat\" data-picture=\"heat\"></div>\n");
        block.body.markup(
            "<noscript><p class=\"doc\">The heat maps need JavaScript. Their totals are below.</p></noscript>\n",
        );
        block.data = Some(("heat", json!({ "layers": LAYERS, "tensors": pictures })));
    }
    tables(&mut block.body, &drawn, &accessed, links)?;
    Ok(Some(block))
}

/// Tensors with accesses that are not uniform, the least uniform first.
fn least_uniform(tensors: Vec<DrawnTensor>, sums: &[HeatSum]) -> Vec<DrawnTensor> {
    let mut varied: Vec<(f64, DrawnTensor)> =
        tensors.into_iter().map(|tensor| (variation(tensor.tensor_id, sums), tensor)).collect();
    varied.retain(|(variation, _)| *variation >= UNIFORM);
    varied.sort_by(|a, b| b.0.total_cmp(&a.0));
    varied.into_iter().map(|(_, tensor)| tensor).collect()
}

/// The highest variation of a tensor's accesses of one kind.
fn variation(tensor: u64, sums: &[HeatSum]) -> f64 {
    let of = sums.iter().filter(|sum| sum.tensor_id == tensor);
    of.filter_map(|sum| sum.variation).fold(0.0, f64::max)
}

/// A sentence about the tensors without a heat map.
fn uniform(html: &mut HtmlPage, sums: &[HeatSum]) {
    let mut known: Vec<u64> =
        sums.iter().filter(|sum| sum.variation.is_some()).map(|sum| sum.tensor_id).collect();
    known.dedup();
    let (all, even) =
        (known.len(), known.iter().filter(|tensor| variation(**tensor, sums) < UNIFORM).count());
    let text = match (all, even) {
        (0, _) => NO_TENSORS.to_owned(),
        (_, 0) => format!("The accesses of {} are not uniform.", counted(all as u64, "tensor", "tensors")),
        _ => format!(
            "The kernels access {even} of the {all} costliest tensors uniformly: every part equally often. They have no heat map."
        ),
    };
    html.markup("<p>").text(&text).markup("</p>\n");
}

/// The section without heat maps.
fn none(drawn: &SectionAnswer) -> PageSection {
    let mut block = PageSection { doc: Vec::new(), ..PageSection::for_answer("accesses", drawn) };
    "Accesses of tensors".clone_into(&mut block.title);
    block.body.markup("<p class=\"dim\">").text(NO_TENSORS).markup("</p>\n");
    block
}

/// The drawn tensors and their totals.
fn tables(
    html: &mut HtmlPage,
    drawn: &SectionAnswer,
    accessed: &SectionAnswer,
    links: &PageLinks,
) -> Outcome<()> {
    let layout = |answer: &SectionAnswer| TableLayout {
        caption: answer.section.title(),
        name: "tensor",
        below: &[("type", ""), ("born_at", "allocated at")],
        hidden: &["drawn_tensor_id", "op"],
        ..TableLayout::default()
    };
    html.markup("<details class=\"data\"><summary>Tables</summary>\n");
    for answer in [drawn, accessed] {
        html.markup("<h3>").text(answer.section.title()).markup("</h3>\n<p class=\"doc\">");
        html.text(&answer.section.doc().collect::<Vec<_>>().join(" ")).markup("</p>\n");
        html.piece(&table(&answer.rows, &layout(answer), links)?);
    }
    html.markup("</details>\n");
    Ok(())
}

/// A tensor's bins, by kind of access.
fn accesses_of<'a>(tensor: &DrawnTensor, cells: &'a [HeatAccess]) -> Vec<&'a [HeatAccess]> {
    let kinds = cells.chunk_by(|a, b| (a.tensor_id, &a.kind) == (b.tensor_id, &b.kind));
    kinds.filter(|cells| cells.iter().all(|cell| cell.tensor_id == tensor.tensor_id)).collect()
}

/// A tensor's heat map in the script's format. None without accesses.
fn picture(tensor: &DrawnTensor, kinds: &[&[HeatAccess]], sums: &[HeatSum]) -> Option<Value> {
    let first = kinds.iter().flat_map(|cells| cells.iter()).find(|cell| cell.row_count.is_some());
    let (rows, columns) = first.map_or((1, 1), HeatAccess::counts);
    let share = |cells: &[HeatAccess]| {
        let kind = cells.first().and_then(|cell| cell.kind.as_ref());
        let sum = sums.iter().find(|sum| sum.tensor_id == tensor.tensor_id && sum.kind.as_ref() == kind);
        sum.and_then(|sum| sum.accessed_cells_share)
    };
    (!kinds.is_empty()).then(|| {
        json!({
            "name": tensor.name.as_deref().unwrap_or("(unnamed)"),
            "type": tensor.data_type,
            "born": tensor.born_at,
            "rows": rows,
            "columns": columns,
            "rowDimension": first.and_then(|cell| cell.row_dimension),
            "columnDimension": first.and_then(|cell| cell.column_dimension),
            "rowExtent": first.and_then(|cell| cell.row_extent),
            "columnExtent": first.and_then(|cell| cell.column_extent),
            "foldedExtent": first.and_then(|cell| cell.folded_extent),
            "kinds": kinds.iter().map(|cells| kind(cells, rows * columns, share(cells))).collect::<Vec<_>>(),
        })
    })
}

/// Accesses of one kind: each layer as runs of equal bins, value and length in turn.
fn kind(cells: &[HeatAccess], count: u64, share: Option<f64>) -> Value {
    let first = cells.first();
    let mut layers = vec![vec![0.0; usize::try_from(count).unwrap_or(0)]; LAYERS.len()];
    let mut holes = [0.0; LAYERS.len()];
    for cell in cells {
        for ((layer, hole), value) in layers.iter_mut().zip(&mut holes).zip(cell.layers()) {
            match cell.place() {
                Some(place) => {
                    if let Some(slot) = layer.get_mut(place) {
                        *slot += value;
                    }
                }
                None => *hole += value,
            }
        }
    }
    json!({
        "kind": first.and_then(|cell| cell.kind.as_deref()).unwrap_or("unknown"),
        "share": share,
        "rate": first.and_then(|cell| cell.block_rate),
        "holes": holes.map(short),
        "layers": layers.iter().map(|layer| runs(layer)).collect::<Vec<_>>(),
    })
}

/// Runs of equal values: value and length by turns.
fn runs(layer: &[f64]) -> Vec<Value> {
    let runs = layer.chunk_by(|a, b| short(*a) == short(*b));
    runs.flat_map(|run| [run.first().map_or(Value::Null, |value| short(*value)), json!(run.len())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_the_layer() {
        assert_eq!(json!(runs(&[0.0, 0.0, 2.5, 2.5, 1.0])), json!([0, 2, 2.5, 2, 1, 1]));
        assert_eq!(json!(runs(&[])), json!([]));
    }
}

//! Heat maps of the costliest tensors: where they were accessed, drawn by the page's script.

use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Asker, read};
use super::block::Block;
use crate::exit::Outcome;
use crate::output::html::Html;
use crate::output::number::{grouped, measured, percent};

/// Cells along a picture at most, as `tensor_cell` promises.
const MOST_CELLS: u64 = 64;

/// A tensor that is drawn.
#[derive(Clone, Debug, Deserialize)]
struct Drawn {
    tensor_id: u64,
    tensor: Option<String>,
    r#type: Option<String>,
    born_at: Option<String>,
    samples: f64,
    equal_tensors: u64,
}

/// What one kind of access did to a cell, or to holes.
#[derive(Clone, Debug, Deserialize)]
struct Access {
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
    touches: f64,
    requests: f64,
    blocks: f64,
    sectors: f64,
    blamed_samples: f64,
    block_rate: Option<f64>,
}

impl Access {
    /// Its place in the picture; none for holes.
    fn place(&self) -> Option<usize> {
        let (row, column) = (self.cell_row?, self.cell_column?);
        let (_, columns) = self.counts();
        (row < MOST_CELLS && column < columns).then(|| usize::try_from(row * columns + column).ok())?
    }

    fn counts(&self) -> (u64, u64) {
        let count = |count: Option<u64>| count.unwrap_or(1).clamp(1, MOST_CELLS);
        (count(self.row_count), count(self.column_count))
    }

    fn layers(&self) -> [f64; LAYERS.len()] {
        [self.touches, self.requests, self.blocks, self.sectors, self.blamed_samples]
    }
}

/// What can be drawn.
const LAYERS: [&str; 5] = ["touches", "requests", "blocks", "sectors", "blamed samples"];

/// The section; none where no access to a costly tensor was recorded.
pub(super) async fn block(asker: &Asker<'_>, most: u64) -> Outcome<Option<Block>> {
    let drawn = asker.ask("page", "drawn", &[("$top", most)]).await?;
    let tensors: Vec<Drawn> = read(&drawn)?;
    if tensors.is_empty() {
        return Ok(None);
    }
    let identities: Vec<u64> = tensors.iter().map(|tensor| tensor.tensor_id).collect();
    let answer = asker.of_tensors("page", "heat", &identities).await?;
    let cells: Vec<Access> = read(&answer)?;
    if cells.is_empty() {
        return Ok(None);
    }
    let mut block = Block::of("accesses", &answer);
    block.asked(&drawn);
    let pictures: Vec<(&Drawn, Vec<&[Access]>)> = tensors
        .iter()
        .map(|tensor| {
            let kinds = cells.chunk_by(|a, b| (a.tensor_id, &a.kind) == (b.tensor_id, &b.kind));
            (
                tensor,
                kinds.filter(|cells| cells.iter().all(|cell| cell.tensor_id == tensor.tensor_id)).collect(),
            )
        })
        .collect();
    block.body.markup("<div class=\"heat\" data-picture=\"heat\"></div>\n");
    summary(&mut block.body, &pictures);
    let drawn = pictures.iter().filter(|(_, kinds)| !kinds.is_empty());
    block.data =
        Some(("heat", json!({ "layers": LAYERS, "tensors": drawn.map(picture).collect::<Vec<_>>() })));
    Ok(Some(block))
}

/// A tensor's picture as the script reads it.
fn picture((tensor, kinds): &(&Drawn, Vec<&[Access]>)) -> Value {
    let first = kinds.iter().flat_map(|cells| cells.iter()).find(|cell| cell.row_count.is_some());
    let (rows, columns) = first.map_or((1, 1), Access::counts);
    json!({
        "name": name(tensor),
        "type": tensor.r#type,
        "born": tensor.born_at,
        "rows": rows,
        "columns": columns,
        "rowDimension": first.and_then(|cell| cell.row_dimension),
        "columnDimension": first.and_then(|cell| cell.column_dimension),
        "rowExtent": first.and_then(|cell| cell.row_extent),
        "columnExtent": first.and_then(|cell| cell.column_extent),
        "kinds": kinds.iter().map(|cells| kind(cells, rows * columns)).collect::<Vec<_>>(),
    })
}

/// What one kind of access did: each layer as runs of equal cells, value and length by turns.
fn kind(cells: &[Access], count: u64) -> Value {
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

/// A number as short as it can be drawn and said.
fn short(value: f64) -> Value {
    let number = ((value * 1e4).round() / 1e4).to_string().parse().ok();
    number.map_or(Value::Null, Value::Number)
}

fn name(tensor: &Drawn) -> &str {
    tensor.tensor.as_deref().unwrap_or("(unnamed)")
}

/// What is drawn, in numbers: a row for each tensor and kind of access.
fn summary(html: &mut Html, pictures: &[(&Drawn, Vec<&[Access]>)]) {
    html.markup("<details class=\"data\" open><summary>Table</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Accesses of tensors\">");
    html.markup("<table><caption>Accesses of tensors</caption>\n<thead><tr><th scope=\"col\">tensor</th>");
    for head in [
        "samples",
        "access",
        "cells accessed",
        "touches",
        "requests",
        "sectors",
        "blamed samples",
        "touches of holes",
    ] {
        html.markup("<th scope=\"col\" class=\"n\">").text(head).markup("</th>");
    }
    html.markup("</tr></thead>\n<tbody>\n");
    for (tensor, kinds) in pictures {
        if kinds.is_empty() {
            row(html, tensor, None);
        }
        for cells in kinds {
            row(html, tensor, Some(cells));
        }
    }
    html.markup("</tbody></table></div></details>\n");
}

fn row(html: &mut Html, tensor: &Drawn, cells: Option<&[Access]>) {
    html.markup("<tr><th scope=\"row\" class=\"name\"><span class=\"text\">")
        .text(name(tensor))
        .markup("</span>");
    let facts = [tensor.r#type.as_deref(), tensor.born_at.as_deref()];
    html.markup("<span class=\"below\">").text(&facts.into_iter().flatten().collect::<Vec<_>>().join(" · "));
    html.markup("</span>");
    if tensor.equal_tensors > 1 {
        let others = grouped((tensor.equal_tensors - 1).into());
        html.markup("<span class=\"below\">").text(&format!("{others} more like it")).markup("</span>");
    }
    html.markup("</th>");
    let mut values = vec![measured(tensor.samples)];
    values.extend(cells.map_or_else(|| vec!["none recorded".to_owned()], numbers));
    for value in values {
        html.markup("<td class=\"n\">").text(&value).markup("</td>");
    }
    html.markup("</tr>\n");
}

/// What one kind of access did, as cells of the table.
fn numbers(cells: &[Access]) -> Vec<String> {
    let sum = |layer: fn(&Access) -> f64| measured(cells.iter().map(layer).sum());
    let (rows, columns) = cells.first().map_or((1, 1), Access::counts);
    let accessed = cells.iter().filter(|cell| cell.cell_row.is_some() && cell.touches > 0.0).count();
    let holes: f64 = cells.iter().filter(|cell| cell.cell_row.is_none()).map(|cell| cell.touches).sum();
    vec![
        cells.first().and_then(|cell| cell.kind.clone()).unwrap_or_default(),
        percent(accessed as f64 / (rows * columns) as f64),
        sum(|cell| cell.touches),
        sum(|cell| cell.requests),
        sum(|cell| cell.sectors),
        sum(|cell| cell.blamed_samples),
        measured(holes),
    ]
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

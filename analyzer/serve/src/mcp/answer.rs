//! Answers with caps: rows, bytes and the length of cells. Cut parts are marked and counted.

use arrow::array::RecordBatch;
use serde_json::{Map, Value, json};
use stallmap_console::answer::json_rows;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::gate;
use stallmap_console::output::value::with_hex;
use stallmap_schema::capture::manifest::{MAJOR, MINOR};

use crate::mcp::desk::DeskCapture;

/// Rows of an answer.
pub(crate) const MAX_ROWS: usize = 200;
/// Bytes of the rows of an answer.
const MAX_BYTES: usize = 32 << 10;
/// Characters of a text in a row.
const MAX_CHARACTERS: usize = 2_000;
/// Version of the form of answers.
const ANSWER_VERSION: u32 = 1;

/// Rows within the caps, with the number of cut parts.
#[derive(Debug, Default)]
pub(crate) struct CappedRows {
    shown: Vec<Value>,
    bytes: usize,
    cut_cells: usize,
    left_out: usize,
    /// True if the query had more rows than were read.
    has_more: bool,
}

impl CappedRows {
    /// The rows of a query. One row more than `most` shows that there are more.
    pub(crate) fn from_batches(batches: &[RecordBatch], most: usize) -> Outcome<Self> {
        let batches = batches.iter().map(with_hex).collect::<Result<Vec<_>, _>>().map_err(arrow_failure)?;
        let text = json_rows(&batches)?;
        let all: Vec<Value> =
            serde_json::from_slice(&text).map_err(|error| CommandFailure::new(QUERY, error))?;
        let mut rows = Self { has_more: all.len() > most, ..Self::default() };
        all.into_iter().take(most).for_each(|row| rows.push(row));
        Ok(rows)
    }

    /// Adds a row if it fits.
    pub(crate) fn push(&mut self, mut row: Value) {
        self.cut_cells += cut(&mut row);
        let bytes = row.to_string().len() + 1;
        if self.left_out > 0 || self.bytes + bytes > MAX_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.shown.push(row);
    }

    /// True without rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty() && self.left_out == 0
    }

    /// The rows alone.
    pub(crate) fn into_values(self) -> Vec<Value> {
        self.shown
    }

    /// The cut parts. Null if the answer is complete.
    fn truncated(&self) -> Value {
        if self.left_out == 0 && self.cut_cells == 0 && !self.has_more {
            return Value::Null;
        }
        json!({
            "rows_shown": self.shown.len(),
            "rows_left_out_for_size": self.left_out,
            "query_has_more_rows": self.has_more,
            "texts_shortened": self.cut_cells,
            "hint": "ask for fewer columns or rows, or filter in `sql`",
        })
    }
}

/// A complete answer: rows with their query, and what limits conclusions from them.
pub(crate) fn answer(
    captures: &[&DeskCapture],
    query: &str,
    mut rows: CappedRows,
    more: Map<String, Value>,
) -> Value {
    let by_name = |part: &dyn Fn(&DeskCapture) -> &Value| {
        let parts = captures.iter().map(|capture| (capture.name.clone(), part(capture).clone()));
        Value::Object(parts.collect())
    };
    let truncated = rows.truncated();
    let mut answer = json!({
        "schema_version": { "answer": ANSWER_VERSION, "capture": format!("{MAJOR}.{MINOR}") },
        "coverage": by_name(&|capture| &capture.coverage),
        "lost": by_name(&|capture| &capture.lost),
        "query": query,
        "truncated": truncated,
        "rows": std::mem::take(&mut rows.shown),
    });
    if let Some(answer) = answer.as_object_mut() {
        answer.extend(more);
    }
    answer
}

/// Shortens the texts of a value, and replaces characters that steer terminals. Returns the number of shortened texts.
fn cut(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let length = text.chars().count();
            *text = shown(text);
            if length <= MAX_CHARACTERS {
                return 0;
            }
            let start: String = text.chars().take(MAX_CHARACTERS).collect();
            *text = format!("{start}… ({} more characters)", length - MAX_CHARACTERS);
            1
        }
        Value::Array(values) => values.iter_mut().map(cut).sum(),
        Value::Object(fields) => fields.values_mut().map(cut).sum(),
        _ => 0,
    }
}

/// A text of a capture without characters that steer.
pub(crate) fn shown(text: &str) -> String {
    gate::shown(text, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_counted() {
        let mut rows = CappedRows::default();
        rows.push(json!({ "a": "x".repeat(5_000), "b": ["\u{1b}[2J"] }));
        assert_eq!((rows.cut_cells, rows.shown.len()), (1, 1));
        assert!(rows.shown[0]["a"].as_str().unwrap().ends_with("(3000 more characters)"));
        assert_eq!(rows.shown[0]["b"][0], "␛[2J");
        for _ in 0..40 {
            rows.push(json!({ "a": "y".repeat(1_900) }));
        }
        assert!(rows.bytes <= MAX_BYTES && rows.left_out > 0);
        assert_eq!(rows.truncated()["rows_left_out_for_size"], rows.left_out);
    }

    #[test]
    fn a_complete_answer_is_not_marked() {
        let mut rows = CappedRows::default();
        rows.push(json!({ "a": 1 }));
        assert!(rows.truncated().is_null());
    }
}

//! Values of rows as text for the page's script.

use arrow::array::{Array, RecordBatch};
use arrow::error::ArrowError;
use serde_json::Value;
use stallmap_console::output::value::{self, Look};

/// Characters of a text in a cell.
const MOST_CHARACTERS: usize = 2_000;

/// The rows of a batch, each a list of texts or nulls.
pub(crate) fn rows(batch: &RecordBatch) -> Result<Vec<Value>, ArrowError> {
    let columns = value::columns(batch, Look::Exact)?;
    // A column of the type NULL has no list of nulls of its own.
    let nulls: Vec<_> = batch.columns().iter().map(Array::logical_nulls).collect();
    let row = |row: usize| {
        let cells = columns.iter().zip(&nulls).map(|(texts, nulls)| match texts.get(row) {
            Some(text) if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => {
                Value::from(shortened(text))
            }
            _ => Value::Null,
        });
        Value::Array(cells.collect())
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

/// A text without its end, if it is long. Files have all of it.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => {
            let more = text.get(end..).map_or(0, |rest| rest.chars().count());
            format!("{}… ({more} more characters)", text.get(..end).unwrap_or_default())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_say_what_is_missing() {
        assert_eq!(shortened("né"), "né");
        let text = shortened(&"é".repeat(2_007));
        assert!(text.ends_with("é… (7 more characters)"), "{text}");
    }
}

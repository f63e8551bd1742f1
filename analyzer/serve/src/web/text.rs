//! Values of rows as text for the page's script.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use serde_json::Value;
use stallmap_console::output::value;

/// Characters of a text in a cell.
const MAX_CHARACTERS: usize = 2_000;

/// The rows of a batch, each a list of texts or nulls.
pub(crate) fn rows(batch: &RecordBatch) -> Result<Vec<Value>, ArrowError> {
    let cells = |row: Vec<Option<String>>| {
        Value::Array(row.into_iter().map(|text| text.as_deref().map(shortened).into()).collect())
    };
    Ok(value::rows(batch)?.into_iter().map(cells).collect())
}

/// A text without its end, if it is long. Files have all of it.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
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

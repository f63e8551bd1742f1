//! Markdown: text that cannot leave its cell, and rows as a table, for comments and documents.

use std::io::Write as _;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::rows::{RowSink, RowWriter, WriteError};
use super::value;

/// Longest text of a cell.
const LONGEST: usize = 240;

/// Text of a capture as code: no markup, no mention of a user. The fence is longer than any run of its backticks. Long
/// text is cut, and ends with `…`.
pub fn code(text: &str) -> String {
    let mut short: String =
        text.chars().take(LONGEST).map(|char| if char.is_control() { ' ' } else { char }).collect();
    if short.trim().is_empty() {
        return String::new();
    }
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    let longest = short.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if short.starts_with('`') || short.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", short.replace('|', "\\|"))
}

/// Prose of stallmap's with names of captures in it: every sign of markup is escaped.
pub fn prose(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars().filter(|char| !char.is_control()) {
        match char {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '@' => escaped += "&#64;\u{200b}",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => escaped.extend(['\\', char]),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Rows as a table: text as code, numbers to the right.
pub(super) struct MarkdownRows {
    sink: RowSink,
    is_number: Vec<bool>,
}

impl MarkdownRows {
    /// Writes the header.
    pub(super) fn new(mut sink: RowSink, schema: &SchemaRef) -> Result<Self, WriteError> {
        let fields = schema.fields();
        let is_number: Vec<bool> = fields.iter().map(|field| value::is_number(field.data_type())).collect();
        let names: Vec<String> = fields.iter().map(|field| prose(field.name())).collect();
        let rules: Vec<&str> = is_number.iter().map(|&number| if number { "---:" } else { "---" }).collect();
        writeln!(sink, "| {} |\n| {} |", names.join(" | "), rules.join(" | "))?;
        Ok(Self { sink, is_number })
    }
}

impl RowWriter for MarkdownRows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        for row in value::rows(batch)? {
            let cells = row.iter().zip(&self.is_number).map(|(cell, &is_number)| match cell {
                Some(cell) if is_number => prose(cell),
                Some(cell) => code(cell),
                None => String::new(),
            });
            writeln!(self.sink, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.sink.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_cell() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("``x`` @user\n| y"), "``` ``x`` @user \\| y ```");
        assert_eq!(code(" "), "");
        assert!(code(&"x".repeat(LONGEST + 1)).ends_with("x…`"));
        assert_eq!(prose("<b>*x*</b> @me"), "&lt;b&gt;\\*x\\*&lt;/b&gt; &#64;\u{200b}me");
    }
}

//! Reads a view's documentation from the comments of its file.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::fault::{LibraryRule, TextFlaw};
use super::{ColumnDoc, ViewDoc};

/// Docs of columns that many views have, by name.
static COMMON: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let mut lines = (1..).zip(include_str!("../../../../sql/columns.sql").lines());
    comment(&mut lines);
    let columns = std::iter::from_fn(|| Some(comment(&mut lines)));
    let named = columns.map(|(doc, (_, line))| (line.trim().trim_end_matches(','), doc));
    named.take_while(|(_, doc)| !doc.is_empty()).collect()
});

/// The line of a header before an example.
const EXAMPLE: &str = "Example:";

/// Reads `CREATE VIEW name (columns) AS ...` with a comment above it and above each column.
///
/// The comment may end with a line `Example:` and a query below it. `sql/columns.sql` has the docs of common columns.
pub fn parse(package: &str, name: &str, text: &str) -> Result<ViewDoc, TextFlaw> {
    let mut lines = (1..).zip(text.lines());
    let (header, (at, opening)) = comment(&mut lines);
    if header.is_empty() {
        let message = "the file does not begin with a comment that describes one row";
        return Err(TextFlaw::new(1, LibraryRule::Header, message));
    }
    if opening.trim() != format!("CREATE VIEW {name} (") {
        let message = format!("`{}` follows the comment instead of `CREATE VIEW {name} (`", opening.trim());
        return Err(TextFlaw::new(at, LibraryRule::Shape, message));
    }
    let mut columns = Vec::new();
    loop {
        let (mut doc, (at, line)) = comment(&mut lines);
        if line.trim() == ") AS" {
            break;
        }
        let column = line.trim().trim_end_matches(',').trim_matches('"').to_owned();
        if column.is_empty() || column.contains(char::is_whitespace) {
            // Nothing is left if the list of columns does not end.
            let at = if line.is_empty() { text.lines().count() } else { at };
            let message = format!("`{}` is not a column's name", line.trim());
            return Err(TextFlaw::new(at, LibraryRule::Shape, message));
        }
        if let Some(common) = COMMON.get(column.as_str()).filter(|_| doc.is_empty()) {
            doc.clone_from(common);
        }
        if doc.is_empty() {
            let message = format!("column `{column}` has no comment above it");
            return Err(TextFlaw::new(at, LibraryRule::ColumnComment, message));
        }
        columns.push(ColumnDoc { name: column, doc });
    }
    let (doc, example) = split_example(&header);
    let (name, package) = (name.to_owned(), package.to_owned());
    Ok(ViewDoc { name, package, doc, example, columns, sql: text.to_owned(), file: None })
}

/// A header without its example, and the example.
fn split_example(header: &str) -> (String, Option<String>) {
    let lines: Vec<&str> = header.lines().collect();
    let Some(at) = lines.iter().position(|line| line.trim() == EXAMPLE) else {
        return (header.to_owned(), None);
    };
    let (doc, example) = lines.split_at(at);
    let example = example.iter().skip(1).map(|line| line.strip_prefix("  ").unwrap_or(line));
    (doc.join("\n").trim_end().to_owned(), Some(example.collect::<Vec<_>>().join("\n").trim().to_owned()))
}

/// The next comment, and the numbered line after it.
fn comment<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> (String, (usize, &'a str)) {
    let mut doc = Vec::new();
    let mut last = 1;
    for (number, line) in lines {
        last = number;
        match line.trim().strip_prefix("--") {
            Some(text) => doc.push(text.strip_prefix(' ').unwrap_or(text)),
            None if line.trim().is_empty() => {}
            None => return (doc.join("\n"), (number, line)),
        }
    }
    (doc.join("\n"), (last, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_docs() {
        let text = "-- One row.\n-- More.\nCREATE VIEW v (\n  -- First.\n  a,\n  -- Second.\n  b\n) AS\nSELECT 1, 2\n";
        let view = parse("base", "v", text).unwrap();
        assert_eq!(view.doc, "One row.\nMore.");
        assert_eq!(view.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(view.columns[1].doc, "Second.");
        assert_eq!(view.example(), "SELECT * FROM v LIMIT 10");
    }

    #[test]
    fn a_header_ends_with_an_example() {
        let text = "-- One row.\n--\n-- Example:\n--   SELECT a\n--   FROM v\nCREATE VIEW v (\n  -- First.\n  a\n) AS\nSELECT 1\n";
        let view = parse("base", "v", text).unwrap();
        assert_eq!((view.doc.as_str(), view.example().as_str()), ("One row.", "SELECT a\nFROM v"));
    }

    #[test]
    fn a_common_column_needs_no_comment() {
        let text = "-- One row.\nCREATE VIEW v (\n  kernel_id,\n  -- Second.\n  pc\n) AS\nSELECT 1, 2\n";
        let columns = parse("base", "v", text).unwrap().columns;
        assert_eq!(
            columns.iter().map(|column| column.doc.as_str()).collect::<Vec<_>>(),
            ["The launch.", "Second."]
        );
        assert!(COMMON.contains_key("warp"));
    }

    #[track_caller]
    fn check(text: &str, line: usize, message: &str) {
        let flaw = parse("base", "v", text).unwrap_err();
        assert_eq!(flaw.line, line, "{flaw:?}");
        assert!(flaw.message.contains(message), "{flaw:?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        check("-- Doc.\nCREATE VIEW v (\n  a\n) AS SELECT 1", 3, "column `a` has no comment above it");
        check("CREATE VIEW v (", 1, "does not begin");
        check("-- Doc.\nCREATE VIEW w (", 2, "CREATE VIEW v (");
        check("-- Doc.\nCREATE VIEW v (\n", 2, "not a column");
    }
}

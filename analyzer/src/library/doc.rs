//! Reads a view's documentation from the comments of its file.

use super::{ColumnDoc, ViewDoc};

/// Reads `CREATE VIEW name (columns) AS ...` with a comment above it and above each column.
pub fn parse(package: &str, name: &str, text: &str) -> Result<ViewDoc, String> {
    let mut lines = text.lines();
    let (doc, opening) = comment(&mut lines);
    if doc.is_empty() {
        return Err("the file does not begin with a comment that says what one row is".into());
    }
    if opening.trim() != format!("CREATE VIEW {name} (") {
        return Err(format!("after the comment comes `{opening}`, not `CREATE VIEW {name} (`"));
    }
    let mut columns = Vec::new();
    loop {
        let (doc, line) = comment(&mut lines);
        if line.trim() == ") AS" {
            break;
        }
        let column = line.trim().trim_end_matches(',').trim_matches('"').to_owned();
        if column.is_empty() || column.contains(char::is_whitespace) {
            return Err(format!("`{line}` is not a column's name"));
        }
        if doc.is_empty() {
            return Err(format!("column `{column}` has no comment above it"));
        }
        columns.push(ColumnDoc { name: column, doc });
    }
    Ok(ViewDoc { name: name.into(), package: package.into(), doc, columns, sql: text.into() })
}

/// The comment that comes next, and the line after it.
fn comment<'a>(lines: &mut impl Iterator<Item = &'a str>) -> (String, &'a str) {
    let mut doc = Vec::new();
    for line in lines {
        match line.trim().strip_prefix("--") {
            Some(text) => doc.push(text.strip_prefix(' ').unwrap_or(text)),
            None if line.trim().is_empty() => {}
            None => return (doc.join("\n"), line),
        }
    }
    (doc.join("\n"), "")
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
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = parse("base", "v", "-- Doc.\nCREATE VIEW v (\n  a\n) AS SELECT 1").unwrap_err();
        assert_eq!(error, "column `a` has no comment above it");
        assert!(parse("base", "v", "CREATE VIEW v (").unwrap_err().contains("does not begin"));
        assert!(parse("base", "v", "-- Doc.\nCREATE VIEW w (").unwrap_err().contains("CREATE VIEW v ("));
        assert!(parse("base", "v", "-- Doc.\nCREATE VIEW v (\n").unwrap_err().contains("not a column"));
    }
}

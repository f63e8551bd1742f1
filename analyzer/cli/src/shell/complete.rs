//! Completion of names at the cursor.

use stallmap::lexer::{self, SqlToken, TokenKind};

use super::dot;
use stallmap_console::names::SessionNames;

/// The keywords of queries.
const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "ANTI",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "ANALYZE",
    "FALSE",
    "FILTER",
    "FIRST",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "JOIN",
    "LAST",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "RECURSIVE",
    "RIGHT",
    "SELECT",
    "SEMI",
    "SHOW",
    "TABLE",
    "TABLES",
    "THEN",
    "TRUE",
    "UNION",
    "UNNEST",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Keywords before a table name.
const BEFORE_TABLES: &[&str] = &["FROM", "JOIN", "TABLE", "DESCRIBE", "INTO", "VIEW"];

/// True for a keyword, in any case.
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Start of the replaced text, and its candidates.
pub(super) fn complete(names: &SessionNames, line: &str, at: usize) -> (usize, Vec<String>) {
    let before = line.get(..at).unwrap_or(line);
    if before.trim_start().starts_with('.') {
        return dot::complete(names, before);
    }
    let tokens: Vec<SqlToken<'_>> = lexer::tokens(before).collect();
    let (prefix, start, context) = match tokens.split_last() {
        Some((last, context)) if last.kind == TokenKind::Word => (last.text, last.start, context),
        Some((last, _)) if last.is_open || last.kind == TokenKind::Comment => return (at, Vec::new()),
        _ => ("", before.len(), tokens.as_slice()),
    };
    let mut found: Vec<String> = candidates(names, context, line, !prefix.is_empty())
        .into_iter()
        .filter(|name| starts_with(name, prefix))
        .map(|name| if is_keyword(&name) { in_case_of(prefix, name) } else { name })
        .collect();
    // Columns before keywords.
    found.sort_by_key(|name| (is_keyword(name) && prefix.is_empty(), name.clone()));
    found.dedup();
    (start, found)
}

/// Candidates after these tokens. Without a letter, an expression begins with columns and keywords: tables and functions
/// are hundreds.
fn candidates(names: &SessionNames, context: &[SqlToken<'_>], line: &str, has_letter: bool) -> Vec<String> {
    let owned = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect::<Vec<_>>();
    if let [.., owner, dot] = context
        && dot.text == "."
        && owner.kind == TokenKind::Word
    {
        if names.captures.iter().any(|capture| capture == owner.text) {
            return owned(&mut names.relations());
        }
        return names.columns(relation_of(names, line, owner.text)).to_vec();
    }
    let previous = context.iter().rev().find(|token| token.kind == TokenKind::Word).map(|token| token.text);
    let expects_table = context.iter().rev().find(|token| token.kind != TokenKind::Space);
    let expects_table = expects_table.is_some_and(|token| {
        Some(token.text) == previous && BEFORE_TABLES.iter().any(|word| word.eq_ignore_ascii_case(token.text))
    });
    let mut found = Vec::new();
    if expects_table || has_letter {
        found.extend(owned(&mut names.relations()));
        found.extend(names.captures.iter().cloned());
    }
    if !expects_table {
        let read = lexer::tokens(line).filter(|token| token.kind == TokenKind::Word);
        found.extend(read.flat_map(|token| names.columns(token.text).iter().cloned()));
        found.extend(names.functions.iter().filter(|_| has_letter).cloned());
        found.extend(KEYWORDS.iter().map(|&keyword| keyword.to_owned()));
    }
    found
}

/// The table that a name in a statement refers to: itself, or the one before it, if the name is its alias.
fn relation_of<'a>(names: &SessionNames, line: &'a str, name: &'a str) -> &'a str {
    if !names.columns(name).is_empty() {
        return name;
    }
    let words: Vec<&str> = lexer::tokens(line)
        .filter(|token| token.kind == TokenKind::Word && !token.text.eq_ignore_ascii_case("as"))
        .map(|token| token.text)
        .collect();
    let pair = words.windows(2).find(|pair| pair[1] == name && !names.columns(pair[0]).is_empty());
    pair.map_or(name, |pair| pair[0])
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

fn in_case_of(prefix: &str, keyword: String) -> String {
    let is_lower = prefix.chars().any(char::is_lowercase);
    if is_lower { keyword.to_lowercase() } else { keyword }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> SessionNames {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        SessionNames {
            captures: columns(&["capture"]),
            tables: [("launch".to_owned(), columns(&["kernel_id", "grid_x"]))].into(),
            views: [("coverage".to_owned(), columns(&["metric"]))].into(),
            functions: ["sum".to_owned(), "sqrt".to_owned()].into(),
            queries: columns(&["slow"]),
            ..SessionNames::default()
        }
    }

    /// `|` is the cursor.
    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let at = line.find('|').unwrap();
        assert_eq!(complete(&names(), &line.replace('|', ""), at).1, expected);
    }

    #[test]
    fn tables_follow_from() {
        check("SELECT * FROM |", &["capture", "coverage", "launch"]);
        check("SELECT * FROM la|", &["launch"]);
        check("SELECT * FROM capture.c|", &["coverage"]);
    }

    #[test]
    fn columns_are_those_of_the_tables_read() {
        check("SELECT ker| FROM launch", &["kernel_id"]);
        check("SELECT ker| FROM coverage", &[]);
        check("SELECT l.g| FROM launch l", &["grid_x"]);
        check("SELECT l.g| FROM launch AS l", &["grid_x"]);
    }

    #[test]
    fn an_expression_begins_with_columns() {
        let line = "SELECT * FROM launch WHERE ";
        let found = complete(&names(), line, line.len()).1;
        assert_eq!(found[..2], ["grid_x", "kernel_id"]);
        assert!(found[2..].iter().all(|name| is_keyword(name)), "{found:?}");
        check("SELECT * FROM launch WHERE sq|", &["sqrt"]);
    }

    #[test]
    fn keywords_follow_the_case_of_what_was_typed() {
        check("sele|", &["select"]);
        check("SELE|", &["SELECT"]);
        check("SELECT s|", &["select", "semi", "show", "sqrt", "sum"]);
    }

    #[test]
    fn dot_commands_and_their_names() {
        check(".ta|", &[".tables"]);
        check(".doc cov|", &["coverage"]);
        check(".run s|", &["slow"]);
    }

    #[test]
    fn nothing_is_offered_in_text() {
        check("SELECT 'la|", &[]);
    }
}

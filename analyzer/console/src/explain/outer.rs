//! Columns of an outer table in a subquery, which its own tables lack: mostly by mistake.

use stallmap::lexer::{self, SqlToken, TokenKind};

use crate::excerpt;
use crate::exit::{CommandFailure, QUERY};
use crate::names::SessionNames;

/// A message of the engine about a subquery that it cannot plan.
const SUBQUERIES: [&str; 3] = ["expression InSubquery(", "expression ScalarSubquery(", "expression Exists("];

/// A `SELECT` within another one.
#[derive(Debug, Default)]
struct SelectScope<'a> {
    /// The enclosing one.
    parent: Option<usize>,
    /// Tables and views that it reads.
    tables: Vec<&'a str>,
    /// Names that may be columns.
    columns: Vec<SqlToken<'a>>,
    /// True if it reads what has no known columns.
    is_opaque: bool,
}

/// Rewords an error about a subquery that depends on the rows outside of it.
pub(super) fn reworded(message: &str, names: &SessionNames, sql: &str) -> Option<CommandFailure> {
    if !message.contains("not implemented") || !SUBQUERIES.iter().any(|kind| message.contains(kind)) {
        return None;
    }
    let Some((column, table, outer)) = found(sql, names) else {
        let message = "a subquery depends on the rows outside of it in a way that is not supported";
        return Some(
            CommandFailure::message(QUERY, message).hint("write it as a JOIN with GROUP BY".to_owned()),
        );
    };
    let name = column.text;
    let message = format!(
        "the subquery takes `{name}` from `{outer}` outside of it: `{table}` has no column of that name"
    );
    let hint = format!("columns of `{table}`: {}", names.columns(table).join(", "));
    Some(
        CommandFailure::message(QUERY, message)
            .excerpt(excerpt::place(sql, column.start, name.len()))
            .hint(hint),
    )
}

/// The first such column, the subquery's table, and the table outside.
fn found<'a>(sql: &'a str, names: &SessionNames) -> Option<(SqlToken<'a>, &'a str, &'a str)> {
    let scopes = scopes(sql, names);
    let has =
        |table: &str, column: &str| names.columns(table).iter().any(|name| name.eq_ignore_ascii_case(column));
    for scope in scopes.iter().filter(|scope| !scope.is_opaque) {
        let Some(table) = scope.tables.first() else { continue };
        for column in
            scope.columns.iter().filter(|column| !scope.tables.iter().any(|table| has(table, column.text)))
        {
            let mut above = scope.parent;
            while let Some(outer) = above.and_then(|above| scopes.get(above)) {
                if let Some(outside) = outer.tables.iter().find(|table| has(table, column.text)) {
                    return Some((*column, table, outside));
                }
                above = outer.parent;
            }
        }
    }
    None
}

/// Every `SELECT` of a statement.
fn scopes<'a>(sql: &'a str, names: &SessionNames) -> Vec<SelectScope<'a>> {
    let tokens: Vec<SqlToken<'a>> = lexer::tokens(sql)
        .filter(|token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment))
        .collect();
    let is = |at: Option<usize>, word: &str| {
        at.and_then(|at| tokens.get(at)).is_some_and(|token| token.text.eq_ignore_ascii_case(word))
    };
    let mut scopes = vec![SelectScope::default()];
    // The scope of each open parenthesis, or the one around it.
    let mut open = vec![0];
    for (at, token) in tokens.iter().enumerate() {
        let here = open.last().copied().unwrap_or(0);
        let before = at.checked_sub(1);
        let is_source = is(before, "FROM") || is(before, "JOIN");
        match token.text {
            "(" if is(Some(at + 1), "SELECT") => {
                scopes.push(SelectScope { parent: Some(here), ..SelectScope::default() });
                open.push(scopes.len() - 1);
                scopes[here].is_opaque |= is_source;
            }
            "(" => open.push(here),
            ")" if open.len() > 1 => drop(open.pop()),
            text if token.kind == TokenKind::Word && is_source => {
                scopes[here].is_opaque |= names.columns(text).is_empty();
                scopes[here].tables.push(text);
            }
            _ if token.kind == TokenKind::Word && !is(before, ".") && !is(Some(at + 1), ".") => {
                scopes[here].columns.push(*token);
            }
            _ => {}
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> SessionNames {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        SessionNames {
            tables: [("launch".to_owned(), columns(&["kernel_id", "grid_x", "function_id"]))].into(),
            views: [("kernel_cost".to_owned(), columns(&["function_id", "samples"]))].into(),
            ..SessionNames::default()
        }
    }

    #[track_caller]
    fn check(sql: &str, expected: Option<(&str, &str, &str)>) {
        let found = found(sql, &names());
        assert_eq!(found.map(|(column, table, outer)| (column.text, table, outer)), expected, "{sql}");
    }

    #[test]
    fn a_column_that_only_the_outer_table_has_is_found() {
        let column = Some(("kernel_id", "kernel_cost", "launch"));
        check("SELECT * FROM launch WHERE kernel_id IN (SELECT kernel_id FROM kernel_cost)", column);
        check("SELECT (SELECT max(kernel_id) FROM kernel_cost) FROM launch", column);
        check("SELECT (SELECT 1 FROM (SELECT kernel_id FROM kernel_cost)) FROM launch", column);
    }

    #[test]
    fn columns_of_the_subquery_are_its_own() {
        check("SELECT * FROM launch WHERE function_id IN (SELECT function_id FROM kernel_cost)", None);
        check(
            "SELECT kernel_id FROM launch WHERE abs(kernel_id) > (SELECT max(samples) FROM kernel_cost)",
            None,
        );
        check("SELECT (SELECT kernel_id FROM unknown) FROM launch", None);
        check("SELECT (SELECT samples FROM kernel_cost k WHERE launch.kernel_id = 1) FROM launch", None);
        check("SELECT ) FROM (", None);
    }
}

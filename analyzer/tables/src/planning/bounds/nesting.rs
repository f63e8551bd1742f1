//! A bound on how deep the parts of a statement are nested, and on their texts.
//!
//! `1 + 1 + 1` is a sum within a sum. DataFusion names each of them by its text, so planning takes time and memory that grow
//! with the square of the depth: 2,000 additions take seconds, 50,000 take minutes and gigabytes. It looks for tables twice
//! in a `WITH`, so four times in a `WITH` within a `WITH`. `CUBE` of 20 expressions is a million groups.

use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Visitor};

use crate::planning::bounds::visit;

/// Most expressions within each other.
const MAX_NESTED: usize = 2_000;
/// Most expressions within others, each counted in every one around it: those of two sums that are nested as deep as possible.
const MAX_INNER: usize = 2 * MAX_NESTED * (MAX_NESTED + 1);
/// Most `WITH` within each other.
const MAX_WITH: usize = 8;
/// Most expressions of a `CUBE`: 4,096 groups, as DataFusion allows next to other groups.
const MAX_CUBE: usize = 12;

/// Fails for a statement with parts that are nested too deep.
pub fn check(statement: &Statement) -> Result<()> {
    match visit(statement, &mut NestingDepth::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(reason) => Err(DataFusionError::Plan(reason)),
    }
}

/// The parts around the visited one.
#[derive(Default)]
struct NestingDepth {
    expressions: usize,
    /// Depths of all expressions together.
    inner: usize,
    with: usize,
}

impl Visitor for NestingDepth {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        self.expressions += 1;
        self.inner += self.expressions;
        let hint = "join with VALUES, or use IN (...)";
        if self.expressions > MAX_NESTED {
            let reason = format!("an expression has more than {MAX_NESTED} others within each other: {hint}");
            return ControlFlow::Break(reason);
        }
        if self.inner > MAX_INNER {
            return ControlFlow::Break(format!(
                "the statement has too many expressions within others: {hint}"
            ));
        }
        match expr {
            Expr::Cube(sets) if sets.len() > MAX_CUBE => {
                let reason =
                    format!("CUBE has more than {MAX_CUBE} expressions: name the groups in GROUPING SETS");
                ControlFlow::Break(reason)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
        self.expressions -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        self.with += usize::from(query.with.is_some());
        if self.with > MAX_WITH {
            let reason =
                format!("more than {MAX_WITH} WITH are within each other: name all parts in the outermost");
            return ControlFlow::Break(reason);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        self.with -= usize::from(query.with.is_some());
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParser;

    fn checked(sql: &str) -> Result<()> {
        check(&DFParser::parse_sql(sql).unwrap().pop_front().unwrap())
    }

    fn refused(sql: &str) -> String {
        checked(sql).unwrap_err().to_string()
    }

    #[test]
    fn deep_expressions_are_refused_and_wide_ones_are_not() {
        checked(&format!("SELECT {}1", "1 + ".repeat(MAX_NESTED - 2))).unwrap();
        for deep in ["1 + ".repeat(MAX_NESTED), "x = 1 OR ".repeat(MAX_NESTED)] {
            for before in ["SELECT", "EXPLAIN SELECT", "SELECT 1 WHERE EXISTS (SELECT", "COPY (SELECT"] {
                let end = match before {
                    "COPY (SELECT" => ") TO 'x.csv'",
                    before if before.ends_with("(SELECT") => ")",
                    _ => "",
                };
                let error = refused(&format!("{before} {deep}1{end}"));
                assert!(error.contains("more than 2000 others"), "{error}");
            }
        }
        checked(&format!("SELECT 1 WHERE 1 IN ({}1)", "1, ".repeat(50_000))).unwrap();
    }

    #[test]
    fn many_deep_expressions_are_refused() {
        let deep = format!("{}1", "1 + ".repeat(MAX_NESTED - 2));
        let error = refused(&format!("SELECT {deep}, {deep}, {deep}"));
        assert!(error.contains("too many expressions within others"), "{error}");
    }

    #[test]
    fn with_within_with_is_refused() {
        let nested = |depth| {
            (0..depth).fold("SELECT 1".to_owned(), |sql, _| format!("WITH a AS ({sql}) SELECT * FROM a"))
        };
        checked(&nested(MAX_WITH)).unwrap();
        assert!(refused(&nested(MAX_WITH + 1)).contains("WITH are within each other"));
    }

    #[test]
    fn cubes_are_small() {
        let cube = |count| format!("SELECT count(*) FROM t GROUP BY CUBE ({})", vec!["a"; count].join(", "));
        checked(&cube(MAX_CUBE)).unwrap();
        assert!(refused(&cube(63)).contains("CUBE has more than 12"));
    }
}

//! A bound on how deep the expressions of a statement are nested.
//!
//! `1 + 1 + 1` is a sum within a sum. DataFusion names each of them by its text, so planning takes time and memory that grow
//! with the square of the depth: 2,000 additions take seconds, 50,000 take minutes and gigabytes.

use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Visit, Visitor};

/// Most expressions within each other.
const MOST_NESTED: usize = 2_000;

/// Fails for a statement with expressions that are nested too deep.
pub(super) fn check(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Explain(explain) => check(&explain.statement),
        Statement::Statement(statement) if statement.visit(&mut Depth(0)).is_break() => {
            let message = format!(
                "an expression has more than {MOST_NESTED} others within each other: join with VALUES, or use IN (...)"
            );
            Err(DataFusionError::Plan(message))
        }
        _ => Ok(()),
    }
}

/// Expressions around the visited one.
struct Depth(usize);

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 += 1;
        if self.0 > MOST_NESTED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 -= 1;
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

    #[test]
    fn deep_expressions_are_refused_and_wide_ones_are_not() {
        checked(&format!("SELECT {}1", "1 + ".repeat(MOST_NESTED - 2))).unwrap();
        for deep in ["1 + ".repeat(MOST_NESTED), "x = 1 OR ".repeat(MOST_NESTED)] {
            for before in ["SELECT", "EXPLAIN SELECT", "SELECT 1 WHERE EXISTS (SELECT"] {
                let end = if before.ends_with("(SELECT") { ")" } else { "" };
                let error = checked(&format!("{before} {deep}1{end}")).unwrap_err();
                assert!(error.to_string().contains("more than 2000 others"), "{error}");
            }
        }
        checked(&format!("SELECT 1 WHERE 1 IN ({}1)", "1, ".repeat(50_000))).unwrap();
    }
}

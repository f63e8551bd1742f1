//! Bounds of planning: a short statement can name a plan without end, and no limit of rows, memory or time sees it while it
//! is made.
//!
//! ```text
//! text ──> nesting ──> extent (relations, columns) ──> the planner ──> growth (expressions) ──> rules, until the ending
//! ```
//!
//! [`nesting`] and [`extent`] count in the parsed statement, and [`growth`] in its plan, before anything multiplies. So a
//! plan within the bounds takes seconds and megabytes. [`ending`] stops its rules when its client leaves or its time is over.

pub mod ending;
pub mod extent;
pub mod frame;
pub mod growth;
pub mod nesting;
pub mod rules;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Visit as _, Visitor};

/// Visits the parts of a statement that are planned.
fn visit<V: Visitor>(statement: &Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::Explain(explain) => visit(&explain.statement, visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

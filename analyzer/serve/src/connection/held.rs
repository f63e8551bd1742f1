//! Memory of what a connection holds between its messages: it counts against the limit of all queries.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, LogicalPlan};
use stallmap::session::Session;

use crate::failure::CodedFailure;

/// Bytes of a step of a plan, of a column of its rows, and of a part of an expression, about.
const STEP_BYTES: usize = 512;
const COLUMN_BYTES: usize = 64;
const PART_BYTES: usize = 320;

/// Memory for a statement or its values, until the result is dropped.
pub(super) fn held(session: &Session, bytes: usize) -> std::result::Result<MemoryReservation, CodedFailure> {
    let pool = &session.context().runtime_env().memory_pool;
    let held = MemoryConsumer::new("prepared statements").register(pool);
    held.try_grow(bytes).map_err(|_| {
        let message = "the prepared statements need more memory than --memory allows";
        CodedFailure::message("53200", message, "close some, or DEALLOCATE ALL")
    })?;
    Ok(held)
}

/// The memory of a plan, about.
pub(super) fn plan_bytes(plan: &LogicalPlan) -> usize {
    let mut bytes = 0;
    let mut part = |expression: &Expr| -> Result<TreeNodeRecursion> {
        bytes += PART_BYTES;
        if let Expr::Literal(value, _) = expression {
            bytes += value.size();
        }
        Ok(TreeNodeRecursion::Continue)
    };
    let mut columns = 0;
    let visited = plan.apply_with_subqueries(|step| {
        columns += STEP_BYTES + COLUMN_BYTES * step.schema().fields().len();
        step.apply_expressions(|expression| expression.apply(&mut part))
    });
    // Without a failing visitor the visit does not fail.
    drop(visited);
    bytes + columns
}

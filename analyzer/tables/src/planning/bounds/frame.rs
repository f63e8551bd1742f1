//! A bound on the frames of windows: the engine adds the number of rows of a frame to a position, without a look at the end.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFrameBound};

/// Most rows that a frame reaches from its row.
const MAX_ROWS: u64 = 1 << 62;

/// Fails for a plan with a frame that reaches further.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Window(window) = node else { return Ok(TreeNodeRecursion::Continue) };
        for expression in &window.window_expr {
            expression.apply(|part| {
                let Expr::WindowFunction(function) = part else { return Ok(TreeNodeRecursion::Continue) };
                let frame = &function.params.window_frame;
                if [&frame.start_bound, &frame.end_bound].into_iter().any(is_too_far) {
                    return plan_err!("a window frame has a bound of more than 2^62 rows: write UNBOUNDED");
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

fn is_too_far(bound: &WindowFrameBound) -> bool {
    let (WindowFrameBound::Preceding(rows) | WindowFrameBound::Following(rows)) = bound else { return false };
    matches!(rows, ScalarValue::UInt64(Some(rows)) if *rows > MAX_ROWS)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn frames_end_before_positions_overflow() {
        for (bound, is_taken) in [("18446744073709551615", false), ("3", true), ("UNBOUNDED", true)] {
            let sql = format!(
                "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND {bound} FOLLOWING) FROM (VALUES (1), (2)) AS t (x)"
            );
            let plan = SessionContext::new().state().create_logical_plan(&sql).await.unwrap();
            assert_eq!(check(&plan).is_ok(), is_taken, "{bound}");
        }
    }
}

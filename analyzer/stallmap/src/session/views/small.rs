//! Plans over few rows: they run in one partition.
//!
//! A partition costs planning and running: repartitions, a partial and a final aggregate, tasks and channels between
//! them. A view over few rows takes longer with several than with one, and the views of a command run at the same time
//! anyway.

use datafusion::catalog::MemTable;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::prelude::SessionContext;
use stallmap_code::table::CodeTable;
use stallmap_tables::captured::CapturedTable;

use super::inline::View;

/// Rows that a plan over few rows reads, in all its scans together.
const FEW_ROWS: usize = 100_000;

/// A context for a plan that reads views: with one partition, if it reads few rows.
pub(crate) fn context_for(context: &SessionContext, plan: &LogicalPlan) -> SessionContext {
    if context.copied_config().target_partitions() < 2 || rows(plan).is_none() {
        return context.clone();
    }
    let mut state = context.state();
    state.config_mut().options_mut().execution.target_partitions = 1;
    SessionContext::new_with_state(state)
}

/// The rows that a plan reads. None if they may be more than [`FEW_ROWS`].
fn rows(plan: &LogicalPlan) -> Option<usize> {
    let mut rows = Some(0_usize);
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let sum = rows.zip(rows_of(scan)).map(|(rows, more)| rows.saturating_add(more));
            rows = sum.filter(|rows| *rows <= FEW_ROWS);
        }
        Ok(if rows.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    rows.filter(|_| visited.is_ok())
}

fn rows_of(scan: &TableScan) -> Option<usize> {
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(view) = provider.downcast_ref::<View>() {
        return match view.count() {
            Some(rows) => Some(rows),
            None => rows(view.plan()),
        };
    }
    if let Some(table) = provider.downcast_ref::<CapturedTable>() {
        return usize::try_from(table.rows()).ok();
    }
    // A table of code has one partition in any case. The list of the capture's tables is short.
    (provider.is::<CodeTable>() || provider.is::<MemTable>()).then_some(0)
}

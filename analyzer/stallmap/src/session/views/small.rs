//! Plans over few rows: they run in one partition, and are optimized in one pass.
//!
//! A partition costs planning and running: repartitions, a partial and a final aggregate, tasks and channels between
//! them. A view over few rows takes longer with several than with one, and the views of a command run at the same time
//! anyway.
//!
//! Joins make room for a whole batch of each column before they know how many rows there are. So batches are short where
//! there are few.
//!
//! DataFusion applies its rules again until a pass changes nothing, up to three times. The second pass finds little, and
//! planning takes longer than running such a plan.

use arrow::array::RecordBatch;
use datafusion::catalog::MemTable;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::prelude::SessionContext;
use stallmap_code::table::CodeTable;
use stallmap_engine::table::PlacesTable;
use stallmap_joins::few;
use stallmap_tables::captured::CapturedTable;

use super::inline::View;

/// Rows that a plan over few rows reads, in all its scans together.
pub(crate) const FEW_ROWS: usize = 100_000;
/// Rows that a plan reads if it is made with the fewest rules: it runs in less time than another rule takes.
const VERY_FEW_ROWS: usize = 16_384;
/// [`FEW_ROWS`] for views that are computed at the same time, of all threads together.
const ROWS_AMONG_OTHERS: usize = 64_000_000;
/// Rows of the shortest batches.
const SHORT_BATCH: usize = 1024;

/// [`FEW_ROWS`] for a view that is computed while other views occupy all threads: partitions only cost then. The limit
/// keeps one view from becoming the longest step on a machine of many threads.
pub(crate) fn rows_among_others(threads: usize) -> usize {
    (ROWS_AMONG_OTHERS / threads.max(1)).max(FEW_ROWS)
}

/// A context for a plan that reads views: with one partition, if it reads `few` rows.
pub(crate) fn context_for(context: &SessionContext, plan: &LogicalPlan, few: usize) -> SessionContext {
    let Some(size) = size(plan, few) else { return context.clone() };
    let mut state = context.state();
    let options = state.config_mut().options_mut();
    options.execution.target_partitions = 1;
    if size.rows <= VERY_FEW_ROWS && !size.has_code {
        few::choose(options);
    }
    let rows = size.rows.next_power_of_two().max(SHORT_BATCH).min(options.execution.batch_size.into());
    if let Ok(rows) = ConfigNonZeroUsize::try_new(rows) {
        options.execution.batch_size = rows;
    }
    // These walk over the plan to divide sorts and joins among partitions.
    options.optimizer.repartition_sorts = false;
    options.optimizer.top_down_join_key_reordering = false;
    // A subquery in a subquery may need a pass of its own.
    if !size.has_subquery {
        options.optimizer.max_passes = 1;
    }
    SessionContext::new_with_state(state)
}

/// The reads of a plan.
#[derive(Clone, Copy, Default)]
struct Size {
    rows: usize,
    has_subquery: bool,
    /// True with a table whose rows are not known before it is read: of code, or of pointers.
    has_code: bool,
}

/// The size of a plan. None if its rows may be more than `few`.
fn size(plan: &LogicalPlan, few: usize) -> Option<Size> {
    let mut all = Some(Size::default());
    let visited = plan.apply_with_subqueries(|node| {
        let own = match node {
            LogicalPlan::TableScan(scan) => size_of(scan, few),
            node => Some(Size { has_subquery: matches!(node, LogicalPlan::Subquery(_)), ..Size::default() }),
        };
        let sum = all.zip(own).map(|(all, own)| Size {
            rows: all.rows.saturating_add(own.rows),
            has_subquery: all.has_subquery || own.has_subquery,
            has_code: all.has_code || own.has_code,
        });
        all = sum.filter(|size| size.rows <= few);
        Ok(if all.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    all.filter(|_| visited.is_ok())
}

fn size_of(scan: &TableScan, few: usize) -> Option<Size> {
    let of_rows = |rows| Size { rows, ..Size::default() };
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(view) = provider.downcast_ref::<View>() {
        return match view.count() {
            Some(rows) => Some(of_rows(rows)),
            None => size(view.plan(), few),
        };
    }
    if let Some(table) = provider.downcast_ref::<CapturedTable>() {
        return usize::try_from(table.rows()).ok().map(of_rows);
    }
    // A table of code, or of pointers, has one partition in any case.
    if provider.is::<CodeTable>() || provider.is::<PlacesTable>() {
        return Some(Size { has_code: true, ..Size::default() });
    }
    provider.downcast_ref::<MemTable>().and_then(rows_in_memory).map(of_rows)
}

/// Rows of a table that a statement made. None while another statement writes it.
fn rows_in_memory(table: &MemTable) -> Option<usize> {
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    table.batches.iter().map(|batches| Some(rows(&batches.try_read().ok()?))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;

    /// Partitions, passes of the optimizer and rows of a batch for a statement.
    async fn means(sql: &str) -> [usize; 3] {
        let session = Session::without_rows().unwrap();
        let plan = session.plan(sql).await.unwrap();
        let options = context_for(session.context(), &plan, FEW_ROWS).copied_config().options().clone();
        [
            options.execution.target_partitions,
            options.optimizer.max_passes,
            options.execution.batch_size.into(),
        ]
    }

    #[tokio::test]
    async fn few_rows_are_planned_in_one_pass() {
        assert_eq!(
            means("SELECT count(*) FROM launch l JOIN module m ON m.module_id = l.kernel_id").await,
            [1, 1, 1024]
        );
    }

    #[tokio::test]
    async fn code_may_have_many_rows() {
        for (sql, is_few) in [
            ("SELECT * FROM launch JOIN function USING (function_id)", true),
            ("SELECT * FROM launch JOIN instruction USING (function_id)", false),
        ] {
            let session = Session::without_rows().unwrap();
            let plan = session.plan(sql).await.unwrap();
            let config = context_for(session.context(), &plan, FEW_ROWS).copied_config();
            assert_eq!(few::is_chosen(config.options()), is_few, "{sql}");
        }
    }

    #[tokio::test]
    async fn subqueries_are_planned_in_several_passes() {
        let sql =
            "SELECT * FROM launch l WHERE EXISTS (SELECT 1 FROM module m WHERE m.module_id = l.kernel_id)";
        assert_eq!(means(sql).await, [1, 3, 1024]);
    }
}

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

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::MemTable;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use stallmap_engine::code::CaptureCode;
use stallmap_engine::code::table::CodeRows;
use stallmap_tables::captured::CapturedTable;
use stallmap_tables::planning::few;
use stallmap_tables::provider::{DerivedTable, RowCount};

use super::inline::{InlinedView, expanded};

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

/// The physical plan of a plan that reads views: with one partition, if it reads `few` rows.
pub(crate) async fn physical_plan(
    context: &SessionContext,
    plan: LogicalPlan,
    few: usize,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
    let plan = expanded(plan)?;
    let state = context_for(context, &plan, few).await.state();
    let plan = state.optimize(&plan)?;
    // The rules remove what has no rows, and its joins with other tables: less is left to read.
    let state = context_for(context, &plan, few).await.state();
    let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
    Ok((plan, state.task_ctx()))
}

/// A context for a plan: with one partition, if it reads `few` rows.
///
/// The rows of code are known when it is analyzed. A plan over code waits for that in any case.
pub(crate) async fn context_for(context: &SessionContext, plan: &LogicalPlan, few: usize) -> SessionContext {
    let mut found = size(plan, few);
    while let Some(code) = found.as_ref().and_then(|size| size.unread.clone()) {
        if code.analyzed().await.is_err() {
            break;
        }
        found = size(plan, few);
    }
    found.map_or_else(|| context.clone(), |size| context_of(context, &size))
}

/// A context for a plan over few rows.
fn context_of(context: &SessionContext, size: &PlanReads) -> SessionContext {
    let mut state = context.state();
    let options = state.config_mut().options_mut();
    options.execution.target_partitions = 1;
    if size.all_rows().is_some_and(|rows| rows <= VERY_FEW_ROWS) {
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
#[derive(Default)]
struct PlanReads {
    rows: usize,
    has_subquery: bool,
    /// Rows of code: it has one partition in any case.
    code_rows: usize,
    /// Code that is not analyzed yet.
    unread: Option<Arc<CaptureCode>>,
    /// True with a table whose rows are known after it is read. It has one partition in any case.
    has_later: bool,
}

impl PlanReads {
    /// The size of two plans.
    fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            has_subquery: self.has_subquery || other.has_subquery,
            code_rows: self.code_rows.saturating_add(other.code_rows),
            unread: self.unread.or(other.unread),
            has_later: self.has_later || other.has_later,
        }
    }

    /// Rows of all tables. None if those of a table are not known.
    fn all_rows(&self) -> Option<usize> {
        let is_known = self.unread.is_none() && !self.has_later;
        is_known.then(|| self.rows.saturating_add(self.code_rows))
    }
}

/// The size of a plan. None if its rows may be more than `few`.
fn size(plan: &LogicalPlan, few: usize) -> Option<PlanReads> {
    let mut all = Some(PlanReads::default());
    let visited = plan.apply_with_subqueries(|node| {
        let own = match node {
            LogicalPlan::TableScan(scan) => size_of(scan, few),
            node => Some(PlanReads {
                has_subquery: matches!(node, LogicalPlan::Subquery(_)),
                ..PlanReads::default()
            }),
        };
        let sum = all.take().zip(own).map(|(all, own)| all.and(own));
        all = sum.filter(|size| size.rows <= few);
        Ok(if all.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    all.filter(|_| visited.is_ok())
}

fn size_of(scan: &TableScan, few: usize) -> Option<PlanReads> {
    let of_rows = |rows| PlanReads { rows, ..PlanReads::default() };
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(view) = provider.downcast_ref::<InlinedView>() {
        return match view.count() {
            Some(rows) => Some(of_rows(rows)),
            None => size(view.plan(), few),
        };
    }
    if let Some(table) = provider.downcast_ref::<CapturedTable>() {
        return usize::try_from(table.rows()).ok().map(of_rows);
    }
    let Some(table) = provider.downcast_ref::<DerivedTable>() else {
        return provider.downcast_ref::<MemTable>().and_then(rows_in_memory).map(of_rows);
    };
    if let Some(code) = table.source::<CodeRows>().map(CodeRows::code) {
        return Some(match code.instruction_count() {
            Some(code_rows) => PlanReads { code_rows, ..PlanReads::default() },
            None => PlanReads { unread: Some(Arc::clone(code)), ..PlanReads::default() },
        });
    }
    match table.row_count() {
        RowCount::Known(rows) => Some(of_rows(rows)),
        RowCount::Later => Some(PlanReads { has_later: true, ..PlanReads::default() }),
        RowCount::Unknown => None,
    }
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
        let context = context_for(session.context(), &plan, FEW_ROWS).await;
        let options = context.copied_config().options().clone();
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
    async fn plans_over_little_code_are_plans_over_few_rows() {
        for (capture, sql, is_few) in [
            ("blame_truth", "SELECT * FROM launch JOIN function USING (function_id)", true),
            ("blame_truth", "SELECT * FROM launch JOIN instruction USING (function_id)", true),
            ("blame_truth", "SELECT * FROM launch JOIN pointer_tensor USING (kernel_id)", false),
            ("two_ranks", "SELECT * FROM launch JOIN instruction USING (function_id)", false),
        ] {
            let path = format!("{}/../../testdata/{capture}.stallmap", env!("CARGO_MANIFEST_DIR"));
            let session = Session::open(&[(None, path.into())]).unwrap();
            let plan = session.plan(sql).await.unwrap();
            let config = context_for(session.context(), &plan, FEW_ROWS).await.copied_config();
            assert_eq!(few::is_chosen(config.options()), is_few, "{capture}: {sql}");
        }
    }

    #[tokio::test]
    async fn subqueries_are_planned_in_several_passes() {
        let sql =
            "SELECT * FROM launch l WHERE EXISTS (SELECT 1 FROM module m WHERE m.module_id = l.kernel_id)";
        assert_eq!(means(sql).await, [1, 3, 1024]);
    }
}

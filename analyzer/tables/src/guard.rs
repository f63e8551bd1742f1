//! Turns a panic of the Parquet decoder into an error of the query: captures are bytes from elsewhere.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{FutureExt, StreamExt};

use crate::captured::panic_text;

/// Inserts a [`GuardExec`] above each scan, after all other rules.
#[derive(Debug)]
pub struct GuardScans;

impl PhysicalOptimizerRule for GuardScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let guard = |plan: Arc<dyn ExecutionPlan>| {
            if plan.downcast_ref::<DataSourceExec>().is_some() {
                return Ok(Transformed::yes(Arc::new(GuardExec { input: plan }) as _));
            }
            Ok(Transformed::no(plan))
        };
        plan.transform_up(guard).data()
    }

    fn name(&self) -> &'static str {
        "guard_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes its input's batches on. A panic of the input ends the query with an error.
#[derive(Debug)]
struct GuardExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for GuardExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardExec")
    }
}

impl ExecutionPlan for GuardExec {
    fn name(&self) -> &'static str {
        "GuardExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input =
            children.pop().ok_or_else(|| DataFusionError::Internal("GuardExec has one child".into()))?;
        Ok(Arc::new(Self { input }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let guarded = futures::stream::unfold(Some(input), |input| async {
            let mut input = input?;
            match AssertUnwindSafe(input.next()).catch_unwind().await {
                Ok(batch) => batch.map(|batch| (batch, Some(input))),
                Err(panic) => Some((Err(DataFusionError::Execution(panic_text(panic.as_ref()))), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, guarded)))
    }
}

//! An operator that hands the rows of one input on, in its partitions and its order.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// The work of an operator on the rows that it hands on.
pub trait RowPass: Debug + Send + Sync + 'static {
    /// The operator's name.
    fn name(&self) -> &'static str;

    /// Its line in a plan.
    fn line(&self) -> String {
        self.name().to_owned()
    }

    /// The expression that it evaluates.
    fn expression(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        None
    }

    /// True if the rows of its one partition cannot be read a second time.
    fn is_once(&self) -> bool {
        false
    }

    /// The rows of a partition.
    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// The operator.
#[derive(Debug)]
pub struct PassExec {
    pass: Arc<dyn RowPass>,
    input: Arc<dyn ExecutionPlan>,
    is_executed: AtomicBool,
}

impl PassExec {
    /// Over an input.
    pub fn over(input: Arc<dyn ExecutionPlan>, pass: impl RowPass) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { pass: Arc::new(pass), input, is_executed: AtomicBool::new(false) })
    }
}

impl DisplayAs for PassExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pass.line())
    }
}

impl ExecutionPlan for PassExec {
    fn name(&self) -> &str {
        self.pass.name()
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
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.pass.expression().map_or(Ok(TreeNodeRecursion::Continue), visit)
    }

    crate::plan_methods!();

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop();
        let input =
            input.ok_or_else(|| DataFusionError::Internal(format!("{} has one child", self.pass.name())))?;
        Ok(Arc::new(Self { pass: Arc::clone(&self.pass), input, is_executed: AtomicBool::new(false) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.pass.is_once() && self.is_executed.swap(true, Ordering::Relaxed) {
            let reason = format!("{} needs its rows again, which did not fit", self.pass.name());
            return Err(DataFusionError::ResourcesExhausted(reason));
        }
        self.pass.pass(&self.input, partition, context)
    }
}

//! Hides from joins what DataFusion 55.2 would take for known of their rows: a rule of the optimizer.
//!
//! A sort leaves out columns that have one value, and is left out where rows have its order. Joins derive both from
//! their inputs, and err twice. A column with one value keeps it on the side that an outer join fills with nulls:
//! `ORDER BY b.one` does not sort `(SELECT x, 1 AS one FROM b) b RIGHT JOIN a ON a.x = b.x`. And a hash join takes the
//! order of its first side for a continuation of the second's, but each row of the second side begins it again
//! (apache/datafusion#25052).

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{JoinType, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
};

type PlanRef = Arc<dyn ExecutionPlan>;

/// The rule. It runs when the sides of joins are chosen, and before sorts are added.
#[derive(Debug)]
pub(crate) struct KnownOfJoins;

impl PhysicalOptimizerRule for KnownOfJoins {
    fn optimize(&self, plan: PlanRef, _: &ConfigOptions) -> Result<PlanRef> {
        plan.transform_up(with_less_known).data()
    }

    fn name(&self) -> &'static str {
        "known_of_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join over sides of which it knows nothing wrong.
fn with_less_known(plan: PlanRef) -> Result<Transformed<PlanRef>> {
    let hash_join = plan.downcast_ref::<HashJoinExec>().map(HashJoinExec::join_type);
    let nested_loop = plan.downcast_ref::<NestedLoopJoinExec>().map(NestedLoopJoinExec::join_type);
    let sides = plan.children();
    let (Some(kind), [left, right]) = (hash_join.or(nested_loop), sides.as_slice()) else {
        return Ok(Transformed::no(plan));
    };
    let is_ordered = |side: &PlanRef| side.output_ordering().is_some();
    let is_continued = hash_join.is_some()
        && matches!(kind, JoinType::Inner | JoinType::Right)
        && is_ordered(left)
        && is_ordered(right);
    let fills_left = matches!(kind, JoinType::Right | JoinType::Full) && has_values(left);
    let fills_right = matches!(kind, JoinType::Left | JoinType::Full) && has_values(right);
    if !(is_continued || fills_left || fills_right) {
        return Ok(Transformed::no(plan));
    }
    let hidden = |side: &PlanRef, knows_equal| -> Result<PlanRef> {
        Ok(Arc::new(HiddenExec::new(Arc::clone(side), knows_equal)?))
    };
    let left = if is_continued || fills_left { hidden(left, !fills_left)? } else { Arc::clone(left) };
    let right = if fills_right { hidden(right, false)? } else { Arc::clone(right) };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(&plan).replace_children(vec![left, right], options).map(Transformed::yes)
}

/// True if columns are known to have one value, or that of an expression: not so in a row of nulls. Columns that are
/// equal to each other are equal in that, too.
fn has_values(side: &PlanRef) -> bool {
    let known = side.equivalence_properties();
    let is_column = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>();
    !known.constants().is_empty() || !known.eq_group().iter().all(|class| class.iter().all(is_column))
}

/// Passes the rows of a join's side on, and hides their order.
#[derive(Debug)]
pub(crate) struct HiddenExec {
    input: PlanRef,
    /// True if it does not hide which expressions are equal, or have one value.
    knows_equal: bool,
    properties: Arc<PlanProperties>,
}

impl HiddenExec {
    fn new(input: PlanRef, knows_equal: bool) -> Result<Self> {
        let mut known = EquivalenceProperties::new(input.schema());
        if knows_equal {
            known.add_equivalence_group(input.equivalence_properties().eq_group().clone())?;
        }
        let properties = Arc::new(input.properties().as_ref().clone().with_eq_properties(known));
        Ok(Self { input, knows_equal, properties })
    }
}

impl DisplayAs for HiddenExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.knows_equal { "HiddenExec: order" } else { "HiddenExec: order, values" })
    }
}

impl ExecutionPlan for HiddenExec {
    crate::plan_methods!("HiddenExec");
    crate::plan_methods!(no_expressions);

    fn children(&self) -> Vec<&PlanRef> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<PlanRef>,
        _: ReplaceChildrenOptions,
    ) -> Result<PlanRef> {
        let input =
            children.pop().ok_or_else(|| DataFusionError::Internal("HiddenExec has one child".into()))?;
        Ok(Arc::new(Self::new(input, self.knows_equal)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let unknown = || Arc::new(Statistics::new_unknown(&self.schema()));
        Ok(inputs.first().map_or_else(unknown, Arc::clone))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

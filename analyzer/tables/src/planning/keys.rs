//! Passes the keys that a join collects to an operator below its other side: a rule of the optimizer.
//!
//! The operator can leave out rows with other keys, because the join drops them. DataFusion's own dynamic filters do
//! this for all scans, but version 55.2 loses rows behind outer joins. So [`super::rule::rules`] leaves them out, and
//! this rule follows a column through operators where a filter is safe.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::planning::key_filter::{KeyFilter, KeysPass};
use crate::planning::known::HiddenExec;
use crate::planning::pass::PassExec;

/// The operator that has only rows whose column passes a filter. The filter is complete once the join has its keys.
/// None if it is another operator, or cannot leave rows out by this column.
pub type NarrowPlan = fn(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    filter: &Arc<DynamicFilterPhysicalExpr>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>>;

/// Passes the keys of a join's first side to the operator that its second side's key comes from.
#[derive(Debug)]
pub struct KeysOfJoins {
    narrow: NarrowPlan,
}

impl KeysOfJoins {
    /// The rule for some operators.
    pub const fn new(narrow: NarrowPlan) -> Self {
        Self { narrow }
    }
}

impl PhysicalOptimizerRule for KeysOfJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // A filter is final, and a recursive query runs its plan repeatedly.
        let is_recursive = plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))?;
        if is_recursive || !config.optimizer.enable_join_dynamic_filter_pushdown {
            return Ok(plan);
        }
        let narrow = |plan: Arc<dyn ExecutionPlan>| {
            let join = plan.downcast_ref::<HashJoinExec>();
            match join.map(|join| self.narrowed(join, config)).transpose()?.flatten() {
                Some(join) => Ok(Transformed::yes(join)),
                None => Ok(Transformed::no(plan)),
            }
        };
        plan.transform_up(narrow).data()
    }

    fn name(&self) -> &'static str {
        "keys_of_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl KeysOfJoins {
    /// A join whose second side has only the keys of the first. None if that side cannot use them.
    fn narrowed(
        &self,
        join: &HashJoinExec,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let [(_, key)] = join.on() else { return Ok(None) };
        let Some(column) = position(key).filter(|_| drops_others(join)) else { return Ok(None) };
        let Some(filter) = KeyFilter::for_join(join) else { return Ok(None) };
        let Some(right) = self.filtered(join.right(), column, filter.filter(), config)? else {
            return Ok(None);
        };
        let left = PassExec::over(Arc::clone(join.left()), KeysPass(Arc::new(filter)));
        Ok(Some(Arc::new(join.builder().with_new_children(vec![left, right])?.build()?)))
    }

    /// A plan over an operator with the rows of a filter. None if the column comes from no such operator.
    fn filtered(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        column: usize,
        filter: &Arc<DynamicFilterPhysicalExpr>,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(narrowed) = (self.narrow)(plan, column, filter, config)? {
            return Ok(Some(narrowed));
        }
        let Some((child, column)) = source(plan, column) else { return Ok(None) };
        let mut children: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
        let Some(place) = children.get_mut(child) else { return Ok(None) };
        let Some(below) = self.filtered(place, column, filter, config)? else { return Ok(None) };
        *place = below;
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(plan).replace_children(children, options).map(Some)
    }
}

/// True if the join drops rows of its second side without a partner.
fn drops_others(join: &HashJoinExec) -> bool {
    matches!(join.join_type(), JoinType::Inner | JoinType::RightSemi | JoinType::LeftSemi)
}

/// The input that a column comes from, and its position there, if rows of that input can be dropped by this column
/// instead of rows of the output.
fn source(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(usize, usize)> {
    let is_passed =
        plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<HiddenExec>();
    if is_passed {
        return Some((0, column));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some((0, position(&projection.expr().get(column)?.expr)?));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some((0, projected(filter.projection().as_deref(), column)?));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let (group, _) = groups.expr().get(column).filter(|_| groups.is_single())?;
        return Some((0, position(group)?));
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let left = join.left().schema().fields().len();
        return Some(column.checked_sub(left).map_or((0, column), |column| (1, column)));
    }
    let join = plan.downcast_ref::<HashJoinExec>()?;
    side(join, projected(join.projection.as_deref(), column)?)
}

/// The side of a join that a column of its rows comes from, if all rows of the output have a row of that side.
fn side(join: &HashJoinExec, column: usize) -> Option<(usize, usize)> {
    let left = join.left().schema().fields().len();
    match join.join_type() {
        JoinType::Inner if column < left => Some((0, column)),
        JoinType::Inner | JoinType::Right => Some((1, column.checked_sub(left)?)),
        JoinType::Left => Some((0, column)).filter(|_| column < left),
        JoinType::LeftSemi | JoinType::LeftAnti => Some((0, column)),
        JoinType::RightSemi | JoinType::RightAnti => Some((1, column)),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => None,
    }
}

fn position(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn projected(projection: Option<&[usize]>, column: usize) -> Option<usize> {
    projection.map_or(Some(column), |projection| projection.get(column).copied())
}

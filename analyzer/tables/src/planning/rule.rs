//! Finds joins by intervals among the nested loops and hash joins of a plan.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};

use crate::planning::join::{IntervalCondition, IntervalJoinExec, is_number};
use crate::planning::known::KnownOfJoins;
use crate::planning::{few, sizes};

/// DataFusion's rule that passes on filters that operators find at run time: see [`crate::planning::keys`].
const DYNAMIC_FILTERS: &str = "FilterPushdown(Post)";

/// DataFusion's rules, with this one and [`KnownOfJoins`] after the choice of join sides, and without dynamic filters.
pub fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| rule.name() != DYNAMIC_FILTERS);
    let chosen = rules.iter().position(|rule| rule.name() == "join_selection");
    let place = chosen.map_or(0, |place| place + 1);
    let own: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 2] =
        [Arc::new(IntervalJoins), Arc::new(KnownOfJoins)];
    rules.splice(place..place, own);
    few::shortened(rules)
}

/// Rows with intervals that are collected, although a hash join would collect the other side.
const MAX_COLLECTED: usize = 4_000_000;

/// Replaces the nested loop of an inner or semi join whose condition has the form `a.x >= b.low AND a.x <= b.high`, among other
/// parts, and its hash join if it also has equal keys: these may be few, such as runs.
#[derive(Debug)]
struct IntervalJoins;

impl PhysicalOptimizerRule for IntervalJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |plan: Arc<dyn ExecutionPlan>| match replaced(&plan)? {
            Some(join) => Ok(Transformed::yes(Arc::new(join) as _)),
            None => Ok(Transformed::no(plan)),
        };
        plan.transform_up(replace).data()
    }

    fn name(&self) -> &'static str {
        "interval_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join by intervals in place of a join, if it is one.
fn replaced(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<IntervalJoinExec>> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let Some((filter, bounds)) = with_bounds(join.filter(), *join.join_type())? else { return Ok(None) };
        let inputs = [Arc::clone(join.left()), Arc::clone(join.right())];
        let projection = join.projection().as_deref();
        return Ok(Some(IntervalJoinExec::new(inputs, projection, join.schema(), filter, bounds)));
    }
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    if join.null_equality() != NullEquality::NullEqualsNothing || join.fetch().is_some() || join.null_aware {
        return Ok(None);
    }
    let Some((filter, mut bounds)) = with_bounds(join.filter(), *join.join_type())? else { return Ok(None) };
    for (left, right) in join.on() {
        let types = [left.data_type(&join.left().schema())?, right.data_type(&join.right().schema())?];
        if types[0] != types[1] {
            return Ok(None);
        }
        let is_left = bounds.intervals == JoinSide::Left;
        let (of_intervals, of_points) = if is_left { (left, right) } else { (right, left) };
        bounds.keys[0].push(Arc::clone(of_intervals));
        bounds.keys[1].push(Arc::clone(of_points));
    }
    // The hash join collects its left side, the smaller one.
    if bounds.intervals == JoinSide::Right {
        let rows = sizes::registry().compute(join.right().as_ref())?.base().num_rows;
        if rows.get_value().is_none_or(|rows| *rows > MAX_COLLECTED) {
            return Ok(None);
        }
    }
    let inputs = [Arc::clone(join.left()), Arc::clone(join.right())];
    let projection = join.projection.as_deref();
    Ok(Some(IntervalJoinExec::new(inputs, projection, join.schema(), filter, bounds)))
}

/// A condition that has bounds for a join of a type, with them.
fn with_bounds(
    filter: Option<&JoinFilter>,
    kind: JoinType,
) -> Result<Option<(JoinFilter, IntervalCondition)>> {
    let Some(filter) = filter else { return Ok(None) };
    let is_semi = kind != JoinType::Inner;
    let bounds = bounds(filter)?.filter(|bounds| bounds.is_for(kind));
    Ok(bounds.map(|bounds| (filter.clone(), IntervalCondition { is_semi, ..bounds })))
}

/// `greater >= less`, or `greater > less`.
struct BoundComparison<'a> {
    greater: &'a Arc<dyn PhysicalExpr>,
    less: &'a Arc<dyn PhysicalExpr>,
}

/// The bounds in a condition, if it has some.
fn bounds(filter: &JoinFilter) -> Result<Option<IntervalCondition>> {
    let comparisons: Vec<BoundComparison<'_>> =
        split_conjunction(filter.expression()).into_iter().filter_map(comparison).collect();
    for low in &comparisons {
        let (Some(points), Some(intervals)) = (side(low.greater, filter), side(low.less, filter)) else {
            continue;
        };
        let point = uncast(low.greater);
        let is_high = |high: &&BoundComparison<'_>| {
            side(high.greater, filter) == Some(intervals) && uncast(high.less).eq(point)
        };
        let high = comparisons.iter().find(is_high).filter(|_| points != intervals);
        let is_usable =
            |high: &&BoundComparison<'_>| are_numbers([point, low.less, high.greater], filter.schema());
        if let Some(high) = high.filter(is_usable) {
            let on_side = |expr| on_side(expr, filter);
            let (point, low, high) = (on_side(point)?, on_side(low.less)?, on_side(high.greater)?);
            return Ok(Some(IntervalCondition {
                intervals,
                point,
                low,
                high,
                keys: <[Vec<_>; 2]>::default(),
                is_semi: false,
            }));
        }
    }
    Ok(None)
}

fn comparison(part: &Arc<dyn PhysicalExpr>) -> Option<BoundComparison<'_>> {
    let binary = part.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    match binary.op() {
        Operator::GtEq | Operator::Gt => Some(BoundComparison { greater: left, less: right }),
        Operator::LtEq | Operator::Lt => Some(BoundComparison { greater: right, less: left }),
        _ => None,
    }
}

/// The side of all columns of an expression, if it has any.
fn side(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<JoinSide> {
    let columns = collect_columns(expr);
    let mut sides = columns.iter().map(|column| Some(filter.column_indices().get(column.index())?.side));
    let first = sides.next()??;
    (first != JoinSide::None && sides.all(|side| side == Some(first))).then_some(first)
}

/// The source of a conversion between numbers, for a comparison with others. It has the same value.
fn uncast(expr: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if is_number(cast.cast_type()) => uncast(cast.expr()),
        _ => expr,
    }
}

fn are_numbers<const N: usize>(exprs: [&Arc<dyn PhysicalExpr>; N], schema: &Schema) -> bool {
    exprs.into_iter().all(|expr| expr.data_type(schema).is_ok_and(|data_type| is_number(&data_type)))
}

/// An expression on the columns of a condition as one on those of its side.
fn on_side(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |expr: Arc<dyn PhysicalExpr>| {
        let column = expr.downcast_ref::<Column>();
        let index = column.and_then(|column| filter.column_indices().get(column.index()));
        Ok(match (column, index) {
            (Some(column), Some(index)) => {
                Transformed::yes(Arc::new(Column::new(column.name(), index.index)) as _)
            }
            _ => Transformed::no(expr),
        })
    };
    Arc::clone(expr).transform_down(replace).data()
}

//! Sizes of the inputs of joins: a join collects its smaller input.
//!
//! DataFusion knows the rows of a join's output only if it knows the distinct values of its keys, and no table of a
//! capture has them. Then it collects the input that the query names first: millions of samples, to look up a few
//! producers. Rows are estimated here without them: most joins look up a key of the smaller side.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{JoinType, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::operator_statistics::{
    ExtendedStatistics, StatisticsProvider, StatisticsRegistry, StatisticsResult,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _};

use crate::planning::join::IntervalJoinExec;

/// The part of its input's rows that a filter keeps, as DataFusion assumes.
const KEPT_ONE_IN: usize = 5;
/// Rows of a group: views sum up samples, accesses and launches.
const ROWS_OF_A_GROUP: usize = 8;
/// Keys by which most rows differ: launch, function, pc and target.
const KEYS_OF_A_ROW: usize = 4;

/// Plans with the estimates of this module, or else without. DataFusion 55.2 rejects a plan of its own if a sort leaves
/// out a column that is constant, and a join above it forgets this: that depends on the sides of joins.
#[derive(Debug)]
pub struct EstimatingPlanner;

#[async_trait]
impl QueryPlanner for EstimatingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::default();
        let result = planner.create_physical_plan(plan, session).await;
        // Its check of its own plan. A user's error comes earlier, or is of another kind.
        let is_own = result.as_ref().is_err_and(|error| {
            matches!(error.find_root(), DataFusionError::Plan(_) | DataFusionError::Internal(_))
        });
        let Some(state) = session.as_any().downcast_ref::<SessionState>().filter(|_| is_own) else {
            return result;
        };
        let mut state = state.clone();
        state.config_mut().options_mut().optimizer.use_statistics_registry = false;
        planner.create_physical_plan(plan, &state).await
    }
}

/// The estimates of this module.
pub fn registry() -> StatisticsRegistry {
    StatisticsRegistry::with_providers(vec![Arc::new(RowEstimates)])
}

/// Rows of each operator from the rows of its inputs. Unknown rows stay unknown: then the order of the query stands.
#[derive(Debug)]
struct RowEstimates;

impl StatisticsProvider for RowEstimates {
    fn compute_statistics(
        &self,
        plan: &dyn ExecutionPlan,
        inputs: &[ExtendedStatistics],
    ) -> Result<StatisticsResult> {
        let known: Vec<Precision<usize>> = inputs.iter().map(|input| input.base().num_rows).collect();
        let estimated = match known.as_slice() {
            [] => return Ok(StatisticsResult::Delegate),
            [input] => of_one(plan, *input),
            inputs => of_several(plan, inputs),
        };
        let rows = if let Some(rows) = estimated {
            rows.to_inexact()
        } else {
            let inputs: Vec<_> = inputs.iter().map(|input| Arc::clone(input.base_arc())).collect();
            let own = plan.statistics_from_inputs(&inputs, &StatisticsArgs::new())?.num_rows;
            // An operator that says nothing sums up its input, or changes it.
            if let (Precision::Absent, [input]) = (own, known.as_slice()) { input.to_inexact() } else { own }
        };
        let statistics = Statistics { num_rows: rows, ..Statistics::new_unknown(&plan.schema()) };
        Ok(StatisticsResult::Computed(ExtendedStatistics::new(statistics)))
    }
}

/// Rows of an operator with one input. None if the operator knows more.
fn of_one(plan: &dyn ExecutionPlan, input: Precision<usize>) -> Option<Precision<usize>> {
    if plan.is::<FilterExec>() {
        return Some(input.map(|rows| rows.div_ceil(KEPT_ONE_IN)));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return Some(match aggregate.mode() {
            _ if aggregate.group_expr().is_empty() => Precision::Inexact(1),
            AggregateMode::Partial | AggregateMode::PartialReduce => input,
            _ if aggregate.group_expr().expr().len() >= KEYS_OF_A_ROW => input,
            _ => input.map(|rows| rows.div_ceil(ROWS_OF_A_GROUP)),
        });
    }
    matches!(plan.cardinality_effect(), CardinalityEffect::Equal).then_some(input)
}

/// Rows of an operator with several inputs. None if the operator knows more.
fn of_several(plan: &dyn ExecutionPlan, inputs: &[Precision<usize>]) -> Option<Precision<usize>> {
    if plan.is::<UnionExec>() {
        return Some(inputs.iter().fold(Precision::Inexact(0), |sum, rows| sum.add(rows)));
    }
    if plan.is::<IntervalJoinExec>() {
        return inputs.iter().copied().reduce(|a, b| a.max(&b));
    }
    let of_loop = plan.downcast_ref::<NestedLoopJoinExec>().map(NestedLoopJoinExec::join_type);
    let kind = plan.downcast_ref::<HashJoinExec>().map(HashJoinExec::join_type).or(of_loop)?;
    let [left, right] = inputs else { return None };
    Some(match kind {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => *left,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => *right,
        JoinType::Inner | JoinType::Left | JoinType::Right => left.max(right),
        JoinType::Full => left.add(right),
    })
}

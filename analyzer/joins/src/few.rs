//! Plans over few rows: DataFusion's rules that make a plan run faster take longer over such a plan than the plan runs.
//!
//! Such a plan has one partition, and its session allows no other order of joins. Its rows are the same without these
//! rules.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};

/// Rules that only save time when the plan runs.
const OF_MANY_ROWS: [&str; 8] = [
    "FilterPushdown",
    "HashJoinBuffering",
    "LimitAggregation",
    "LimitedDistinctAggregation",
    "OptimizeAggregateOrder",
    "ProjectionPushdown",
    "aggregate_statistics",
    "join_selection",
];
/// The rule for sorts and partitions, which other operators require.
const REQUIREMENTS: &str = "EnsureRequirements";

/// Makes plans of a session ones over few rows.
pub fn choose(config: &mut ConfigOptions) {
    config.execution.target_partitions = 1;
    config.optimizer.join_reordering = false;
}

/// True for a plan over few rows.
pub fn is_chosen(config: &ConfigOptions) -> bool {
    config.execution.target_partitions == 1 && !config.optimizer.join_reordering
}

/// A rule, for plans over few rows only if they need it.
pub(crate) fn if_needed(
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let need = match rule.name() {
        name if OF_MANY_ROWS.contains(&name) => |_: &_| Ok(false),
        REQUIREMENTS => lacks_any,
        _ => return rule,
    };
    Arc::new(IfNeeded { rule, need })
}

/// A rule that plans over few rows seldom need.
#[derive(Debug)]
struct IfNeeded {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    need: fn(&Arc<dyn ExecutionPlan>) -> Result<bool>,
}

impl PhysicalOptimizerRule for IfNeeded {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if is_chosen(config) && !(self.need)(&plan)? { Ok(plan) } else { self.rule.optimize(plan, config) }
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// True if an operator requires another order of its inputs, or if an input has several partitions.
fn lacks_any(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    for (input, order) in plan.children().into_iter().zip(plan.required_input_ordering()) {
        let has_order = match order {
            Some(order) => input.equivalence_properties().ordering_satisfy_requirement(order.into_single())?,
            None => true,
        };
        if !has_order || input.output_partitioning().partition_count() > 1 || lacks_any(input)? {
            return Ok(true);
        }
    }
    Ok(false)
}

//! Rules of DataFusion that find nothing in plans that are optimized in one pass, or do not pay off over few rows.
//!
//! Each rule is a walk over the plan, and planning takes longer than running a plan over few rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::planning::few;

/// Rules for subqueries, for fields of structures, and rules that are off.
const OF_SEVERAL: [&str; 8] = [
    "decorrelate_lateral_join",
    "decorrelate_predicate_subquery",
    "eliminate_duplicated_expr",
    "extract_leaf_expressions",
    "filter_null_join_keys",
    "push_down_leaf_projections",
    "rewrite_set_comparison",
    "scalar_subquery_to_join",
];

/// Rules that only save time when the plan runs. `optimize_unions` does more: it names the columns of inputs as the
/// union does. Without it, planning fails where all inputs of a union but one have no rows.
const OF_MANY_ROWS: [&str; 6] = [
    "common_sub_expression_eliminate",
    "eliminate_group_by_constant",
    "eliminate_join",
    "eliminate_limit",
    "eliminate_outer_join",
    "unions_to_filter",
];

/// A rule, only for plans of several passes or of many rows if it is one of those.
pub(crate) fn if_needed(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    let is_off: fn(&ConfigOptions) -> bool = match rule.name() {
        name if OF_SEVERAL.contains(&name) => |options| options.optimizer.max_passes == 1,
        name if OF_MANY_ROWS.contains(&name) => few::is_chosen,
        _ => return rule,
    };
    Arc::new(IfNeeded { rule, is_off })
}

/// A rule that is off for some plans.
#[derive(Debug)]
struct IfNeeded {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    is_off: fn(&ConfigOptions) -> bool,
}

impl OptimizerRule for IfNeeded {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if (self.is_off)(config.options().as_ref()) {
            return Ok(Transformed::no(plan));
        }
        let rewrite = |plan| self.rule.rewrite(plan, config);
        match self.rule.apply_order() {
            Some(ApplyOrder::TopDown) => plan.transform_down_with_subqueries(rewrite),
            Some(ApplyOrder::BottomUp) => plan.transform_up_with_subqueries(rewrite),
            None => rewrite(plan),
        }
    }
}

//! Rules of DataFusion that find nothing in plans that are optimized in one pass.
//!
//! Each rule is a walk over the plan, and planning takes longer than running a plan over few rows.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

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

/// A rule, for plans of several passes only if it is one of those.
pub(super) fn of_several(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    if OF_SEVERAL.contains(&rule.name()) { Arc::new(OfSeveral(rule)) } else { rule }
}

/// A rule for plans of several passes.
#[derive(Debug)]
struct OfSeveral(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for OfSeveral {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if config.options().optimizer.max_passes == 1 {
            return Ok(Transformed::no(plan));
        }
        let rewrite = |plan| self.0.rewrite(plan, config);
        match self.0.apply_order() {
            Some(ApplyOrder::TopDown) => plan.transform_down_with_subqueries(rewrite),
            Some(ApplyOrder::BottomUp) => plan.transform_up_with_subqueries(rewrite),
            None => rewrite(plan),
        }
    }
}

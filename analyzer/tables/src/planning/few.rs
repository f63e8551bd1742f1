//! Plans over few rows: DataFusion's rules that make a plan run faster take longer over such a plan than the plan runs.
//!
//! Such a plan has one partition, and its session allows no other order of joins. Its rows are the same without these
//! rules.

use std::iter::zip;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::error::Result;
use datafusion::physical_expr::{Distribution, LexOrdering};
use datafusion::physical_optimizer::{ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;
type ExecutionPlanRef = Arc<dyn ExecutionPlan>;

/// Rules that only save time when the plan runs.
const OF_MANY_ROWS: [&str; 8] = [
    "FilterPushdown",
    "HashJoinBuffering",
    "LimitAggregation",
    "LimitedDistinctAggregation",
    "OptimizeAggregateOrder",
    PROJECTIONS,
    "aggregate_statistics",
    "join_selection",
];
/// The rule that moves projections down. It runs behind the rules for partitions, and again behind the rules for limits:
/// the first time only for several partitions.
const PROJECTIONS: &str = "ProjectionPushdown";
/// The rule that adds the sorts and partitions that operators require. It estimates the rows of all inputs, and asks
/// five times whether partitions can be saved.
const REQUIREMENTS: &str = "EnsureRequirements";

/// Makes plans of a session ones over few rows.
pub fn choose(config: &mut ConfigOptions) {
    config.execution.target_partitions = 1;
    config.optimizer.join_reordering = false;
}

/// True for a plan over few rows.
pub fn is_chosen(config: &ConfigOptions) -> bool {
    has_one_partition(config) && !config.optimizer.join_reordering
}

/// Rules that do less for plans over few rows.
pub(crate) fn shortened(rules: Vec<PhysicalRule>) -> Vec<PhysicalRule> {
    let first = rules.iter().position(|rule| rule.name() == PROJECTIONS);
    let shortened = |(at, rule): (usize, PhysicalRule)| {
        type Short = fn(ExecutionPlanRef) -> Result<ExecutionPlanRef>;
        let (is_short, short): (fn(&ConfigOptions) -> bool, Short) = match rule.name() {
            PROJECTIONS if Some(at) == first => (has_one_partition, Ok),
            REQUIREMENTS => (has_one_partition, |plan| plan.transform_up(with_required).data()),
            name if OF_MANY_ROWS.contains(&name) => (is_chosen, Ok),
            _ => return rule,
        };
        Arc::new(ShortenedRule { rule, short, is_short })
    };
    rules.into_iter().enumerate().map(shortened).collect()
}

/// True for a plan in one partition.
fn has_one_partition(config: &ConfigOptions) -> bool {
    config.execution.target_partitions == 1
}

/// A rule, and its short form for some plans.
#[derive(Debug)]
struct ShortenedRule {
    rule: PhysicalRule,
    short: fn(ExecutionPlanRef) -> Result<ExecutionPlanRef>,
    is_short: fn(&ConfigOptions) -> bool,
}

impl PhysicalOptimizerRule for ShortenedRule {
    fn optimize(&self, plan: ExecutionPlanRef, config: &ConfigOptions) -> Result<ExecutionPlanRef> {
        self.optimize_with_context(plan, &ConfigOnlyContext::new(config))
    }

    /// The context has the sizes of the inputs of joins.
    fn optimize_with_context(
        &self,
        plan: ExecutionPlanRef,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<ExecutionPlanRef> {
        if (self.is_short)(context.config_options()) {
            (self.short)(plan)
        } else {
            self.rule.optimize_with_context(plan, context)
        }
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// An operator whose inputs have one partition, and their rows an order, where it requires that.
fn with_required(plan: ExecutionPlanRef) -> Result<Transformed<ExecutionPlanRef>> {
    let partitions = plan.input_distribution_requirements().into_per_child();
    let required = zip(partitions, plan.required_input_ordering());
    let mut has_changed = false;
    let mut inputs = Vec::new();
    for (input, (partitions, order)) in zip(plan.children(), required) {
        let mut input = Arc::clone(input);
        let is_divided = |input: &ExecutionPlanRef| input.output_partitioning().partition_count() > 1;
        // One partition has the rows of each key together, too.
        if is_divided(&input) && !matches!(partitions, Distribution::UnspecifiedDistribution) {
            input = Arc::new(CoalescePartitionsExec::new(input));
            has_changed = true;
        }
        if let Some(order) = order {
            let order = order.into_single();
            if !input.equivalence_properties().ordering_satisfy_requirement(order.clone())? {
                let is_divided = is_divided(&input);
                let sort = SortExec::new(LexOrdering::from(order), input);
                input = Arc::new(sort.with_preserve_partitioning(is_divided));
                has_changed = true;
            }
        }
        inputs.push(input);
    }
    if !has_changed {
        return Ok(Transformed::no(plan));
    }
    replace_children_if_necessary(plan, inputs).map(Transformed::yes)
}

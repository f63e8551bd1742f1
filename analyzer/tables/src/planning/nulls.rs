//! Two rules of DataFusion that change joins, without the joins for which they confuse null and equal.
//!
//! A join takes nulls of all its keys for equal, or none. DataFusion 55.2 adds keys without a look at that: those of
//! nested joins, and those of filters. `a JOIN b ON a.x IS NOT DISTINCT FROM b.x CROSS JOIN c` loses the rows in which x is
//! null, and `a JOIN b ON a.x IS NOT DISTINCT FROM b.x WHERE a.y = b.y` has rows in which y is null.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

use crate::planning::{few, passes};

/// DataFusion's rules, these two with care, and some only for plans of several passes or of many rows.
pub fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let careful: [Arc<dyn OptimizerRule + Send + Sync>; 2] = [
        Arc::new(CrossJoins(EliminateCrossJoin::new())),
        Arc::new(FilterKeys(ExtractEquijoinPredicate::new())),
    ];
    let mut rules = Optimizer::new().rules;
    for own in careful {
        for rule in rules.iter_mut().filter(|rule| rule.name() == own.name()) {
            *rule = Arc::clone(&own);
        }
    }
    rules.into_iter().map(passes::if_needed).collect()
}

/// Turns cross joins into joins by keys. It puts all joins in order for that, so plans over few rows without a cross join
/// stay as they are.
#[derive(Debug)]
struct CrossJoins(EliminateCrossJoin);

impl OptimizerRule for CrossJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let (mut is_wrong, mut has_cross) = (false, !few::is_chosen(config.options().as_ref()));
        plan.apply_with_subqueries(|node| {
            is_wrong |= merges_equal_nulls(node);
            has_cross |= is_cross(node);
            Ok(if is_wrong { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if is_wrong || !has_cross { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

/// Turns equalities of a join's filter into keys.
#[derive(Debug)]
struct FilterKeys(ExtractEquijoinPredicate);

impl OptimizerRule for FilterKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_wrong = matches!(&plan, LogicalPlan::Join(join)
            if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty());
        if is_wrong { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

/// True for an inner join without keys.
fn is_cross(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.on.is_empty())
}

/// True if the rule would merge a join for which nulls are equal with another join or with a filter.
fn merges_equal_nulls(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => has_equal_nulls(&filter.input),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let is_inner = |input: &LogicalPlan| matches!(input, LogicalPlan::Join(join) if join.join_type == JoinType::Inner);
            (is_inner(&join.left) || is_inner(&join.right)) && has_equal_nulls(plan)
        }
        _ => false,
    }
}

/// True if nulls are equal for an inner join, or for one that is its input.
fn has_equal_nulls(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    join.join_type == JoinType::Inner
        && (join.null_equality == NullEquality::NullEqualsNull
            || has_equal_nulls(&join.left)
            || has_equal_nulls(&join.right))
}

//! Tests of the sizes of join inputs.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::planning::rule::rules;
use crate::planning::sizes::registry;

/// A table with this number of rows, and a column `k`.
fn add_table(context: &SessionContext, name: &str, rows: i64) {
    let column = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("k", column as _)]).unwrap();
    context.register_batch(name, batch).unwrap();
}

async fn plan(sql: &str) -> Arc<dyn ExecutionPlan> {
    let mut config = SessionConfig::new();
    config.options_mut().optimizer.use_statistics_registry = true;
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_statistics_registry(registry())
        .with_physical_optimizer_rules(rules())
        .build();
    let context = SessionContext::new_with_state(state);
    for (name, rows) in [("few", 10), ("some", 100), ("many", 10_000)] {
        add_table(&context, name, rows);
    }
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// The collected side of the outermost join, as text.
async fn collected(sql: &str) -> String {
    let plan = plan(sql).await;
    let mut text = None;
    plan.apply(|node| {
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            text = Some(displayable(join.left().as_ref()).indent(false).to_string());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    text.expect("a join")
}

/// Joins in a text of a plan.
fn joins_in(text: &str) -> usize {
    text.matches("HashJoinExec").count()
}

#[tokio::test]
async fn the_smaller_side_of_a_join_of_joins_is_collected() {
    // Distinct values of keys are not known, so DataFusion alone keeps the order of the query.
    let sql = "SELECT count(*) FROM many m JOIN few f ON f.k = m.k JOIN some s ON s.k = m.k";
    assert_eq!(joins_in(&collected(sql).await), 0, "the join of many rows is not collected");
    let sql = "SELECT m.k FROM many m JOIN few f ON f.k = m.k LEFT JOIN some s ON s.k = m.k";
    assert_eq!(joins_in(&collected(sql).await), 0, "nor that of an outer join");
    let sql =
        "SELECT count(*) FROM some s JOIN (SELECT m.k FROM many m JOIN few f ON f.k = m.k) j ON s.k = j.k";
    assert_eq!(joins_in(&collected(sql).await), 0, "the order of a query that is right stands");
}

#[tokio::test]
async fn sums_unions_and_filters_have_sizes() {
    let sql = "SELECT * FROM (SELECT m.k FROM many m JOIN some s ON s.k = m.k) j \
               JOIN (SELECT k, count(*) AS n FROM few GROUP BY k UNION ALL SELECT k, k + 1 FROM some WHERE k > 3) u \
               ON u.k = j.k";
    let collected = collected(sql).await;
    assert!(collected.contains("UnionExec"), "{collected}");
}

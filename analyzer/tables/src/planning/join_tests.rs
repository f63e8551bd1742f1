//! Joins by intervals against DataFusion's nested loop.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::planning::rule;

/// Conditions with bounds, on the tables `a` (x, y) and `b` (low, high, y).
const JOINS: [&str; 14] = [
    "SELECT * FROM a JOIN b ON a.x BETWEEN b.low AND b.high",
    "SELECT * FROM b JOIN a ON a.x BETWEEN b.low AND b.low + b.high - 1",
    "SELECT a.y, b.y, b.high FROM a JOIN b ON b.low < a.x AND b.high > a.x",
    "SELECT count(*) FROM a, b WHERE a.x >= b.low AND a.x < b.low + b.high AND (b.y IS NULL OR a.y < b.y)",
    "SELECT a.x FROM a JOIN b ON a.x >= b.low + b.y AND a.x <= b.high AND a.x + b.low > 7",
    "SELECT * FROM a JOIN b ON a.x + 1 >= b.low AND a.x + 1 <= b.high",
    "SELECT a.x, count(*) FROM a JOIN b ON a.y BETWEEN b.low AND b.high GROUP BY a.x ORDER BY a.x LIMIT 3",
    "SELECT * FROM a JOIN b ON a.y = b.y AND a.x BETWEEN b.low AND b.high",
    "SELECT b.high, a.x FROM b JOIN a ON a.y = b.y AND a.x >= b.low AND a.x < b.low + b.high AND a.x + b.low > 7",
    "SELECT count(*) FROM a JOIN b ON a.y % 2 = b.y % 2 AND a.x + 1 = b.low + 1 AND a.x BETWEEN b.low AND b.high",
    "SELECT * FROM b JOIN b c ON b.y = c.y AND b.low >= c.low AND b.low < c.high AND b.high <= c.high",
    "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.low <= a.x AND b.high > a.x)",
    "SELECT * FROM a LEFT SEMI JOIN b ON a.y = b.y AND a.x BETWEEN b.low AND b.high",
    "SELECT x FROM b RIGHT SEMI JOIN a ON a.y = b.y AND a.x >= b.low AND a.x < b.low + b.high",
];

type TestPoint = (Option<u64>, Option<i64>);
type TestInterval = (Option<u64>, u32, Option<i64>);

fn batches(columns: Vec<(&str, ArrayRef)>) -> MemTable {
    let rows = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let half = rows.num_rows() / 2;
    let parts = vec![vec![rows.slice(0, half)], vec![rows.slice(half, rows.num_rows() - half)]];
    MemTable::try_new(rows.schema(), parts).unwrap()
}

fn context(
    points: &[TestPoint],
    intervals: &[TestInterval],
    has_rule: bool,
    runtime: Arc<RuntimeEnv>,
) -> SessionContext {
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(2).with_batch_size(7))
        .with_runtime_env(runtime);
    let state = if has_rule { state.with_physical_optimizer_rules(rule::rules()) } else { state };
    let context = SessionContext::new_with_state(state.build());
    let x: UInt64Array = points.iter().map(|point| point.0).collect();
    let y: Int64Array = points.iter().map(|point| point.1).collect();
    context.register_table("a", Arc::new(batches(vec![("x", Arc::new(x)), ("y", Arc::new(y))]))).unwrap();
    let low: UInt64Array = intervals.iter().map(|interval| interval.0).collect();
    let high: UInt32Array = intervals.iter().map(|interval| Some(interval.1)).collect();
    let y: Int64Array = intervals.iter().map(|interval| interval.2).collect();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("low", Arc::new(low)), ("high", Arc::new(high)), ("y", Arc::new(y))];
    context.register_table("b", Arc::new(batches(columns))).unwrap();
    context
}

/// The operators of a plan, and its sorted rows.
fn run(context: &SessionContext, sql: &str) -> (String, Vec<String>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let operators = displayable(plan.as_ref()).indent(false).to_string();
        let schema = plan.schema();
        let rows = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
        let table = pretty_format_batches_with_schema(schema, &rows).unwrap().to_string();
        let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
        lines.sort();
        (operators, lines)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_join_has_the_rows_of_the_nested_loop(
        points in vec((of(0..30_u64), of(-3..30_i64)), 1..40),
        intervals in vec((of(0..30_u64), 0..30_u32, of(-3..30_i64)), 1..20),
    ) {
        let runtime = Arc::new(RuntimeEnv::default());
        let ours = context(&points, &intervals, true, Arc::clone(&runtime));
        let theirs = context(&points, &intervals, false, runtime);
        for sql in JOINS {
            let ((operators, found), (_, expected)) = (run(&ours, sql), run(&theirs, sql));
            prop_assert!(operators.contains("IntervalJoinExec"), "{} {}", sql, operators);
            prop_assert_eq!(found, expected, "{}", sql);
        }
    }
}

#[test]
fn other_joins_stay_as_they_are() {
    let runtime = Arc::new(RuntimeEnv::default());
    let context = context(&[(Some(1), Some(2))], &[(Some(1), 2, Some(3))], true, runtime);
    for sql in [
        "SELECT * FROM a LEFT JOIN b ON a.x BETWEEN b.low AND b.high",
        "SELECT * FROM a JOIN b ON a.x >= b.low AND a.y <= b.high",
        "SELECT * FROM a JOIN b ON a.x > b.low",
        "SELECT * FROM a JOIN b ON a.x = b.low AND a.x <= b.high",
    ] {
        assert!(!run(&context, sql).0.contains("IntervalJoinExec"), "{sql}");
    }
}

#[test]
fn a_limit_on_memory_ends_an_interval_join_with_an_error() {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(1000, 1.0).build_arc().unwrap();
    let intervals = vec![(Some(1), 2, Some(3)); 1000];
    let context = context(&[(Some(1), Some(2))], &intervals, true, runtime);
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let sql = "SELECT a.x FROM b JOIN a ON a.x BETWEEN b.low AND b.high";
    let error = tokio.block_on(async { context.sql(sql).await.unwrap().collect().await }).unwrap_err();
    assert!(error.to_string().contains("IntervalJoinExec"), "{error}");
}

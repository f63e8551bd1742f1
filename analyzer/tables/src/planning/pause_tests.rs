//! Long joins end when their query does.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::planning::pauses::JoinPauses;

/// A context with tables `a` and `b`, each with a column `x` of numbers from 0.
fn context(rows: [i64; 2], has_rule: bool) -> SessionContext {
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(1));
    let state = if has_rule { state.with_physical_optimizer_rule(Arc::new(JoinPauses)) } else { state };
    let context = SessionContext::new_with_state(state.build());
    for (name, rows) in ["a", "b"].into_iter().zip(rows) {
        let x = Arc::new(Int64Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter([("x", x as _)]).unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        context.register_table(name, Arc::new(table)).unwrap();
    }
    context
}

fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { context.sql(sql).await.unwrap().collect().await.unwrap() })
}

/// The steps of a query's task: it can be cancelled after each.
fn steps(context: &SessionContext, sql: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let query = runtime.block_on(context.sql(sql)).unwrap();
    let mut rows = pin!(query.collect());
    let mut steps = 0;
    runtime
        .block_on(poll_fn(|task| {
            steps += 1;
            rows.as_mut().poll(task)
        }))
        .unwrap();
    steps
}

#[test]
fn joins_without_rows_have_many_steps() {
    for sql in [
        "SELECT count(*) FROM a JOIN b ON a.x * b.x % 7 = 9",
        "SELECT count(*) FROM a LEFT JOIN b ON a.x * b.x % 7 = 9",
        "SELECT count(*) FROM a CROSS JOIN b WHERE a.x * b.x % 7 + random() > 9",
        "SELECT count(*) FROM a JOIN b ON a.x % 2 = b.x % 2 AND a.x * b.x % 7 = 9",
    ] {
        let rows = [16_000, 8_000];
        let (with, without) = (steps(&context(rows, true), sql), steps(&context(rows, false), sql));
        // A nested loop compares 4 million pairs in a step, here of 128 million.
        assert!(with >= 8 && with >= without, "{sql}: {with} steps, {without} without the rule");
    }
}

#[test]
fn a_sliced_join_has_the_rows_of_a_whole_one() {
    for sql in [
        "SELECT count(*) AS n, sum(a.x) AS a, sum(b.x) AS b FROM a JOIN b ON a.x * b.x % 13 = 5",
        "SELECT count(*) AS n, sum(a.x) AS a, sum(b.x) AS b FROM a LEFT JOIN b ON a.x * b.x % 1301 = 5",
        "SELECT count(*) AS n, sum(a.x) AS a, sum(b.x) AS b FROM a FULL JOIN b ON a.x * b.x % 1301 = 5",
    ] {
        let rows = [9_000, 1_000];
        assert_eq!(run(&context(rows, true), sql), run(&context(rows, false), sql), "{sql}");
    }
}

#[test]
fn a_first_side_that_does_not_fit_is_an_error() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let limited = RuntimeEnvBuilder::new().with_memory_limit(50_000, 1.0).build_arc().unwrap();
    for sql in [
        "SELECT a.x FROM a LEFT JOIN b ON a.x + b.x < 0",
        "SELECT a.x FROM a JOIN (SELECT x FROM b GROUP BY x) b ON a.x + b.x < 0",
    ] {
        let state =
            context([20_000, 20_000], true).into_state_builder().with_runtime_env(Arc::clone(&limited));
        let context = SessionContext::new_with_state(state.build());
        let error = runtime.block_on(async { context.sql(sql).await.unwrap().collect().await.unwrap_err() });
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{sql}: {error}");
    }
}

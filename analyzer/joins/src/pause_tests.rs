//! Long joins end when their query does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::pauses::Pauses;

/// A context with tables `a` and `b`, each with a column `x` of numbers from 0.
fn context(rows: [i64; 2], has_rule: bool) -> SessionContext {
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(1));
    let state = if has_rule { state.with_physical_optimizer_rule(Arc::new(Pauses)) } else { state };
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

#[test]
fn joins_without_rows_end_when_their_query_is_dropped() {
    for sql in [
        "SELECT count(*) FROM a JOIN b ON a.x * b.x % 7 = 9",
        "SELECT count(*) FROM a LEFT JOIN b ON a.x * b.x % 7 = 9",
        "SELECT count(*) FROM a CROSS JOIN b WHERE a.x * b.x % 7 + random() > 9",
        "SELECT count(*) FROM a JOIN b ON a.x % 2 = b.x % 2 AND a.x * b.x % 7 = 9",
    ] {
        let context = context([300_000, 300_000], true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let begin = Instant::now();
        let ended = runtime.block_on(async {
            let query = context.sql(sql).await.unwrap().collect();
            tokio::time::timeout(Duration::from_millis(50), query).await
        });
        drop(runtime);
        assert!(ended.is_err(), "{sql} is too short for this test");
        assert!(begin.elapsed() < Duration::from_secs(20), "{sql} took {:?}", begin.elapsed());
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

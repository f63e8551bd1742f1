//! Sorts above joins. DataFusion's own rules leave out each of these.

use std::sync::Arc;

use arrow::array::{AsArray as _, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext, col};

use crate::planning::rule;

/// A context with tables `a`, in the order of its column `x`, and `b`, in that of `x` and `y`. Each x has two rows, and `b`
/// has fewer.
fn context(partitions: usize, has_rules: bool) -> SessionContext {
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(partitions));
    let state = if has_rules { state.with_physical_optimizer_rules(rule::rules()) } else { state };
    let context = SessionContext::new_with_state(state.build());
    for (name, rows, order) in [("a", 40, &["x"][..]), ("b", 10, &["x", "y"])] {
        let x = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row / 2 * 40 / rows)));
        let y = Arc::new(Int64Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter([("x", x as _), ("y", y as _)]).unwrap();
        let order = order.iter().map(|name| col(*name).sort(true, false)).collect();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        context.register_table(name, Arc::new(table.with_sort_order(vec![order]))).unwrap();
    }
    context
}

/// The rows of a query with two columns.
fn rows(context: &SessionContext, sql: &str) -> Vec<[Option<i64>; 2]> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let batches = runtime.block_on(async { context.sql(sql).await.unwrap().collect().await.unwrap() });
    let rows = concat_batches(&batches[0].schema(), &batches).unwrap();
    let column = |index: usize| rows.column(index).as_primitive::<Int64Type>().iter();
    column(0).zip(column(1)).map(|(first, second)| [first, second]).collect()
}

/// True if nulls are behind numbers, and these in order.
fn is_sorted(rows: &[[Option<i64>; 2]]) -> bool {
    rows.is_sorted_by_key(|row| row.map(|value| (value.is_none(), value)))
}

const QUERIES: [&str; 6] = [
    // The second side has two rows with one value, and each meets two of the first.
    "SELECT a.x, b.y FROM b JOIN a ON a.x = b.x ORDER BY a.x, b.x, b.y",
    "SELECT a.x, b.y FROM b RIGHT JOIN a ON a.x = b.x ORDER BY a.x, b.x, b.y",
    // A column with one value, or null.
    "SELECT b.one, a.y FROM (SELECT x, 1 AS one FROM b) b RIGHT JOIN a ON a.x = b.x ORDER BY 1, 2",
    "SELECT b.one, a.y FROM (SELECT x, 1 AS one FROM b) b FULL JOIN a ON a.x = b.x ORDER BY 1, 2",
    "SELECT b.y, a.y FROM (SELECT * FROM b WHERE y = 3) b RIGHT JOIN a ON a.x = b.x ORDER BY 1, 2",
    "SELECT b.one, a.y FROM (SELECT x, 1 AS one FROM b) b RIGHT JOIN a ON a.y > b.x ORDER BY 1, 2",
];

#[test]
fn rows_are_sorted_above_joins() {
    for partitions in [1, 2] {
        let context = context(partitions, true);
        for sql in QUERIES {
            let found = rows(&context, sql);
            assert!(found.len() >= 20 && is_sorted(&found), "{sql}: {found:?}");
        }
    }
}

#[test]
fn without_the_rule_they_are_not() {
    let context = context(1, false);
    let mended: Vec<&str> = QUERIES.into_iter().filter(|sql| is_sorted(&rows(&context, sql))).collect();
    assert!(mended.is_empty(), "DataFusion sorts them: {mended:#?}");
}

//! Plans over few rows have the rows of other plans, with sorts and single partitions where operators require them.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::planning::{few, nulls, rule};

/// A context with tables `a` and `b` in a number of partitions. A plan over few rows is optimized in one pass, unless it
/// has a subquery.
fn context(is_few: bool, has_subquery: bool) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(4);
    if is_few {
        few::choose(config.options_mut());
        config.options_mut().optimizer.max_passes = if has_subquery { 3 } else { 1 };
    }
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_optimizer_rules(nulls::rules())
        .with_physical_optimizer_rules(rule::rules());
    let context = SessionContext::new_with_state(state.build());
    for (name, factor) in [("a", 7), ("b", 5)] {
        let part = |first: i64| {
            let x = Arc::new(Int64Array::from_iter_values((first..first + 20).map(|x| x * factor % 31)));
            let y = Arc::new(Int64Array::from_iter_values(first..first + 20));
            vec![RecordBatch::try_from_iter([("x", x as _), ("y", y as _)]).unwrap()]
        };
        let parts: Vec<_> = (0..3).map(|at| part(20 * at)).collect();
        let table = MemTable::try_new(parts[0][0].schema(), parts).unwrap();
        context.register_table(name, Arc::new(table)).unwrap();
    }
    context
}

/// The rows of a statement, and its plan.
fn answer(sql: &str, is_few: bool) -> (Vec<String>, String) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let frame = context(is_few, sql.contains("IN (SELECT")).sql(sql).await.unwrap();
        let plan = frame.clone().create_physical_plan().await.unwrap();
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        let text = pretty_format_batches(&frame.collect().await.unwrap()).unwrap().to_string();
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        if !sql.ends_with("ORDER BY 1, 2") {
            rows.sort_unstable();
        }
        (rows, plan)
    })
}

#[test]
fn rows_are_those_of_other_plans() {
    for sql in [
        "SELECT x, y, row_number() OVER (PARTITION BY x ORDER BY y) FROM a",
        "SELECT y, lag(y) OVER (ORDER BY x, y), sum(x) OVER (ORDER BY y DESC) FROM a",
        "SELECT x, first_value(y ORDER BY y DESC), count(DISTINCT y % 3) FROM a GROUP BY x",
        "SELECT first_value(y ORDER BY x DESC, y) FROM (SELECT * FROM a UNION ALL SELECT * FROM b)",
        "SELECT x, sum(y) FROM (SELECT * FROM a UNION ALL SELECT * FROM b) GROUP BY x ORDER BY 1, 2",
        "SELECT x, sum(y) OVER (PARTITION BY x) FROM (SELECT * FROM a UNION ALL SELECT * FROM b)",
        "SELECT a.x, b.y FROM a JOIN b ON a.x = b.x AND a.y < b.y ORDER BY 1, 2",
        "SELECT a.x, b.y FROM a LEFT JOIN (SELECT * FROM b UNION SELECT * FROM a) b ON a.x = b.x ORDER BY 1, 2",
        "SELECT a.y, b.y FROM a FULL JOIN b ON a.y = b.x + 40 WHERE a.y IS NULL OR b.y IS NULL",
        "SELECT a.y, b.y FROM a JOIN b ON a.y BETWEEN b.x AND b.x + b.y",
        "SELECT y, x FROM (SELECT * FROM a ORDER BY x, y LIMIT 9) UNION ALL (SELECT * FROM b ORDER BY y LIMIT 3) ORDER BY 1, 2",
        "SELECT DISTINCT x FROM a WHERE y IN (SELECT x FROM b) AND x > (SELECT min(x) + 3 FROM b)",
        "SELECT count(*), max(a.x) FROM a CROSS JOIN b",
        // Inputs without rows.
        "SELECT s.x, sum(s.y) AS total FROM a s GROUP BY s.x UNION ALL SELECT s.y, 1 FROM b s WHERE false",
        "SELECT s.x, s.y FROM a s UNION ALL SELECT s.y, s.x FROM b s WHERE false AND s.x = 1",
        "SELECT y FROM b WHERE false UNION ALL SELECT x FROM a UNION ALL SELECT x FROM b LIMIT 0",
        "SELECT u.x, b.y FROM (SELECT x FROM a UNION ALL SELECT x FROM b WHERE false) u JOIN b ON b.x = u.x",
        "SELECT x, NULL AS y FROM a UNION ALL SELECT NULL, y FROM b WHERE false",
        "SELECT s.x FROM a s UNION SELECT t.y FROM b t WHERE false",
        "SELECT x FROM a EXCEPT SELECT x FROM b WHERE false",
        "SELECT s.x FROM a s INTERSECT SELECT t.x FROM b t WHERE t.y < 15",
        "SELECT a.x, b.y FROM a LEFT JOIN (SELECT * FROM b WHERE false) b ON a.x = b.x",
        "SELECT a.x, b.y FROM (SELECT * FROM a WHERE false) a FULL JOIN b ON a.x = b.x",
        "SELECT count(*), sum(x) FROM (SELECT * FROM a LIMIT 0)",
        "SELECT count(*) FROM a JOIN b ON false",
        "SELECT lag(y) OVER (ORDER BY y), x FROM (SELECT * FROM a UNION ALL SELECT * FROM b WHERE false)",
        // What the rules that are left out find.
        "SELECT 1 AS one, x, sum(y) FROM a GROUP BY 1, x",
        "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.x WHERE b.y > 10",
        "SELECT x * y + 1, x * y + 2, sum(x * y) OVER () FROM a WHERE x * y > 20",
        "SELECT x FROM a WHERE y < 3 UNION ALL SELECT x FROM a WHERE y > 50",
        "SELECT x, count(*) FROM (SELECT DISTINCT x, y FROM a) GROUP BY x LIMIT 100",
        "SELECT max(y), min(x) FROM (SELECT * FROM a UNION ALL SELECT * FROM b)",
        "SELECT x, max(y) AS top FROM a GROUP BY x ORDER BY 1, 2",
    ] {
        let (few, plan) = answer(sql, true);
        assert_eq!(few, answer(sql, false).0, "{sql}");
        assert!(!plan.contains("RepartitionExec"), "{sql}\n{plan}");
    }
}

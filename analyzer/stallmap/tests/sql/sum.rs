//! Answers are the same to the last digit, however many threads add the rows and in whatever order.

use std::path::Path;

use stallmap::session::Session;

use crate::{answer, open};

/// Questions and answers that plain addition gets wrong, and those of other types, which DataFusion sums.
const SUMS: [(&str, &str); 9] = [
    ("sum(v), avg(v) FROM (VALUES (1e100), (1.0), (-1e100)) t(v)", "1.0 | 0.3333333333333333"),
    ("sum(v) OVER (ORDER BY v DESC) FROM (VALUES (1e100), (-1e100)) t(v) LIMIT 1", "1e100"),
    ("sum(v) FROM (VALUES (0.1), (0.2), (NULL), (0.3)) t(v)", "0.6"),
    ("sum(v), avg(v) FROM (VALUES (0.1)) t(v) WHERE v > 1", "NULL | NULL"),
    ("sum(v) FILTER (WHERE v < 1) FROM (VALUES (0.5), (1e100), (0.25)) t(v)", "0.75"),
    ("sum(DISTINCT v) FROM (VALUES (0.5), (0.5), (0.25)) t(v)", "0.75"),
    ("sum(v), avg(v) FROM (VALUES (1), (2)) t(v)", "3 | 1.5"),
    ("sum(CAST(v AS DECIMAL(3, 1))) FROM (VALUES (0.1), (0.2)) t(v)", "0.3"),
    (
        "k, sum(v), avg(v), count(*) FROM (VALUES ('a', 1e30), ('b', 2.0), ('a', 1.0), ('a', -1e30)) t(k, v) \
            GROUP BY k ORDER BY k LIMIT 1",
        "a | 1.0 | 0.3333333333333333 | 3",
    ),
];

#[tokio::test]
async fn sums_are_rounded_once() {
    let session = Session::without_rows().unwrap();
    for (question, expected) in SUMS {
        assert_eq!(
            answer(&session, &format!("SELECT {question}")).await,
            Ok(vec![expected.to_owned()]),
            "{question}"
        );
    }
    let moving = "SELECT sum(v) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
        FROM (VALUES (1, 1e100), (2, 1.0), (3, 0.5), (4, 0.25)) t(i, v) ORDER BY i";
    assert_eq!(answer(&session, moving).await.unwrap(), ["1e100", "1e100", "1.5", "0.75"]);
}

async fn session(threads: usize, batch_rows: usize) -> Session {
    let session = open("inference_views", Path::new("."));
    for (name, value) in [("target_partitions", threads), ("batch_size", batch_rows)] {
        answer(&session, &format!("SET datafusion.execution.{name} = {value}")).await.unwrap();
    }
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_do_not_depend_on_threads() {
    let (one, many) = (session(1, 8192).await, session(7, 16).await);
    let mut different = Vec::new();
    for view in one.library().unwrap() {
        let sql = format!("SELECT * FROM {}", view.name);
        let [mut one, mut many] = [answer(&one, &sql).await.unwrap(), answer(&many, &sql).await.unwrap()];
        one.sort_unstable();
        many.sort_unstable();
        if one != many {
            let first = one.iter().zip(&many).find(|(one, many)| one != many);
            different.push(format!("{}: {} and {} rows, {first:?}", view.name, one.len(), many.len()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

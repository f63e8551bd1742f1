//! A line that runs a whole model is shown by the model's modules.

use stallmap::library::queries;

use crate::craft::{TableChange, crafted};

/// Ops of one line with 63 % of all samples: in two layers, and in the gradient of the second.
const LAYERS: TableChange<'_> = (
    "op",
    "SELECT * REPLACE (
       CASE op_id WHEN 13 THEN 'model.0.1.layers.10.attention' WHEN 3 THEN 'model.0.layers.11.feed' END AS module_path,
       CASE op_id WHEN 6 THEN CAST(3 AS BIGINT UNSIGNED) END AS forward_op_id
     ) FROM op",
);

/// The rows of the bars, with thousandths of all.
async fn shares(change: &[TableChange<'_>]) -> Vec<String> {
    let every = "'setup', 'steady', 'end', 'once'";
    let lines = queries::verdict::LINES.text().replace("$top", "4").replace("$phases", every);
    let sql = format!(
        "SELECT kind, label, text, CAST(round(1000.0 * share) AS BIGINT) FROM ({lines}) ORDER BY share DESC"
    );
    crafted("graph_replay", change, &sql).await
}

#[tokio::test]
async fn a_line_with_most_samples_is_shown_by_module() {
    let others = [
        "line | graph_replay.py:29 score | NULL | 232",
        "line | graph_replay.py:28 score | NULL | 137",
        "line | graph_replay.py:50 captured | NULL | 1",
    ];
    let lines = shares(&[]).await;
    assert_eq!(lines[0], "line | graph_replay.py:27 score | NULL | 631");
    assert_eq!(lines[1..], others);
    let modules = shares(&[LAYERS]).await;
    assert_eq!(modules[0], "module | model.*.*.layers.*.attention | graph_replay.py:27 score | 394");
    // With the gradient: it counts for the module of its forward op.
    assert_eq!(modules[1], "module | model.*.layers.*.feed | graph_replay.py:27 score | 237");
    assert_eq!(modules[2..4], others[..2]);
}

#[tokio::test]
async fn one_module_says_no_more_than_its_line() {
    let one = "SELECT * REPLACE ('model' AS module_path) FROM op";
    assert_eq!(shares(&[("op", one)]).await, shares(&[]).await);
}

//! Filters of launches: one that chooses all of them gives the rows of the views.

use std::path::Path;

use stallmap::library::queries::filter as queries;
use stallmap::session::Session;

use crate::answer;

/// Views, and the columns by which the query of costs groups their launches.
const COSTS: [(&str, &str); 3] = [
    ("kernel_cost", "l.function_id, l.kernel"),
    ("line_cost", "l.line, l.forward_line"),
    ("op_cost", "l.op, l.phase"),
];
/// The columns of `object_cost` that commands read. Samples of replays are fractions, and their total is the sum of
/// differently rounded sums: shares may differ in their last digit.
const OBJECT: &str = "target, object_id, remainder, object, label, label_source, type, op, born_at, stalled_at, samples, \
    sample_weight, round(share, 12), memory_samples, memory_share, time_ns";

async fn check_equal(session: &Session, view: &str, columns: &str, body: &str) {
    let filtered = format!("SELECT {columns} FROM ({}) x", body.replace("$filter", "true"));
    let mut filtered = answer(session, &filtered).await.unwrap();
    filtered.sort();
    let mut whole = answer(session, &format!("SELECT {columns} FROM {view}")).await.unwrap();
    whole.sort();
    assert!(!whole.is_empty(), "{view}");
    assert_eq!(filtered, whole, "{view}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_all_launches_changes_nothing() {
    for capture in ["inference_views", "training_parts", "two_ranks", "blame_replays"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{capture}.stallmap"));
        let session = Session::open(&[(None, path)]).unwrap();
        for (view, keys) in COSTS {
            let columns = format!(
                "{}, launch_count, samples, round(share, 12), memory_samples, memory_share, time_ns",
                keys.replace("l.", "")
            );
            check_equal(&session, view, &columns, &queries::COSTS.body().replace("$keys", keys)).await;
        }
        check_equal(&session, "object_cost", OBJECT, &queries::OBJECTS.body()).await;
        check_equal(&session, "finding", "sentence", &queries::FINDINGS.body()).await;
        let share = queries::SHARE.body().replace("$filter", "true");
        let is_all = format!(
            "SELECT launches = all_launches AND kernels = all_kernels AND coalesce(share = 1.0, true) FROM ({share}) x"
        );
        assert_eq!(answer(&session, &is_all).await.unwrap(), ["true"], "{capture}");
    }
}

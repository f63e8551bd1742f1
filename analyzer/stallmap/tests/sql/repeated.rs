//! Two sampling runs of one program cost as much as one.

use crate::craft::crafted;

/// Run 2, the sampling run, again as run 3.
fn again(table: &str) -> (&str, String) {
    (
        table,
        format!(
            "SELECT * FROM {table} UNION ALL SELECT * REPLACE (3 AS run_id) FROM {table} WHERE run_id = 2"
        ),
    )
}

#[tokio::test]
async fn two_sampling_runs_are_not_added_up() {
    let changes = ["run", "device", "run_option", "launch_run", "pc_sample"].map(again);
    let changes: Vec<(&str, &str)> = changes.iter().map(|(table, sql)| (*table, sql.as_str())).collect();
    for sql in [
        "SELECT kernel, samples, memory_samples FROM kernel_cost ORDER BY kernel",
        "SELECT kernel_id, samples, round(time_ns, 6) FROM launch_measure ORDER BY kernel_id",
        "SELECT finding, subject, round(samples, 6) FROM finding ORDER BY finding, subject",
    ] {
        let once = crafted("inference_views", &[], sql).await;
        assert!(!once.is_empty(), "{sql}");
        assert_eq!(crafted("inference_views", &changes, sql).await, once, "{sql}");
    }
}

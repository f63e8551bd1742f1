//! Losses of several instruments, and samples of replays: counted once, under their names.

use crate::craft::crafted;

/// Launches that neither run saw, as a CUDA graph's.
const LOSSES: (&str, &str) = (
    "loss",
    "SELECT r.run_id, CAST(NULL AS BIGINT UNSIGNED) AS kernel_id, 'launch' AS kind, 'launched by a CUDA graph' AS reason, \
        3 AS lost_count, CAST(NULL AS VARCHAR) AS detail FROM run r WHERE r.run_id IN (1, 2)",
);

#[tokio::test]
async fn a_launch_that_two_instruments_lost_is_not_two_launches() {
    let lost = "SELECT item, count FROM coverage WHERE position = 60 ORDER BY item";
    assert_eq!(
        crafted("blame_truth", &[LOSSES], lost).await,
        ["lost under accesses: launch | 3.0", "lost under pc_samples: launch | 3.0"]
    );
}

#[tokio::test]
async fn samples_of_all_repeats_are_said_to_be_so() {
    let counted = "SELECT item FROM coverage WHERE position = 40";
    assert_eq!(crafted("blame_replays", &[], counted).await, ["samples collected, in all repeats"]);
    assert_eq!(crafted("blame_truth", &[], counted).await, ["samples collected"]);
}

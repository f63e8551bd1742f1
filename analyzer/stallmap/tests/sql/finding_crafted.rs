//! Findings of crafted captures: unlike work, needed casts and disjoint writes are no inefficiency.

use crate::craft::crafted;

const FIRST: &str = "SELECT count(*) FROM finding WHERE finding = 'slow_first_launch' AND kernel LIKE '%gather%'";
/// A sixteenth of the samples of the second `gather`.
const FEWER_SAMPLES: (&str, &str) = (
    "pc_sample",
    "SELECT * REPLACE (CASE WHEN kernel_id = 5 THEN samples / 16 ELSE samples END AS samples, \
        CASE WHEN kernel_id = 5 THEN samples_not_issued / 16 ELSE samples_not_issued END AS samples_not_issued) \
     FROM pc_sample WHERE kernel_id <> 5 OR samples >= 16",
);

#[tokio::test]
async fn a_first_launch_is_slow_only_compared_with_equal_work() {
    assert_eq!(crafted("known_truth", &[FEWER_SAMPLES], FIRST).await, ["1"]);
    let less = ("memory_access", "SELECT * FROM memory_access WHERE kernel_id <> 5 OR block = 0");
    assert_eq!(crafted("known_truth", &[FEWER_SAMPLES, less], FIRST).await, ["0"]);
}


//! Values of accesses: memory after a launch that is recorded, and memory that is not there.

use crate::craft::crafted;

/// Values that one launch writes, and the reason of unknown ones.
const WRITTEN: &str = "SELECT sum(value_count), sum(infinite_count), sum(unknown_count), max(unknown_reason) \
    FROM value_count WHERE kernel_id = 4 AND kind = 'write'";

#[tokio::test]
async fn recorded_memory_has_the_written_values() {
    assert_eq!(crafted("value_truth", &[], WRITTEN).await, ["4096 | 0 | 0 | NULL"]);
    // A page of the launch's input, all of it infinite, stands for what it writes.
    let pages = "SELECT p.*, CASE WHEN p.hash_after IS NOT NULL THEN r.content_id END AS written_content_id \
        FROM (SELECT * EXCEPT (written_content_id) FROM bundle_page) p \
        LEFT JOIN (SELECT kernel_id, min(content_id) AS content_id FROM bundle_page WHERE hash_after IS NULL GROUP BY 1) r \
          ON r.kernel_id = p.kernel_id";
    let other = crafted("value_truth", &[("bundle_page", pages)], WRITTEN).await;
    assert_eq!(other, ["4096 | 4096 | 0 | NULL"]);
}

#[tokio::test]
async fn redacted_memory_is_counted_and_has_no_values() {
    let contents = "SELECT content_id, hash, decode(repeat('00', 4096), 'hex') AS bytes FROM bundle_content";
    let reads = "SELECT DISTINCT value_count, unknown_reason FROM value_count \
        WHERE kind = 'read' AND kernel_id BETWEEN 1 AND 8";
    let found = crafted("value_truth", &[("bundle_content", contents)], reads).await;
    assert_eq!(found, ["0 | redacted"]);
}

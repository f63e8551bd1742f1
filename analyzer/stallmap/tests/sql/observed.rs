//! Absence is a fact only where every launch was observed completely.

use crate::craft::crafted;

/// The capture of `known_truth` with the accesses of `gather` (launches 4 and 5) only, and no copy into the buffer
/// that it reads.
const GATHER_ONLY: [(&str, &str); 3] = [
    ("memory_access", "SELECT * FROM memory_access WHERE kernel_id IN (4, 5)"),
    ("memcpy", "SELECT * FROM memcpy WHERE size_bytes < 268435456"),
    (
        "launch_run",
        "SELECT * REPLACE (recorded AND (kernel_id IN (4, 5) OR request_count IS NULL) AS recorded, \
            CASE WHEN kernel_id IN (4, 5) THEN request_count END AS request_count, \
            CASE WHEN kernel_id IN (4, 5) THEN lane_access_count END AS lane_access_count) FROM launch_run",
    ),
];

#[tokio::test]
async fn memory_is_unused_only_if_every_launch_was_observed() {
    let unused = "SELECT size_bytes FROM life_pattern WHERE pattern = 'unused' ORDER BY size_bytes";
    assert_eq!(crafted("known_truth", &[], unused).await, ["512"]);
    let claimed = crafted("known_truth", &GATHER_ONLY, unused).await;
    assert!(claimed.is_empty(), "{claimed:?}");
    let unknown =
        "SELECT count(*) FROM life_pattern WHERE pattern = 'use unknown' AND size_bytes = 268435456";
    assert_eq!(crafted("known_truth", &GATHER_ONLY, unknown).await, ["1"]);
}

/// The last launch of `blame_truth` but one copies `A` by an instruction that no instrument observes.
#[tokio::test]
async fn a_launch_with_unobserved_copies_may_be_the_last_use() {
    let late = "SELECT pattern FROM life_pattern WHERE size_bytes = 268435456 AND pattern IN ('late free', 'unused')";
    let freed = (
        "device_allocation",
        "SELECT * REPLACE (coalesce(free_ordinal, 13) AS free_ordinal) FROM device_allocation",
    );
    let claimed = crafted("blame_truth", &[freed], late).await;
    assert!(claimed.is_empty(), "{claimed:?}");
}

/// It reads `A` and the table of 512 bytes by bulk copies, whose addresses follow from pointers.
#[tokio::test]
async fn bulk_copies_use_memory() {
    let uses = "SELECT l.size_bytes, u.evidence, l.last_use_ordinal FROM object_use u \
        JOIN object_life l ON l.object_id = u.object_id JOIN launch_context k ON k.kernel_id = u.kernel_id \
        WHERE k.kernel = 'bulk_copies' AND u.evidence <> 'accesses' ORDER BY l.size_bytes";
    assert_eq!(crafted("blame_truth", &[], uses).await, ["512 | pointers | 13", "268435456 | pointers | 13"]);
}

#[tokio::test]
async fn bytes_are_uninitialized_only_if_every_launch_was_observed() {
    let claimed = "SELECT count(*) FROM tensor_touch WHERE uninitialized_bytes > 0";
    assert_eq!(crafted("transformer_step", &[], claimed).await, ["0"]);
    let known = "SELECT count(*) > 50 FROM tensor_touch WHERE uninitialized_bytes = 0";
    assert_eq!(crafted("transformer_step", &[], known).await, ["true"]);
}

/// Two launches with tensor maps read storage 1 of `transformer_step` too.
#[tokio::test]
async fn memory_that_other_launches_may_read_is_not_handed_over() {
    let shared = "SELECT count(*) FROM handed_over h WHERE EXISTS (SELECT 1 FROM tensor_map_tensor t \
        WHERE t.storage_id = h.storage_id AND t.kernel_id NOT IN (h.producer_kernel_id, h.consumer_kernel_id))";
    assert_eq!(crafted("transformer_step", &[], shared).await, ["0"]);
    let copied = "SELECT count(*) FROM handed_over h JOIN object_use u ON u.storage_id = h.storage_id \
        WHERE u.kernel_id IS NULL";
    assert_eq!(crafted("training_parts", &[], copied).await, ["0"]);
}

/// Tensors 4 and 7 of `finding_truth` are those of `double_constant`, which has no op.
#[tokio::test]
async fn double_precision_is_expected_of_double_tensors() {
    let double = "SELECT count(*) FROM finding_code WHERE finding = 'float64'";
    assert_eq!(crafted("finding_truth", &[], double).await, ["1"]);
    let typed = (
        "tensor",
        "SELECT * REPLACE (CASE WHEN tensor_id IN (4, 7) THEN 'float64' ELSE dtype END AS dtype, \
            CASE WHEN tensor_id IN (4, 7) THEN 8 ELSE element_bytes END AS element_bytes, \
            CASE WHEN tensor_id IN (4, 7) THEN make_array(33792) ELSE sizes END AS sizes) FROM tensor",
    );
    assert_eq!(crafted("finding_truth", &[typed], double).await, ["0"]);
    let none = ("tensor", "SELECT * FROM tensor WHERE false");
    let unused = ("op_tensor", "SELECT * FROM op_tensor WHERE false");
    // Without tensors, types of the kernel's parameters decide.
    assert_eq!(crafted("finding_truth", &[none, unused], double).await, ["1"]);
}

/// The accesses of every fourth block of `blame_truth`, as with `--blocks 4`: of `either`, those that load from `A`.
const FOURTH_BLOCKS: [(&str, &str); 2] = [
    ("memory_access", "SELECT * FROM memory_access WHERE block % 4 = 0"),
    (
        "launch_run",
        "SELECT * REPLACE (CASE WHEN request_count IS NOT NULL THEN 3 * request_count END AS lost_request_count) \
         FROM launch_run",
    ),
];

#[tokio::test]
async fn an_instruction_is_not_executed_only_if_no_request_is_missing() {
    let producers = "SELECT count(DISTINCT p.producer_pc), bool_or(p.confidence = 'refined') FROM producer p \
        JOIN function f ON f.function_id = p.function_id WHERE f.name = 'either' AND p.producer_space = 'global' \
        AND p.stall_reason = 'long_scoreboard'";
    let whole = crafted("blame_truth", &[], producers).await;
    assert_eq!(crafted("blame_truth", &FOURTH_BLOCKS, producers).await, whole);
}

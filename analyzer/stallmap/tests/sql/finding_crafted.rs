//! Findings of crafted captures: unlike work, needed casts and disjoint writes are no inefficiency.

use crate::craft::crafted;

const FIRST: &str =
    "SELECT count(*) FROM finding WHERE finding = 'slow_first_launch' AND kernel LIKE '%gather%'";
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

/// Casts of one tensor by ops 21, 22 and 23. Op 22 becomes an update of that tensor, by launch 9.
const UPDATE: [(&str, &str); 3] = [
    ("op", "SELECT * REPLACE (CASE op_id WHEN 22 THEN 'aten::mul_.Tensor' ELSE name END AS name) FROM op"),
    (
        "op_tensor",
        "SELECT * REPLACE (CASE op_id WHEN 22 THEN 'inout' ELSE direction END AS direction) FROM op_tensor \
         WHERE op_id <> 22 OR direction = 'in'",
    ),
    (
        "memory_access",
        "SELECT a.* REPLACE (CASE WHEN a.kernel_id = 9 AND a.kind = 'write' \
            THEN a.address - f.address + t.address ELSE a.address END AS address) \
         FROM memory_access a CROSS JOIN (SELECT address FROM storage WHERE storage_id = 16) f \
         CROSS JOIN (SELECT address FROM storage WHERE storage_id = 5) t",
    ),
];

#[tokio::test]
async fn a_cast_after_an_update_is_needed() {
    let casts = "SELECT fact FROM finding_copy WHERE finding = 'repeated_cast'";
    let recorded = crafted("finding_truth", &[], casts).await;
    assert!(recorded.len() == 1 && recorded[0].starts_with("3 copies"), "{recorded:?}");
    assert!(crafted("finding_truth", &UPDATE, casts).await.is_empty());
    // Without accesses, the op's arguments show the update.
    let unseen = "SELECT * REPLACE (CAST(NULL AS BIGINT UNSIGNED) AS request_count) FROM launch_run";
    let none = ("memory_access", "SELECT * FROM memory_access WHERE false");
    let changes = [UPDATE[0], UPDATE[1], none, ("launch_run", unseen)];
    assert!(crafted("finding_truth", &changes, casts).await.is_empty());
}

#[tokio::test]
async fn a_write_is_dead_only_if_the_next_one_covers_its_addresses() {
    let dead = "SELECT kernel_id, next_kernel_id, size_bytes, is_certain FROM dead_write";
    let writes = |distance: &str| {
        format!(
            "SELECT a.* REPLACE (CASE WHEN a.kind <> 'write' OR a.kernel_id NOT IN (3, 4) THEN a.address \
                ELSE a.address - f.address + t.address + CASE a.kernel_id WHEN 4 THEN {distance} ELSE 0 END END \
                AS address) \
             FROM memory_access a JOIN storage f ON f.storage_id = CASE a.kernel_id WHEN 3 THEN 9 ELSE 10 END \
             CROSS JOIN (SELECT address FROM storage WHERE storage_id = 5) t"
        )
    };
    let again = crafted("finding_truth", &[("memory_access", &writes("0"))], dead).await;
    assert_eq!(again, ["3 | 4 | 270336 | false"]);
    let behind = crafted("finding_truth", &[("memory_access", &writes("1081344"))], dead).await;
    assert!(behind.is_empty(), "{behind:?}");
}

#[tokio::test]
async fn tiles_are_not_scattered() {
    let scattered = "SELECT count(*) FROM finding_access WHERE finding = 'scattered_access'";
    assert_eq!(crafted("training_parts", &[], scattered).await, ["0"]);
    let other = "SELECT count(*) > 0, sum(CASE WHEN c.class = p.class THEN 0 ELSE 1 END) FROM access_cost c \
        JOIN access_pattern p ON p.kernel_id = c.kernel_id AND p.function_id = c.function_id AND p.pc = c.pc";
    assert_eq!(crafted("training_parts", &[], other).await, ["true | 0"]);
}

/// Both loads of launch 1 with a stride read the even words of a range: together they leave out the odd ones.
#[tokio::test]
async fn loads_of_the_same_words_do_not_fill_a_stride() {
    let even = (
        "memory_access",
        "SELECT * REPLACE (CASE WHEN is_even THEN 8 ELSE stride_bytes END AS stride_bytes, \
            CASE WHEN is_even THEN 252 ELSE span_bytes END AS span_bytes, \
            CASE WHEN is_even THEN least_address + 256 * turn ELSE address END AS address) \
         FROM (SELECT *, kernel_id = 1 AND kind = 'read' AND stride_bytes = 2048 AS is_even, \
            min(address) OVER (PARTITION BY kernel_id, function_id, kind, stride_bytes) AS least_address, \
            row_number() OVER (PARTITION BY kernel_id, function_id, pc ORDER BY sequence) - 1 AS turn \
            FROM memory_access)",
    );
    let found = "SELECT finding FROM finding_access WHERE finding LIKE 'uncoalesced%'";
    assert_eq!(crafted("inference_views", &[], found).await, ["uncoalesced_view"]);
    assert_eq!(crafted("inference_views", &[even], found).await, ["uncoalesced_view"]);
}

#[tokio::test]
async fn loads_that_nothing_waits_for_cost_nothing() {
    let unsampled = "SELECT * REPLACE (0 * samples AS samples, 0 * samples_not_issued AS samples_not_issued) FROM pc_sample";
    let words = "SELECT count(sentence || fact) FROM finding WHERE finding = 'redundant_load'";
    assert_ne!(crafted("inference_views", &[], words).await, ["0"]);
    assert_eq!(crafted("inference_views", &[("pc_sample", unsampled)], words).await, ["0"]);
}

#[tokio::test]
async fn savings_are_upper_bounds() {
    let gathered = "SELECT saving_samples = samples FROM finding_access WHERE finding = 'gather_latency'";
    assert_eq!(crafted("inference_views", &[], gathered).await, ["true"]);
    // More warps hide the fixed latencies of the one kernel with a low occupancy, too.
    let hidden = "SELECT max(f.saving_samples) > sum(c.memory_samples * (1 - o.occupancy)) FROM finding_occupancy f \
        JOIN launch_context l ON l.kernel = f.kernel JOIN sample_cost c ON c.kernel_id = l.kernel_id \
        JOIN launch_occupancy o ON o.kernel_id = l.kernel_id WHERE f.finding = 'low_occupancy'";
    assert_eq!(crafted("finding_truth", &[], hidden).await, ["true"]);
}

#[tokio::test]
async fn few_samples_are_no_evidence() {
    let weak = "SELECT count(*) FROM finding WHERE samples > 0 AND samples < 10";
    let known = "SELECT count(*) > 0 FROM finding WHERE samples >= 10";
    for name in ["access_truth", "finding_truth"] {
        assert_eq!(crafted(name, &[], weak).await, ["0"], "{name}");
        assert_eq!(crafted(name, &[], known).await, ["true"], "{name}");
    }
}

/// The two calls of `embedding` are a cold one and another.
#[tokio::test]
async fn a_cold_call_does_not_represent_two() {
    let calls = "SELECT call_count, cpu_ns < 20000000 FROM cpu_latency WHERE op = 'aten::embedding.default' \
        AND phase = 'forward'";
    assert_eq!(crafted("transformer_step", &[], calls).await, ["2 | true"]);
}

/// `column_sums` is compiled in the run with accesses, and found in the compiler's cache in the run with samples.
#[tokio::test]
async fn a_call_counts_in_the_run_where_it_was_shortest() {
    let calls = "SELECT call_count, cpu_ns < 5000000 FROM cpu_latency WHERE op = 'column_sums'";
    assert_eq!(crafted("training_parts", &[], calls).await, ["1 | true"]);
}

#[tokio::test]
async fn a_bound_needs_known_operations() {
    let unknown = "SELECT count(*) > 0, count(bound) FROM roofline WHERE flops IS NULL";
    assert_eq!(crafted("training_parts", &[], unknown).await, ["true | 0"]);
}

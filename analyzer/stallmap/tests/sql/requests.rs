//! Tables that sum up requests by instruction have the sums that SQL computes over all requests.

use std::path::Path;

use stallmap::session::Session;

use crate::answer;

/// Captures with requests of every class, of global and shared memory.
const CAPTURES: [&str; 3] = ["access_truth", "finding_truth", "transformer_step"];

const CLASSES: &str = "SELECT kernel_id, function_id, pc, kind, space, class, max(access_bytes), count(*), \
    CAST(sum(lane_count) AS BIGINT), CAST(sum(sectors) AS BIGINT), CAST(sum(line_count) AS BIGINT), \
    CAST(sum(unique_bytes) AS BIGINT), CAST(sum(ideal_sectors) AS BIGINT), \
    sum(CASE WHEN is_misaligned THEN 1 ELSE 0 END) \
    FROM access_shape GROUP BY kernel_id, function_id, pc, kind, space, class";

const STRIDES: &str = "WITH strided AS ( \
      SELECT kernel_id, function_id, pc, abs(stride_bytes) AS stride_bytes, access_bytes, \
        address % nullif(CAST(abs(stride_bytes) AS BIGINT UNSIGNED), 0) AS stride_offset, count(*) AS requests, \
        sum(CASE WHEN abs(stride_bytes) = access_bytes AND address % 32 <> 0 THEN 1 ELSE 0 END) AS misaligned \
      FROM memory_access \
      GROUP BY kernel_id, function_id, pc, abs(stride_bytes), access_bytes, \
        address % nullif(CAST(abs(stride_bytes) AS BIGINT UNSIGNED), 0) \
    ), ranked AS ( \
      SELECT *, row_number() OVER ( \
          PARTITION BY kernel_id, function_id, pc \
          ORDER BY requests DESC, stride_bytes NULLS LAST, stride_offset NULLS LAST, access_bytes \
        ) AS turn, sum(requests) OVER (PARTITION BY kernel_id, function_id, pc) AS all_requests, \
        sum(misaligned) OVER (PARTITION BY kernel_id, function_id, pc) AS all_misaligned \
      FROM strided \
    ) SELECT kernel_id, function_id, pc, stride_bytes, access_bytes, stride_offset, all_requests, all_misaligned \
    FROM ranked WHERE turn = 1";

/// The sorted rows of two statements.
async fn compare(session: &Session, one: &str, other: &str) -> usize {
    let (mut one, mut other) = (answer(session, one).await.unwrap(), answer(session, other).await.unwrap());
    one.sort();
    other.sort();
    assert_eq!(one, other);
    one.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_requests_are_those_of_sql() {
    for name in CAPTURES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{name}.stallmap"));
        let session = Session::open(&[(None, path)]).unwrap();
        assert!(compare(&session, "SELECT * FROM access_class", CLASSES).await > 20, "{name}");
        assert!(compare(&session, "SELECT * FROM instruction_stride", STRIDES).await > 20, "{name}");
    }
}

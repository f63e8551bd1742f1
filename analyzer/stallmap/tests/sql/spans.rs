//! Lanes counted by the spans of requests, against lanes counted one by one.

use std::path::Path;

use stallmap::session::Session;

use crate::answer;

/// Requests of these captures meet several tensors, or the gaps of strided views.
#[tokio::test]
async fn spans_count_the_lanes_that_their_addresses_count() {
    for name in ["transformer_step", "finding_truth", "inference_views"] {
        let key = "kernel_id, function_id, pc, kind, space, target, storage_id, tensor_id, allocation_id";
        let counts = "sum(request_count) AS requests, sum(lane_count) AS lanes";
        let count = |filter: &str| {
            format!("SELECT {key}, {counts} FROM pc_tensor_part {filter} GROUP BY {key} ORDER BY {key}")
        };
        let capture =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(format!("{name}.stallmap"));
        let session = Session::open(&[(None, capture)]).unwrap();
        let by_spans = answer(&session, &count("")).await.unwrap();
        // With sectors, every lane is looked at.
        let by_lanes = answer(&session, &count("WHERE sectors >= 0")).await.unwrap();
        assert_eq!(by_spans, by_lanes, "{name}");
        assert!(!by_spans.is_empty());
    }
}

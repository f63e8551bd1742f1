//! Words that are taken from more rows than a dictionary of 8 bits has keys.

use std::path::Path;

use stallmap::session::Session;

use crate::answer;

/// Each query gives the same with words as with their text.
#[tokio::test]
async fn words_of_single_rows_are_text() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/transformer_step.stallmap");
    let session = Session::open(&[(None, capture)]).unwrap();
    let groups = "FROM pc_sample GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let order = "ORDER BY kernel_id, function_id, pc, kind, space, target, request_count";
    for query in [
        format!("SELECT kernel_id, function_id, pc, first_value(# ORDER BY samples, #) {groups}"),
        format!("SELECT kernel_id, function_id, pc, any_value(# ORDER BY #) FILTER (WHERE pc > 64) {groups}"),
        "SELECT DISTINCT ON (kernel_id, function_id, pc) kernel_id, pc, # FROM pc_sample ORDER BY kernel_id, function_id, pc, stall_reason".to_owned(),
        "SELECT kernel_id, lag(#) OVER (ORDER BY kernel_id, function_id, pc, stall_reason) FROM pc_sample ORDER BY kernel_id, function_id, pc, stall_reason".to_owned(),
        format!("SELECT kernel_id, first_value(#) OVER (PARTITION BY kernel_id, function_id, pc {order}) FROM pc_tensor {order}")
            .replace('#', "space"),
    ] {
        let word = answer(&session, &query.replace('#', "stall_reason")).await.unwrap();
        let text = query.replace('#', "CAST(stall_reason AS VARCHAR)").replace("(space)", "(CAST(space AS VARCHAR))");
        assert_eq!(word, answer(&session, &text).await.unwrap(), "{query}");
        assert!(word.len() > 256, "{query}");
    }
}

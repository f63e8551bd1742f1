//! Hashes that output shows in hexadecimal are read back by SQL.

use std::path::Path;

use stallmap::session::Session;

use crate::answer;

/// Text in hexadecimal is the number that output shows so, in tables, views, lists and ranges.
#[tokio::test]
async fn hashes_are_read_back_as_text() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inference_views.stallmap");
    let session = Session::open(&[(None, capture)]).unwrap();
    let id = "SELECT hex(function_id), function_id FROM launch WHERE kernel_id = 0";
    let ids = answer(&session, id).await.unwrap().remove(0);
    let [hex, number] = ids.split(" | ").collect::<Vec<_>>().try_into().unwrap();
    for (table, condition) in [
        ("launch", format!("function_id = '{hex}'")),
        ("launch", format!("'{hex}' = function_id")),
        ("kernel_cost", format!("function_id = '{hex}'")),
        ("launch", format!("function_id IN ('0x1', '{hex}')")),
        ("launch", format!("function_id BETWEEN '{hex}' AND '{hex}'")),
        ("pc_sample", format!("function_id = '{hex}' AND pc >= '0x10'")),
        ("launch", format!("kernel_id IN (SELECT kernel_id FROM launch WHERE function_id = '{hex}')")),
        ("launch l JOIN function f ON l.function_id = f.function_id", format!("f.function_id = '{hex}'")),
    ] {
        let count = |condition: &str| format!("SELECT count(*) FROM {table} WHERE {condition}");
        let as_number = condition.replace(&format!("'{hex}'"), number);
        let found = answer(&session, &count(&condition)).await.unwrap();
        assert_eq!(
            found,
            answer(&session, &count(&as_number.replace("'0x10'", "16").replace("'0x1'", "1"))).await.unwrap()
        );
        assert_ne!(found, ["0"], "{condition}");
    }
    let named = format!("SELECT function_id = '{hex}' FROM launch ORDER BY kernel_id LIMIT 1");
    assert_eq!(answer(&session, &named).await.unwrap(), ["true"]);
    assert_eq!(answer(&session, "SELECT count(*) FROM launch WHERE '0xg' = '0xg'").await.unwrap(), ["3"]);
}

//! A view that is filtered by one id has the rows that it has without the filter.

use std::collections::BTreeMap;
use std::path::Path;

use stallmap::session::Session;

use crate::answer;

/// Views whose tables reduce their work by such a filter, with the column.
const VIEWS: [(&str, &str); 4] = [
    ("tensor_touch", "tensor_id"),
    ("target_touch", "tensor_id"),
    ("tensor_cell", "tensor_id"),
    ("pc_tensor", "tensor_id"),
];

fn open(name: &str) -> Session {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{name}.stallmap"));
    Session::open(&[(None, path)]).unwrap()
}

/// Compares each id's rows. Returns the number of ids.
async fn compare(session: &Session, view: &str, column: &str) -> usize {
    let all = format!("SELECT {column} AS id, * FROM {view} WHERE {column} IS NOT NULL");
    let mut expected = BTreeMap::<String, Vec<String>>::new();
    for row in answer(session, &all).await.unwrap() {
        let (id, row) = row.split_once(" | ").unwrap();
        expected.entry(id.to_owned()).or_default().push(row.to_owned());
    }
    for (id, rows) in &mut expected {
        let mut filtered =
            answer(session, &format!("SELECT * FROM {view} WHERE {column} = {id}")).await.unwrap();
        filtered.sort();
        rows.sort();
        assert_eq!(filtered, *rows, "{view} of {column} {id}");
    }
    expected.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_by_an_id_changes_no_row() {
    let session = open("finding_truth");
    for (view, column) in VIEWS {
        assert!(compare(&session, view, column).await > 1, "{view} has rows");
    }
}

/// A copy reads a tensor after its last launch and before its memory is used again: both at one ordinal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_belong_to_the_tensor_of_their_time() {
    assert!(compare(&open("training_parts"), "tensor_touch", "tensor_id").await > 50);
}

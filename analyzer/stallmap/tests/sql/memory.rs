//! Statements that share little memory.

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;

use crate::session::tiny_folder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_lack_memory_together_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    // Operators may hold half of it. One of these joins holds more than half of that.
    let resources = SessionResources { memory_bytes: Some(32 << 20), ..SessionResources::NONE };
    let session = Session::open_with(&[(None, tiny_folder(folder.path()))], &resources).unwrap();
    let sql = "SELECT count(*) AS n FROM generate_series(1, 400000) a \
        JOIN generate_series(1, 400000) b ON a.value = b.value";
    let answers = session.rows_of_all(&[sql; 6]).await.unwrap();
    let counts: Vec<i64> =
        answers.iter().map(|rows| rows[0].column(0).as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(counts, [400_000; 6]);
}

//! Rows of views that are held as a file in memory: the same as those that are held as batches.

use std::path::Path;

use stallmap::code::ResultCache;
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;

use crate::answer;

const QUERIES: [&str; 5] = [
    "SELECT * FROM launch_charge",
    "SELECT * FROM tensor_stall_cost",
    "SELECT * FROM finding",
    "SELECT * FROM coverage",
    "SELECT * FROM object_cost",
];

/// The sorted rows of all queries.
async fn answers(path: &Path, cache: &ResultCache, most_cells: usize) -> Vec<Vec<String>> {
    let resources = SessionResources { cache: cache.clone(), most_cells, ..SessionResources::NONE };
    let session = Session::open_with(&[(None, path.to_owned())], &resources).unwrap();
    session.keep_views_of(&QUERIES).await.unwrap();
    let mut all = Vec::new();
    for sql in QUERIES {
        let mut rows = answer(&session, sql).await.unwrap();
        rows.sort();
        all.push(rows);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same_in_batches_and_in_files() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    for name in ["transformer_step", "blame_truth"] {
        let path = testdata.join(format!("{name}.stallmap"));
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::at(folder.path().to_owned());
        let expected = answers(&path, &ResultCache::NONE, usize::MAX).await;
        assert!(expected.iter().all(|rows| !rows.is_empty()), "{name}");
        for (cache, most_cells, case) in [
            (&ResultCache::NONE, 0, "computed into files"),
            (&cache, 0, "the same, which are stored"),
            (&cache, 0, "stored files"),
            (&cache, usize::MAX, "stored files, decoded"),
        ] {
            assert!(answers(&path, cache, most_cells).await == expected, "{name}: {case}");
        }
    }
}

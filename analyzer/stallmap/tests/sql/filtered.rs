//! A view that is filtered by one id has the rows that it has without the filter.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

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

/// Tables that compute each launch by itself.
const BY_LAUNCH: [&str; 9] = [
    "launch_cell_part",
    "pc_cell_part",
    "block_footprint",
    "sector_sharing",
    "reuse_distance",
    "instruction_reuse",
    "load_redundancy",
    "access_class",
    "instruction_stride",
];

/// Every third launch with accesses, in a form that no rule of the planner turns into a plain filter.
const FEW: &str = "(SELECT kernel_id FROM (SELECT kernel_id, row_number() OVER (ORDER BY kernel_id) AS place \
    FROM (SELECT DISTINCT kernel_id FROM memory_access)) WHERE place % 3 = 1)";

/// Sorted rows of a query, and the plan's lines with scans of accesses.
async fn rows_and_scans(session: &Session, sql: &str) -> (Vec<String>, Vec<String>) {
    let mut rows = answer(session, sql).await.unwrap();
    rows.sort();
    let plan = answer(session, &format!("EXPLAIN {sql}")).await.unwrap().join("\n");
    let scans = plan.lines().filter(|line| line.contains("tables/memory_access.parquet"));
    (rows, scans.map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analyses_of_the_launches_of_a_join_are_those_of_all() {
    let session = open("finding_truth");
    for table in BY_LAUNCH {
        let all = format!(
            "SELECT t.* FROM {table} t WHERE EXISTS (SELECT 1 FROM {FEW} f WHERE f.kernel_id = t.kernel_id + 0)"
        );
        let (expected, _) = rows_and_scans(&session, &all).await;
        for joined in [
            format!("SELECT t.* FROM {FEW} f JOIN {table} t ON t.kernel_id = f.kernel_id"),
            format!(
                "SELECT t.* FROM {FEW} f JOIN (SELECT t.* FROM {table} t LEFT JOIN launch l ON l.kernel_id = t.kernel_id) t \
                 ON t.kernel_id = f.kernel_id"
            ),
        ] {
            let (rows, scans) = rows_and_scans(&session, &joined).await;
            assert!(!rows.is_empty() && rows == expected, "{joined}");
            let narrowed = scans.iter().filter(|scan| scan.contains("DynamicFilter")).count();
            assert!(narrowed > 0, "{joined} reads all launches: {scans:#?}");
        }
    }
}

/// A join above that has rows in one partition reads no other partition of the join that selects launches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_which_one_partition_runs_ends() {
    let session = open("finding_truth");
    let selected = "SELECT c.kernel_id FROM launch l JOIN (SELECT kernel_id FROM access_class GROUP BY kernel_id) c \
        ON c.kernel_id = l.kernel_id";
    let last = "SELECT kernel_id FROM reuse_distance GROUP BY kernel_id \
        HAVING max(kernel_id) = (SELECT max(kernel_id) FROM memory_access)";
    let joined =
        format!("SELECT r.kernel_id FROM ({last}) r JOIN ({selected}) q ON q.kernel_id = r.kernel_id");
    let rows = tokio::time::timeout(Duration::from_mins(2), answer(&session, &joined)).await;
    assert_eq!(rows.unwrap().unwrap(), answer(&session, last).await.unwrap());
}

/// A join that keeps all rows of the analysis reads all launches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outer_join_keeps_all_launches() {
    let session = open("finding_truth");
    let joined =
        format!("SELECT t.kernel_id FROM {FEW} f RIGHT JOIN reuse_distance t ON t.kernel_id = f.kernel_id");
    let (rows, scans) = rows_and_scans(&session, &joined).await;
    let (all, _) = rows_and_scans(&session, "SELECT kernel_id FROM reuse_distance").await;
    assert_eq!(rows, all);
    assert!(!scans.iter().any(|scan| scan.contains("DynamicFilter")), "{scans:#?}");
}

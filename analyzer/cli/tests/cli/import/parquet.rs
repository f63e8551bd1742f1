//! Reports of Nsight Systems as folders of Parquet: the same capture as from SQLite.

use std::fs;

use super::{GRAPHS_NS, NSYS, number, python, rows};
use crate::command::CommandFolder;

/// The tables of the SQLite report as Parquet, with the types that writers choose: texts in dictionaries, small integers.
const FOLDER: &str = r#"
import os, pyarrow as pa, pyarrow.parquet as pq
os.mkdir("r")
for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
    cursor = base.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    columns = list(zip(*cursor.fetchall())) or [[] for _ in names]
    arrays = [pa.array(column) for column in columns]
    arrays = [array.dictionary_encode() if array.type == pa.string() else array for array in arrays]
    arrays = [array.cast(pa.int32()) if name in ("deviceId", "gridX") else array for name, array in zip(names, arrays)]
    pq.write_table(pa.table(arrays, names), f"r/{table}.parquet")
open("r/notes.txt", "w").write("not a table")
"#;

#[test]
fn a_folder_gives_the_capture_of_the_database() {
    let place = CommandFolder::new();
    let total: u64 = python(&place, &format!("{NSYS}{FOLDER}")).parse().unwrap();
    place.run(&["import", "r.sqlite", "-o", "a.stallmap"]).expect_ok();
    place.run(&["import", "r", "-o", "b.stallmap"]).expect_ok();
    place.run(&["check", "b.stallmap"]).expect_ok();
    let sum = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(number(&place, "b.stallmap", sum), total + GRAPHS_NS);
    for table in ["gpu_activity", "launch", "launch_run", "op", "loss", "run", "function"] {
        let all = format!("SELECT * FROM {table}");
        let found = rows(&place, "a.stallmap", &all);
        assert!(!found.is_empty() && found == rows(&place, "b.stallmap", &all), "{table}");
    }
    let bytes = fs::read(place.path("b.stallmap")).unwrap();
    let secret = b"planted-secret".as_slice();
    assert!(!bytes.windows(secret.len()).any(|part| part == secret));
}

#[test]
fn broken_folders_are_errors() {
    let place = CommandFolder::new();
    python(&place, &format!("{NSYS}{FOLDER}"));
    let table = place.path("r/CUPTI_ACTIVITY_KIND_KERNEL.parquet");
    let whole = fs::read(&table).unwrap();
    for length in [0, 3, 4, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        fs::write(&table, &whole[..length]).unwrap();
        place.run(&["import", "r", "-o", "x.stallmap"]).expect_error(5);
    }
    // A byte of the pages or of the footer changes: an error or other values, never a panic.
    for at in (4..whole.len()).step_by(151) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&table, bytes).unwrap();
        let ran = place.run(&["import", "r", "-o", &format!("{at}.stallmap")]);
        assert!(matches!(ran.code, Some(0 | 5)), "{at}: {:?} {}", ran.code, ran.stderr);
    }
    fs::create_dir(place.path("empty")).unwrap();
    place.run(&["import", "empty", "-o", "x.stallmap"]).expect_error(5);
}

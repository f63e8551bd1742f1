//! Reading an unpacked capture with DuckDB, polars and pyarrow.
//!
//! The Python that has them is `STALLMAP_TEST_PYTHON`, or else `python3`; without them the test says so and passes.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use stallmap_schema::capture::reader::CaptureReader;
use stallmap_write::CaptureForm;
use stallmap_write::pack::unpack;

use crate::tiny;

#[test]
fn other_tools_read_the_same_values() {
    let python = std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let has_readers = Command::new(&python).args(["-c", "import duckdb, polars, pyarrow"]).output();
    if !has_readers.is_ok_and(|output| output.status.success()) {
        let line =
            b"skipped 1 test: no DuckDB, polars and pyarrow: set STALLMAP_TEST_PYTHON to a Python that has them\n";
        // Past the test harness, which hides the output of tests that pass.
        std::io::stderr().write_all(line).unwrap();
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut captures = vec![folder.path().join("tiny")];
    tiny::write(&captures[0], CaptureForm::Folder).unwrap();
    let recorded = std::fs::read_dir(root.join("testdata")).unwrap().map(|entry| entry.unwrap().path());
    for capture in recorded.filter(|path| path.extension().is_some_and(|extension| extension == "stallmap")) {
        let unpacked = folder.path().join(capture.file_stem().unwrap());
        unpack(&CaptureReader::open(&capture).unwrap(), &unpacked).unwrap();
        captures.push(unpacked);
    }
    let output =
        Command::new(&python).arg(root.join("scripts/read-elsewhere.py")).args(&captures).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let expected =
        format!("{} capture(s): DuckDB, polars and pyarrow agree on every column\n", captures.len());
    assert_eq!(stdout, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

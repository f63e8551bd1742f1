//! Captures of format 1 give the answers that their twins of format 2 give: their numbers change while they are read.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use stallmap::redact;
use stallmap::session::Session;
use stallmap_check::check;
use stallmap_schema::capture::identity::CaptureIdentity;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableDef;
use stallmap_schema::tables;
use stallmap_subset::{SubsetSelection, pack_part};
use stallmap_write::CaptureForm;
use stallmap_write::pack::{pack_opened, unpack_opened};
use stallmap_write::rewrite::{CaptureRewrite, TableFate, rewrite};

use crate::answer;

/// Captures that are bundled in both formats: with launches of one run and of several, ops, bundles and replays.
const TWINS: [&str; 3] = ["inference_views", "blame_replays", "two_ranks"];

/// Comparisons that scans answer by statistics, by rows, or not at all.
const FILTERS: [&str; 15] = [
    "launch WHERE kernel_id = 1",
    "launch WHERE kernel_id <> 1",
    "launch WHERE kernel_id IN (0, 2, 31, 1000)",
    "launch WHERE kernel_id NOT IN (0, 2, 31)",
    "launch WHERE kernel_id BETWEEN 1 AND 30",
    "launch WHERE kernel_id > 29",
    "launch WHERE kernel_id + 0 = 1",
    "launch WHERE kernel_id = 1000000",
    "op WHERE op_id >= 20 AND op_id < 100",
    "op WHERE parent_op_id = 1 OR forward_op_id IS NOT NULL",
    "pc_sample WHERE kernel_id = 2 AND samples > 1",
    "memory_access WHERE kernel_id = 1",
    "device_allocation WHERE allocation_id = 203",
    "tensor WHERE base_tensor_id IS NULL AND tensor_id < 40",
    "bundle_page WHERE content_id = 7",
];

/// Views and derived tables, which read captured tables in their own ways.
const DERIVED: [&str; 8] = [
    "launch_context",
    "tensor_context",
    "tensor_cost",
    "pc_tensor_share",
    "target_context",
    "rank_cost",
    "launch_counter",
    "access_tensor WHERE kernel_id = 1",
];

/// A capture of format 1, and its twin without the text of source lines, which was added to it.
fn twins(name: &str, folder: &Path) -> [PathBuf; 2] {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let [old, new] = ["format_1/", ""].map(|format| testdata.join(format!("{format}{name}.stallmap")));
    let twin = folder.join(format!("{name}.twin"));
    rewrite(&CaptureReader::open(&new).unwrap(), &twin, CaptureForm::File, &mut WithoutText).unwrap();
    [old, twin]
}

struct WithoutText;

impl CaptureRewrite for WithoutText {
    fn fate(&self, table: &str) -> TableFate {
        if table == "source_line" { TableFate::Emptied } else { TableFate::Copied }
    }

    fn change(&mut self, _: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        Ok(batch.clone())
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captures_of_format_1_give_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    for name in TWINS {
        let [old, new] = twins(name, folder.path()).map(|path| Session::open(&[(None, path)]).unwrap());
        assert_eq!([&old, &new].map(|session| session.captures()[0].reader.manifest().format.major), [1, 2]);
        let whole = tables::ALL.iter().map(|table| table.name);
        for rows in whole.chain(FILTERS).chain(DERIVED) {
            let sql = format!("SELECT * FROM {rows}");
            let (old, new) = (answer(&old, &sql).await, answer(&new, &sql).await);
            let [mut old, mut new] = [old, new].map(|rows| rows.unwrap());
            // Engines of two threads may give the rows of a view in any order.
            old.sort_unstable();
            new.sort_unstable();
            assert!(old == new, "{name}: {sql}: {:?}", old.iter().zip(&new).find(|(old, new)| old != new));
        }
        let ends = "SELECT min(kernel_id), max(kernel_id), count(DISTINCT kernel_id) FROM launch";
        assert_eq!(answer(&old, ends).await, answer(&new, ends).await);
    }
}

#[test]
fn captures_of_format_1_become_their_twins() {
    let folder = tempfile::tempdir().unwrap();
    for name in TWINS {
        let [old, new] = twins(name, folder.path()).map(|path| CaptureReader::open(&path).unwrap());
        assert_eq!(check(&old), [], "{name}");
        let identity = CaptureIdentity::from_capture(&new).unwrap();
        assert_eq!(
            CaptureIdentity::from_capture(&old).unwrap(),
            identity,
            "{name}: its number is of what it holds"
        );
        let (file, unpacked) = (folder.path().join(format!("{name}.stallmap")), folder.path().join(name));
        pack_opened(&old, &file).unwrap();
        unpack_opened(&old, &unpacked).unwrap();
        for written in [file, unpacked] {
            let written = CaptureReader::open(&written).unwrap();
            assert_eq!(written.manifest().format.major, 2);
            assert_eq!(written.manifest().created_ns, old.manifest().created_ns);
            assert_eq!(check(&written), []);
            assert_eq!(CaptureIdentity::from_capture(&written).unwrap(), identity);
        }
    }
}

#[test]
fn parts_and_redacted_captures_are_those_of_the_twin() {
    let folder = tempfile::tempdir().unwrap();
    let selection = SubsetSelection { launches: Some([1].into()), ..SubsetSelection::default() };
    let redaction = redact::RedactOptions { salt: b"salt".to_vec(), ..redact::RedactOptions::default() };
    let written = |format: &str, path: &Path| {
        let reader = CaptureReader::open(path).unwrap();
        let [part, redacted] =
            ["part", "redacted"].map(|name| folder.path().join(format!("{name}_{format}")));
        pack_part(&reader, &selection, &part, CaptureForm::File).unwrap();
        redact::redact(&reader, &redaction, &redacted).unwrap();
        [part, redacted]
            .map(|path| CaptureIdentity::from_capture(&CaptureReader::open(&path).unwrap()).unwrap())
    };
    for name in TWINS {
        let [old, new] = twins(name, folder.path());
        let format = |format: &str| format!("{name}_{format}");
        assert_eq!(written(&format("1"), &old), written(&format("2"), &new), "{name}");
    }
}

/// Numbers are small, and the launches of the first run are 0, 1, 2, ...
#[tokio::test]
async fn numbers_are_dense() {
    let folder = tempfile::tempdir().unwrap();
    let [_, new] = twins("two_ranks", folder.path());
    let session = Session::open(&[(None, new)]).unwrap();
    let launches = "SELECT run_id, min(kernel_id), max(kernel_id), min(kernel_id - ordinal) \
        FROM launch GROUP BY run_id ORDER BY run_id";
    assert_eq!(answer(&session, launches).await.unwrap(), ["2 | 0 | 29 | 0", "3 | 30 | 59 | 30"]);
    let ops = "SELECT min(op_id), max(op_id), count(*) FROM op";
    assert_eq!(answer(&session, ops).await.unwrap(), ["1 | 320 | 320"]);
}

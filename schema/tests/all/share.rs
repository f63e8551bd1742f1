//! Sharing of captures: one identity in every form, and parts of a capture that count what they lack.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::identity::CaptureIdentity;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableDef;
use stallmap_schema::tables;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::replay::Bundle;
use stallmap_write::CaptureForm;
use stallmap_write::check::check;
use stallmap_write::pack::{pack, unpack};
use stallmap_write::rewrite::{CaptureRewrite, TableFate, change_rows, rewrite};
use stallmap_write::subset::{OptionalPart, REASON, SubsetSelection, pack_part};
use tempfile::TempDir;

use crate::tiny;

fn tiny_capture() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.stallmap");
    tiny::write(&path, CaptureForm::File).unwrap();
    (folder, path)
}

fn identity(path: &Path) -> CaptureIdentity {
    CaptureIdentity::from_capture(&CaptureReader::open(path).unwrap()).unwrap()
}

/// Rewrites every table, one with a change.
struct ChangedTable(Option<&'static str>);

impl CaptureRewrite for ChangedTable {
    fn fate(&self, _: &str) -> TableFate {
        TableFate::Changed
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        match (table.name, self.0) {
            ("launch", Some("launch")) => change_rows::<Launch>(batch, |row| row.occurrence += 1),
            _ => Ok(batch.clone()),
        }
    }

    fn file(&mut self, name: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        if !entry::is_compressed(name) {
            return Ok(Some(bytes));
        }
        let mut content = zstd::decode_all(&bytes[..]).unwrap();
        if self.0 == Some("cubin") {
            content[100] ^= 1;
        }
        Ok(Some(zstd::encode_all(&content[..], 1).unwrap()))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn an_identity_survives_every_form_and_no_change() {
    let (folder, path) = tiny_capture();
    let place = |name: &str| folder.path().join(name);
    let whole = identity(&path);
    let reader = CaptureReader::open(&path).unwrap();
    unpack(&reader, &place("folder")).unwrap();
    pack(&CaptureReader::open(&place("folder")).unwrap(), &place("again.stallmap")).unwrap();
    pack(&reader, &place("copy.stallmap")).unwrap();
    rewrite(&reader, &place("rewritten.stallmap"), CaptureForm::File, &mut ChangedTable(None)).unwrap();
    for name in ["folder", "again.stallmap", "copy.stallmap", "rewritten.stallmap"] {
        assert_eq!(identity(&place(name)), whole, "{name}");
    }
    let rewritten = CaptureReader::open(&place("rewritten.stallmap")).unwrap();
    assert_ne!(
        rewritten.manifest().capture_id,
        reader.manifest().capture_id,
        "its cubins are compressed again"
    );

    rewrite(&reader, &place("cell.stallmap"), CaptureForm::File, &mut ChangedTable(Some("launch"))).unwrap();
    let cell = identity(&place("cell.stallmap"));
    assert_ne!(cell.content_id, whole.content_id);
    let differing: Vec<_> =
        whole.tables.keys().filter(|name| cell.tables[*name] != whole.tables[*name]).collect();
    assert_eq!(differing, ["launch"]);
    rewrite(&reader, &place("code.stallmap"), CaptureForm::File, &mut ChangedTable(Some("cubin"))).unwrap();
    let code = identity(&place("code.stallmap"));
    assert!(code.files != whole.files && code.tables == whole.tables && code.content_id != whole.content_id);
}

/// A capture of a release that had fewer columns and tables.
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/blame_replays.stallmap");

#[test]
fn a_capture_of_an_earlier_release_is_written_anew() {
    let old = CaptureReader::open(Path::new(OLD)).unwrap();
    assert!(old.read_table("launch").unwrap().schema().field_with_name("accesses_of").is_err());
    assert_eq!(check(&old), []);
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    rewrite(&old, &place("rewritten.stallmap"), CaptureForm::File, &mut ChangedTable(None)).unwrap();
    let kernels = old.read_rows::<Launch>().unwrap().iter().map(|launch| launch.kernel_id.0).collect();
    let selection = SubsetSelection { launches: Some(kernels), ..SubsetSelection::default() };
    pack_part(&old, &selection, &place("part.stallmap"), CaptureForm::File).unwrap();
    for name in ["rewritten.stallmap", "part.stallmap"] {
        let written = CaptureReader::open(&place(name)).unwrap();
        assert_eq!(check(&written), [], "{name}");
        for table in tables::ALL {
            let schema = written.read_table(table.name).unwrap().schema().clone();
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let is_copied = name == "part.stallmap" && !names.contains(&"kernel_id");
            if !is_copied {
                let declared: Vec<_> = table.columns.iter().map(|column| column.name).collect();
                assert_eq!(names, declared, "{name}: {}", table.name);
            }
        }
        assert_eq!(written.read_rows::<Launch>().unwrap(), old.read_rows::<Launch>().unwrap());
        assert_eq!(identity(&place(name)), identity(Path::new(OLD)), "{name}: nulls are no content");
    }
}

/// A part of the small capture, which is sound.
#[track_caller]
fn part(selection: &SubsetSelection) -> (TempDir, CaptureReader) {
    let (folder, path) = tiny_capture();
    let output = folder.path().join("part.stallmap");
    pack_part(&CaptureReader::open(&path).unwrap(), selection, &output, CaptureForm::File).unwrap();
    let reader = CaptureReader::open(&output).unwrap();
    assert_eq!(check(&reader), [], "{selection:?}");
    (folder, reader)
}

fn rows(reader: &CaptureReader, table: &str) -> u64 {
    reader.tables().iter().find(|entry| entry.name == table).unwrap().rows
}

fn left_out(reader: &CaptureReader) -> Vec<String> {
    let losses = reader.read_rows::<Loss>().unwrap().into_iter().filter(|loss| loss.reason == REASON);
    losses.map(|loss| format!("{} {}", loss.lost_count, loss.detail.unwrap())).collect()
}

#[test]
fn what_is_left_out_is_counted() {
    let (_folder, path) = tiny_capture();
    let whole = CaptureReader::open(&path).unwrap();
    let requests: u64 =
        whole.read_rows::<LaunchRun>().unwrap().iter().filter_map(|launch| launch.request_count).sum();
    for kind in [
        OptionalPart::Accesses,
        OptionalPart::Bundles,
        OptionalPart::Samples,
        OptionalPart::Counters,
        OptionalPart::Code,
        OptionalPart::Parameters,
    ] {
        let selection = SubsetSelection { without: BTreeSet::from([kind]), ..SubsetSelection::default() };
        let (_folder, reader) = part(&selection);
        assert!(!left_out(&reader).is_empty(), "{kind:?}");
        match kind {
            OptionalPart::Accesses => {
                assert_eq!(rows(&reader, "memory_access"), 0);
                let lost: u64 = reader
                    .read_rows::<LaunchRun>()
                    .unwrap()
                    .iter()
                    .filter_map(|l| l.lost_request_count)
                    .sum();
                assert!(lost >= requests && requests > 0);
            }
            OptionalPart::Bundles => {
                assert_eq!(rows(&reader, "bundle_content"), 0);
                assert!(reader.read_rows::<Bundle>().unwrap().iter().all(|bundle| bundle.refusal.is_some()));
            }
            OptionalPart::Samples => assert_eq!(rows(&reader, "pc_sample"), 0),
            OptionalPart::Counters => assert_eq!(rows(&reader, "counter"), 0),
            OptionalPart::Code => assert!(reader.manifest().files.is_empty()),
            OptionalPart::Parameters => assert_eq!(rows(&reader, "launch_parameter"), 0),
        }
    }
}

#[test]
fn launches_are_picked_with_all_that_is_theirs() {
    let (_tiny, path) = tiny_capture();
    let launches = CaptureReader::open(&path).unwrap().read_rows::<Launch>().unwrap();
    let picked = launches[1].kernel_id;
    let selection =
        SubsetSelection { launches: Some(BTreeSet::from([picked.0])), ..SubsetSelection::default() };
    let (_folder, reader) = part(&selection);
    assert_eq!(rows(&reader, "launch"), 1);
    assert!(reader.read_rows::<LaunchRun>().unwrap().iter().all(|launch| launch.kernel_id == picked));
    assert!(left_out(&reader).iter().any(|text| text.ends_with(" launches")));
}

#[test]
fn tables_are_picked_with_all_that_they_refer_to() {
    let selection =
        SubsetSelection { only: BTreeSet::from(["tensor".to_owned()]), ..SubsetSelection::default() };
    let (_folder, reader) = part(&selection);
    assert!(["tensor", "storage", "op", "launch", "run"].iter().all(|table| rows(&reader, table) > 0));
    assert!(
        ["memory_access", "pc_sample", "memcpy", "python_frame"]
            .iter()
            .all(|table| rows(&reader, table) == 0)
    );
    let lacks = left_out(&reader);
    assert!(lacks.iter().any(|text| text.ends_with("rows of table memcpy")), "{lacks:?}");
}

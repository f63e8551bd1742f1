//! Redacted captures: no planted secret remains in any byte, and every view works as before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::DataType;
use stallmap::library;
use stallmap::redact::{AlsoRedact, RedactOptions, redact};
use stallmap::session::Session;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::FrameId;
use stallmap_schema::secrecy::{ColumnSecrecy, secrecy};
use stallmap_schema::table::{ColumnDef, TableDef, TableRow};
use stallmap_schema::tables;
use stallmap_schema::tables::python::PythonFrame;
use stallmap_schema::tables::run::{Run, RunOption};
use stallmap_write::check::check;
use stallmap_write::rewrite::{CaptureRewrite, TableFate, rewrite};
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::{answer, tiny};

/// Prefix of every planted secret.
const CANARY: &str = "Canary";
/// A user name, in paths and in texts.
const PERSON: &str = "canaryperson";
const ALL: [AlsoRedact; 4] = [AlsoRedact::Symbols, AlsoRedact::Names, AlsoRedact::Files, AlsoRedact::Times];
/// The folder in the line tables of stallmap's test programs, and a secret one of the same length.
const FOLDER: &[u8] = b"/opt/stallmap/testdata/programs";
const SECRET_FOLDER: &[u8] = b"/home/canaryperson/CanaryFolder";

fn options(also: &[AlsoRedact]) -> RedactOptions {
    RedactOptions { salt: b"salt".to_vec(), also: also.iter().copied().collect(), ..RedactOptions::default() }
}

fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(format!("{name}.stallmap"))
}

/// Puts a secret into every text and every run of bytes, as its column would hold one.
struct PlantSecrets;

impl PlantSecrets {
    fn column(table: &TableDef, column: &ColumnDef, array: &ArrayRef) -> ArrayRef {
        let canary = format!("{CANARY}{}{}", table.name, column.name).replace('_', "");
        let kind = secrecy(table, column).unwrap();
        let is_id = table.name == "module";
        match array.data_type() {
            DataType::Utf8 if !is_id => {
                let texts = (0..array.len()).map(|row| Some(secret(kind, column.name, &canary, row)));
                Arc::new(texts.collect::<StringArray>())
            }
            DataType::Binary if kind != ColumnSecrecy::Contents => {
                let least = if kind == ColumnSecrecy::Attributes { 72 } else { 0 };
                let bytes = array.as_binary::<i32>().iter();
                Arc::new(
                    bytes
                        .map(|bytes| bytes.map(|bytes| padded(&canary, bytes.len().max(least))))
                        .collect::<BinaryArray>(),
                )
            }
            _ => Arc::clone(array),
        }
    }
}

fn padded(canary: &str, length: usize) -> Vec<u8> {
    canary.bytes().cycle().take(length).collect()
}

fn secret(kind: ColumnSecrecy, column: &str, canary: &str, row: usize) -> String {
    match kind {
        ColumnSecrecy::Path if column == "working_directory" => format!("/home/{PERSON}/{canary}"),
        ColumnSecrecy::Path => format!("/home/{PERSON}/{canary}/{canary}{row}.py"),
        ColumnSecrecy::Open => format!("{column} {row} of {PERSON} in '/home/{PERSON}/{canary}/x.py'"),
        ColumnSecrecy::Text => format!("{canary}Layer{row} of {PERSON} in '/home/{PERSON}/{canary}/x.py'"),
        ColumnSecrecy::Name => format!("{canary}.{row}.{canary}"),
        _ => format!("{canary}{row}"),
    }
}

impl CaptureRewrite for PlantSecrets {
    fn fate(&self, _: &str) -> TableFate {
        TableFate::ChangedWhole
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let columns = table.columns.iter().map(|column| {
            // A capture of an earlier release lacks some.
            let array = batch.column_by_name(column.name).cloned();
            let array = array.unwrap_or_else(|| new_null_array(&(column.data_type)(), batch.num_rows()));
            Self::column(table, column, &array)
        });
        RecordBatch::try_new(table.schema(), columns.collect()).map_err(|cause| cause.to_string())
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let mut content = zstd::decode_all(&bytes[..]).unwrap();
        let places: Vec<usize> = content
            .windows(FOLDER.len())
            .enumerate()
            .filter_map(|(at, window)| (window == FOLDER).then_some(at))
            .collect();
        for at in places {
            content[at..at + FOLDER.len()].copy_from_slice(SECRET_FOLDER);
        }
        Ok(Some(zstd::encode_all(&content[..], 1).unwrap()))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Every byte of a capture: its file as it is, its cubins uncompressed, its texts and bytes decoded.
fn every_byte(path: &Path) -> Vec<(String, Vec<u8>)> {
    let reader = CaptureReader::open(path).unwrap();
    let mut all = vec![("the file".to_owned(), fs::read(path).unwrap())];
    for name in reader.entry_names().filter(|name| entry::is_compressed(name)) {
        all.push((name.to_owned(), zstd::decode_all(&reader.entry(name).unwrap()[..]).unwrap()));
    }
    for table in reader.tables() {
        for batch in reader.read_table(&table.name).unwrap() {
            let batch = batch.unwrap();
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                let place = format!("{}.{}", table.name, field.name());
                match array.data_type() {
                    DataType::Utf8 => {
                        let texts = array.as_string::<i32>().iter().flatten();
                        all.push((place, texts.flat_map(|text| [text.as_bytes(), b"\n"].concat()).collect()));
                    }
                    DataType::Binary => {
                        all.push((
                            place,
                            array.as_binary::<i32>().iter().flatten().flatten().copied().collect(),
                        ));
                    }
                    _ => {}
                }
            }
        }
    }
    all
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    [secret.as_bytes(), &wide]
        .iter()
        .any(|secret| bytes.windows(secret.len()).any(|window| window == *secret))
}

fn plant(from: &Path, folder: &Path) -> PathBuf {
    let planted = folder.join("planted.stallmap");
    rewrite(&CaptureReader::open(from).unwrap(), &planted, CaptureForm::File, &mut PlantSecrets).unwrap();
    planted
}

#[test]
fn no_planted_secret_remains() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.stallmap");
    tiny::write(&path, CaptureForm::File).unwrap();
    let planted = plant(&path, folder.path());
    let every_column: BTreeSet<String> = every_byte(&planted)
        .into_iter()
        .filter(|(place, bytes)| place.contains('.') && holds(bytes, CANARY))
        .map(|(place, _)| place)
        .collect();
    let textual = |column: &&ColumnDef| matches!((column.data_type)(), DataType::Utf8 | DataType::Binary);
    let expected = tables::ALL.iter().flat_map(|table| {
        table.columns.iter().filter(textual).map(|column| format!("{}.{}", table.name, column.name))
    });
    let without: BTreeSet<String> = expected.filter(|place| !every_column.contains(place)).collect();
    let ids = ["bundle_content.bytes", "module.content_hash", "module.file"].map(str::to_owned);
    assert_eq!(without, BTreeSet::from(ids), "a secret is planted in every other column");

    let output = folder.path().join("redacted.stallmap");
    redact(&CaptureReader::open(&planted).unwrap(), &options(&ALL), &output).unwrap();
    for (place, bytes) in every_byte(&output) {
        for secret in [CANARY, PERSON, "Canaryrunhost"] {
            assert!(!holds(&bytes, secret), "`{secret}` remains in {place}");
        }
    }
}

/// Adds a table that this release does not know, a note, and a secret in places of cubins that no reader uses.
struct HideSecrets;

impl CaptureRewrite for HideSecrets {
    fn fate(&self, _: &str) -> TableFate {
        TableFate::Copied
    }

    fn change(&mut self, _: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        Ok(batch.clone())
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let mut content = zstd::decode_all(&bytes[..]).unwrap();
        content.extend(format!("behind all sections: {CANARY}").bytes());
        Ok(Some(zstd::encode_all(&content[..], 1).unwrap()))
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("for {CANARY}, the customer")]
    }
}

#[test]
fn what_this_release_does_not_know_goes() {
    let folder = tempfile::tempdir().unwrap();
    let [tiny, hidden, unknown, output] =
        ["tiny", "hidden", "unknown", "output"].map(|name| folder.path().join(name));
    tiny::write(&tiny, CaptureForm::File).unwrap();
    rewrite(&CaptureReader::open(&tiny).unwrap(), &hidden, CaptureForm::File, &mut HideSecrets).unwrap();
    let reader = CaptureReader::open(&hidden).unwrap();
    let mut writer = CaptureWriter::create(&unknown, CaptureForm::File).unwrap();
    for table in reader.tables() {
        writer.take_table(&reader, table).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec![CANARY]));
    writer
        .append(&format!("{CANARY}_table"), &RecordBatch::try_from_iter([(CANARY, text)]).unwrap())
        .unwrap();
    writer.note(reader.manifest().notes.clone());
    writer.finish().unwrap();
    redact(&CaptureReader::open(&unknown).unwrap(), &options(&[]), &output).unwrap();
    for (place, bytes) in every_byte(&output) {
        assert!(!holds(&bytes, CANARY), "`{CANARY}` remains in {place}");
    }
    assert_eq!(check(&CaptureReader::open(&output).unwrap()), []);
}

/// The example with the rows of one table changed.
fn changed<R: TableRow>(folder: &Path, change: impl FnOnce(&mut Vec<R>)) -> CaptureReader {
    let (sound, changed) = (folder.join("sound"), folder.join("changed"));
    tiny::write(&sound, CaptureForm::Folder).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let mut writer = CaptureWriter::create(&changed, CaptureForm::File).unwrap();
    for table in reader.tables().iter().filter(|table| table.name != R::TABLE.name) {
        writer.take_table(&reader, table).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    let mut rows = reader.read_rows::<R>().unwrap();
    change(&mut rows);
    writer.append_rows(rows).unwrap();
    writer.finish().unwrap();
    CaptureReader::open(&changed).unwrap()
}

#[test]
fn a_result_with_a_secret_is_never_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    // A folder that is also an enum's word stays there: nothing can replace it.
    let reader = changed::<Run>(folder.path(), |rows| {
        rows[0].working_directory = "hardware_events".to_owned();
        rows[0].system = "hardware_events".to_owned();
    });
    let refused = redact(&reader, &options(&[]), &output).unwrap_err().to_string();
    for part in ["a folder's or a machine's name remains in", "run", "; nothing was written: ", "/output`"] {
        assert!(refused.contains(part), "`{part}` is not in {refused}");
    }
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["changed", "sound"]);
}

#[test]
fn any_number_of_folders_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let path = |number: usize| format!("/mnt/customer/a/long/name/of/a/folder/of/many/{number:05}");
    let reader = changed::<PythonFrame>(folder.path(), |rows| {
        let frame = rows[0].clone();
        rows.extend((0..5_000).map(|number| PythonFrame {
            frame_id: FrameId(number as u64 + 1),
            file: format!("{}/x.py", path(number)),
            original_file: format!("{}/x.py", path(number)),
            ..frame.clone()
        }));
        rows.sort_by_key(|row| row.frame_id);
    });
    redact(&reader, &options(&[]), &output).unwrap();
    for (place, bytes) in every_byte(&output) {
        assert!(!holds(&bytes, "customer"), "a folder remains in {place}");
    }
}

#[test]
fn patterns_and_reasons_repeat_no_replaced_name() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let reader = changed::<RunOption>(folder.path(), |rows| {
        let run_id = rows[0].run_id;
        let option = |name: &str, value: &str| RunOption { run_id, name: name.into(), value: value.into() };
        rows.retain(|row| row.run_id != run_id);
        rows.extend([
            option("kernels", "canary_kernel.*"),
            option("region", "canary region"),
            option("selection", r#"{"every":1,"kernels":"canary_kernel","region":["canary"]}"#),
            option("sampling", "canaryLayer"),
        ]);
        rows.sort_by(|a, b| (a.run_id, &a.name).cmp(&(b.run_id, &b.name)));
    });
    redact(&reader, &options(&[AlsoRedact::Symbols]), &output).unwrap();
    for (place, bytes) in every_byte(&output) {
        assert!(!holds(&bytes, "canary"), "a pattern remains in {place}");
    }
}

#[test]
fn paths_with_spaces_and_of_windows_go_with_every_option() {
    for also in [&[][..], &[AlsoRedact::Symbols], &[AlsoRedact::Names], &[AlsoRedact::Files]] {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let reader = changed::<RunOption>(folder.path(), |rows| {
            let run_id = rows[0].run_id;
            let option =
                |name: &str, value: &str| RunOption { run_id, name: name.into(), value: value.into() };
            rows.retain(|row| row.run_id != run_id);
            rows.extend([
                option("directory", "/srv/data/Canary Secret Project/caps/x.stallmap.partial"),
                option("output", r"C:\Users\canaryperson\Canary Folder\out.stallmap"),
                option("selection", r#"{"kernels":"a","output":"/mnt/canary secret/Canary-project/out"}"#),
                option("text", r#"file "/srv/Canary My/deep/y.py" and C:\Canary\x.py"#),
            ]);
            rows.sort_by(|a, b| (a.run_id, &a.name).cmp(&(b.run_id, &b.name)));
        });
        redact(&reader, &options(also), &output).unwrap();
        for (place, bytes) in every_byte(&output) {
            let found =
                ["Canary Secret", "canaryperson", "Canary Folder", "canary secret", "Canary My", "Canary\\x"];
            assert!(
                found.iter().all(|secret| !holds(&bytes, secret)),
                "a folder remains in {place}: {also:?}"
            );
        }
    }
}

#[test]
fn names_of_files_go_from_every_bundled_capture() {
    for name in
        ["blame_truth", "access_truth", "known_truth", "blame_replays", "finding_truth", "training_parts"]
    {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        redact(&CaptureReader::open(&bundled(name)).unwrap(), &options(&[AlsoRedact::Files]), &output)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn no_folder_remains_in_code() {
    let folder = tempfile::tempdir().unwrap();
    let planted = plant(&bundled("blame_truth"), folder.path());
    assert!(
        every_byte(&planted).iter().any(|(place, bytes)| entry::is_compressed(place) && holds(bytes, PERSON))
    );
    for (index, also) in [&[][..], &ALL].into_iter().enumerate() {
        let output = folder.path().join(format!("redacted{index}.stallmap"));
        redact(&CaptureReader::open(&planted).unwrap(), &options(also), &output).unwrap();
        for (place, bytes) in every_byte(&output) {
            assert!(!holds(&bytes, PERSON), "{place}");
            assert!(!entry::is_compressed(&place) || !holds(&bytes, CANARY), "{place}");
        }
    }
}

/// Larger captures are not queried for each bin of each tensor, which takes minutes.
const ALL_CELLS_BYTES: u64 = 1 << 19;

/// Rows of every view but that of source text, which goes, and the samples in them, or the same error.
async fn contents(path: &Path) -> Vec<(String, Result<Vec<String>, String>)> {
    let session = Session::open(&[(None, path.to_owned())]).unwrap();
    let mut contents = Vec::new();
    let has_all = path.metadata().unwrap().len() < ALL_CELLS_BYTES;
    let views = library::views().unwrap();
    let stays = |name: &str| name != "line_text";
    for view in views.iter().filter(|view| stays(&view.name) && (has_all || view.package != "pattern")) {
        let has_samples = view.columns.iter().any(|column| column.name == "samples");
        let samples = if has_samples { ", round(sum(samples), 3)" } else { "" };
        let sql = format!("SELECT count(*) AS rows{samples} FROM {}", view.name);
        contents.push((view.name.clone(), answer(&session, &sql).await));
    }
    contents
}

async fn same_views(name: &str, also: &[AlsoRedact]) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("redacted.stallmap");
    redact(&CaptureReader::open(&bundled(name)).unwrap(), &options(also), &output).unwrap();
    assert_eq!(check(&CaptureReader::open(&output).unwrap()), []);
    let (before, after) = (contents(&bundled(name)).await, contents(&output).await);
    for (before, after) in before.into_iter().zip(after) {
        assert_eq!(before, after, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_inference_views_stay() {
    same_views("inference_views", &[]).await;
    same_views("inference_views", &ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_blame_replays_stay() {
    same_views("blame_replays", &ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_blame_truth_stay() {
    same_views("blame_truth", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_known_truth_stay() {
    same_views("known_truth", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_training_parts_stay() {
    same_views("training_parts", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_transformer_step_stay() {
    same_views("transformer_step", &[]).await;
}

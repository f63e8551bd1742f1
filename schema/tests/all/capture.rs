//! The container: captures open as file and as folder, and damage is reported.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::RunId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables;
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::run::RunOption;
use stallmap_write::check::check;
use stallmap_write::pack::{pack, unpack};
use stallmap_write::{CaptureForm, CaptureWriter};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::tiny;

/// A capture in a folder of its own, which goes with it.
struct ExampleCapture {
    folder: tempfile::TempDir,
    path: PathBuf,
}

/// Made once: nearly all of these tests only damage a copy of it.
static EXAMPLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.stallmap");
    tiny::write(&path, CaptureForm::File).unwrap();
    fs::read(path).unwrap()
});

fn example() -> ExampleCapture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.stallmap");
    fs::write(&path, &*EXAMPLE).unwrap();
    ExampleCapture { folder, path }
}

fn open(bytes: &[u8]) -> Result<CaptureReader, CaptureError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.stallmap");
    fs::write(&path, bytes).unwrap();
    CaptureReader::open(&path)
}

/// A ZIP file with these entries.
fn zip(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_table_is_there_and_every_entry_is_aligned() {
    let ExampleCapture { folder: _folder, path } = example();
    let reader = CaptureReader::open(&path).unwrap();
    let written: Vec<_> = reader.tables().iter().map(|table| table.name.as_str()).collect();
    let declared: Vec<_> = tables::ALL.iter().map(|table| table.name).collect();
    assert_eq!(written, declared);
    let empty: Vec<_> = reader.tables().iter().filter(|table| table.rows == 0).collect();
    // Blocks are timed in a run of their own, which this program has not. It has no textures either.
    assert!(
        empty.iter().all(|table| ["block_time", "warp_event", "texture"].contains(&table.name.as_str())),
        "{empty:?}"
    );
    let whole = fs::read(&path).unwrap();
    for name in reader.entry_names() {
        let entry = reader.entry(name).unwrap();
        let at = whole.windows(entry.len()).position(|window| window == entry).unwrap();
        assert_eq!(at % 64, 0, "{name}");
    }
    assert_eq!(names(path.parent().unwrap()), ["tiny.stallmap"], "nothing is left next to the capture");
}

#[test]
fn a_cubin_comes_back() {
    let example = example();
    let reader = CaptureReader::open(&example.path).unwrap();
    let module = reader.read_rows::<Module>().unwrap().remove(0);
    let stored = include_bytes!("../../testkit/src/tiny.cubin");
    assert_eq!(reader.cubin(&module.content_hash).unwrap(), stored);
    assert!(matches!(reader.cubin("00"), Err(CaptureError::MissingEntry { .. })));
    let mut buffer = vec![7; 1 << 20];
    let before = buffer.as_ptr();
    reader.read_cubin(&module.content_hash, &mut buffer).unwrap();
    assert_eq!((buffer.as_slice(), buffer.as_ptr()), (stored.as_slice(), before), "in the same memory");
}

/// A writer that does not know the size, and one that joins two frames.
#[test]
fn a_cubin_comes_back_whatever_its_frames_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture");
    let stored = include_bytes!("../../testkit/src/tiny.cubin");
    let (first, second) = stored.split_at(stored.len() / 2);
    let stream = zstd::stream::encode_all(stored.as_slice(), 3).unwrap();
    let two = [first, second].map(|part| zstd::bulk::compress(part, 3).unwrap()).concat();
    for packed in [stream, two] {
        tiny::write(&path, CaptureForm::Folder).unwrap();
        let listed = path.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&listed).unwrap()).unwrap();
        let files = manifest["files"].as_array_mut().unwrap();
        let file =
            files.iter_mut().find(|file| file["path"].as_str().unwrap().starts_with("cubins")).unwrap();
        file["bytes"] = packed.len().into();
        fs::write(path.join(file["path"].as_str().unwrap()), packed).unwrap();
        fs::write(&listed, manifest.to_string()).unwrap();
        let reader = CaptureReader::open(&path).unwrap();
        let module = reader.read_rows::<Module>().unwrap().remove(0);
        assert_eq!(reader.cubin(&module.content_hash).unwrap(), stored);
        fs::remove_dir_all(&path).unwrap();
    }
}

/// A map of the file would end the process by SIGBUS.
#[test]
fn a_file_that_is_cut_while_it_is_open_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let (file, parts) = (folder.path().join("a.stallmap"), folder.path().join("parts"));
    tiny::write(&file, CaptureForm::File).unwrap();
    tiny::write(&parts, CaptureForm::Folder).unwrap();
    for (capture, cut) in [(&file, file.clone()), (&parts, parts.join("tables/run_option.parquet"))] {
        let reader = CaptureReader::open(capture).unwrap();
        fs::File::options().write(true).open(cut).unwrap().set_len(0).unwrap();
        assert!(!reader.read_rows::<RunOption>().unwrap().is_empty());
    }
}

#[test]
fn a_file_that_another_process_wrote_in_the_meantime_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stallmap");
    let writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
    fs::write(&path, "another capture").unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("exists"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"another capture");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn packing_what_was_unpacked_gives_the_same_bytes() {
    let ExampleCapture { folder, path } = example();
    let (unpacked, packed) = (folder.path().join("unpacked"), folder.path().join("packed.stallmap"));
    unpack(&CaptureReader::open(&path).unwrap(), &unpacked).unwrap();
    pack(&CaptureReader::open(&unpacked).unwrap(), &packed).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(&packed).unwrap());
    assert_eq!(check(&CaptureReader::open(&unpacked).unwrap()), []);
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_behind() {
    let ExampleCapture { folder, path } = example();
    let before = fs::read(&path).unwrap();
    let refused = CaptureWriter::create(&path, CaptureForm::File).err().unwrap();
    assert_eq!(refused.to_string(), format!("create capture: entity already exists: `{}`", path.display()));
    assert_eq!(refused.hint().unwrap(), "choose another name or remove the old one");
    unpack(&CaptureReader::open(&path).unwrap(), &path).unwrap_err();
    let mut writer = CaptureWriter::create(&folder.path().join("half"), CaptureForm::Folder).unwrap();
    let rows = [RunOption { run_id: RunId(1), name: "a".into(), value: "b".into() }];
    writer.append_rows(rows).unwrap();
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(names(folder.path()), ["tiny.stallmap"]);
}

#[test]
fn rows_that_do_not_fit_their_table_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = CaptureWriter::create(&folder.path().join("x"), CaptureForm::File).unwrap();
    let options = RunOption::batch([]).unwrap();
    let refused = writer.append("launch", &options).unwrap_err().to_string();
    assert!(refused.starts_with("write rows of table `launch`: column `kernel_id` is missing"), "{refused}");
    assert!(writer.append("../launch", &options).is_err());
    assert!(writer.add_file("../x", b"").is_err());
    assert!(writer.add_file("manifest.json", b"").is_err());
}

#[test]
fn other_things_are_not_captures() {
    let message = |bytes: &[u8]| {
        let error = open(bytes).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        error.to_string().split(": `").next().unwrap().to_owned()
    };
    let manifest =
        |json: &str| message(&zip(&[("manifest.json", json.as_bytes())], CompressionMethod::Stored));
    assert_eq!(message(b""), "not a stallmap capture: it is empty");
    assert_eq!(message(b"PAR1 and so on"), "not a stallmap capture: it is not a ZIP file");
    assert_eq!(
        message(&zip(&[("a.txt", b"a")], CompressionMethod::Stored)),
        "not a stallmap capture: it holds no manifest.json"
    );
    assert_eq!(
        manifest("{}"),
        "not a stallmap capture: its manifest cannot be read: missing field `format` at line 1 column 2"
    );
    assert_eq!(
        manifest(r#"{"format": {"major": 3, "minor": 0}, "writer": "9.0.0", "shape": "unknown"}"#),
        "capture has format 3.0, written by stallmap 9.0.0, but this release reads up to 2.x"
    );
    let evil = zip(&[("manifest.json", b"{}"), ("../evil", b"a")], CompressionMethod::Stored);
    let expected = r#"ZIP entry "../evil" is damaged: a capture holds tables and cubins only"#;
    assert_eq!(message(&evil), expected);
}

#[test]
fn folders_that_are_no_captures_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let message = || CaptureReader::open(folder.path()).unwrap_err().to_string();
    assert!(message().starts_with("not a stallmap capture: it holds no manifest.json"));
    fs::write(folder.path().join("recording.json"), "{}").unwrap();
    assert!(message().starts_with("not a stallmap capture: it is an unfinished recording"));
    let missing = CaptureReader::open(&folder.path().join("no")).unwrap_err();
    assert!(missing.to_string().starts_with("open capture: No such file or directory"));
}

#[test]
fn a_manifest_that_leaves_the_capture_is_refused() {
    let entry = r#"{"path": "../../etc/passwd", "bytes": 1, "blake3": ""}"#;
    let json = format!(
        r#"{{"format": {{"major": 2, "minor": 0}}, "writer": "1", "hash_algorithm": "", "created_ns": 0,
            "capture_id": "", "tables": [], "files": [{entry}]}}"#
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("manifest.json"), &json).unwrap();
    let error = CaptureReader::open(folder.path()).unwrap_err();
    assert!(matches!(error, CaptureError::Corrupt { .. }), "{error}");
}

#[test]
fn a_table_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny");
    tiny::write(&path, CaptureForm::Folder).unwrap();
    fs::remove_file(path.join("tables/launch.parquet")).unwrap();
    let error = CaptureReader::open(&path).unwrap_err();
    assert!(error.to_string().starts_with("entry `tables/launch.parquet` is missing"), "{error}");
}

#[test]
fn tables_and_columns_of_a_later_minor_version_are_tolerated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later");
    let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
    writer.append("hint", &RunOption::batch([]).unwrap()).unwrap();
    writer.finish().unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    assert_eq!(reader.tables().last().unwrap().name, "hint");
    assert_eq!(check(&reader), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cut_capture_is_an_error(cut in any::<Index>()) {
        let error = open(&EXAMPLE[..cut.index(EXAMPLE.len())]).unwrap_err();
        let is_known = matches!(error, CaptureError::Truncated { .. } | CaptureError::NotACapture { .. });
        prop_assert!(is_known, "{}", error);
    }

    #[test]
    fn a_damaged_entry_is_found(at in any::<Index>(), flip in 1..=255_u8) {
        let mut bytes = EXAMPLE.clone();
        let length = bytes.len();
        bytes[at.index(length)] ^= flip;
        // Bytes of the container that say nothing, such as times of day, may change unseen. Nothing may panic, and
        // the content of the tables may not change.
        if let Ok(reader) = open(&bytes) {
            let original = open(&EXAMPLE).unwrap();
            let violations = check(&reader);
            let same = original.table_files().unwrap().into_iter().all(|file| {
                reader.table_bytes(&file.name).is_ok_and(|bytes| bytes == file.bytes.whole().unwrap())
            });
            prop_assert!(same || !violations.is_empty());
        }
    }

    #[test]
    fn foreign_tables_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny");
        let example = example();
        unpack(&CaptureReader::open(&example.path).unwrap(), &path).unwrap();
        let table = path.join("tables/launch.parquet");
        let mut foreign = fs::read(&table).unwrap();
        let at = at.index(foreign.len());
        let end = (at + bytes.len()).min(foreign.len());
        foreign[at..end].copy_from_slice(&bytes[..end - at]);
        fs::write(&table, &foreign).unwrap();
        for batch in CaptureReader::open(&path).unwrap().read_table("launch").into_iter().flatten() {
            drop(batch);
        }
    }
}

#[test]
fn tables_can_be_copied_whole() {
    let ExampleCapture { folder, path } = example();
    let reader = CaptureReader::open(&path).unwrap();
    let copy = folder.path().join("copy.stallmap");
    let mut writer = CaptureWriter::create(&copy, CaptureForm::File).unwrap();
    for file in reader.table_files().unwrap().iter().rev() {
        writer.copy_table(file).unwrap();
        assert!(matches!(writer.copy_table(file), Err(CaptureError::Refused { .. })));
    }
    let option = RunOption { run_id: RunId(1), name: "a".to_owned(), value: "b".to_owned() };
    assert!(matches!(writer.append_rows([option]), Err(CaptureError::Refused { .. })));
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.verified_entry(&file.path).unwrap()).unwrap();
    }
    let manifest = writer.finish().unwrap();
    assert_eq!(manifest.tables, reader.manifest().tables);
    assert_eq!(manifest.capture_id, reader.manifest().capture_id);
}

#[test]
fn an_entry_that_was_changed_is_not_verified() {
    let ExampleCapture { folder: _folder, path } = example();
    let launches = CaptureReader::open(&path).unwrap().table_bytes("launch").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(launches.len()).position(|window| window == launches).unwrap();
    bytes[at + launches.len() / 2] ^= 1;
    let reader = open(&bytes).unwrap();
    let error = reader.verified_entry("tables/launch.parquet").unwrap_err();
    assert!(
        error.to_string().starts_with("entry `tables/launch.parquet` is damaged: its hash differs from"),
        "{error}"
    );
    assert!(reader.verified_entry("tables/run.parquet").is_ok());
}

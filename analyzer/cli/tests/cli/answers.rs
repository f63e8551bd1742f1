//! Rows of views that a capture holds: stored by `prepare --in-place`, read by every command, and checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::stored::{self, StoredAnswer};

use crate::command::{CommandFolder, command};

type CommandAnswers = BTreeMap<String, Vec<u8>>;

/// Standard output, standard error and exit code of a command without a cache, or with one.
fn run(place: &CommandFolder, cache: &str, arguments: &[&str]) -> (String, String, Option<i32>) {
    let cache = if cache == "off" { cache.into() } else { place.path(cache) };
    let output = command(&place.path(".")).env("STALLMAP_CACHE", cache).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// A place with a capture of GPU time, and the same with its answers as `stored.stallmap`.
fn place() -> CommandFolder {
    let place = CommandFolder::new();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inference_views.stallmap");
    for name in ["plain.stallmap", "stored.stallmap"] {
        fs::copy(&bundled, place.path(name)).unwrap();
    }
    let (text, error, code) = run(&place, "cache", &["prepare", "--in-place", "stored.stallmap"]);
    assert!(code == Some(0) && text.contains(" stored in the capture, "), "{text}{error}");
    place
}

/// The rules and the answers in a capture.
fn answers(path: &Path) -> (String, CommandAnswers) {
    let reader = CaptureReader::open(path).unwrap();
    let mut rules = String::new();
    reader.for_each_row(1000, |row: StoredAnswer| rules = row.rules).unwrap();
    let answers = stored::read(&reader, &rules).unwrap();
    (rules, answers)
}

fn write(path: &Path, rules: &str, answers: &CommandAnswers) {
    stallmap_write::stored::write(&CaptureReader::open(path).unwrap(), rules, answers).unwrap();
}

const FINDINGS: &str = "SELECT * FROM finding ORDER BY sentence, query";

const KERNELS: &str = "SELECT * FROM kernel_cost ORDER BY function_id";

const COMMANDS: [&[&str]; 5] = [
    &["report", "stored.stallmap"],
    &["top", "findings", "stored.stallmap", "--format", "csv"],
    &["tree", "stored.stallmap", "--format", "csv"],
    &["diff", "plain.stallmap", "stored.stallmap"],
    &["sql", "stored.stallmap", "-c", FINDINGS, "--format", "json"],
];

/// The same without the rows that captures hold.
fn recomputing<'a>(command: &[&'a str]) -> Vec<&'a str> {
    ["--recompute"].into_iter().chain(command.iter().copied()).collect()
}

#[test]
fn answers_are_those_that_are_computed() {
    let place = place();
    for arguments in COMMANDS {
        let computed = run(&place, "off", &recomputing(arguments));
        assert!(computed.2 == Some(0), "{computed:?}");
        // On another machine the cache is empty.
        for cache in ["off", "other", "other"] {
            assert_eq!(run(&place, cache, arguments), computed, "{arguments:?}");
        }
    }
    let sizes = ["plain.stallmap", "stored.stallmap"].map(|name| place.path(name).metadata().unwrap().len());
    assert!(sizes[1] - sizes[0] < 48 << 10, "answers are small: {sizes:?}");
    assert_eq!(run(&place, "off", &["check", "stored.stallmap"]).0, "stored.stallmap: ok\n");
    // Without the user's cache they are stored, too.
    assert_eq!(run(&place, "off", &["prepare", "--in-place", "plain.stallmap"]).2, Some(0));
    assert_eq!(run(&place, "off", &["check", "plain.stallmap"]).0, "plain.stallmap: ok\n");
    let [one, other] = ["plain.stallmap", "stored.stallmap"].map(|name| answers(&place.path(name)).1);
    assert!(one.keys().eq(other.keys()), "the same views");
}

/// Everything that was recorded stays, and earlier answers go.
#[test]
fn storing_answers_changes_no_content() {
    let place = place();
    let id = |name: &str| run(&place, "off", &["id", name]).0.lines().nth(3).unwrap().to_owned();
    assert_eq!(id("plain.stallmap"), id("stored.stallmap"));
    let before = fs::read(place.path("stored.stallmap")).unwrap();
    assert_eq!(run(&place, "cache", &["prepare", "--in-place", "stored.stallmap"]).2, Some(0));
    assert_eq!(fs::read(place.path("stored.stallmap")).unwrap(), before);
    let reader = CaptureReader::open(&place.path("stored.stallmap")).unwrap();
    let plain = CaptureReader::open(&place.path("plain.stallmap")).unwrap();
    assert_eq!(reader.manifest().recorded_id(), plain.manifest().capture_id);
    assert_ne!(reader.manifest().capture_id, plain.manifest().capture_id);
    let names: Vec<&str> = reader.tables().iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| stored::is_table(name)).count(), 1);
}

/// The rows of a view in another capture of the same program.
fn of_another(place: &CommandFolder, view: &str) -> Vec<u8> {
    let other = place.path("other.stallmap");
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inference_views_contiguous.stallmap"),
        &other,
    )
    .unwrap();
    assert_eq!(run(place, "cache", &["prepare", "--in-place", "other.stallmap"]).2, Some(0));
    answers(&other).1.remove(view).unwrap()
}

/// The sender of a capture can store any numbers, as in recorded tables. They show only in this capture.
#[test]
fn a_check_finds_numbers_that_were_not_computed() {
    let place = place();
    let path = place.path("stored.stallmap");
    let (rules, truth) = answers(&path);
    let mut lie = truth.clone();
    lie.insert("kernel_cost".to_owned(), of_another(&place, "kernel_cost"));
    write(&path, &rules, &lie);
    let computed = run(&place, "off", &["sql", "plain.stallmap", "-c", KERNELS]);
    assert_ne!(run(&place, "other", &["sql", "stored.stallmap", "-c", KERNELS]).0, computed.0);
    assert_ne!(run(&place, "other", &["report", "stored.stallmap"]).2, None);
    let (text, _, code) = run(&place, "off", &["check", "stored.stallmap"]);
    assert!(
        code == Some(1) && text.contains("stored answer: rows of view `kernel_cost` are not those"),
        "{text}"
    );
    assert_eq!(run(&place, "off", &["--recompute", "sql", "stored.stallmap", "-c", KERNELS]), computed);
    // The same recording without them has its own entries in the cache.
    assert_eq!(run(&place, "other", &["sql", "plain.stallmap", "-c", KERNELS]), computed);
    let report = |cache| run(&place, cache, &["report", "plain.stallmap"]);
    assert_eq!(report("other"), report("off"));
}

/// Rows of other types hold fewer values, and rows of another choice of samples are read by those who choose it.
#[test]
fn a_check_compares_types_and_reads_the_rows_of_each_choice() {
    let place = place();
    let path = place.path("stored.stallmap");
    let (rules, truth) = answers(&path);
    let check = |rules: &str, answers: &CommandAnswers| {
        write(&path, rules, answers);
        run(&place, "off", &["check", "stored.stallmap"])
    };
    let expected = "stored answer: rows of view `kernel_cost` are not those";
    let mut lie = truth.clone();
    lie.insert("kernel_cost".to_owned(), of_small_nulls(&truth["kernel_cost"]));
    let (text, _, code) = check(&rules, &lie);
    assert!(code == Some(1) && text.contains(expected), "{text}");
    let lie = BTreeMap::from([("kernel_cost".to_owned(), of_another(&place, "kernel_cost"))]);
    let (text, _, code) = check(&format!("{rules}.replays"), &lie);
    assert!(code == Some(1) && text.contains(expected), "{text}");
    let (text, _, code) = check(&format!("{rules}.mine"), &lie);
    assert!(code == Some(1) && text.contains(".mine`, which no release writes"), "{text}");
}

/// The same rows with numbers of 8 bits in place of one column of samples, all null.
fn of_small_nulls(content: &[u8]) -> Vec<u8> {
    let file = bytes::Bytes::copy_from_slice(content);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let pairs = builder.metadata().file_metadata().key_value_metadata().cloned();
    let pairs = pairs.unwrap().into_iter().filter(|pair| pair.key != "ARROW:schema").collect();
    let batch = builder.build().unwrap().next().unwrap().unwrap();
    let index = batch.schema().index_of("samples").unwrap();
    let mut fields: Vec<Field> = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields[index] = Field::new("samples", DataType::Int8, true);
    let mut columns = batch.columns().to_vec();
    columns[index] = new_null_array(&DataType::Int8, batch.num_rows());
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs));
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// Two views at random are computed again, and the cache holds the outcome.
#[test]
fn a_sample_that_differs_is_an_error_from_then_on() {
    let place = place();
    let path = place.path("stored.stallmap");
    let (rules, truth) = answers(&path);
    fs::create_dir_all(place.path("other")).unwrap();
    let sample = ["check", "--sample", "stored.stallmap"];
    let kernels = ["sql", "stored.stallmap", "-c", KERNELS];
    let right = run(&place, "off", &kernels);
    assert_eq!(run(&place, "other", &sample), ("stored.stallmap: ok\n".to_owned(), String::new(), Some(0)));
    assert_eq!(run(&place, "other", &kernels), right);
    // Every stored view is that of another one, but for the one that is asked for: any sample finds it.
    let mut lie: CommandAnswers =
        truth.keys().map(|name| (name.clone(), truth["kernel_name"].clone())).collect();
    lie.insert("kernel_cost".to_owned(), of_another(&place, "kernel_cost"));
    lie.remove("kernel_name");
    write(&path, &rules, &lie);
    let (wrong, _, code) = run(&place, "off", &kernels);
    assert!(wrong != right.0 && code == Some(0));
    // The first command with a cache starts the sample. It is a process of its own.
    assert_eq!(run(&place, "third", &["report", "stored.stallmap"]).2, Some(0));
    let is_sampled =
        || place.path("third/sampled").read_dir().is_ok_and(|mut outcomes| outcomes.next().is_some());
    for _ in 0..3000 {
        if is_sampled() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let (text, error, code) = run(&place, "third", &kernels);
    assert!(text.is_empty() && code == Some(3), "{text}{error}");
    assert!(error.contains("stored rows of view `") && error.contains("hint: --recompute"), "{error}");
    assert_eq!(run(&place, "third", &recomputing(&kernels)).0, right.0);
    // A fleet skips the capture.
    let (_, error, _) = run(&place, "third", &["sql", "--over", "stored.stallmap", "-c", KERNELS]);
    assert!(error.contains("warning: skipped `stored.stallmap`: stored rows of view"), "{error}");
    let (text, _, code) = run(&place, "other", &sample);
    assert!(code == Some(1) && text.contains("stored answer: rows of view `"), "{text}");
}

/// Sentences and advice are this release's.
#[test]
fn sentences_of_a_sender_are_not_read() {
    let place = place();
    let path = place.path("stored.stallmap");
    let (rules, truth) = answers(&path);
    assert!(
        !truth.keys().any(|view| view.starts_with("finding") || view == "coverage"),
        "{:?}",
        truth.keys()
    );
    let (computed, kernels) =
        (run(&place, "off", COMMANDS[4]), run(&place, "off", &["sql", "stored.stallmap", "-c", KERNELS]));
    let mut lie = truth.clone();
    for view in ["finding", "finding_access", "coverage", "kernel_cost", "line_cost"] {
        lie.insert(view.to_owned(), truth["op_cost"].clone());
    }
    write(&path, &rules, &lie);
    assert_eq!(run(&place, "off", COMMANDS[4]), computed, "sentences");
    assert_eq!(run(&place, "off", &["sql", "stored.stallmap", "-c", KERNELS]), kernels, "other columns");
    assert_eq!(run(&place, "off", &["check", "stored.stallmap"]).2, Some(1));
    // Bytes of no file, and a view that does not exist.
    let mut damaged = truth.clone();
    damaged.insert("kernel_cost".to_owned(), vec![7; 5_000_000]);
    damaged.insert("finding x".to_owned(), truth["kernel_cost"].clone());
    write(&path, &rules, &damaged);
    assert_eq!(run(&place, "off", &["sql", "stored.stallmap", "-c", KERNELS]), kernels);
    let (text, _, code) = run(&place, "off", &["check", "stored.stallmap"]);
    assert!(code == Some(1) && text.contains("2 violations"), "{text}");
}

#[test]
fn answers_of_other_rules_or_of_other_content_are_not_read() {
    let place = place();
    let path = place.path("stored.stallmap");
    let (rules, truth) = answers(&path);
    let lie: CommandAnswers = truth.keys().map(|name| (name.clone(), truth["kernel_name"].clone())).collect();
    let computed = run(&place, "off", COMMANDS[0]);
    write(&path, "0123456789abcdef", &lie);
    assert_eq!(run(&place, "off", COMMANDS[0]), computed, "no lie");
    assert_eq!(run(&place, "off", &["check", "stored.stallmap"]).0, "stored.stallmap: ok\n");
    write(&path, &rules, &truth);
    // A capture with other rows has other answers.
    let (_, error, code) = run(&place, "off", &["redact", "stored.stallmap", "redacted.stallmap"]);
    assert_eq!(code, Some(0), "{error}");
    let (_, error, code) =
        run(&place, "off", &["pack", "stored.stallmap", "part.stallmap", "--launches", "0-1"]);
    assert_eq!(code, Some(0), "{error}");
    for name in ["redacted.stallmap", "part.stallmap"] {
        assert!(
            CaptureReader::open(&place.path(name))
                .unwrap()
                .tables()
                .iter()
                .all(|table| !stored::is_table(&table.name))
        );
    }
    // A complete copy has them.
    assert_eq!(run(&place, "off", &["pack", "stored.stallmap", "copy.stallmap"]).2, Some(0));
    assert_eq!(answers(&place.path("copy.stallmap")).1, truth);
}

#[test]
fn answers_are_stored_in_files_only() {
    let place = place();
    assert_eq!(run(&place, "off", &["unpack", "plain.stallmap", "folder"]).2, Some(0));
    let (_, error, code) = run(&place, "cache", &["prepare", "--in-place", "folder"]);
    assert!(code != Some(0) && error.contains("the capture is not a file"), "{error}");
}

//! Captures with missing data: every command succeeds, and names the missing data.

use stallmap_schema::capture::reader::CaptureReader;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::command::CommandFolder;

/// The small capture with these tables empty.
pub(crate) fn without(place: &CommandFolder, name: &str, tables: &[&str]) {
    let reader = CaptureReader::open(&place.path("tiny.stallmap")).unwrap();
    let mut writer = CaptureWriter::create(&place.path(name), CaptureForm::Folder).unwrap();
    for file in reader.table_files().unwrap() {
        if !tables.contains(&"*") && !tables.contains(&file.name.as_str()) {
            writer.copy_table(&file).unwrap();
        }
    }
    writer.finish().unwrap();
}

const COMMANDS: [&[&str]; 14] = [
    &[],
    &["--json"],
    &["report"],
    &["report", "--format", "json"],
    &["report", "--format", "csv"],
    &["top", "tensors"],
    &["top", "ops"],
    &["top", "lines"],
    &["top", "kernels"],
    &["tree"],
    &["tree", "--format", "csv"],
    &["source"],
    &["source", "--format", "json"],
    &["info"],
];

#[track_caller]
fn every_command_answers(place: &CommandFolder, capture: &str) {
    for command in COMMANDS {
        let ran = place.run(&[command, &[capture]].concat());
        assert_eq!(ran.code, Some(0), "{command:?} of {capture}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn a_capture_without_rows_is_said_to_be_one() {
    let place = CommandFolder::new();
    without(&place, "empty", &["*"]);
    every_command_answers(&place, "empty");
    place.run(&["report", "empty"]).check("absent_report");
    place.run(&["top", "tensors", "empty"]).check("absent_top");
    place.run(&["sql", "empty", "-c", "SELECT kernel FROM kernel_cost"]).check("absent_sql");
}

#[test]
fn memory_whose_accesses_were_not_recorded_is_a_reason() {
    let note = |name: &str, sql: &str| {
        let path = format!("{}/../../testdata/{name}.stallmap", env!("CARGO_MANIFEST_DIR"));
        CommandFolder::new().run(&["sql", &path, "-c", sql]).stderr
    };
    let text = note("transformer_step", "SELECT * FROM bank_conflict");
    assert!(text.contains("no accesses to shared memory: record with `--spaces global,shared`"), "{text}");
    // Shared memory was recorded, and no kernel has this name.
    let unnamed = "SELECT * FROM bank_conflict WHERE function_id = 1";
    assert_eq!(note("finding_truth", unnamed), "");
}

#[test]
fn what_other_rows_are_added_to_is_no_reason() {
    // No finding is of this kind, with tensor maps or without.
    let path = format!("{}/../../testdata/inference_views.stallmap", env!("CARGO_MANIFEST_DIR"));
    let ran = CommandFolder::new().run(&[
        "sql",
        &path,
        "-c",
        "SELECT sentence FROM finding WHERE finding = 'bank_conflict'",
    ]);
    assert!(!ran.expect_ok().stderr.contains("tensor_map"), "{}", ran.stderr);
}

#[test]
fn a_column_of_the_outer_query_is_named() {
    let sql = "SELECT * FROM launch WHERE kernel_id IN (SELECT kernel_id FROM kernel_cost)";
    let ran = CommandFolder::new().run(&["sql", "tiny.stallmap", "-c", sql]);
    let expected = "the subquery takes `kernel_id` from `launch` outside of it: `kernel_cost` has no column of that name";
    assert!(ran.expect_error(4).stderr.contains(expected), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: columns of `kernel_cost`: function_id"), "{}", ran.stderr);
}

#[test]
fn what_was_not_recorded_is_named_with_the_option_that_records_it() {
    let place = CommandFolder::new();
    let ask = |capture: &str, sql: &str| place.run(&["sql", capture, "--format", "csv", "-c", sql]).stderr;
    without(&place, "no_samples", &["pc_sample"]);
    every_command_answers(&place, "no_samples");
    let message = ask("no_samples", "SELECT * FROM stall_charge");
    assert!(
        message.contains("holds no samples of stalls") && message.contains("--only accesses"),
        "{message}"
    );
    without(&place, "no_accesses", &["memory_access", "access_summary", "access_histogram"]);
    every_command_answers(&place, "no_accesses");
    let message = ask("no_accesses", "SELECT * FROM access_pattern");
    assert!(message.contains("holds no memory accesses") && message.contains("--only samples"), "{message}");
    let python = ["python_state", "python_frame", "op", "op_tensor", "tensor", "storage"];
    without(&place, "no_python", &python);
    every_command_answers(&place, "no_python");
    let message = ask("no_python", "SELECT * FROM tensor_context");
    assert!(message.contains("holds no ops and tensors") && message.contains("--no-python"), "{message}");
    let message = ask("no_python", "SELECT * FROM launch WHERE false");
    assert_eq!(message, "", "the capture is not the reason");
}

#[test]
fn a_missing_table_is_named() {
    let place = CommandFolder::new();
    assert_eq!(place.run(&["unpack", "tiny.stallmap", "folder"]).code, Some(0));
    let manifest = place.path("folder/manifest.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    json["tables"].as_array_mut().unwrap().retain(|table| table["name"] != "pc_sample");
    std::fs::write(&manifest, json.to_string()).unwrap();
    std::fs::remove_file(place.path("folder/tables/pc_sample.parquet")).unwrap();
    every_command_answers(&place, "folder");
    let ran = place.run(&["sql", "folder", "-c", "SELECT * FROM stall_charge"]);
    assert!(ran.stderr.contains("lacks the table `pc_sample`"), "{}", ran.stderr);
}

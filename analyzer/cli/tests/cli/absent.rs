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
    let tensors = place.run(&["top", "tensors", "no_samples"]);
    assert!(tensors.expect_ok().stdout.contains("Tensors by accesses"), "{}", tensors.stdout);
    let rows = place.run(&["top", "tensors", "no_samples", "--format", "jsonl"]).expect_ok().stdout.clone();
    let share =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["share"].as_f64().unwrap();
    let total = rows.lines().map(share).sum::<f64>();
    assert!((total - 1.0).abs() < 1e-9, "{total}: {rows}");
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
fn rows_that_are_easily_misread_have_a_note() {
    let place = CommandFolder::new();
    let ask = |sql: &str| {
        place.run(&["sql", "tiny.stallmap", "--format", "csv", "-c", sql]).expect_ok().stderr.clone()
    };
    let mixed = ask("SELECT kernel_id / CAST(grid_x AS BIGINT) AS part FROM launch");
    assert!(mixed.contains("an unsigned integer divided by a signed one has few decimals"), "{mixed}");
    let sum = ask("SELECT sum(samples) / 3000000 AS part FROM pc_sample");
    assert!(sum.contains("write CAST(a AS DOUBLE) / b for all of them"), "{sum}");
    let two = |sql: &str| {
        place.run(&["sql", "a=tiny.stallmap", "b=tiny.stallmap", "-c", sql]).expect_ok().stderr.clone()
    };
    let unnamed = two("SELECT count(*) AS n FROM launch");
    assert!(
        unnamed.contains("note: `launch` is that of `a`, the first capture: write b.launch, or every.launch"),
        "{unnamed}"
    );
    let view = two("SELECT * FROM kernel_cost WHERE false");
    assert!(view.contains("note: `kernel_cost` is that of `a`"), "{view}");
    let named = two("SELECT count(*) AS n FROM a.launch JOIN b.launch USING (kernel_id)");
    assert!(!named.contains("note:"), "{named}");
    let series = two("SELECT * FROM generate_series(1, 2)");
    assert!(!series.contains("note:"), "{series}");
    let called = ask("SELECT short_kernel, samples FROM pc_sample JOIN kernel_name USING (function_id)");
    assert!(called.contains("may be a function that a kernel calls"), "{called}");
    let kernel = "SELECT l.kernel_id, n.short_kernel FROM pc_sample s JOIN launch l ON l.kernel_id = s.kernel_id \
        JOIN kernel_name n ON n.function_id = l.function_id";
    let right = ask(kernel);
    assert!(!right.contains("may be a function that a kernel calls"), "{right}");
}

#[test]
fn an_import_has_lost_nothing_that_its_file_never_had() {
    let place = CommandFolder::new();
    let event = |cat: &str, name: &str, pid: u32, ts: u32, correlation: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":7,"ts":{ts},"dur":5,"args":{{{correlation}}}}}"#
        )
    };
    let call = event("cuda_runtime", "cudaLaunchKernel", 30, 10, r#""correlation":1"#);
    let gpu = r#""correlation":1,"device":0,"stream":7,"grid":[1,1,1],"block":[32,1,1]"#;
    let events = [call, event("kernel", "spin", 0, 20, gpu)].join(",");
    place.file("t.json", format!(r#"{{"schemaVersion":1,"traceEvents":[{events}]}}"#));
    place.run(&["import", "t.json", "-o", "x.stallmap"]).expect_ok();
    let kernels = place.run(&["top", "kernels", "x.stallmap"]);
    assert!(kernels.expect_ok().stdout.contains("Nothing was lost."), "{}", kernels.stdout);
    let memory = place.run(&["top", "memory", "x.stallmap"]);
    let text = memory.expect_ok().stdout.clone();
    assert!(text.contains("no allocations") && !text.contains("accesses"), "{text}");
    let losses = place.run(&["report", "x.stallmap", "--section", "losses"]);
    assert!(!losses.expect_ok().stdout.contains("not recorded"), "{}", losses.stdout);
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

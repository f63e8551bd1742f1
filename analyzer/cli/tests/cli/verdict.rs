//! `stallmap NAME.stallmap` and `stallmap why`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::word::ActivityKind;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::absent::without;
use crate::command::{CommandFolder, command};
use crate::real::captures;

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");

/// The screen in so many columns.
fn screen(capture: &str, columns: u32) -> String {
    let mut program = command(Path::new(TESTDATA));
    let output =
        program.arg(capture).env("COLUMNS", columns.to_string()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{capture}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_screen_is_24_lines_of_80_columns() {
    for capture in captures(Path::new(TESTDATA)) {
        let path = capture.to_str().unwrap();
        let text = screen(path, 80);
        assert!(text.lines().count() <= 24, "{path}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{path}: {text}");
        // Recorded without samples and times: bars are of sectors.
        if ["sanitize", "pass_truth", "value_truth"].iter().any(|name| path.contains(name)) {
            assert!(text.contains('█') && text.contains("sectors"), "{path}: {text}");
            continue;
        }
        // A time without a source was measured.
        let is_measured = [
            "compiled_step",
            "time_truth",
            "decode_step",
            "ring_truth",
            "blame_replays",
            "latency_truth",
            "ablation_truth",
            "graph_bundles",
            "pipeline_truth",
            "traffic_truth",
            "eight_ranks",
            "step_truth",
            "range_truth",
            "redirect_families",
            "tile_order",
            "block_truth",
            "phase_truth",
            "/pairs/",
        ]
        .iter()
        .any(|name| path.contains(name));
        let is_partly = ["(estimated)", " measured)", " measure…"].iter().any(|words| text.contains(words));
        assert_ne!(is_measured, is_partly, "{path}: {text}");
        // The percents of the bars add up to 100, less one for each that rounds to nothing. Without samples, they are
        // parts of the time.
        let bars = text
            .lines()
            .filter_map(|line| line.split_once(" %  "))
            .map(|(percent, _)| percent.trim().to_owned());
        let percents: Vec<u32> = bars.filter_map(|percent| percent.parse().ok()).collect();
        assert_eq!(percents.iter().sum::<u32>(), 100, "{path}: {text}");
    }
}

#[test]
fn why_answers_for_every_kind_of_finding() {
    let run = |arguments: &[&str]| {
        let ran = command(Path::new(TESTDATA)).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let mut asked = BTreeSet::new();
    for capture in captures(Path::new(TESTDATA)) {
        let path = capture.to_str().unwrap();
        let findings: Value = serde_json::from_str(&run(&[path, "--json"])).unwrap();
        for finding in findings["findings"].as_array().unwrap() {
            if asked.insert(finding["finding"].as_str().unwrap().to_owned()) {
                let number = finding["number"].to_string();
                let why: Value = serde_json::from_str(&run(&["why", path, &number, "--json"])).unwrap();
                assert_ne!(why["evidence"].as_array().unwrap().len(), 0, "{path} {number}: {why}");
            }
        }
    }
    assert!(asked.len() > 15 && asked.contains("exposed_copy"), "{asked:?}");
}

#[test]
fn a_verbose_screen_has_every_kind_of_finding() {
    let run = |arguments: &[&str]| {
        let ran = command(Path::new(TESTDATA)).args(arguments).env("COLUMNS", "80").output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let kinds = run(&["sql", "two_ranks.stallmap", "--json", "-c", "SELECT DISTINCT finding FROM finding"]);
    let kinds: Vec<Value> = serde_json::from_str(&kinds).unwrap();
    let text = run(&["two_ranks.stallmap", "-v"]);
    assert!(kinds.len() > 3 && text.contains("! 16 launches: collective"), "{text}");
    for kind in kinds {
        let kind = kind["finding"].as_str().unwrap().replace('_', " ");
        assert!(text.contains(&kind), "{kind} is not in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().filter(|line| line.starts_with("   ")).all(|line| !line.ends_with('…')), "{text}");
}

#[test]
fn a_finding_for_programs_has_the_rows_of_its_evidence() {
    let place = CommandFolder::new();
    let path = format!("{TESTDATA}/inference_views.stallmap");
    let ran = place.run(&["why", &path, "1", "--line", ":31", "-n", "2", "--json"]);
    let finding: Value = serde_json::from_str(&ran.expect_ok().stdout).unwrap();
    assert_eq!(finding["finding"], "uncoalesced_view");
    let query = finding["query"].as_str().unwrap();
    let rows = place.run(&["sql", &path, "-n", "2", "--json", "-c", query]);
    let rows: Vec<Value> = serde_json::from_str(&rows.expect_ok().stdout).unwrap();
    let evidence = finding["evidence"].as_array().unwrap();
    assert_eq!((evidence.len(), evidence[0]["pc"].is_null()), (2, rows[0]["pc"].is_null()));
    assert!(!finding["instructions"].as_array().unwrap().is_empty(), "{finding}");
    assert_eq!(finding["tensor"].as_array().unwrap().len(), 1);
}

#[test]
fn evidence_shows_its_sentence() {
    let place = CommandFolder::new();
    let why = |capture: &str, kind: &str| {
        let path = format!("{TESTDATA}/pairs/{capture}.stallmap");
        let all = place.run(&[&path, "--json"]);
        let all: Value = serde_json::from_str(&all.expect_ok().stdout).unwrap();
        let found = all["findings"].as_array().unwrap().iter().find(|found| found["finding"] == kind);
        let number = found.unwrap()["number"].to_string();
        place.run(&["why", &path, &number]).expect_ok().stdout.clone()
    };
    let text = why("small_kernels", "small_kernels");
    assert!(text.contains("\n100 more rows: -n shows them\n"), "{text}");
    let text = why("input", "cpu_bound");
    let has_epoch = text.split_whitespace().any(|word| word.trim_end_matches(',').matches(',').count() >= 3);
    assert!(text.contains("begin") && !has_epoch, "{text}");
}

#[test]
fn screens_of_three_programs() {
    let mut all = String::new();
    for (capture, columns) in [
        ("inference_views.stallmap", 80),
        ("inference_views.stallmap", 120),
        ("transformer_step.stallmap", 80),
        ("transformer_step.stallmap", 120),
        ("known_truth.stallmap", 80),
    ] {
        all.extend([
            format!("$ stallmap {capture}   # {columns} columns\n"),
            screen(capture, columns),
            "\n".to_owned(),
        ]);
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("../snapshots");
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("verdict", all));
}

#[test]
fn parts_that_are_missing_are_no_failure() {
    let place = CommandFolder::new();
    let parts: [(&str, &[&str]); 6] = [
        ("only_samples", &["memory_access"]),
        ("only_accesses", &["pc_sample"]),
        ("no_ops", &["op", "op_tensor", "tensor", "storage"]),
        ("no_stacks", &["python_state", "python_frame"]),
        ("no_code", &["module", "function"]),
        ("empty", &["*"]),
    ];
    let mut all = String::new();
    for (name, tables) in parts {
        without(&place, name, tables);
        let ran = place.run(&[name]);
        all.extend([format!("$ stallmap {name}\n"), ran.expect_ok().stdout.clone(), "\n".to_owned()]);
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("../snapshots");
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("verdict_of_parts", all));
}

#[test]
fn programs_read_the_verdict_as_json() {
    let place = CommandFolder::new();
    let capture = format!("{TESTDATA}/inference_views.stallmap");
    let ran = place.run(&[&capture, "--json"]);
    let verdict: Value = serde_json::from_str(&ran.expect_ok().stdout).unwrap();
    let shares = verdict["shares"].as_array().unwrap();
    let total: f64 = shares.iter().map(|share| share["share"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
    assert!(verdict["verdict"].as_str().unwrap().contains("read across its layout"));
    // Its queries give its numbers.
    let sql = verdict["queries"]["tensors"].as_str().unwrap();
    let rows = place.run(&["sql", &capture, "--format", "json", "-c", sql]);
    let rows: Value = serde_json::from_str(&rows.expect_ok().stdout).unwrap();
    assert_eq!(rows[0]["share"], shares[0]["share"]);
    assert!(place.run(&["tiny.stallmap", "--sql"]).expect_ok().stdout.contains("FROM tensor_cost"));
}

#[test]
fn a_finding_is_explained() {
    let place = CommandFolder::new();
    let capture = format!("{TESTDATA}/inference_views.stallmap");
    place.run(&["why", &capture, "1"]).expect_ok();
    let text = place.run(&["why", &capture, "1"]).stdout;
    for part in ["Finding 1: uncoalesced view", "Evidence by samples, descending", "LDG", "t() at :31", "→ "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    place.run(&["why", &capture, "99"]).expect_error(2);
    assert!(place.run(&["why", &capture, "1", "--sql"]).expect_ok().stdout.contains("FROM access_cost"));
}

#[test]
fn the_page_is_shown_and_its_path_is_printed() {
    let place = CommandFolder::new();
    let mut program = command(&place.path("."));
    // No program to show the page is here.
    let output = program.args(["open", "tiny.stallmap"]).env("PATH", place.path("nothing")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("id=\"verdict\""), "{path}");
    std::fs::remove_dir_all(Path::new(&path).parent().unwrap()).unwrap();
}

#[test]
fn words_that_are_nothing_have_a_hint() {
    let place = CommandFolder::new();
    let ran = place.run(&["repotr"]);
    assert!(ran.expect_error(2).stderr.contains("did you mean `report`?"), "{}", ran.stderr);
    place.run(&["tiny.stallmap", "report"]).expect_error(2);
    place.run(&["missing.stallmap"]).expect_error(3);
    let ran = place.run(&["report", "tiyn.stallmap"]);
    assert!(ran.expect_error(3).stderr.contains("did you mean `tiny.stallmap`?"), "{}", ran.stderr);
    let ran = place.run(&["report", "."]);
    assert!(ran.expect_error(3).stderr.contains("1 capture is in it: tiny.stallmap"), "{}", ran.stderr);
    place.file("trace.json", "\u{feff} {\"traceEvents\":[]}");
    let ran = place.run(&["trace.json"]);
    assert!(
        ran.expect_error(3).stderr.contains("`stallmap import trace.json -o NAME.stallmap`"),
        "{}",
        ran.stderr
    );
    let top = |first, second| place.run(&["top", first, second, "--json"]).expect_ok().stdout.clone();
    assert_eq!(top("tensors", "tiny.stallmap"), top("tiny.stallmap", "tensors"));
}

/// The record of a kernel in a body has its node and no call.
#[test]
fn samples_of_kernels_in_bodies_are_named_where_such_kernels_ran() {
    let place = CommandFolder::new();
    let reader = CaptureReader::open(&Path::new(TESTDATA).join("jax_step.stallmap")).unwrap();
    let launches = reader.read_rows::<Launch>().unwrap();
    let in_graph = launches.iter().find(|launch| launch.graph_id.is_some()).unwrap();
    for (name, correlation, is_named) in [("body", 0, true), ("call", 7, false)] {
        let mut writer = CaptureWriter::create(&place.path(name), CaptureForm::File).unwrap();
        for table in reader.tables().iter().filter(|table| table.name != GpuActivity::TABLE.name) {
            writer.take_table(&reader, table).unwrap();
        }
        for file in &reader.manifest().files {
            writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
        }
        let kernel = GpuActivity {
            run_id: in_graph.run_id,
            kind: ActivityKind::Kernel,
            kernel_id: Some(in_graph.kernel_id),
            end_ns: Some(1),
            correlation_id: Some(correlation),
            ..GpuActivity::default()
        };
        writer.append_rows([kernel]).unwrap();
        writer.finish().unwrap();
        let report = place.run(&["report", name]).expect_ok().stdout.clone();
        assert!(report.contains("taken outside the program's kernels"), "{report}");
        assert_eq!(report.contains("in bodies of conditional graph nodes"), is_named, "{report}");
    }
}

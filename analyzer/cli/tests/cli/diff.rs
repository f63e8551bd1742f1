//! `stallmap diff`: output, conservation, ranking of significant rows only, and gates.

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use serde_json::{Map, Value};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableDef;
use stallmap_schema::tables::run::Device;
use stallmap_write::CaptureForm;
use stallmap_write::rewrite::{CaptureRewrite, TableFate, change_rows, rewrite};

use crate::command::{CommandFolder, CommandRun};
use crate::many;

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
const A: &str = "inference_views.stallmap";
const AGAIN: &str = "inference_views_again.stallmap";
const CONTIGUOUS: &str = "inference_views_contiguous.stallmap";
const STEP: &str = "transformer_step.stallmap";
const TIMED: &str = "time_truth.stallmap";

/// A folder with bundled captures, which hides the paths of this machine.
fn place() -> CommandFolder {
    let place = CommandFolder::new();
    for name in [A, AGAIN, CONTIGUOUS, STEP, TIMED] {
        fs::copy(Path::new(TESTDATA).join(name), place.path(name)).unwrap();
    }
    place
}

macro_rules! snapshot {
    ($name:ident, $arguments:expr) => {
        #[test]
        fn $name() {
            place().run(&$arguments).check(stringify!($name));
        }
    };
}

snapshot!(help_diff, ["diff", "--help"]);
snapshot!(diff, ["diff", AGAIN, CONTIGUOUS]);
snapshot!(diff_all, ["diff", AGAIN, CONTIGUOUS, "--by", "tensors,roles,lines,ops,kernels", "-n", "3"]);
snapshot!(diff_of_equal_work, ["diff", A, AGAIN]);
snapshot!(diff_of_measured_time, ["diff", TIMED, TIMED, "--sql"]);
snapshot!(
    diff_markdown,
    ["diff", CONTIGUOUS, AGAIN, "--format", "markdown", "--fail-if", "lines.time > +5%"]
);
snapshot!(diff_github, ["diff", CONTIGUOUS, AGAIN, "--format", "github", "--fail-if", "lines.time > +5%"]);
snapshot!(diff_sarif, ["diff", CONTIGUOUS, AGAIN, "--format", "sarif", "--fail-if", "launches > +5%"]);
snapshot!(diff_of_the_same, ["diff", A, AGAIN, "--by", "tensors,kernels"]);
snapshot!(diff_of_three, ["diff", "old=inference_views.stallmap", AGAIN, CONTIGUOUS, "--by", "lines,roles"]);
snapshot!(diff_instructions, ["diff", AGAIN, CONTIGUOUS, "--by", "instructions", "-n", "4"]);
snapshot!(diff_other_program, ["diff", A, STEP, "--by", "ops", "-n", "2", "-m", "time"]);
snapshot!(diff_sectors, ["diff", AGAIN, CONTIGUOUS, "--by", "kernels", "-m", "sectors", "--format", "csv"]);
snapshot!(diff_sql, ["diff", A, AGAIN, "--by", "kernels", "--sql"]);
snapshot!(diff_scaled, ["diff", A, "tiny.stallmap", "--by", "kernels,tensors", "-n", "3"]);
snapshot!(diff_of_one, ["diff", A]);
snapshot!(diff_bad_gate, ["diff", A, AGAIN, "--fail-if", "tmie > +5%"]);
snapshot!(diff_tensors_by_launches, ["diff", A, AGAIN, "--by", "tensors", "-m", "launches"]);
snapshot!(
    diff_gates,
    [
        "diff",
        AGAIN,
        CONTIGUOUS,
        "--by",
        "roles",
        "-n",
        "1",
        "--fail-if",
        "tensors.samples > +10% beyond noise",
        "--fail-if",
        "time > +5%",
        "--fail-if",
        "kernels.launches > +0"
    ]
);

/// The sections of a comparison that is printed as JSON.
#[track_caller]
fn sections(ran: &CommandRun) -> Vec<(String, Vec<Map<String, Value>>)> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let sections = answer["sections"].as_array_mut().unwrap();
    let section = |section: &mut Value| {
        let name = section["name"].as_str().unwrap().to_owned();
        (name, serde_json::from_value(section["rows"].take()).unwrap())
    };
    sections.iter_mut().map(section).collect()
}

fn number(row: &Map<String, Value>, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_default()
}

#[track_caller]
fn close(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{what}: {found}, expected {expected}"
    );
}

const ALL: &str = "tensors,roles,lines,ops,kernels,instructions";

#[test]
fn rows_add_up_to_both_totals() {
    let place = place();
    let cases = [("samples", AGAIN, CONTIGUOUS), ("sectors", AGAIN, CONTIGUOUS), ("time", TIMED, TIMED)];
    for (metric, one, other) in cases {
        let ran = place.run(&["diff", one, other, "--by", ALL, "-n", "1", "-m", metric, "--format", "json"]);
        let sections = sections(&ran);
        let total = sections[1].1.iter().find(|row| row["what"] == metric).unwrap();
        assert_eq!(sections.len(), 8);
        for (name, rows) in &sections[2..] {
            for column in ["base_value", "value", "change"] {
                let sum: f64 = rows.iter().map(|row| number(row, column)).sum();
                close(sum, number(total, column), &format!("{column} of {name} by {metric}"));
            }
        }
    }
}

#[test]
fn a_capture_does_not_differ_from_itself() {
    let place = place();
    let ran = place.run(&["diff", STEP, STEP, "--by", "tensors,kernels", "--all", "--format", "json"]);
    let sections = sections(&ran);
    assert!(sections[0].1.iter().all(|fact| fact["verdict"] == "same"), "{:?}", sections[0].1);
    for row in sections.iter().skip(1).flat_map(|(_, rows)| rows) {
        assert_eq!((number(row, "change"), row["verdict"].as_str()), (0.0, Some("~")), "{row:?}");
        assert!(number(row, "change_low") <= 0.0 && number(row, "change_high") >= 0.0, "{row:?}");
        assert!(row["status"].is_null() && row["was"].is_null(), "{row:?}");
    }
    let screen = place.run(&["diff", A, A]);
    assert!(!screen.expect_ok().stdout.contains("in how the captures were made"), "{}", screen.stdout);
}

#[test]
fn swapping_captures_mirrors_the_comparison() {
    let place = place();
    let compare = |one, other| {
        let ran =
            place.run(&["diff", one, other, "--by", "tensors,instructions", "--all", "--format", "json"]);
        let mut rows: Vec<Map<String, Value>> =
            sections(&ran).into_iter().skip(1).flat_map(|(_, rows)| rows).collect();
        // Names may differ, but the ranks of significant rows must not.
        rows.retain(|row| row["verdict"] != "~");
        rows
    };
    let (there, back) = (compare(AGAIN, CONTIGUOUS), compare(CONTIGUOUS, AGAIN));
    assert!(there.len() > 10 && there.len() == back.len(), "{} {}", there.len(), back.len());
    for (there, back) in there.iter().zip(&back) {
        close(number(there, "base_value"), number(back, "value"), "first");
        close(number(there, "value"), number(back, "base_value"), "second");
        close(number(there, "change"), -number(back, "change"), "change");
        close(number(there, "change_low"), -number(back, "change_high"), "low");
        let mirrored = match there["verdict"].as_str() {
            Some("more") => "less",
            _ => "more",
        };
        assert_eq!(back["verdict"], mirrored, "{there:?}");
    }
}

#[test]
fn the_view_made_contiguous_is_what_differs() {
    let ran = place().run(&["diff", AGAIN, CONTIGUOUS, "--by", "tensors", "--format", "json"]);
    let sections = sections(&ran);
    let first = &sections[2].1[0];
    assert_eq!(first["what"], "aten::t.default()");
    assert!(first["was"].as_str().unwrap().contains("strides 1,512"), "{first:?}");
    assert!(number(first, "ratio_high") < 0.5, "{first:?}");
    let table = sections[2]
        .1
        .iter()
        .find(|row| row["detail"].as_str().is_some_and(|text| text.contains("200000x256")));
    assert!(table.is_none(), "the embedding's table is unchanged: {table:?}");
}

#[test]
fn queries_that_are_printed_give_the_rows() {
    let place = place();
    let printed = place.run(&["diff", A, AGAIN, "--by", "kernels", "--sql"]).stdout;
    let (a, b) = (format!("a={A}"), format!("b={AGAIN}"));
    let ran = place.run_with_input(&["sql", &a, &b, "--format", "csv"], &printed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let listed = place.run(&["diff", A, AGAIN, "--by", "kernels", "--format", "csv"]).stdout;
    let kernels = listed.split("# kernels\n").nth(1).unwrap();
    assert!(ran.stdout.ends_with(kernels), "{}\nbut\n{kernels}", ran.stdout);
}

#[test]
fn gates_pass_fail_and_cannot_be_judged() {
    let place = place();
    let gate = |gate: &str, files: [&str; 2]| {
        place.run(&["diff", files[0], files[1], "--by", "roles", "--fail-if", gate]).code
    };
    assert_eq!(gate("tensors.samples < -50% beyond noise", [AGAIN, CONTIGUOUS]), Some(6));
    assert_eq!(gate("tensors.samples > +5% beyond noise", [A, AGAIN]), Some(0));
}

#[test]
fn gates_are_rows_for_programs() {
    let place = place();
    let gates = [
        "--fail-if",
        "time > +5%",
        "--fail-if",
        "lines.time < -50% beyond noise",
        "--fail-if",
        "launches > +0",
    ];
    let ran =
        place.run(&[&["diff", CONTIGUOUS, AGAIN, "--by", "roles", "--format", "json"], &gates[..]].concat());
    assert_eq!(ran.code, Some(6));
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let holds: Vec<_> =
        answer["gates"].as_array().unwrap().iter().map(|gate| gate["holds"].clone()).collect();
    assert_eq!(holds, [true, false, false]);
    let verdict = &answer["verdict"][0];
    assert!(verdict["sentence"].as_str().unwrap().starts_with("b is slower than a: +"), "{verdict}");
    assert_eq!(
        (&verdict["is_significant"], &verdict["change"]),
        (&true.into(), &answer["gates"][0]["value"])
    );
}

/// A capture without measured times cannot be compared by time with one that was timed.
#[test]
fn a_measured_time_is_not_compared_with_an_estimate() {
    let place = place();
    place.run(&["diff", TIMED, A, "-m", "time"]).expect_error(7);
    let ran = place.run(&["diff", TIMED, A, "--by", "kernels", "--force"]);
    assert!(ran.stdout.contains("a measured time and an estimate differ"), "{}", ran.stdout);
}

/// Such captures have changes by parts, and a first sentence that says why it has no total.
#[test]
fn a_total_that_cannot_be_compared_has_a_reason() {
    let place = CommandFolder::new();
    let [truth, replays] = ["blame_truth.stallmap", "blame_replays.stallmap"];
    for name in [truth, replays] {
        fs::copy(Path::new(TESTDATA).join(name), place.path(name)).unwrap();
    }
    let diff = |more: &[&str]| place.run(&[&["diff", truth, replays], more].concat());
    let reason = "time is estimated from samples in a, and measured in replays in b";
    let sentence = format!("The total time cannot be compared: {reason}.");
    for arguments in [&[][..], &["-m", "samples"], &["-m", "memory"]] {
        let ran = diff(arguments);
        assert!(ran.expect_ok().stdout.replace('\n', " ").starts_with(&sentence), "{}", ran.stdout);
    }
    let json: Value = serde_json::from_str(&diff(&["--format", "json"]).expect_ok().stdout).unwrap();
    assert_eq!(json["verdict"][0]["sentence"], sentence);
    assert_eq!(json["verdict"][0]["is_significant"], false);
    let github = diff(&["--format", "github"]);
    assert_eq!(github.expect_ok().stdout, format!("::notice title=stallmap diff::{sentence}\n"));
    let gate = diff(&["--fail-if", "time > +5%"]);
    let refused = format!("`time > +5%` cannot be checked: {reason}");
    assert!(gate.expect_error(7).stderr.contains(&refused), "{}", gate.stderr);
}

#[test]
fn gates_of_ones_own_fail_where_they_return_rows() {
    let place = place();
    let common = "SELECT function_id FROM a.kernel_cost WHERE function_id";
    place.file("new.sql", format!("{common} NOT IN (SELECT function_id FROM b.kernel_cost)"));
    place.file("all.sql", format!("{common} IS NULL; SELECT capture, samples FROM every.kernel_cost"));
    place.file("wrong.sql", "SELECT nothing FROM every.kernel_cost");
    let gate = |file: &str| place.run(&["diff", A, AGAIN, "--by", "roles", "--fail-if-rows", file]);
    assert_eq!(gate("new.sql").code, Some(0));
    let failed = gate("all.sql");
    assert_eq!(failed.code, Some(6));
    failed.check("diff_row_gate");
    place.file("sorted.sql", "SELECT kernel, samples FROM b.kernel_cost ORDER BY samples LIMIT 1");
    gate("sorted.sql").check("diff_row_gate_sorted");
    gate("wrong.sql").expect_error(4);
    gate("missing.sql").expect_error(5);
}

/// A capture as if another GPU had made it.
struct OtherGpu;

impl CaptureRewrite for OtherGpu {
    fn fate(&self, table: &str) -> TableFate {
        if table == "device" { TableFate::Changed } else { TableFate::Copied }
    }

    fn change(&mut self, _: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        change_rows(batch, |device: &mut Device| {
            "NVIDIA A100-SXM4-80GB".clone_into(&mut device.name);
            (device.compute_major, device.compute_minor) = (8, 0);
            device.multiprocessor_count = 108;
        })
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn samples_of_other_gpus_are_refused_and_launches_are_not() {
    let place = place();
    let reader = CaptureReader::open(&place.path(AGAIN)).unwrap();
    rewrite(&reader, &place.path("other.stallmap"), CaptureForm::File, &mut OtherGpu).unwrap();
    let diff = |more: &[&str]| {
        place.run(&[&["diff", A, "other.stallmap", "--by", "kernels", "-n", "1"], more].concat())
    };
    let refused = diff(&["-m", "samples"]);
    assert_eq!(refused.code, Some(7));
    refused.check("diff_of_other_gpus");
    diff(&["-m", "samples", "--format", "json"]).expect_error(7);
    diff(&[]).expect_ok();
    diff(&["--fail-if", "samples > +5%"]).expect_error(7);
    diff(&["-m", "launches"]).expect_ok();
    diff(&["-m", "time"]).check("diff_time_of_other_gpus");
    diff(&["-m", "samples", "--force"]).expect_ok();
    let tree = place.run(&["tree", A, "--diff", "other.stallmap", "-d", "1"]);
    assert!(tree.stderr.contains("warning: different GPUs: NVIDIA A100-SXM4-80GB before"), "{}", tree.stderr);
}

#[test]
fn every_has_the_rows_of_all_captures() {
    let place = place();
    let (a, b, c) = (format!("a={A}"), format!("b={AGAIN}"), format!("c={CONTIGUOUS}"));
    let rows = |query: &str| place.run(&["sql", &a, &b, &c, "--format", "csv", "-c", query]);
    let ran = rows("SELECT capture, count(*) AS n FROM every.launch GROUP BY capture ORDER BY capture");
    assert_eq!(ran.stdout, "capture,n\na,3\nb,3\nc,3\n");
    let ran = rows(
        "SELECT capture, round(sum(samples)) AS n FROM every.kernel_cost GROUP BY capture ORDER BY capture",
    );
    let each = rows("SELECT round(sum(samples)) AS n FROM b.kernel_cost");
    assert!(ran.stdout.contains(&format!("b,{}", each.stdout.trim_start_matches("n\n"))), "{}", ran.stdout);
    // A view of one capture is in no other, and so not in every.
    let ran = rows("CREATE VIEW mine AS SELECT 1 AS one; SELECT * FROM every.mine");
    ran.expect_error(4);
    place.run(&["sql", &format!("every={A}"), "-c", "SELECT 1"]).expect_error(2);
}

/// A name near the bound of names, with a difference in its last bytes.
fn long(name: &str) -> String {
    format!("{name:x>60000}")
}

#[test]
fn a_comparison_of_long_names_takes_memory_for_few_copies_of_them() {
    let place = CommandFolder::new();
    many::write(&place.path("long.stallmap"), 100, long).unwrap();
    // Its lines have 24 MB of text in both captures.
    let ran = place.run(&["diff", "long.stallmap", "long.stallmap", "--memory", "512M"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_comparison_of_many_launches_takes_memory_for_those_that_differ() {
    let place = CommandFolder::new();
    many::write(&place.path("many.stallmap"), 20_000, str::to_owned).unwrap();
    // A row for each launch and total takes more. Steps are compared with the phase of each launch.
    for phase in ["all", "steady"] {
        let compared = ["diff", "many.stallmap", "many.stallmap", "--by", "ops", "--phase", phase];
        let ran = place.run(&[&compared[..], &["--memory", "192M"]].concat());
        assert_eq!(ran.code, Some(0), "{phase}: {}", ran.stderr);
    }
}

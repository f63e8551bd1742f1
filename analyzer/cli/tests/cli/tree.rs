//! `stallmap tree` and `stallmap top`: output and conservation.

use std::fs;
use std::path::Path;

use crate::command::{CommandFolder, CommandRun};

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");

/// A folder with a bundled capture, which hides the paths of this machine.
fn place(capture: &str) -> CommandFolder {
    let place = CommandFolder::new();
    let name = format!("{capture}.stallmap");
    fs::copy(Path::new(TESTDATA).join(&name), place.path(&name)).unwrap();
    place
}

macro_rules! snapshot {
    ($name:ident, $capture:expr, $arguments:expr) => {
        #[test]
        fn $name() {
            place($capture).run(&$arguments).check(stringify!($name));
        }
    };
}

const VIEWS: &str = "inference_views.stallmap";
const STEP: &str = "transformer_step.stallmap";
const AGAIN: &str = "inference_views_again.stallmap";
const CONTIGUOUS: &str = "inference_views_contiguous.stallmap";

/// Three recordings of one program, one of them with its view made contiguous.
fn pair() -> CommandFolder {
    let place = place("inference_views");
    for name in [AGAIN, CONTIGUOUS] {
        fs::copy(Path::new(TESTDATA).join(name), place.path(name)).unwrap();
    }
    place
}

macro_rules! snapshot_of_pair {
    ($name:ident, $arguments:expr) => {
        #[test]
        fn $name() {
            pair().run(&$arguments).check(stringify!($name));
        }
    };
}

snapshot_of_pair!(
    tree_of_a_view_made_contiguous,
    ["tree", CONTIGUOUS, "--diff", AGAIN, "-f", "file_function", "-m", "samples,launches"]
);
snapshot_of_pair!(
    tree_of_a_program_again,
    ["tree", VIEWS, "--diff", AGAIN, "-f", "file_function", "-m", "time,memory_share"]
);
snapshot_of_pair!(
    tree_diff_csv,
    ["tree", CONTIGUOUS, "--diff", AGAIN, "--by", "op,kernel", "--format", "csv", "--spread", "2%"]
);
snapshot_of_pair!(tree_diff_sql, ["tree", VIEWS, "--diff", AGAIN, "--sql"]);
snapshot_of_pair!(tree_spread_of_one, ["tree", VIEWS, "--spread", "2%"]);

snapshot!(help_tree, "inference_views", ["tree", "--help"]);
snapshot!(help_top, "inference_views", ["top", "--help"]);
snapshot!(tree, "inference_views", ["tree", VIEWS, "-m", "samples,memory_share,time,launches"]);
snapshot!(
    tree_step,
    "transformer_step",
    ["tree", STEP, "-t", "3%", "--by", "user,op,kernel", "-f", "file_function"]
);
snapshot!(
    tree_modules,
    "transformer_step",
    ["tree", STEP, "--by", "phase,module", "-d", "3", "-m", "time,launches"]
);
snapshot!(tree_bottom_up, "transformer_step", ["tree", STEP, "--bottom-up", "-t", "0.06", "-d", "4"]);
snapshot!(
    tree_flat,
    "transformer_step",
    ["tree", STEP, "--flat", "--by", "op", "-e", "backward", "--sort", "name"]
);
snapshot!(
    tree_include,
    "transformer_step",
    ["tree", STEP, "--by", "op,kernel", "-i", "softmax", "-m", "launches"]
);
snapshot!(
    tree_csv,
    "inference_views",
    ["tree", VIEWS, "--format", "csv", "-d", "4", "-m", "samples,time_per_launch"]
);
snapshot!(tree_layers, "transformer_step", ["tree", STEP, "--by", "layer,phase", "-t", "0.02"]);
snapshot!(
    tree_below_the_kernel,
    "blame_truth",
    ["tree", "blame_truth.stallmap", "--by", "kernel,function,line", "-t", "0.05"]
);
snapshot!(tree_sql, "inference_views", ["tree", VIEWS, "--sql"]);
snapshot!(tree_of_itself, "inference_views", ["tree", VIEWS, "--diff", VIEWS, "-d", "3"]);
snapshot!(
    tree_diff,
    "inference_views",
    ["tree", VIEWS, "--diff", "tiny.stallmap", "--by", "op", "--format", "jsonl"]
);
snapshot!(
    tree_ranges,
    "range_truth",
    ["tree", "range_truth.stallmap", "--by", "range,kernel", "-m", "samples,time,launches,flops,byte/s"]
);
snapshot!(tree_bad_regex, "inference_views", ["tree", VIEWS, "-i", "add("]);
snapshot!(tree_unknown_metric, "inference_views", ["tree", VIEWS, "-m", "sampels"]);
snapshot!(tree_unknown_level, "inference_views", ["tree", VIEWS, "--by", "pyhton,op"]);
snapshot!(tree_bad_share, "inference_views", ["tree", VIEWS, "-t", "150%"]);
snapshot!(tree_two_directions, "inference_views", ["tree", VIEWS, "--flat", "--bottom-up"]);
snapshot!(tree_missing_other, "inference_views", ["tree", VIEWS, "--diff", "other.stallmap"]);
snapshot!(top_tensors, "inference_views", ["top", "tensors", VIEWS, "-n", "2"]);
snapshot!(top_kernels, "transformer_step", ["top", "kernels", STEP, "-n", "3", "--sort", "launches"]);
snapshot!(top_lines, "inference_views", ["top", "lines", "tiny.stallmap", "-n", "1", "--format", "csv"]);
snapshot!(top_sql, "inference_views", ["top", "ops", VIEWS, "--sql", "-n", "3", "--sort", "time"]);
snapshot!(top_findings, "inference_views", ["top", "findings", VIEWS, "-n", "2"]);
snapshot!(top_findings_csv, "inference_views", ["top", "findings", VIEWS, "-n", "1", "--format", "csv"]);
snapshot!(top_findings_of_little, "inference_views", ["top", "findings", "tiny.stallmap"]);
snapshot!(top_findings_by_launches, "inference_views", ["top", "findings", VIEWS, "--sort", "launches"]);
snapshot!(report_findings, "transformer_step", ["report", STEP, "--section", "findings", "--top", "5"]);
snapshot!(top_unknown, "inference_views", ["top", "tensros", VIEWS]);
snapshot!(top_tensors_by_launches, "inference_views", ["top", "tensors", VIEWS, "--sort", "launches"]);

/// Rows of a command that prints JSON.
#[track_caller]
fn rows(ran: &CommandRun) -> Vec<serde_json::Map<String, serde_json::Value>> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[track_caller]
fn sum(ran: &CommandRun, column: &str) -> f64 {
    rows(ran).iter().map(|row| row[column].as_f64().unwrap_or_default()).sum()
}

#[track_caller]
fn check(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{what}: {found}, expected {expected}");
}

#[test]
fn all_samples_are_in_every_tree() {
    let place = place("transformer_step");
    let sql = ["sql", STEP, "--format", "json", "-c", "SELECT sum(samples) AS samples FROM sample"];
    let samples = sum(&place.run(&sql), "samples");
    let filters: [&[&str]; 3] = [
        &["-t", "5%", "-e", "aten::mm"],
        &["-d", "2", "--bottom-up", "-i", "Block"],
        &["--flat", "-t", "1%"],
    ];
    for filter in filters {
        let arguments = [&["tree", STEP, "--format", "json"], filter].concat();
        let ran = place.run(&arguments);
        check(sum(&ran, "self_samples"), samples, &filter.join(" "));
        check(rows(&ran)[0]["samples"].as_f64().unwrap(), samples, "the total");
    }
}

#[test]
fn all_samples_are_in_every_list() {
    let place = place("inference_views");
    for (what, sort) in
        [("tensors", "memory_samples"), ("ops", "samples"), ("lines", "time"), ("kernels", "launches")]
    {
        let ran = place.run(&["top", what, VIEWS, "-n", "1", "--sort", sort, "--format", "json"]);
        check(sum(&ran, "samples"), 5_823.0, what);
        check(sum(&ran, "share"), 1.0, what);
    }
}

#[test]
fn queries_that_are_printed_give_the_rows() {
    let place = place("inference_views");
    for what in ["tensors", "kernels"] {
        let query = place.run(&["top", what, VIEWS, "-n", "1", "--sql"]);
        let asked = rows(&place.run_with_input(&["sql", VIEWS, "--format", "json"], &query.stdout));
        let listed = rows(&place.run(&["top", what, VIEWS, "-n", "1", "--format", "json"]));
        assert_eq!(asked.len(), listed.len(), "{what}");
        for ((name, one), (_, other)) in asked.iter().flatten().zip(listed.iter().flatten()) {
            // Sums are made in any order: their last digits may differ.
            match (one.as_f64(), other.as_f64()) {
                (Some(one), Some(other)) => check(one, other, name),
                _ => assert_eq!(one, other, "{name}"),
            }
        }
    }
    let query = place.run(&["tree", VIEWS, "--sql"]);
    let asked = place.run_with_input(&["sql", VIEWS, "--format", "json"], &query.stdout);
    let tree = place.run(&["tree", VIEWS, "--format", "json"]);
    check(sum(&asked, "samples"), sum(&tree, "self_samples"), "the query of the tree");
}

/// Common rows of the view and of the tree, sorted.
fn totals(ran: &CommandRun, columns: [&str; 4], is_named: impl Fn(&str) -> bool) -> Vec<String> {
    let text = |row: &serde_json::Map<String, serde_json::Value>| {
        let [level, name, samples, own] = columns.map(|column| row[column].clone());
        format!(
            "{level} {name} {} {}",
            samples.as_f64().unwrap_or_default(),
            own.as_f64().unwrap_or_default()
        )
    };
    let named =
        |row: &&serde_json::Map<String, serde_json::Value>| row["name"].as_str().is_some_and(&is_named);
    let mut totals: Vec<String> = rows(ran).iter().filter(named).map(text).collect();
    totals.sort();
    totals
}

#[test]
fn the_views_of_call_paths_have_the_totals_of_the_tree() {
    let levels = ["--by", "python,forward,module,op,kernel", "--format", "json"];
    // Launches without a category are in parentheses in the tree, and omitted in the views.
    let is_named = |name: &str| name != "all launches" && !name.starts_with('(');
    let directions = [
        ("inference_views", "--top-down", "path_top_down"),
        ("inference_views", "--bottom-up", "path_bottom_up"),
        ("transformer_step", "--flat", "path_flat"),
    ];
    for (capture, direction, view) in directions {
        let place = place(capture);
        let path = format!("{capture}.stallmap");
        let tree = place.run(&[&["tree", &path, direction], &levels[..]].concat());
        // The tree shows labels of kernels, the views full names.
        let query = format!(
            "SELECT p.level, coalesce(n.short_kernel, p.name) AS name, p.samples, p.own_samples FROM {view} p \
             LEFT JOIN kernel_name n ON p.level = 'kernel' AND n.kernel = p.name"
        );
        let view = place.run(&["sql", &path, "--format", "json", "-c", &query]);
        let of_tree = totals(&tree, ["kind", "name", "samples", "self_samples"], is_named);
        let of_view = totals(&view, ["level", "name", "samples", "own_samples"], is_named);
        assert!(of_tree.len() > 10);
        assert_eq!(of_tree, of_view, "{direction}");
    }
}

#[test]
fn a_capture_does_not_differ_from_itself() {
    let place = place("transformer_step");
    let metrics = "samples,memory_samples,time,launches,memory_share,time_per_launch";
    let ran = place.run(&["tree", STEP, "--diff", STEP, "-m", metrics, "--format", "json"]);
    let rows = rows(&ran);
    assert!(rows.len() > 100);
    for row in rows {
        let changes = row.iter().filter(|(name, _)| name.ends_with("_change"));
        assert!(changes.filter_map(|(_, change)| change.as_f64()).all(|change| change == 0.0), "{row:?}");
        assert!(!row.contains_key("status") || row["status"].is_null(), "{row:?}");
    }
}

/// The ratio and its interval by name, for unique names.
fn intervals(
    rows: Vec<serde_json::Map<String, serde_json::Value>>,
    name: &str,
    columns: [&str; 3],
) -> TreeIntervals {
    let mut found: TreeIntervals = TreeIntervals::new();
    for row in rows {
        let numbers = columns.map(|column| row[column].as_f64());
        found.entry(row[name].as_str().unwrap_or_default().to_owned()).or_default().push(numbers);
    }
    found.retain(|_, numbers| numbers.len() == 1);
    found
}

type TreeIntervals = std::collections::BTreeMap<String, Vec<[Option<f64>; 3]>>;

/// The label of each kernel by its full name, which trees have in JSON.
fn labels(place: &CommandFolder, capture: &str) -> std::collections::BTreeMap<String, String> {
    let sql = "SELECT kernel AS name, short_kernel AS label FROM kernel_name";
    let ran = place.run(&["sql", capture, "--format", "json", "-c", sql]);
    let text = |row: &serde_json::Map<String, serde_json::Value>, name: &str| {
        row[name].as_str().unwrap_or_default().to_owned()
    };
    rows(&ran).iter().map(|row| (text(row, "name"), text(row, "label"))).collect()
}

#[test]
fn intervals_of_a_tree_are_those_of_the_comparison() {
    let place = pair();
    fs::copy(Path::new(TESTDATA).join(STEP), place.path(STEP)).unwrap();
    for (before, after, least) in [(AGAIN, CONTIGUOUS, 2), (AGAIN, VIEWS, 3), (STEP, STEP, 30)] {
        // Plans take most of the time.
        let metrics = if after == STEP { &["time"][..] } else { &["samples", "time"] };
        for &metric in metrics {
            let listed = ["--flat", "--by", "kernel", "--format", "json", "-m", metric];
            let tree = place.run(&[&["tree", after, "--diff", before], &listed[..]].concat());
            let name = if metric == "time" { "time_ns" } else { metric };
            let columns = ["", "_low", "_high"].map(|end| format!("{name}_ratio{end}"));
            let tree = intervals(rows(&tree), "name", columns.each_ref().map(String::as_str));
            let labels = labels(&place, after);
            let label = |name: String| labels.get(&name).cloned().unwrap_or(name);
            let tree: TreeIntervals = tree.into_iter().map(|(name, row)| (label(name), row)).collect();
            let listed = ["--by", "kernels", "--all", "--format", "json", "-m", metric];
            let diff = place.run(&[&["diff", before, after], &listed[..]].concat());
            let found: serde_json::Value = serde_json::from_str(&diff.expect_ok().stdout).unwrap();
            let sections = found["sections"].as_array().unwrap();
            let kernels = sections.iter().find(|section| section["name"] == "kernels").unwrap();
            let kernels = serde_json::from_value(kernels["rows"].clone()).unwrap();
            let diff = intervals(kernels, "what", ["ratio", "ratio_low", "ratio_high"]);
            let both = diff.iter().filter_map(|(name, numbers)| Some((name, numbers, tree.get(name)?)));
            let mut compared = 0;
            for (name, expected, found) in both.filter(|(_, numbers, _)| numbers[0][0].is_some()) {
                for (found, expected) in found[0].iter().zip(&expected[0]) {
                    check(found.unwrap(), expected.unwrap(), name);
                }
                compared += 1;
            }
            assert!(compared >= least, "{before}, {after}: {compared} kernels");
        }
    }
}

#[test]
fn changes_of_all_rows_are_the_change_of_the_whole() {
    let place = pair();
    for filter in [&["-d", "3"][..], &["--flat", "--by", "op"], &["-e", "add", "--bottom-up"]] {
        let arguments = [&["tree", CONTIGUOUS, "--diff", AGAIN, "--format", "json"], filter].concat();
        let ran = place.run(&arguments);
        let change = rows(&ran)[0]["samples_change"].as_f64().unwrap();
        check(sum(&ran, "self_samples_change"), change, &filter.join(" "));
        check(change, -1_461.0, "the total");
    }
}

#[test]
fn chance_is_marked_whatever_is_shown() {
    let place = pair();
    let verdicts = |arguments: &[&str]| -> Vec<[String; 3]> {
        let ran = place.run(&[&["tree", "--format", "json", "-f", "file_function"], arguments].concat());
        let shown = rows(&ran).into_iter().filter(|row| row["kind"] != "hidden");
        shown.map(|row| ["depth", "name", "samples_verdict"].map(|column| row[column].to_string())).collect()
    };
    assert!(verdicts(&[VIEWS, "--diff", AGAIN]).iter().all(|[.., verdict]| verdict == "\"~\""));
    let mut all = verdicts(&[CONTIGUOUS, "--diff", AGAIN]);
    let has = |wanted: &str| all.iter().any(|[.., verdict]| verdict == wanted);
    assert!(has("\"less\"") && has("\"~\""), "{all:?}");
    let some = verdicts(&[CONTIGUOUS, "--diff", AGAIN, "-d", "5"]);
    all.retain(|[depth, ..]| depth.parse::<usize>().unwrap() <= 5);
    assert_eq!(some, all);
}

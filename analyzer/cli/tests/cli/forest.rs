//! `stallmap forest` and `stallmap export`: output and conservation.

use std::fs;
use std::path::Path;

use crate::command::{CommandFolder, CommandRun};

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
const VIEWS: &str = "inference_views.stallmap";
const STEP: &str = "transformer_step.stallmap";
const PARTS: &str = "training_parts.stallmap";

/// A folder with a bundled capture, which hides the paths of this machine.
fn place(capture: &str) -> CommandFolder {
    let place = CommandFolder::new();
    fs::copy(Path::new(TESTDATA).join(capture), place.path(capture)).unwrap();
    place
}

fn run(capture: &str, arguments: &[&str]) -> CommandRun {
    place(capture).run(arguments)
}

macro_rules! snapshot {
    ($name:ident, $capture:expr, $arguments:expr) => {
        #[test]
        fn $name() {
            run($capture, &$arguments).check(stringify!($name));
        }
    };
}

snapshot!(help_forest, VIEWS, ["forest", "--help"]);
snapshot!(help_export, VIEWS, ["export", "tenprof", "--help"]);
snapshot!(forest, VIEWS, ["forest", VIEWS]);
snapshot!(forest_step, STEP, ["forest", STEP, "-n", "5"]);
snapshot!(forest_of_a_tensor, PARTS, ["forest", PARTS, "--tensor", "9.weight", "-n", "3"]);
snapshot!(forest_csv, VIEWS, ["forest", VIEWS, "--format", "csv", "-n", "2"]);
snapshot!(forest_dot, VIEWS, ["forest", VIEWS, "--dot", "-", "-n", "2"]);
snapshot!(forest_sql, VIEWS, ["forest", VIEWS, "--sql"]);
snapshot!(forest_unknown_tensor, VIEWS, ["forest", VIEWS, "--tensor", "nothing"]);

snapshot!(export_folded, VIEWS, ["export", "folded", VIEWS]);

#[test]
fn folded_stacks_sum_to_the_samples() {
    let folded = run(STEP, &["export", "folded", STEP]);
    let samples = folded.stdout.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(samples.sum::<u64>(), 190_124);
    assert!(folded.stdout.lines().all(|line| line.split(';').count() > 2));
}

/// Names of unclosed elements, or of the first mismatched end tag.
fn unclosed(markup: &str) -> Vec<&str> {
    let mut open = Vec::new();
    for tag in markup.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default());
        }
    }
    open
}

#[test]
fn a_picture_needs_nothing() {
    let place = place(STEP);
    let ran = place.run(&["forest", STEP, "--svg", "forest.svg"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    let svg = fs::read_to_string(place.path("forest.svg")).unwrap();
    assert_eq!(unclosed(&svg), [""; 0]);
    for loaded in ["<script", "<image", "href=", "url(", "@import", "<foreignObject"] {
        assert!(!svg.contains(loaded), "{loaded}");
    }
    assert!(
        svg.contains("prefers-color-scheme: dark") && svg.contains("tf-is-view") && svg.contains("tf-is-hot")
    );
    assert!(!svg.contains("NaN") && !svg.contains("\"inf"));
}

#[test]
fn what_is_shown_and_what_is_not_are_all_samples() {
    let taken = run(STEP, &["sql", STEP, "-c", "SELECT sum(samples) FROM sample", "--format", "csv"]);
    let taken: f64 = taken.stdout.lines().nth(1).unwrap().parse().unwrap();
    for arguments in [&["-n", "1"][..], &["-n", "40"], &["-n", "9999", "--each"]] {
        let ran = run(STEP, &[&["forest", STEP, "--format", "jsonl"], arguments].concat());
        let rows: Vec<serde_json::Value> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let sum: f64 = rows.iter().map(|row| row["self_samples"].as_f64().unwrap()).sum();
        assert!((sum - taken).abs() < 1e-6 * taken, "{arguments:?}: {sum}, not {taken}");
    }
}

/// Rows of a CSV file. Text of these captures has no quotes, but commas.
fn rows(place: &CommandFolder, file: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(place.path(file)).unwrap();
    let mut rows = Vec::new();
    for line in text.lines() {
        let mut cells = vec![String::new()];
        let mut quoted = false;
        for char in line.chars() {
            match char {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                char => cells.last_mut().unwrap().push(char),
            }
        }
        rows.push(cells);
    }
    rows
}

/// A column's sum.
fn sum(rows: &[Vec<String>], column: &str) -> f64 {
    let place = rows[0].iter().position(|name| name == column).unwrap();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    rows[1..].iter().map(|row| row[place].parse::<f64>().unwrap()).sum()
}

#[test]
fn files_of_tenprof_charge_each_stall_once() {
    let place = place(PARTS);
    let ran = place.run(&["export", "tenprof", PARTS, "blame"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    let taken = "SELECT sum(memory_samples) FROM sample_cost";
    let taken = place.run(&["sql", PARTS, "-c", taken, "--format", "csv"]);
    let taken: f64 = taken.stdout.lines().nth(1).unwrap().parse().unwrap();
    let (cost, samples) = (rows(&place, "blame/tensor_stall_cost.csv"), rows(&place, "blame/pc_samples.csv"));
    assert!((sum(&cost, "stalls") - taken).abs() < 1e-6 * taken);
    assert!((sum(&cost, "percent") - 100.0).abs() < 1e-6);
    assert!((sum(&samples, "stalls") - taken).abs() < 1e-6 * taken);
    assert_eq!(samples[0][..4], ["kernel_id", "pystates_hash", "pc", "stalls"]);
    let forest = fs::read_to_string(place.path("blame/forest.txt")).unwrap();
    assert_eq!(forest.matches(": {").count(), 83);
    assert_eq!(forest.matches('{').count(), forest.matches('}').count());
    let dot = fs::read_to_string(place.path("blame/blame.dot")).unwrap();
    assert!(dot.starts_with("digraph") && dot.contains("style=dashed") && dot.contains("color=red"));
    place.run(&["export", "tenprof", PARTS, "blame"]).expect_error(5);
}

/// `dot` does not finish a picture of all tensors of a training step.
#[test]
fn a_drawing_for_tenprof_has_the_costliest_tensors() {
    let place = place(STEP);
    place.run(&["export", "tenprof", STEP, "blame"]).expect_ok();
    let dot = fs::read_to_string(place.path("blame/blame.dot")).unwrap();
    let edges = dot.matches(" -> ").count();
    assert!((100..300).contains(&edges), "{edges} edges");
}

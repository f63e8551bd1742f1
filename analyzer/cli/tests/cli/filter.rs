//! Filters of launches: rows add up to the part that they choose, and the printed statement has the same rows.

use serde_json::Value;

use crate::command::CommandFolder;

fn path(capture: &str) -> String {
    format!("{}/../../testdata/{capture}.stallmap", env!("CARGO_MANIFEST_DIR"))
}

/// The rows of a command that prints JSON.
fn rows(place: &CommandFolder, arguments: &[&str]) -> Vec<Value> {
    let ran = place.run(arguments);
    serde_json::from_str(&ran.expect_ok().stdout).unwrap()
}

fn sum(rows: &[Value], column: &str) -> f64 {
    rows.iter().filter_map(|row| row[column].as_f64()).sum()
}

fn top<'a>(what: &'a str, path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["top", what, path, "--json", "-n", "1000"], more].concat()
}

#[track_caller]
fn check_equal(one: f64, other: f64, of: &str) {
    assert!((one - other).abs() <= 1e-9 * one.abs().max(1.0), "{of}: {one} and {other}");
}

#[test]
fn the_parts_of_all_kernels_are_the_whole() {
    let place = CommandFolder::new();
    let path = path("inference_views");
    let kernels = rows(&place, &["sql", &path, "--format", "json", "-c", "SELECT * FROM kernel_cost"]);
    assert_eq!(kernels.len(), 3);
    for what in ["tensors", "lines", "ops", "kernels"] {
        let whole = rows(&place, &top(what, &path, &[]));
        let mut parts = Vec::new();
        for kernel in &kernels {
            let id = kernel["function_id"].as_str().unwrap().to_owned();
            let part = rows(&place, &top(what, &path, &["--kernel", &id]));
            check_equal(sum(&part, "samples"), kernel["samples"].as_f64().unwrap(), &format!("{what} {id}"));
            parts.extend(part);
        }
        for column in ["samples", "share", "time_ns"] {
            check_equal(sum(&parts, column), sum(&whole, column), &format!("{what} {column}"));
        }
    }
}

#[test]
fn a_line_has_the_same_samples_in_every_list() {
    let place = CommandFolder::new();
    let path = path("inference_views");
    let lines = rows(&place, &top("lines", &path, &[]));
    assert_eq!(lines.len(), 3);
    for line in &lines {
        let name = line["line"].as_str().unwrap();
        let number = format!(":{}", name.split([':', ' ']).nth(1).unwrap());
        for what in ["tensors", "lines", "ops", "kernels"] {
            let part = rows(&place, &top(what, &path, &["--line", &number]));
            check_equal(sum(&part, "samples"), line["samples"].as_f64().unwrap(), &format!("{what} {name}"));
        }
        let tree = rows(&place, &["tree", &path, "--json", "--line", &number]);
        check_equal(tree[0]["samples"].as_f64().unwrap(), line["samples"].as_f64().unwrap(), name);
        let forest = rows(&place, &["forest", &path, "--json", "--line", &number]);
        check_equal(sum(&forest, "self_samples"), line["samples"].as_f64().unwrap(), name);
    }
}

#[test]
fn the_printed_statement_has_the_rows() {
    let place = CommandFolder::new();
    let path = path("inference_views");
    for what in ["tensors", "kernels", "findings"] {
        let more = ["--op", "add", "-k", "elementwise"];
        let statement = place.run(&[&["top", what, &path, "--sql"], &more[..]].concat());
        place.file("query.sql", &statement.expect_ok().stdout);
        let printed = place.run(&["sql", &path, "-f", "query.sql", "--format", "csv"]);
        let listed = place.run(&[&["top", what, &path, "--format", "csv"], &more[..]].concat());
        assert!(listed.expect_ok().stdout.lines().count() > 1, "{}", listed.stdout);
        // A list ends after ten rows, and so does its statement.
        assert_eq!(printed.expect_ok().stdout, listed.stdout, "{what}");
    }
    let sections = place.run(&["report", &path, "--line", ":31", "--sql"]);
    place.file("report.sql", &sections.expect_ok().stdout);
    place.run(&["sql", &path, "-f", "report.sql"]).expect_ok();
}

#[test]
fn the_part_is_printed() {
    let place = CommandFolder::new();
    let path = path("inference_views");
    let shown = "Only --line :31: 1 of 3 launches, 1 of 3 kernels, 46.6 % of all samples.";
    for command in [
        &["report", &path][..],
        &["top", "ops", &path],
        &["tree", &path],
        &["forest", &path],
        &["why", &path],
    ] {
        let ran = place.run(&[command, &["--line", ":31"]].concat());
        assert!(ran.expect_ok().stdout.contains(shown), "{}", ran.stdout);
        let ran = place.run(&[command, &["--line", ":31", "--json"]].concat());
        assert!(ran.expect_ok().stderr.contains(shown) && !ran.stdout.contains("Only"), "{}", ran.stderr);
    }
    let code = place.run(&["source", &path, "--line", ":31"]);
    assert!(code.expect_ok().stdout.contains("elementwise_kernel[add f32]"), "{}", code.stdout);
}

#[test]
fn what_chooses_nothing_is_explained() {
    let place = CommandFolder::new();
    let path = path("inference_views");
    let shown = |arguments: &[&str]| {
        let ran = place.run(&[&["top", "ops", &path], arguments].concat());
        ran.expect_error(2);
        ran.stderr
    };
    assert!(shown(&["--line", ":32"]).contains("no launch has the line `:32`"));
    assert!(shown(&["--op", "nothing"]).contains("the costliest are aten::add.Tensor"));
    assert!(shown(&["--kernel", "nothing"]).contains("no kernel `nothing`"));
    let section = place.run(&["report", &path, "--section", "coverage", "--line", ":31"]);
    assert!(section.expect_error(2).stderr.contains("is about the whole capture"), "{}", section.stderr);
    let diff = place.run(&["diff", &path, &path, "--line", ":31"]);
    assert!(diff.expect_error(2).stderr.contains("--line is an option of report, "), "{}", diff.stderr);
    let why = place.run(&["why", &path, "9", "--line", ":31"]);
    assert!(why.expect_error(2).stderr.contains("no finding 9: these launches have"), "{}", why.stderr);
}

#[test]
fn sections_have_every_format() {
    let place = CommandFolder::new();
    let arguments = ["report", "tiny.stallmap", "--section", "kernels", "--section", "lines", "--format"];
    let run = |format: &str| place.run(&[&arguments[..], &[format]].concat()).expect_ok().stdout.clone();
    let lines = run("jsonl");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines.iter().any(|line| line["section"] == "kernels")
            && lines.iter().any(|line| line["section"] == "lines")
    );
    let text = run("md");
    assert!(
        text.contains("## Kernels\n\n| share |") && text.contains("\n## Python lines\n\n| share |"),
        "{text}"
    );
    assert_eq!(run("table"), run("text"));
    let diff = place.run(&["diff", "tiny.stallmap", "tiny.stallmap", "--format", "jsonl"]);
    assert!(
        diff.expect_ok()
            .stdout
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok_and(|row| row["section"].is_string()))
    );
    let select = ["sql", "tiny.stallmap", "-c", "SELECT name FROM op ORDER BY op_id"];
    let two = place.run(&[&select[..], &["-n", "2"]].concat());
    assert!(
        two.expect_ok().stdout.contains("2 of 4 rows") || two.stderr.contains("2 more"),
        "{}{}",
        two.stdout,
        two.stderr
    );
    assert_eq!(rows(&place, &[&select[..], &["--json"]].concat()).len(), 4);
    let wide = place.run(&["top", "kernels", "tiny.stallmap", "-w"]);
    assert!(wide.expect_ok().stdout.contains("full name"), "{}", wide.stdout);
}

/// Without samples, rows are ranked by time, and so are their shares.
#[test]
fn shares_of_captures_without_samples_are_of_time() {
    let place = CommandFolder::new();
    let base = |capture: &str, filter: [&str; 2]| {
        let ran = place.run(&[&["top", "kernels", &path(capture)][..], &filter].concat());
        let text = ran.stdout.replace('\n', " ");
        (text.contains("parts of all samples."), text.contains("parts of the GPU time of all launches."))
    };
    assert_eq!(base("step_truth", ["--phase", "steady"]), (false, true));
    assert_eq!(base("inference_views", ["--kernel", "s"]), (true, false));
}

/// A finding of several kernels has the phase of its line.
#[test]
fn findings_are_in_the_phase_of_their_line() {
    let place = CommandFolder::new();
    let path = path("two_ranks");
    let lines = |phase: &str| -> Vec<String> {
        let found = rows(&place, &top("findings", &path, &["--phase", phase]));
        found.iter().filter_map(|row| row["line"].as_str().map(str::to_owned)).collect()
    };
    let last = "two_ranks.py:50 main.<locals>.<genexpr>".to_owned();
    assert!(lines("end").contains(&last) && !lines("setup").contains(&last));
}

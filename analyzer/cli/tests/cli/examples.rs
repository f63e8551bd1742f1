//! Every example of `docs/src/reference/commands.md`, and every other command in a page of the book, runs on a bundled
//! capture and exits with 0.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::command::{CommandFolder, KEPT_RESULTS};
use crate::readme::add_pages;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Commands that begin with these are shown, not run: they record, or build.
const FOREIGN: [&str; 5] = ["cargo", "git", "scripts/", "stallmap-record", "uvx"];

/// External requirements of an example: servers, clients, a cluster, Graphviz, a browser.
const NEEDS: [&str; 12] = [
    "http://",
    "https://",
    "s3://",
    "| dot",
    "stallmap-record ",
    "stallmap open ",
    " --cluster ",
    "stallmap cluster ",
    " --http ",
    " --postgres ",
    " --flight ",
    "psql ",
];

/// Names in examples, and their replacements in the test capture.
const NAMES: [(&str, &str); 2] =
    [("--tensor wte.weight", "--tensor aten::t"), ("softmax ", "vectorized_gather ")];

#[test]
fn examples_of_commands_run() {
    let mut pages = Vec::new();
    add_pages(&Path::new(ROOT).join("docs/src"), &mut pages);
    let texts: Vec<String> = pages.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut examples = BTreeSet::new();
    for block in texts.iter().flat_map(|text| text.split("```sh\n").skip(1)) {
        let block = block.split("```").next().unwrap_or_default();
        let commands = block.lines().map(|line| line.split("  #").next().unwrap_or_default().trim_end());
        examples.extend(commands.filter(|line| line.contains("stallmap ") && !line.starts_with('#')));
    }
    assert!(examples.len() > 30, "the pages have examples");
    let is_ours = |line: &&str| {
        !FOREIGN.iter().any(|program| line.starts_with(program))
            && !NEEDS.iter().any(|need| line.contains(need))
    };
    let failed: Vec<String> = examples.into_iter().filter(is_ours).filter_map(failure).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// An example with an identifier would mislead where no bundled capture has it.
#[test]
fn examples_that_name_an_identifier_give_rows() {
    let pages = ["README.md", "docs/src/reference/commands.md"]
        .map(|page| fs::read_to_string(Path::new(ROOT).join(page)));
    let pages = pages.map(|page| page.unwrap());
    let named = regex::Regex::new(r"_id = '?[0-9]").unwrap();
    let examples: Vec<&str> = pages
        .iter()
        .flat_map(|page| page.lines())
        .filter(|line| line.starts_with("stallmap sql ") && named.is_match(line))
        .collect();
    assert!(!examples.is_empty(), "the pages have such examples");
    for example in examples {
        let ran = run(example);
        let rows = String::from_utf8_lossy(&ran.stdout).lines().count().saturating_sub(1);
        assert!(ran.status.success() && rows > 0, "`{example}`: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

/// Why an example fails, if it does.
fn failure(example: &str) -> Option<String> {
    let ran = run(example);
    let said = String::from_utf8_lossy(&ran.stderr);
    (!ran.status.success()).then(|| format!("`{example}` exits with {}: {said}", ran.status))
}

fn run(example: &str) -> Output {
    let place = CommandFolder::new();
    let example = NAMES.iter().fold(format!("{example} "), |text, (name, here)| text.replace(name, here));
    furnish(&place, &example);
    let path = Path::new(env!("CARGO_BIN_EXE_stallmap")).parent().unwrap();
    let old = std::env::var("PATH").unwrap_or_default();
    Command::new("sh")
        .args(["-c", &example])
        .current_dir(place.path("."))
        .env("PATH", format!("{}:{old}", path.display()))
        .env("HOME", place.path("."))
        .env("STALLMAP_CACHE", &*KEPT_RESULTS)
        .env_remove("STALLMAP_LIBRARY")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Creates the files that examples name: captures, a folder of one, a library, a query, a project.
fn furnish(place: &CommandFolder, example: &str) {
    let bundled = |name: &str| Path::new(ROOT).join(format!("testdata/{name}.stallmap"));
    let words: Vec<&str> = example.split([' ', '=']).filter(|word| !word.is_empty()).collect();
    let makes = ["pack", "redact"].iter().any(|command| words.get(1) == Some(command));
    for (at, name) in words.iter().enumerate() {
        let is_made = at > 0 && words[at - 1] == "-o" || makes && at == 3;
        if name.ends_with(".stallmap") && !is_made {
            // Operators have measured kernels only.
            let source = if words.contains(&"operator-profiler") { "time_truth" } else { "inference_views" };
            drop(fs::copy(bundled(source), place.path(&name.replace('*', "train"))));
        }
    }
    if example.contains(" train/ ") && !example.contains("unpack") {
        let ran = place.run(&["unpack", bundled("inference_views").to_str().unwrap(), "train"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    fs::create_dir_all(place.path("runs")).unwrap();
    fs::copy(bundled("inference_views"), place.path("runs/train.stallmap")).unwrap();
    if ["trend ", "--base "].iter().any(|part| example.contains(part)) {
        for (name, branch, commit) in
            [("1", "main", "c1"), ("2", "main", "c2"), ("3", "main", "c3"), ("4", "pr", "9c01")]
        {
            let path = format!("runs/{name}.stallmap");
            fs::copy(bundled("inference_views"), place.path(&path)).unwrap();
            let labels = ["model=gpt2".to_owned(), format!("branch={branch}"), format!("commit={commit}")];
            let labels = labels.each_ref().map(String::as_str);
            place.run(&[&["label", path.as_str()], &labels[..]].concat()).expect_ok();
        }
    }
    for folder in ["my", "project", "shared", ".local/share/bash-completion/completions"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    place.file(
        "trace.json.gz",
        r#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{}}]"#,
    );
    let report = Path::new(ROOT).join("testdata/ncu/pipe.ncu-rep.gz");
    drop(fs::copy(report, place.path("report.ncu-rep")));
    place.file("execution.json", r#"{"nodes":[{"id":1,"name":"aten::mm"}]}"#);
    for rank in 0..2 {
        let op = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":7,"ts":1,"dur":2}"#;
        let trace = format!(r#"{{"distributedInfo":{{"rank":{rank}}},"traceEvents":[{op}]}}"#);
        place.file(&format!("rank{rank}.json.gz"), trace);
    }
    place.file("query.sql", "SELECT count(*) FROM launch");
    place.file("gate.sql", "SELECT kernel FROM b.kernel_cost WHERE function_id IS NULL");
    place.file(
        "my/slow.sql",
        "-- Which kernels cost most?\n-- $top = 3: rows\nSELECT kernel FROM kernel_cost ORDER BY samples DESC LIMIT $top\n",
    );
}

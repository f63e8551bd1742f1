//! The SQL library on captures: every `sql/**/*.slt` next to its view, and the rules of the library.
//!
//! A test file begins with `# capture: NAME` (`tiny`, `blame`, `counters`, `graphs`, `replays`, `sampled_replays`,
//! `summarized`, or a path under `testdata/` without `.stallmap`), then has records in sqllogictest's format: `query`, the SQL, `----`,
//! one line per row with columns separated by ` | `, a blank line. For statements that must fail: `statement error
//! TEXT` and the SQL. `UPDATE=1` writes the results of the views,
//! `ONLY=TEXT` looks only at files whose path contains the text.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod absent;
mod blame;
mod cost_from;
mod counters;
mod craft;
mod dice;
mod diff;
mod elf;
mod filter;
mod filtered;
mod finding;
mod finding_crafted;
mod first_words;
mod graphs;
mod hex_text;
mod label;
mod life;
mod lines;
mod lost;
mod lying;
mod memory;
mod modules;
mod observed;
mod packed;
mod page;
mod planted;
mod redact;
mod repeated;
mod replay;
mod requests;
mod sanitize;
mod savings;
mod session;
mod spans;
mod sum;
mod summarized;
mod values;
mod why;
mod words;

use stallmap_testkit::tiny;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::executor::block_on;
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;
use stallmap_write::CaptureForm;
use tokio::runtime;

fn sql_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql")
}

fn open(name: &str, folder: &Path) -> Session {
    Session::open(&[(None, capture(name, folder))]).unwrap()
}

/// A session over the capture that a test file names, with the samples that count as cost if it names these.
fn open_named(name: &str, folder: &Path) -> Session {
    let (name, cost_from) = name.split_once(" --cost-from ").unwrap_or((name, "auto"));
    let resources = SessionResources { cost_from: cost_from.parse().unwrap(), ..SessionResources::NONE };
    Session::open_with(&[(None, capture(name, folder))], &resources).unwrap()
}

fn capture(name: &str, folder: &Path) -> PathBuf {
    let made = folder.join(format!("{name}.stallmap"));
    match name {
        "tiny" | "blame" | "counters" | "graphs" | "replays" | "sampled_replays" | "summarized"
            if made.exists() =>
        {
            made
        }
        "tiny" => tiny::write(&made, CaptureForm::File).map(|_| made).unwrap(),
        "blame" => {
            blame::write(&made);
            made
        }
        "summarized" => {
            summarized::write(&made);
            made
        }
        "counters" => {
            counters::write(&made);
            made
        }
        "graphs" => {
            graphs::write(&made);
            made
        }
        "replays" | "sampled_replays" => {
            replay::write(&made, name == "sampled_replays");
            made
        }
        recorded => {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(format!("{recorded}.stallmap"))
        }
    }
}

/// The rows of a result, columns separated by ` | `, or its error.
async fn answer(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let frame = session.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for batch in batches {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            // A zero's sign depends only on the order of additions.
            let text = |text: String| if text == "-0.0" { "0.0".to_owned() } else { text };
            let cells: Vec<String> =
                columns.iter().map(|column| text(column.value(row).to_string())).collect();
            rows.push(cells.join(" | ").replace('\n', "\\n").trim_end().to_owned());
        }
    }
    Ok(rows)
}

/// Runs a test file. Returns its text with the current results.
async fn run(text: &str, session: &Session) -> String {
    let mut given = String::new();
    for record in text.split("\n\n") {
        let record = record.trim_matches('\n');
        let (comments, rest): (Vec<&str>, Vec<&str>) = record.lines().partition(|line| line.starts_with('#'));
        let mut lines = comments.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        if let Some((kind, sql)) = rest.split_first() {
            let sql: Vec<&str> = sql.iter().take_while(|line| **line != "----").copied().collect();
            let answer = answer(session, &sql.join("\n")).await;
            let (first, rows) = match (kind.starts_with("statement error"), answer) {
                (true, Err(error)) => {
                    (format!("statement error {}", error.lines().next().unwrap_or_default()), None)
                }
                (true, Ok(_)) => ("statement error, but it succeeds".to_owned(), None),
                (false, Ok(rows)) => ((*kind).to_owned(), Some(rows)),
                (false, Err(error)) => (format!("{kind} fails: {error}"), Some(Vec::new())),
            };
            lines.push(first);
            lines.extend(sql.iter().map(|line| (*line).to_owned()));
            lines.extend(rows.into_iter().flat_map(|rows| std::iter::once("----".to_owned()).chain(rows)));
        }
        given += &lines.join("\n");
        given += "\n\n";
    }
    format!("{}\n", given.trim_end())
}

fn test_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for package in fs::read_dir(sql_folder().join("views")).unwrap() {
        let package = package.unwrap().path();
        if package.is_dir() {
            let entries = fs::read_dir(&package).unwrap().map(|entry| entry.unwrap().path());
            files.extend(entries.filter(|path| path.extension().is_some_and(|e| e == "slt")));
        }
    }
    files.sort();
    assert!(files.len() > 100, "the library has tests");
    if let Ok(text) = std::env::var("ONLY") {
        files.retain(|file| file.display().to_string().contains(&text));
    }
    files
}

/// Two threads: this test is one of the last, and takes minutes.
#[test]
fn views_give_their_golden_answers() {
    let mut files_of: BTreeMap<String, Vec<(PathBuf, String)>> = BTreeMap::new();
    for file in test_files() {
        let text = fs::read_to_string(&file).unwrap();
        let capture = text.lines().next().and_then(|line| line.strip_prefix("# capture: "));
        let capture = capture.expect("a test file begins with `# capture: NAME`").to_owned();
        files_of.entry(capture).or_default().push((file, text));
    }
    let (captures, wrong) = (Mutex::new(files_of.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let next = || captures.lock().unwrap().next();
                while let Some((capture, files)) = next() {
                    wrong.lock().unwrap().extend(changed_answers(&capture, files));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "UPDATE=1 writes new results:\n{}", wrong.join("\n"));
}

/// The files of a capture whose results differ from what they hold.
fn changed_answers(capture: &str, files: Vec<(PathBuf, String)>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let session = open_named(capture, folder.path());
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut wrong = Vec::new();
    for (file, text) in files {
        let given = runtime.block_on(run(&text, &session));
        if given != text && std::env::var_os("UPDATE").is_some() {
            fs::write(&file, given).unwrap();
        } else if given != text {
            let first = given.lines().zip(text.lines()).find(|(given, text)| given != text);
            wrong.push(format!("{}: given, expected: {first:?}", file.display()));
        }
    }
    wrong
}

/// Threads decide the order of rows that no query orders.
#[test]
fn queries_that_give_several_rows_order_them() {
    for file in test_files() {
        let text = fs::read_to_string(&file).unwrap();
        for record in text.split("\n\n") {
            let Some((sql, rows)) = record.split_once("\n----\n") else { continue };
            let ordered = outside_parentheses(sql).contains("ORDER BY");
            assert!(ordered || rows.trim().lines().count() < 2, "no order, {}: {sql}", file.display());
        }
    }
}

/// The text of a query outside of its parentheses.
fn outside_parentheses(sql: &str) -> String {
    let mut depth = 0_usize;
    let outside = |c: &char| {
        depth = if *c == ')' { depth.saturating_sub(1) } else { depth + usize::from(*c == '(') };
        depth == 0
    };
    sql.chars().filter(outside).collect()
}

#[test]
fn every_view_is_documented_and_tested() {
    let folder = tempfile::tempdir().unwrap();
    let session = open("tiny", folder.path());
    for view in session.library().unwrap() {
        let planned = block_on(session.plan(&format!("SELECT * FROM {}", view.name))).unwrap();
        let planned: Vec<&str> =
            planned.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let documented: Vec<&str> = view.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(planned, documented, "columns of `{}`", view.name);
        let test = sql_folder().join("views").join(&view.package).join(format!("{}.slt", view.name));
        assert!(test.exists(), "{} is missing", test.display());
    }
}

#[test]
fn views_never_sort() {
    let folder = tempfile::tempdir().unwrap();
    for view in open("tiny", folder.path()).library().unwrap() {
        let sql =
            view.sql.lines().filter(|line| !line.trim().starts_with("--")).collect::<Vec<_>>().join("\n");
        // Queries that a view gives as text may sort.
        let sql = sql.split('\'').step_by(2).collect::<String>();
        let last = sql.rsplit(')').next().unwrap_or_default();
        assert!(!last.contains("ORDER BY") && !last.contains("LIMIT"), "`{}` sorts", view.name);
        assert!(sql.lines().count() <= 150, "`{}` is too long", view.name);
    }
}

/// The packages, each of which may read itself and those before it.
const PACKAGES: [&str; 16] = [
    "base", "tensor", "stall", "counter", "traffic", "cost", "time", "pattern", "forest", "life", "replay",
    "kernel", "path", "sanitize", "coverage", "finding",
];

#[test]
fn packages_build_on_each_other_in_one_direction() {
    let folder = tempfile::tempdir().unwrap();
    let session = open("tiny", folder.path());
    let library = session.library().unwrap();
    let rank = |package: &str| PACKAGES.iter().position(|known| *known == package).expect("a known package");
    for view in library {
        let state = session.context().state();
        let statement = state.sql_to_statement(&view.sql, &datafusion::config::Dialect::Generic).unwrap();
        for name in state.resolve_table_references(&statement).unwrap() {
            if let Some(read) = library.iter().find(|other| other.name == name.table()) {
                assert!(rank(&read.package) <= rank(&view.package), "`{}` reads `{}`", view.name, read.name);
            }
        }
    }
}

#[test]
fn the_index_is_what_the_library_says() {
    const MARK: &str = "<!-- views: written by UPDATE=1 cargo test -p stallmap --test sql -->\n";
    let folder = tempfile::tempdir().unwrap();
    let session = open("tiny", folder.path());
    let path = sql_folder().join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let (rules, index) = text.split_once(MARK).expect("the mark before the index");
    let mut expected = String::from("\n| package | view | one row |\n|---|---|---|\n");
    let mut views: Vec<_> = session.library().unwrap().iter().collect();
    views.sort_by_key(|view| PACKAGES.iter().position(|package| *package == view.package));
    for view in views {
        let first = view.doc.split("\n\n").next().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let (package, name) = (&view.package, &view.name);
        writeln!(expected, "| {package} | [`{name}`](views/{package}/{name}.sql) | {first} |").unwrap();
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{rules}{MARK}{expected}")).unwrap();
    } else {
        assert_eq!(index, expected, "UPDATE=1 writes the index");
    }
}

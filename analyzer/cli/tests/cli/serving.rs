//! A running `stallmap serve`, and the attacks that each of its protocols must withstand.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::command::{CommandFolder, command};

/// A query that never ends by itself.
pub(crate) const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 10000000) a, \
                                  generate_series(1, 10000000) b WHERE a.value % 7 = b.value % 11";

/// A recursive query that never ends by itself.
pub(crate) const RECURSIVE: &str =
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r";

/// A query that doubles a text without end.
pub(crate) const DOUBLING: &str =
    "WITH RECURSIVE r(s) AS (SELECT 'a' UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r";

/// A statement whose last type doubles at each of its tables, which DataFusion computes in one step.
pub(crate) fn doubled() -> String {
    let table = |t| format!(", t{} AS (SELECT struct(a, a) AS a FROM t{t})", t + 1);
    let tables = (0..30).map(table).collect::<Vec<_>>().concat();
    format!("WITH t0 AS (SELECT 1 AS a){tables} SELECT a FROM t30")
}

/// Short statements whose plans are too large, with a part of the error for each.
pub(crate) fn too_large() -> [(String, &'static str); 5] {
    let chain = |count: usize, first: &str, next: &dyn Fn(usize) -> String| {
        let others: Vec<String> = (1..=count).map(|at| format!(", a{at} AS ({})", next(at - 1))).collect();
        format!("WITH a0 AS ({first}){}", others.concat())
    };
    let twice = chain(23, "SELECT 1 n", &|at| format!("SELECT x.n FROM a{at} x, a{at} y"));
    let sums = chain(24, "SELECT kernel_id n FROM launch", &|at| format!("SELECT n + n AS n FROM a{at}"));
    let after = chain(150, "SELECT 1 n", &|at| format!("SELECT n FROM a{at}"));
    let tables: Vec<String> = (0..90).map(|at| format!("launch l{at}")).collect();
    let tables = tables.join(", ");
    [
        (format!("{twice} SELECT count(*) FROM a23"), "relations or more"),
        (vec!["SELECT 1"; 10_000].join(" UNION ALL "), "relations or more"),
        (format!("{sums} SELECT n FROM a24 WHERE n > 1"), "expressions of the statement have"),
        (format!("{after} SELECT n FROM a150"), "above each other"),
        (
            (0..12)
                .map(|at| format!("SELECT * FROM (SELECT * FROM {tables}) x{at}"))
                .collect::<Vec<_>>()
                .join(" UNION ALL "),
            "columns",
        ),
    ]
}

/// A running `stallmap serve`, ended when dropped.
pub(crate) struct ServeProcess(Child);

impl ServeProcess {
    /// Starts a server on a free port for an option such as `--http`. Returns the two lines that it prints, too.
    pub(crate) fn start(place: &CommandFolder, option: &str, arguments: &[&str]) -> (Self, [String; 2]) {
        let mut child = command(&place.path(""))
            .args(["serve", option, "127.0.0.1:0"])
            .args(arguments)
            .env_remove("STALLMAP_PASSWORD")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let printed = [lines.next().unwrap(), lines.next().unwrap()];
        (Self(child), printed)
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Statements that read or write a file.
pub(crate) fn statements_on(file: &str) -> [String; 6] {
    [
        format!("SELECT * FROM '{file}'"),
        format!("SELECT * FROM \"{file}\""),
        format!("SELECT * FROM read_csv('{file}')"),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{file}'"),
        format!("COPY launch TO '{file}'"),
        format!("EXPLAIN ANALYZE COPY launch TO '{file}'"),
    ]
}

/// Checks that a protocol's option takes no address beyond loopback without a certificate, and no other text.
pub(crate) fn check_addresses(place: &CommandFolder, option: &str) {
    let run = |address: &str| place.run(&["serve", "tiny.stallmap", option, address]);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ran = run(address);
        assert!(ran.expect_error(2).stderr.contains("hint: add --tls-cert"), "{}", ran.stderr);
    }
    assert!(run("nothing").expect_error(2).stderr.contains("is not an address"));
}

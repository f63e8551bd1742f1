//! A running `stallmap serve`, and the attacks that each of its protocols must withstand.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::command::{Place, command};

/// A query that never ends by itself.
pub(crate) const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 10000000) a, \
                                  generate_series(1, 10000000) b WHERE a.value % 7 = b.value % 11";

/// A running `stallmap serve`, ended when dropped.
pub(crate) struct Serving(Child);

impl Serving {
    /// Starts a server on a free port for an option such as `--http`. Returns the two lines that it prints, too.
    pub(crate) fn start(place: &Place, option: &str, arguments: &[&str]) -> (Self, [String; 2]) {
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

impl Drop for Serving {
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
pub(crate) fn check_addresses(place: &Place, option: &str) {
    let run = |address: &str| place.run(&["serve", "tiny.stallmap", option, address]);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ran = run(address);
        assert!(ran.expect_error(2).stderr.contains("hint: add --tls-cert"), "{}", ran.stderr);
    }
    assert!(run("nothing").expect_error(2).stderr.contains("is not an address"));
}

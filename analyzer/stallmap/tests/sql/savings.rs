//! Savings of findings in `testdata/pairs`: what programs gained that took the advice, timed natively on the same GPU.
//!
//! `scripts/check-pairs record` makes the captures and `times.jsonl`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stallmap::session::Session;

use super::answer;

/// Part of a step that two measurements of it may differ by.
const NOISE: f64 = 0.01;

fn pairs() -> (PathBuf, Vec<Value>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs");
    let text = fs::read_to_string(folder.join("times.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (folder, rows.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measured_savings_lie_in_their_intervals() {
    let (folder, pairs) = pairs();
    let mut tested = 0;
    for pair in pairs {
        let (name, finding) = (pair["pair"].as_str().unwrap(), pair["finding"].as_str().unwrap());
        let capture = folder.join(format!("{name}.stallmap"));
        if !capture.exists() {
            continue;
        }
        let session = Session::open(&[(None, capture)]).unwrap();
        let query = format!(
            "SELECT saving_low_ns, saving_high_ns FROM finding WHERE finding = '{finding}' AND saving_high_ns IS NOT NULL \
             ORDER BY finding_rank LIMIT 1"
        );
        let row = answer(&session, &query).await.unwrap();
        let row: Vec<f64> = row[0].split(" | ").map(|cell| cell.parse().unwrap()).collect();
        let (bad, good) = (pair["bad_ns"].as_f64().unwrap(), pair["good_ns"].as_f64().unwrap());
        let (saved, noise) = (bad - good, NOISE * bad);
        assert!(
            (row[0] - noise..=row[1] + noise).contains(&saved),
            "{name}: {saved} ns saved, {row:?} predicted"
        );
        tested += 1;
    }
    assert!(tested >= 4, "{tested} captures of pairs");
}

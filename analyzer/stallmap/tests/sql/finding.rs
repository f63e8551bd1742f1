//! Findings of every bundled capture: their cost is a part of the samples, and their evidence can be queried.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use stallmap::session::Session;

use super::answer;

const FINDINGS: &str = "SELECT finding, query, samples, saving_samples, share, saving_share FROM finding
    ORDER BY saving_samples DESC, finding, subject";

/// Columns of a finding that tests need.
struct FindingColumns {
    kind: String,
    query: String,
    numbers: [f64; 4],
}

pub(crate) fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut captures: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "stallmap")).collect();
    captures.sort();
    captures
}

async fn findings(session: &Session) -> Vec<FindingColumns> {
    let mut findings = Vec::new();
    for batch in session.sql(FINDINGS).await.unwrap().collect().await.unwrap() {
        let texts = [0, 1].map(|column| cast(batch.column(column), &DataType::Utf8).unwrap());
        let numbers = [2, 3, 4, 5].map(|column| batch.column(column).as_primitive::<Float64Type>().clone());
        for row in 0..batch.num_rows() {
            let text = |column: usize| texts[column].as_string::<i32>().value(row).to_owned();
            let numbers = [0, 1, 2, 3].map(|column: usize| numbers[column].value(row));
            findings.push(FindingColumns { kind: text(0), query: text(1), numbers });
        }
    }
    findings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn findings_cost_no_more_than_was_sampled_and_show_their_evidence() {
    for capture in captures() {
        let session = Session::open(&[(None, capture.clone())]).unwrap();
        let taken = answer(&session, "SELECT coalesce(sum(samples), 0) FROM sample").await.unwrap();
        let taken: f64 = taken[0].parse().unwrap();
        if taken == 0.0 {
            continue;
        }
        let mut asked = BTreeSet::new();
        for FindingColumns { kind, query, numbers } in findings(&session).await {
            let [samples, saving, share, saving_share] = numbers;
            let name = format!("{kind} of {}", capture.display());
            assert!((0.0..=samples * (1.0 + 1e-9)).contains(&saving), "{name}: {saving} of {samples}");
            assert!(samples <= taken * (1.0 + 1e-9), "{name}: {samples} of {taken}");
            assert!(
                (share * taken - samples).abs() < 1e-6 * taken && saving_share <= share * (1.0 + 1e-9),
                "{name}"
            );
            // Queries of one kind differ in numbers only: all are planned, and the costliest is run.
            session.sql(&query).await.unwrap_or_else(|error| panic!("{name}: {error}: {query}"));
            if asked.insert(kind) {
                let rows =
                    answer(&session, &query).await.unwrap_or_else(|error| panic!("{name}: {error}: {query}"));
                assert!(!rows.is_empty(), "{name}: {query}");
            }
        }
    }
}

//! Wrong accesses: the planted ones, by the marks in their programs, and none in correct programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{answer, capture};
use stallmap::session::Session;

/// Captures of correct programs: of PyTorch, Triton and CUDA, with graphs and several ranks, and the twins of the wrong ones.
const CORRECT: [&str; 13] = [
    "access_truth",
    "decode_step",
    "finding_truth",
    "graph_bundles",
    "graph_replay",
    "inference_views",
    "known_truth",
    "sanitize/right",
    "sanitize/sampled_blocks",
    "sanitize/torch_right",
    "training_parts",
    "transformer_step",
    "two_ranks",
];

async fn rows(name: &str, sql: &str) -> Vec<String> {
    let session = Session::open(&[(None, capture(name, Path::new("")))]).unwrap();
    answer(&session, sql).await.unwrap()
}

/// The lines of a program that end in a mark, by the mark's name.
fn marks(program: &str, mark: &str) -> BTreeMap<String, usize> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/programs").join(program);
    let text = fs::read_to_string(path).unwrap();
    let marked =
        text.lines().zip(1..).filter_map(|(text, line)| Some((text.rsplit_once(mark)?.1.to_owned(), line)));
    marked
        .filter(|(name, _)| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correct_programs_have_no_wrong_accesses() {
    for name in CORRECT {
        assert_eq!(rows(name, "SELECT defect, fact FROM wrong_access").await, [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_kernel_is_found_at_its_line() {
    let sql = "SELECT DISTINCT regexp_replace(n.short_kernel, ' .*$', ''), w.source_line, w.other_source_line \
               FROM wrong_access w JOIN launch l ON l.kernel_id = w.kernel_id \
               JOIN kernel_name n ON n.function_id = l.function_id";
    let found: BTreeSet<String> = rows("sanitize/wrong", sql).await.into_iter().collect();
    let (at, with) = (marks("sanitize_truth.cu", "// at: "), marks("sanitize_truth.cu", "// with: "));
    assert_eq!(at.len(), 25);
    // Its fence may order its blocks.
    for (name, line) in at.iter().filter(|(name, _)| *name != "early_total") {
        let lines: Vec<String> = [Some(line), with.get(name)]
            .into_iter()
            .flatten()
            .map(|line| format!("sanitize_truth.cu:{line}"))
            .collect();
        let own: Vec<&String> = found.iter().filter(|row| row.starts_with(&format!("{name} |"))).collect();
        assert!(!own.is_empty(), "{name} is not found");
        for row in own {
            let places: Vec<&str> = row.split(" | ").skip(1).filter(|place| *place != "NULL").collect();
            assert!(places.iter().all(|place| lines.iter().any(|line| line == place)), "{row}: {lines:?}");
        }
    }
    let known = |row: &&String| at.contains_key(row.split(" |").next().unwrap_or_default());
    assert_eq!(found.iter().filter(|row| !known(row)).count(), 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_program_is_found_at_its_line() {
    let sql = "SELECT DISTINCT coalesce(source_line, regexp_replace(line, ' .*$', '')) FROM wrong_access";
    let found: BTreeSet<String> = rows("sanitize/torch", sql).await.into_iter().collect();
    let marked: BTreeSet<String> = marks("sanitize_truth.py", "# at: ")
        .values()
        .map(|line| format!("sanitize_truth.py:{line}"))
        .collect();
    assert_eq!(found, marked);
    assert_eq!(marked.len(), 12);
}

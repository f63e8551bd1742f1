//! `--cost-from`: the samples that count as cost are those of one choice, in every answer and in what is stored.

use std::path::Path;

use stallmap::code::ResultCache;
use stallmap::session::Session;
use stallmap::session::resources::{CostFrom, SessionResources};

use crate::{answer, replay};

const RUNS: &str = "SELECT kernel_id, run_id FROM cost_run ORDER BY kernel_id";
const COST: &str = "SELECT kernel_id, round(samples, 6) FROM sample_cost ORDER BY kernel_id";
/// Launches and reasons whose charges are not their samples.
const VIOLATIONS: &str = "SELECT s.kernel_id, s.stall_reason, s.samples, c.samples \
    FROM (SELECT kernel_id, stall_reason, sum(samples) AS samples FROM sample GROUP BY 1, 2) s \
    LEFT JOIN (SELECT kernel_id, stall_reason, sum(samples) AS samples FROM stall_charge GROUP BY 1, 2) c \
    ON c.kernel_id = s.kernel_id AND c.stall_reason = s.stall_reason \
    WHERE abs(s.samples - coalesce(c.samples, 0.0)) > 1e-6 * s.samples";

fn open(path: &Path, cache: &ResultCache, cost_from: CostFrom) -> Session {
    let resources = SessionResources { cache: cache.clone(), cost_from, ..SessionResources::NONE };
    Session::open_with(&[(None, path.to_owned())], &resources).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_choice_charges_all_samples() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made.stallmap");
    replay::write(&made, true);
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    for path in [made, testdata.join("blame_replays.stallmap"), testdata.join("training_parts.stallmap")] {
        for cost_from in CostFrom::ALL {
            let session = open(&path, &ResultCache::NONE, cost_from);
            let violations = answer(&session, VIOLATIONS).await.unwrap();
            assert!(violations.is_empty(), "{} {cost_from}: {violations:?}", path.display());
        }
    }
}

/// Each choice has rows of its own in the cache: those of another are never read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_rows_are_those_of_the_choice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.stallmap");
    replay::write(&path, true);
    let cache = ResultCache::at(folder.path().join("cache"));
    let mut seen = Vec::new();
    for _ in 0..2 {
        for cost_from in CostFrom::ALL {
            let session = open(&path, &cache, cost_from);
            session.keep_views_of(&[RUNS, COST]).await.unwrap();
            let rows =
                [answer(&session, RUNS).await.unwrap(), answer(&session, COST).await.unwrap()].concat();
            assert_eq!(session.remembered(RUNS).is_some(), seen.len() >= 3, "{cost_from}");
            session.remember(RUNS, &session.sql(RUNS).await.unwrap().collect().await.unwrap());
            seen.push(rows);
        }
    }
    assert_eq!(seen[..3], seen[3..]);
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
}

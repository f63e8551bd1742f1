//! Source files that the program named, as it ran them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::runs::RunState;

/// Paths of a file. Relative ones are below the program's working directory.
///
/// A file that has changed is not the one that ran. Below the working directory people edit: such a file must be older
/// than the first run. Elsewhere programs put code that they generate while they run: it must be older than the end of
/// the last run.
pub(crate) fn candidates(runs: &[RunState], file: &str) -> Vec<PathBuf> {
    let began = runs.iter().map(|run| run.row.started_ns).min();
    let ended = runs.iter().filter_map(|run| run.row.ended_ns).max();
    let folders: BTreeSet<&Path> = runs.iter().map(|run| Path::new(&run.row.working_directory)).collect();
    let candidates: BTreeSet<PathBuf> = folders.iter().map(|folder| folder.join(file)).collect();
    let is_as_run = |path: &PathBuf| {
        let is_edited = folders.iter().any(|folder| folder.parent().is_some() && path.starts_with(folder));
        let limit = if is_edited { began } else { ended.max(began) };
        changed_ns(path).zip(limit).is_some_and(|(changed, limit)| changed <= limit)
    };
    candidates.into_iter().filter(is_as_run).collect()
}

/// When a file changed last, nanoseconds since the epoch.
fn changed_ns(path: &Path) -> Option<i64> {
    let changed = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
    i64::try_from(changed.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

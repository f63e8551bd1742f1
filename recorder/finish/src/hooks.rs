//! Failures of the Python hooks: files in the recording's folder, each a loss of its process. And the losses of passes
//! that `stallmap-record` saw, which are losses of the program's own process.
//!
//! The hooks leave them where they cannot call the injected library: before it is loaded, or because it cannot be.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use stallmap_config::RecordingPass;
use stallmap_schema::word::LossKind;

use crate::file;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// Maximum number of files that are read. Each process leaves up to 20.
const MAX_FILES: usize = 1_000;
/// Maximum bytes of a file.
const MAX_BYTES: u64 = 16 << 10;
/// Maximum characters of a reason, which is stallmap's own text.
const MAX_CHARACTERS: usize = 200;

/// One failure.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HookFailure {
    process_id: u32,
    reason: String,
    detail: Option<String>,
}

/// The failures that a recording's folder holds. Unreadable files are failures too.
pub(crate) fn read(folder: &Path) -> Vec<HookFailure> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_failure = |path: &Path| {
        path.extension().is_some_and(|extension| extension == "json")
            && path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("hooks-"))
    };
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| is_failure(path));
    paths.sort();
    let rest = paths.split_off(paths.len().min(MAX_FILES)).len();
    let mut failures: Vec<HookFailure> = paths.iter().map(|path| read_one(path)).collect();
    failures.extend((0..rest).map(|_| unreadable("more failures of the Python hooks", None)));
    failures
}

fn read_one(path: &Path) -> HookFailure {
    let failure = file::read(path, MAX_BYTES)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_slice::<HookFailure>(&text).map_err(|error| error.to_string()));
    match failure {
        Ok(failure) => {
            HookFailure { reason: failure.reason.chars().take(MAX_CHARACTERS).collect(), ..failure }
        }
        Err(cause) => unreadable("a failure of the Python hooks cannot be read", Some(cause)),
    }
}

/// The losses of a recording's passes.
pub(crate) fn of_passes(passes: &[RecordingPass]) -> impl Iterator<Item = HookFailure> {
    let losses = passes.iter().flat_map(|pass| pass.losses.iter().map(move |loss| (pass.process_id, loss)));
    losses.take(MAX_FILES).map(|(process_id, loss)| HookFailure {
        process_id,
        reason: loss.reason.chars().take(MAX_CHARACTERS).collect(),
        detail: Some(loss.detail.chars().take(MAX_CHARACTERS).collect()),
    })
}

/// No process has the number 0.
fn unreadable(reason: &str, detail: Option<String>) -> HookFailure {
    HookFailure { process_id: 0, reason: reason.to_owned(), detail }
}

/// Counts the failures of one folder as losses of their processes' runs. Those of a process without a run, which never
/// started CUDA, count in the first run: a child that it forked may be recorded.
pub(crate) fn count(failures: &[HookFailure], runs: &[&RunState], losses: &mut LossTotals) {
    for failure in failures {
        let own = runs.iter().find(|run| run.row.process_id == failure.process_id);
        if let Some(run) = own.or(runs.first()) {
            let detail = losses.add(run.run_id(), LossKind::Source, &failure.reason, 1);
            *detail = detail.take().or_else(|| failure.detail.clone());
        }
    }
}

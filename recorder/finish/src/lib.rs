//! Finalizing: a recording's segments become a capture.
//!
//! ```text
//! recording (folder, one segment a run)
//!   → rows      every run's rows, identifiers made unique in the capture
//!   → runs, launches, tensors, python    related rows are joined
//!   → matching  launches of the sampling run find their launch of the access run
//!   → code      addresses become (function, pc); cubins lose the code that nothing used
//!   → accesses, sampling    the GPU's records and CUPTI's become sorted rows
//!   → bundles   launches that can be replayed, with the memory that they need
//!   → assemble  everything is written, the losses last
//!
//! capture + recording of its replays
//!   → append    the same steps for the new runs, merged into the old tables. Launches are those of the capture
//! ```
//!
//! The recording is only read. [`recover`] is [`finish`] of an interrupted recording: whatever is complete in the
//! segments becomes rows, and every thing that is not is counted in the table `loss`, so the two are one function.

mod access_table;
mod append;
mod assemble;
mod block_times;
mod bundles;
mod code;
mod compiled;
mod copies;
pub mod error;
mod file;
mod hlo;
mod hooks;
mod launches;
mod lives;
mod loss;
mod matching;
mod native;
mod pairing;
mod python;
mod recording;
mod rows;
mod runs;
mod sampling;
mod source;
mod summaries;
pub mod summary;
mod tensors;
mod threads;
mod timeline;
mod windows;

use std::path::Path;

use error::FinishError;
use recording::OpenedRecording;
use summary::{FinishProgress, FinishSummary};

/// Makes a capture of a recording's folder.
pub fn finish(
    partial: &Path,
    output: &Path,
    progress: &dyn Fn(FinishProgress),
) -> Result<FinishSummary, FinishError> {
    threads::share();
    assemble::assemble(&OpenedRecording::open(partial)?, output, progress)
}

/// Makes one capture of the folders of several recordings: of one program that ran on several hosts, or whose ranks were
/// recorded each by a `stallmap-record` of its own. Runs are numbered in the order of rank and start.
pub fn merge(
    partials: &[&Path],
    output: &Path,
    progress: &dyn Fn(FinishProgress),
) -> Result<FinishSummary, FinishError> {
    threads::share();
    assemble::assemble(&OpenedRecording::merge(partials)?, output, progress)
}

/// Makes a capture of another one and the replays of its launches, which are in a folder like a recording's.
///
/// Everything of the old capture is in the new one. Its runs are followed by those of the folder, whose rows name the
/// launches that they replayed by the capture's `kernel_id`s. Measurements of a replay with other results than the
/// launch are dropped and counted.
pub fn append(
    capture: &Path,
    folder: &Path,
    output: &Path,
    progress: &dyn Fn(FinishProgress),
) -> Result<FinishSummary, FinishError> {
    threads::share();
    append::append(capture, &OpenedRecording::open(folder)?, output, progress)
}

/// Makes a capture of whatever is complete in a recording that was cut off.
pub fn recover(partial: &Path, output: &Path) -> Result<FinishSummary, FinishError> {
    finish(partial, output, &|_| ())
}

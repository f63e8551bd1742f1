//! Turns a recording's segments into a capture.
//!
//! ```text
//! recording (folder, one segment a run)
//!   → rows      every run's rows, identifiers made unique in the capture
//!   → runs, launches, tensors, python    what belongs together is brought together
//!   → matching  launches of the sampling run find their launch of the access run
//!   → code      addresses become (function, pc); cubins lose the code that nothing used
//!   → accesses, sampling    the GPU's records and CUPTI's become sorted rows
//!   → assemble  everything is written, the losses last
//! ```
//!
//! The recording is only read. [`recover`] is [`finish`] of a recording that was cut off: whatever is complete in the
//! segments becomes rows, and every thing that is not is counted in the table `loss`, so the two are one function.

mod access_table;
mod accesses;
mod assemble;
mod code;
pub mod error;
mod launches;
mod lives;
mod loss;
mod matching;
mod python;
mod recording;
mod rows;
mod runs;
mod sampling;
pub mod summary;
mod tensors;

use std::path::Path;

use error::FinishError;
use recording::Folder;
use summary::{Progress, Summary};

/// Makes a capture of a recording's folder.
pub fn finish(partial: &Path, output: &Path, progress: &dyn Fn(Progress)) -> Result<Summary, FinishError> {
    assemble::assemble(&Folder::open(partial)?, output, progress)
}

/// Makes a capture of whatever is complete in a recording that was cut off.
pub fn recover(partial: &Path, output: &Path) -> Result<Summary, FinishError> {
    finish(partial, output, &|_| ())
}

//! `merge`: makes one capture of the recordings of several hosts or ranks. Their folders remain.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use crate::args::MergeOptions;
use crate::exit::RecorderFailure;
use crate::message::MessagePrinter;
use crate::{finishing, folder, prepared};

/// Writes the capture, and reports losses.
pub(crate) fn merge(options: &MergeOptions) -> Result<ExitCode, RecorderFailure> {
    check(&options.folders)?;
    folder::check_output(&options.output, options.force)?;
    let folders: Vec<&Path> = options.folders.iter().map(PathBuf::as_path).collect();
    let messages = MessagePrinter(options.voice);
    finishing::merge(&folders, &options.output, options.force, messages)?;
    messages.result("the folders remain");
    if !options.no_prepare {
        prepared::prepare(&options.output, messages);
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses anything but a recording's folder, and a folder that is named twice: its rows would count twice.
fn check(folders: &[PathBuf]) -> Result<(), RecorderFailure> {
    let mut known = BTreeSet::new();
    for path in folders {
        let shown = path.display();
        if !path.is_dir() {
            let text = anyhow!("the recording's folder is missing: `{shown}`");
            return Err(
                RecorderFailure::before(text).hint("record with --keep, which leaves NAME.stallmap.partial")
            );
        }
        if folder::output_of_replays(path).is_some() {
            let text = anyhow!("the folder holds replays, not a recording: `{shown}`");
            return Err(RecorderFailure::before(text).hint("run `stallmap-record recover` on it"));
        }
        let real = fs::canonicalize(path)
            .with_context(|| format!("find `{shown}`"))
            .map_err(RecorderFailure::before)?;
        if !known.insert(real) {
            let text = anyhow!("the folder is named twice: `{shown}`");
            return Err(RecorderFailure::before(text).hint("name each recording once"));
        }
    }
    Ok(())
}

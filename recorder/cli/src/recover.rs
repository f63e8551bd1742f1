//! `recover`: makes a capture of an interrupted recording. The folder remains. Results of interrupted replays are
//! added to their capture, and that folder is removed: added twice, they would count twice.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use crate::args::RecoverOptions;
use crate::exit::RecorderFailure;
use crate::message::MessagePrinter;
use crate::{finishing, folder, prepared, replay};

/// Writes the capture, and reports losses.
pub(crate) fn recover(options: &RecoverOptions) -> Result<ExitCode, RecorderFailure> {
    let path = &options.folder;
    if !path.is_dir() {
        let text = anyhow!("the recording's folder is missing: `{}`", path.display());
        return Err(
            RecorderFailure::before(text).hint("it is named after the capture: NAME.stallmap.partial")
        );
    }
    if let Some(output) = folder::output_of_replays(path) {
        return recover_replays(options, &output);
    }
    let Some(output) = options.output.clone().or_else(|| folder::output_of(path)) else {
        let text = anyhow!("the folder's name does not contain that of a capture: `{}`", path.display());
        return Err(RecorderFailure::before(text).hint("name the capture with -o NAME.stallmap"));
    };
    folder::check_output(&output, options.force)?;
    let messages = MessagePrinter(options.voice);
    finishing::finish(path, &output, options.force, messages)?;
    messages.result(format_args!("the folder remains: `{}`", path.display()));
    prepare(options, &output);
    Ok(ExitCode::SUCCESS)
}

/// Stores rows of views in the capture, unless that is not wanted.
fn prepare(options: &RecoverOptions, capture: &Path) {
    if !options.no_prepare {
        prepared::prepare(capture, MessagePrinter(options.voice));
    }
}

/// Adds the replays to the capture that they are of.
fn recover_replays(options: &RecoverOptions, output: &Path) -> Result<ExitCode, RecorderFailure> {
    let path = &options.folder;
    let capture = replay::capture_of(path).map_err(RecorderFailure::before)?;
    let output = options.output.as_deref().unwrap_or(output);
    if std::path::absolute(output).ok().as_ref() != Some(&capture) {
        folder::check_output(output, options.force)?;
    }
    finishing::append(&capture, path, output, MessagePrinter(options.voice))?;
    prepare(options, output);
    let removed = std::fs::remove_dir_all(path).with_context(|| format!("remove `{}`", path.display()));
    removed.map_err(RecorderFailure::not_written)?;
    Ok(ExitCode::SUCCESS)
}

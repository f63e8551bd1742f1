//! `recover`: makes a capture of what an interrupted recording left; the folder stays.

use std::process::ExitCode;

use anyhow::anyhow;

use crate::args::Recover;
use crate::exit::Failure;
use crate::message::Messages;
use crate::{finishing, folder};

/// Writes the capture, and says what was lost.
pub(crate) fn recover(options: &Recover) -> Result<ExitCode, Failure> {
    let path = &options.folder;
    if !path.is_dir() {
        let text = anyhow!("no recording's folder is there: `{}`", path.display());
        return Err(Failure::before(text).hint("it is named after the capture: NAME.stallmap.partial"));
    }
    let Some(output) = options.output.clone().or_else(|| folder::output_of(path)) else {
        let text = anyhow!("the folder's name says no capture: `{}`", path.display());
        return Err(Failure::before(text).hint("name the capture with -o NAME.stallmap"));
    };
    folder::check_output(&output, options.force)?;
    let messages = Messages(options.voice);
    finishing::finish(path, &output, options.force, messages)?;
    messages.result(format_args!("the folder is kept: `{}`", path.display()));
    Ok(ExitCode::SUCCESS)
}

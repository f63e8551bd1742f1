//! `stallmap open`: the page of a capture, shown by the browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stallmap_console::args::ReportArgs;
use stallmap_console::args::verdict::OpenArgs;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{CommandFailure, OK, Outcome};
use stallmap_console::output;

use crate::report::served::report;

/// Programs that show a file, by the order of trial.
const OPENERS: [&str; 2] =
    if cfg!(target_os = "macos") { ["open", "xdg-open"] } else { ["xdg-open", "open"] };

/// Writes the page to a folder for temporary files, prints its path and shows it.
pub fn run(context: &CommandContext, args: &OpenArgs) -> Outcome {
    let path = path(&args.capture)?;
    let root = args.root.clone();
    let report = ReportArgs { html: Some(path.clone()), root, ..report(&args.capture) };
    crate::report::run(context, &report)?;
    output::print(&format!("{}\n", output::path(&path)))?;
    shown(&path);
    Ok(OK)
}

/// Shows a file in the browser, or notes that no program took it.
pub(crate) fn shown(path: &Path) {
    if !show(path) {
        output::note("no program opened the page: open the file in a browser");
    }
}

/// Shows a file in the browser. False if no program took it.
pub fn show(path: &Path) -> bool {
    OPENERS.iter().any(|program| shows(program, path))
}

/// A file in a folder for temporary files that only the user can read, with this text. The folder stays.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn private(name: &Path, text: &str) -> Outcome<PathBuf> {
    let path = path(name)?;
    crate::source::write_page(&path, text)?;
    Ok(path)
}

/// A file named as the capture, in a new folder that only the user can read.
fn path(capture: &Path) -> Outcome<PathBuf> {
    let mut folder = tempfile::Builder::new();
    #[cfg(unix)]
    folder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = folder.prefix("stallmap-").tempdir();
    let folder = folder.map_err(|error| CommandFailure::io(error, "create a folder for the page"))?;
    let name =
        capture.file_stem().map_or_else(|| "report".into(), |name| name.to_string_lossy().into_owned());
    // The page stays for the browser.
    Ok(folder.keep().join(format!("{name}.html")))
}

/// True if a program took the file.
fn shows(program: &str, path: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

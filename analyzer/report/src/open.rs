//! `stallmap open`: the page of a capture, shown by the browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stallmap_console::args::verdict::Open;
use stallmap_console::args::{Report, ReportFormat};
use stallmap_console::context::Context;
use stallmap_console::exit::{Failure, OK, Outcome};
use stallmap_console::output;
use stallmap_console::output::shorten::printable;

/// Programs that show a file, by the order of trial.
const OPENERS: [&str; 2] =
    if cfg!(target_os = "macos") { ["open", "xdg-open"] } else { ["xdg-open", "open"] };

/// Writes the page to a folder for temporary files, prints its path and shows it.
pub fn run(context: &Context, args: &Open) -> Outcome {
    let path = path(&args.capture)?;
    let report = Report {
        capture: args.capture.clone(),
        format: ReportFormat::Text,
        json: false,
        all: false,
        top: None,
        section: Vec::new(),
        sql: false,
        html: Some(path.clone()),
        baseline: None,
        root: args.root.clone(),
    };
    crate::report::run(context, &report)?;
    output::print(&format!("{}\n", printable(&path.display().to_string())))?;
    if !OPENERS.iter().any(|program| shows(program, &path)) {
        output::note("no program opened the page: open the file in a browser");
    }
    Ok(OK)
}

/// A file named as the capture, in a new folder that only the user can read.
fn path(capture: &Path) -> Outcome<PathBuf> {
    let folder = tempfile::Builder::new().prefix("stallmap-").tempdir();
    let folder = folder.map_err(|error| Failure::io(error, "create a folder for the page"))?;
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

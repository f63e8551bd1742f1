//! `stallmap label`: shows the labels of a capture, or sets and removes some.

use stallmap_schema::capture::labels::CaptureLabels;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_write::labels;

use stallmap_console::args::share::LabelArgs;
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::capture_failure;
use stallmap_console::output;

/// Changes the labels in the manifest, and prints all of them. Behind a link, those of its target.
pub(super) fn run(args: &LabelArgs) -> Outcome {
    let path = args.capture.canonicalize().unwrap_or_else(|_| args.capture.clone());
    let reader = CaptureReader::open(&path).map_err(|error| capture_failure(&error))?;
    let before = &reader.manifest().labels;
    let mut after = before.clone();
    after.extend(args.labels.iter().cloned());
    after.retain(|_, value| !value.is_empty());
    if after != *before {
        labels::write(&reader, after.clone()).map_err(|error| capture_failure(&error))?;
    }
    if after.is_empty() {
        output::note("no labels");
    }
    output::print(&listed(&after))?;
    Ok(OK)
}

/// A line for each label.
fn listed(labels: &CaptureLabels) -> String {
    let mut text = String::new();
    text.extend(labels.iter().map(|(key, value)| format!("{key}={}\n", output::in_line(value))));
    text
}

//! Opens the captures in folders, prefixes or lists, and says which ones cannot be read.

use std::path::Path;

use stallmap::location::CaptureLocation;
use stallmap_console::args::label::LabelCondition;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{CAPTURE, CommandFailure, IO, Outcome, USAGE};
use stallmap_console::explain::{capture_failure, explain};
use stallmap_console::output;
use stallmap_console::output::number::counted;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_fleet::{CaptureFleet, FleetError, SkippedCaptures};

/// The captures with some labels. One that cannot be read is named in a warning.
///
/// # Errors
/// Fails if there is none.
pub fn open(
    context: &CommandContext,
    places: &[CaptureLocation],
    labels: &[LabelCondition],
) -> Outcome<CaptureFleet> {
    let _progress = ProgressSpinner::start("reading the captures' manifests".to_owned());
    let skipped = |name: &str, reason: &str| {
        let name = output::path(Path::new(name));
        output::note(format_args!("warning: skipped `{name}`: {}", output::in_line(reason)));
    };
    let labels: Vec<_> = labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect();
    stallmap_fleet::open_with(places, &labels, context.resources(), skipped).map_err(failure)
}

/// Counts the captures that were left out of the answers.
pub fn say_skipped(found: usize, skipped: &SkippedCaptures) {
    let skipped = skipped.count();
    if skipped > 0 {
        let captures = counted(found as u64, "capture", "captures");
        output::note(format_args!("{skipped} of {captures} skipped: the rows are those of the rest"));
    }
}

fn failure(error: FleetError) -> CommandFailure {
    match error {
        FleetError::Analyze(error) => explain(error, None),
        FleetError::Capture(error) => capture_failure(&error),
        other => {
            let code = match other {
                FleetError::Folder { .. } => IO,
                FleetError::Unreadable { .. } => CAPTURE,
                _ => USAGE,
            };
            let hint = other.hint().map(str::to_owned);
            CommandFailure::new(code, other).hint(hint)
        }
    }
}

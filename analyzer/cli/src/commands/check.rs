//! `stallmap check`: completeness of captures and consistency of their numbers.

use std::iter;
use std::path::Path;

use stallmap::library::fault::LibraryFault;
use stallmap::library::user::UserLibrary;
use stallmap::location::CaptureLocation;
use stallmap::session::resources::SessionResources;
use stallmap::session::{Session, UNNAMED, stored_choices};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::check::SHOWN;

use stallmap_console::args::CheckArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CAPTURE, CommandFailure, OK, Outcome, QUERY, USAGE, VIOLATIONS};
use stallmap_console::explain::arrow_failure;
use stallmap_console::explain::capture_failure;
use stallmap_console::explain::explain;
use stallmap_console::output;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::value::{self, NumberFormat};

/// Faults of a library that are listed.
const MAX_FAULTS: usize = 100;

/// Attributed and unattributed samples of each launch and reason add up to the samples. This query lists violations.
const CONSERVATION: &str = "\
SELECT 'stall conservation: run ' || CAST(run_id AS VARCHAR) || ', launch ' || CAST(kernel_id AS VARCHAR) || ', '
    || CAST(stall_reason AS VARCHAR) || ': ' || CAST(samples AS VARCHAR) || ' samples, '
    || CAST(charged AS VARCHAR) || ' charged'
FROM conservation_violation ORDER BY run_id, kernel_id, stall_reason";

/// Checks each capture, even if another one cannot be opened.
pub(super) fn run(context: &CommandContext, args: &CheckArgs) -> Outcome {
    let library = context.library()?;
    if args.captures.is_empty() && library.is_none() {
        let failure = CommandFailure::message(USAGE, "nothing to check");
        return Err(failure.hint("name captures, or a folder of custom views with --library DIR".to_owned()));
    }
    let mut code = match &library {
        Some(library) => check_library(library)?,
        None => OK,
    };
    for capture in &args.captures {
        let checked = if args.sample { sample(context, capture) } else { check(context, capture) };
        match checked {
            Ok(violations) => {
                output::print(&verdict(capture, &violations))?;
                if !violations.is_empty() {
                    code = code.max(VIOLATIONS);
                }
            }
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) => {
                code = code.max(failure.code());
                output::message(&failure);
            }
        }
    }
    Ok(code)
}

/// Checks a user's library over a capture without rows: every view and query is planned.
fn check_library(library: &UserLibrary) -> Outcome {
    let mut session = Session::without_rows().map_err(|error| explain(error, None))?;
    let faults = session.try_extend(library);
    let summary = |fault: &LibraryFault| format!("{fault}; {}", fault.flaw.rule.hint());
    let lines: Vec<String> = faults.iter().take(MAX_FAULTS).map(summary).collect();
    let more = faults.len().saturating_sub(MAX_FAULTS);
    let more = (more > 0).then(|| format!("and {more} more"));
    let (views, queries) = (library.views().len(), library.queries().len());
    output::print(&match faults.as_slice() {
        [] => format!("{}: ok, {views} views, {queries} queries\n", output::path(library.root())),
        _ => verdict(library.root(), &lines.into_iter().chain(more).collect::<Vec<_>>()),
    })?;
    Ok(if faults.is_empty() { OK } else { VIOLATIONS })
}

/// Violations of a capture, one line each.
fn check(context: &CommandContext, capture: &CaptureLocation) -> Outcome<Vec<String>> {
    let progress = ProgressSpinner::start(format!("checking {}", capture.display()));
    let reader = capture.open().map_err(|error| capture_failure(&error))?;
    let mut violations: Vec<String> =
        stallmap_write::check::check(&reader).iter().map(ToString::to_string).collect();
    progress.say(format!("adding up the stalls of {}", capture.display()));
    // Without the user's library, whose faults are not the capture's. Without stored rows, which are to be checked.
    let SessionResources { memory_bytes, cost_from, .. } = *context.resources();
    let resources =
        SessionResources { memory_bytes, cost_from, reads_stored: false, ..SessionResources::NONE };
    match computed(&reader, &resources) {
        Ok(found) => violations.extend(found),
        // A capture that queries cannot read is not sound.
        Err(failure) if [CAPTURE, QUERY].contains(&failure.code()) => {
            violations.push(format!("query: {}", failure.reason()));
        }
        Err(failure) => return Err(failure),
    }
    Ok(violations)
}

/// Differences of a sample of a capture's stored rows, one line each.
fn sample(context: &CommandContext, capture: &CaptureLocation) -> Outcome<Vec<String>> {
    let _progress = ProgressSpinner::start(format!("computing stored rows of {}", capture.display()));
    let reader = capture.open().map_err(|error| capture_failure(&error))?;
    let SessionResources { memory_bytes, cost_from, .. } = *context.resources();
    let resources =
        SessionResources { memory_bytes, cost_from, reads_stored: false, ..SessionResources::NONE };
    let session = Session::over(vec![(UNNAMED.to_owned(), reader)], &resources)
        .map_err(|error| explain(error, None))?;
    let sampled = runtime()?.block_on(session.sample_answers(context.cache()));
    sampled.map_err(|error| explain(error, Some(&session)))
}

/// Stalls that the views lose or count twice, and stored answers that differ from what their views compute, for each
/// choice of samples that answers are stored for.
fn computed(reader: &CaptureReader, resources: &SessionResources) -> Outcome<Vec<String>> {
    let (stored, of_none) = stored_choices(reader).map_err(|error| capture_failure(&error))?;
    let own = resources.cost_from;
    let others = stored.iter().copied().filter(|choice| *choice != own);
    let mut lines = Vec::new();
    for cost_from in iter::once(own).chain(others) {
        let resources = SessionResources { cost_from, ..resources.clone() };
        let session = Session::over(vec![(UNNAMED.to_owned(), reader.clone())], &resources)
            .map_err(|error| explain(error, None))?;
        if cost_from == own {
            lines.extend(runtime()?.block_on(conservation(&session))?);
        }
        if stored.contains(&cost_from) {
            let found = runtime()?.block_on(session.differing_answers());
            lines.extend(found.map_err(|error| explain(error, Some(&session)))?);
        }
    }
    lines.extend(of_none);
    Ok(lines)
}

/// Stalls that the views lose or count twice.
async fn conservation(session: &Session) -> Outcome<Vec<String>> {
    let fail = |error| explain(error, Some(session));
    let frame = session.sql(CONSERVATION).await.map_err(fail)?;
    let batches = frame.collect().await.map_err(|error| fail(error.into()))?;
    let mut lines = Vec::new();
    for batch in &batches {
        let columns = value::columns(batch, NumberFormat::Exact).map_err(arrow_failure)?;
        lines.extend(columns.into_iter().flatten());
    }
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    lines.extend((more > 0).then(|| format!("stall conservation: and {more} more")));
    Ok(lines)
}

fn verdict(capture: &Path, violations: &[String]) -> String {
    let (path, violations) =
        (output::path(capture), violations.iter().map(|violation| output::in_line(violation)));
    let violations: Vec<_> = violations.collect();
    match violations.as_slice() {
        [] => format!("{path}: ok\n"),
        [only] => format!("{path}: 1 violation\n  {only}\n"),
        many => format!("{path}: {} violations\n  {}\n", many.len(), many.join("\n  ")),
    }
}

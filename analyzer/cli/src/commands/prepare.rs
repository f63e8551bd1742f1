//! `stallmap prepare`: computes the results of captures in advance and caches them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use stallmap::code::{self, AnalyzedSection};
use stallmap::location::CaptureLocation;
use stallmap::session::Session;

use stallmap_console::args::PrepareArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, USAGE};
use stallmap_console::explain::{capture_failure, explain};
use stallmap_console::output;
use stallmap_console::output::number::{counted, grouped};
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_report::report;

/// Prepares each capture, even if another one cannot be opened.
pub(super) fn run(context: &CommandContext, args: &PrepareArgs) -> Outcome {
    let cache = context.cache();
    let Some(folder) = cache.folder() else {
        let hint = "set STALLMAP_CACHE to a folder, or unset it".to_owned();
        return Err(CommandFailure::message(USAGE, "the cache is disabled").hint(hint));
    };
    if let Some(reason) = cache.distrust() {
        let hint = "delete it, or set STALLMAP_CACHE to a folder of your own".to_owned();
        let message = format!("the cache `{}` is not used: {reason}", output::path(folder));
        return Err(CommandFailure::message(IO, message).hint(hint));
    }
    let mut code = OK;
    for capture in &args.captures {
        match prepare(context, capture, args.in_place) {
            Ok(prepared) => {
                output::print(&summary(capture, &prepared))?;
                if let Some(cause) = prepared.code.cached.failure {
                    let action = format!("keep it in `{}`", folder.display());
                    let hint = "set STALLMAP_CACHE to a folder that can be written".to_owned();
                    return Err(CommandFailure::io(cause, action).hint(hint));
                }
            }
            Err(failure) => {
                code = code.max(failure.code());
                output::message(&failure);
            }
        }
    }
    Ok(code)
}

/// The results of a capture.
struct PreparedCapture {
    code: AnalyzedSection,
    /// Views whose rows were computed or found.
    views: usize,
    /// Views that the capture itself holds now.
    stored: Option<usize>,
    lasted: Duration,
}

fn prepare(context: &CommandContext, capture: &CaptureLocation, in_place: bool) -> Outcome<PreparedCapture> {
    let progress = ProgressSpinner::start(format!("analyzing {}", capture.display()));
    let started = Instant::now();
    let reader = capture.open().map_err(|error| capture_failure(&error))?;
    let code = code::analyze(&reader, context.cache()).map_err(|error| explain(error.into(), None))?;
    let session = context.open(&[(None, capture.clone())])?;
    drop(progress);
    let progress = ProgressSpinner::of(session.work(), format!("computing views of {}", capture.display()));
    let runtime = runtime()?;
    let views = runtime.block_on(session.prepare()).map_err(|error| explain(error, Some(&session)))?;
    progress.say(format!("answering the questions of reports of {}", capture.display()));
    runtime.block_on(report::prepare(&session, capture))?;
    let stored = in_place.then(|| store(&session, &views, &progress)).transpose()?;
    Ok(PreparedCapture { code, views: views.len(), stored, lasted: started.elapsed() })
}

/// Stores the rows of views in the capture. Returns their number.
fn store(session: &Session, views: &[&str], progress: &ProgressSpinner) -> Outcome<usize> {
    progress.say("storing the results in the capture".to_owned());
    session.store_answers(views).map_err(|error| explain(error, Some(session)))
}

/// Summary of a prepared capture.
fn summary(capture: &Path, prepared: &PreparedCapture) -> String {
    let analyzed = &prepared.code;
    let sections = || analyzed.sections.iter();
    let count = |count: usize, one: &str, several: &str| counted(count as u64, one, several);
    let stored = prepared.stored.map(|stored| format!(", {stored} stored in the capture"));
    let mut text = format!(
        "{}: {}, {} ({} unknown), {} analyzed, {} found in the cache, {}{}, {:.2} s\n",
        output::path(capture),
        count(sections().map(|section| section.functions.len()).sum(), "function", "functions"),
        count(sections().map(code::SectionCode::instruction_count).sum(), "instruction", "instructions"),
        grouped(sections().map(|section| section.findings.unknown.len() as i128).sum()),
        count(analyzed.cached.computed, "section", "sections"),
        grouped(analyzed.cached.found as i128),
        count(prepared.views, "view", "views"),
        stored.unwrap_or_default(),
        prepared.lasted.as_secs_f64(),
    );
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, reason) in &analyzed.missing {
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, functions) in reasons {
        // Writing to a string cannot fail.
        writeln!(text, "  ! {} not decoded: {reason}", count(functions, "function", "functions"))
            .unwrap_or_default();
    }
    text
}

//! `stallmap prepare`: computes the results of captures in advance and caches them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use stallmap::code::{self, AnalyzedSection, ResultCache};
use stallmap::location::CaptureLocation;

use stallmap_console::args::PrepareArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, USAGE};
use stallmap_console::explain::{capture_failure, explain};
use stallmap_console::output;
use stallmap_console::output::number::{counted, grouped};
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_report::report;
use stallmap_schema::capture::reader::CaptureReader;

/// Most rows of a capture in which import stores rows of views: with more, these take longer than the import.
const MAX_IMPORTED_ROWS: u64 = 2_000_000;
/// Time after which rows are not stored in a capture that was just written.
const MAX_TIME: Duration = Duration::from_mins(10);

/// Prepares each capture, even if another one cannot be opened.
pub(super) fn run(context: &CommandContext, args: &PrepareArgs) -> Outcome {
    // Rows for the capture are computed from its records alone, also without the user's cache.
    let is_usable = usable(context.cache()).is_ok();
    let scratch =
        if args.in_place && !is_usable { Some(tempfile::tempdir().map_err(no_folder)?) } else { None };
    let cache =
        scratch.as_ref().map_or_else(|| context.cache().clone(), |folder| ResultCache::at(folder.path()));
    let recomputing = args.in_place.then(|| context.recomputing(cache));
    let context = recomputing.as_ref().unwrap_or(context);
    let folder = usable(context.cache())?;
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

/// Stores rows of views in a capture that was just imported, unless it is large.
pub(super) fn imported(context: &CommandContext, capture: &Path) {
    let rows = CaptureReader::open(capture)
        .map(|reader| reader.manifest().tables.iter().map(|table| table.rows).fold(0, u64::saturating_add));
    // A capture that cannot be opened is for the other to explain.
    if rows.is_ok_and(|rows| rows > MAX_IMPORTED_ROWS) {
        output::note(format_args!(
            "no rows of views are stored in a capture with more than {} rows: `stallmap prepare --in-place {}` stores them",
            grouped(MAX_IMPORTED_ROWS.into()),
            output::path(capture)
        ));
        return;
    }
    written(context, capture);
}

/// Stores rows of views in a capture that was just written. A failure is a warning: the capture is complete without them.
pub(super) fn written(context: &CommandContext, capture: &Path) {
    let stored = tempfile::tempdir().map_err(no_folder).and_then(|folder| {
        let context = context.recomputing(ResultCache::at(folder.path()));
        let _progress = ProgressSpinner::start(format!("storing rows of views in {}", capture.display()));
        let session = context.open(&[(None, CaptureLocation::from(capture))])?;
        let stored = runtime()?.block_on(async {
            timeout(MAX_TIME, session.store_answers()).await.map_err(|_| {
                CommandFailure::message(
                    IO,
                    format!("it takes longer than {} minutes", MAX_TIME.as_secs() / 60),
                )
            })
        })?;
        stored.map_err(|error| explain(error, Some(&session)))
    });
    if let Err(failure) = stored {
        let capture = output::path(capture);
        output::note(format_args!(
            "warning: no rows of views are stored in the capture, which is complete: {}; `stallmap prepare --in-place {capture}` stores them",
            failure.reason()
        ));
    }
}

/// The cache's folder, if it is used.
fn usable(cache: &ResultCache) -> Outcome<&Path> {
    let Some(folder) = cache.folder() else {
        let hint = "set STALLMAP_CACHE to a folder, or unset it".to_owned();
        return Err(CommandFailure::message(USAGE, "the cache is disabled").hint(hint));
    };
    let Some(reason) = cache.distrust() else { return Ok(folder) };
    let hint = "delete it, or set STALLMAP_CACHE to a folder of your own".to_owned();
    let message = format!("the cache `{}` is not used: {reason}", output::path(folder));
    Err(CommandFailure::message(IO, message).hint(hint))
}

fn no_folder(cause: std::io::Error) -> CommandFailure {
    CommandFailure::io(cause, "create a temporary folder")
}

/// The results of a capture.
struct PreparedCapture {
    code: AnalyzedSection,
    /// Views whose rows were computed or found.
    views: usize,
    /// True if the capture itself holds them now.
    is_stored: bool,
    lasted: Duration,
}

fn prepare(context: &CommandContext, capture: &CaptureLocation, in_place: bool) -> Outcome<PreparedCapture> {
    let progress = ProgressSpinner::start(format!("analyzing {}", capture.display()));
    let started = Instant::now();
    let reader = capture.open().map_err(|error| capture_failure(&error))?;
    let code = code::analyze(&reader, context.cache()).map_err(|error| explain(error.into(), None))?;
    let session = context.open(&[(None, capture.clone())])?;
    drop(progress);
    let progress =
        ProgressSpinner::for_work(session.work(), format!("computing views of {}", capture.display()));
    let runtime = runtime()?;
    let fail = |error| explain(error, Some(&session));
    let views = if in_place {
        runtime.block_on(session.store_answers()).map_err(fail)?
    } else {
        let views = runtime.block_on(session.prepare()).map_err(fail)?;
        progress.say(format!("answering the questions of reports of {}", capture.display()));
        runtime.block_on(report::prepare(&session, capture))?;
        views.len()
    };
    Ok(PreparedCapture { code, views, is_stored: in_place, lasted: started.elapsed() })
}

/// Summary of a prepared capture.
fn summary(capture: &Path, prepared: &PreparedCapture) -> String {
    let analyzed = &prepared.code;
    let sections = || analyzed.sections.iter();
    let count = |count: usize, one: &str, several: &str| counted(count as u64, one, several);
    let stored = if prepared.is_stored { " stored in the capture" } else { "" };
    let mut text = format!(
        "{}: {}, {} ({} unknown), {} analyzed, {} found in the cache, {}{}, {:.2} s\n",
        output::path(capture),
        count(sections().map(|section| section.functions.len()).sum(), "function", "functions"),
        count(sections().map(code::SectionCode::instruction_count).sum(), "instruction", "instructions"),
        grouped(sections().map(|section| section.findings.unknown.len() as i128).sum()),
        count(analyzed.cached.computed, "section", "sections"),
        grouped(analyzed.cached.found as i128),
        count(prepared.views, "view", "views"),
        stored,
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

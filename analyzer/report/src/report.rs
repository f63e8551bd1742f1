//! `stallmap report`: the verdict, stalls by cost, losses last.

pub(crate) mod page;
pub mod served;
mod subject;
mod write;

use std::path::Path;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;

use stallmap::library::queries::{CommandQuery, report as queries, top as rankings};
use stallmap_console::answer::{
    SectionAnswer, answers, answers_of, for_program, prepare as prepare_views, rows,
};
use stallmap_console::args::{ReportArgs, ReportFormat};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::column;
use stallmap_lists::filter::LaunchFilter;

use stallmap_lists::verdict::VerdictRows;

/// Default rows of a section.
const DEFAULT_TOP: u32 = 10;
/// Default rows of a section of the text without a choice of sections.
const BRIEF_TOP: u32 = 5;

/// The sections in printing order.
const SECTIONS: [CommandQuery; 15] = [
    queries::WRONG,
    queries::FINDINGS,
    queries::TENSORS,
    queries::WHY,
    queries::KERNELS,
    queries::BLOCKS,
    queries::LINES,
    queries::OPS,
    queries::MEMORY,
    queries::PATH,
    queries::RANKS,
    queries::COUNTERS,
    queries::REPLAYS,
    queries::LOSSES,
    queries::COVERAGE,
];
/// Sections that the text without a choice of sections leaves to `--all`: the verdict has the first findings.
const REPLACED: &[&str] = &["findings", "why", "memory", "path", "counters", "replays"];
/// Sections that are printed if they have rows, or on request.
const OPTIONAL: &[&str] = &["wrong", "blocks", "memory", "path", "ranks", "counters", "replays"];

/// Sections that a filter of launches restricts. All other sections are about the whole capture.
const FILTERED: &[&str] = &["findings", "tensors", "kernels", "lines", "ops"];

/// Prints the report, some sections of it, or their queries.
pub fn run(context: &CommandContext, args: &ReportArgs) -> Outcome {
    let is_brief = args.is_brief();
    let mut wanted = wanted(&args.section)?;
    wanted.retain(|section| !is_brief || !args.filter.is_empty() || !REPLACED.contains(&section.name));
    let top = top(args.top.unwrap_or(if is_brief { BRIEF_TOP } else { DEFAULT_TOP }));
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let filter = runtime.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    if filter.is_some() {
        wanted = filtered(wanted, &args.section)?;
    }
    let sql = |section: CommandQuery| {
        let sql = section.sql(&top);
        filter
            .as_ref()
            .filter(|_| FILTERED.contains(&section.name))
            .map_or(sql.clone(), |filter| filter.sql(&sql))
    };
    if args.sql {
        let texts: Vec<String> = wanted.iter().map(|section| sql(*section)).collect();
        return output::print(&texts.join("\n")).map(|()| OK);
    }
    let subject = runtime.block_on(subject::subject(&session))?;
    if let Some(path) = &args.html {
        runtime.block_on(page::prepare(args, &session))?;
        let verdict = runtime.block_on(VerdictRows::from_session(&session))?;
        let since = |base| crate::diff::since(context, base, &args.capture);
        let change = args.baseline.as_ref().map(since).transpose()?;
        let text = runtime.block_on(page::page(args, &session, (subject, change), &verdict))?;
        page::save(path, &text)?;
        output::wrote(path);
        if args.open {
            crate::open::shown(path);
        }
        return Ok(OK);
    }
    let has_verdict = args.section.is_empty() && filter.is_none() && args.format() == ReportFormat::Text;
    let texts: Vec<_> = wanted.iter().map(|section| (*section, sql(*section))).collect();
    if has_verdict {
        let all: Vec<_> = texts.iter().cloned().chain(stallmap_lists::verdict::texts()).collect();
        runtime.block_on(prepare_views(&session, &all))?;
    }
    let verdict =
        if has_verdict { Some(runtime.block_on(VerdictRows::from_session(&session))?) } else { None };
    let mut answers = runtime.block_on(answers_of(&session, texts))?;
    let is_asked_for = |section: CommandQuery| args.section.iter().any(|name| name == section.name);
    if is_brief {
        answers = without_coverage(answers)?;
        runtime.block_on(with_accesses(&session, &mut answers, &top, filter.as_ref()))?;
    }
    answers.retain(|answer| {
        answer.count() > 0 || !OPTIONAL.contains(&answer.section.name) || is_asked_for(answer.section)
    });
    if let Some(filter) = &filter {
        filter.say(args.format().list(), "all samples")?;
    }
    match args.format().list().for_programs() {
        None => {
            let mut out = output::paged();
            let screen = verdict.map(|verdict| verdict.screen(&args.capture, output::page()));
            write::text(&mut *out, &subject, screen.as_deref(), is_brief, &answers)
        }
        Some(format) => for_program(&mut output::data(), &args.capture, &answers, format),
    }?;
    if !wanted.iter().any(|section| section.name == "losses") {
        runtime.block_on(warn_of_losses(&session, &args.capture))?;
    }
    Ok(OK)
}

/// Asks all that the verdict, the text and the page ask, and stores the answers for them.
///
/// # Errors
/// Fails if a query fails.
pub async fn prepare(session: &Session, capture: &CaptureLocation) -> Outcome<()> {
    answers(session, &wanted(&[])?, &top(DEFAULT_TOP)).await?;
    let mut brief = wanted(&[])?;
    brief.retain(|section| !REPLACED.contains(&section.name));
    answers(session, &brief, &top(BRIEF_TOP)).await?;
    let subject = subject::subject(session).await?;
    let verdict = VerdictRows::from_session(session).await?;
    page::page(&served::report(capture), session, (subject, None), &verdict).await.map(drop)
}

/// One section with its rows, for other programs. `rows` is the maximum, and the rest is one row.
///
/// # Errors
/// Fails if no section has the name, and if its query fails.
pub async fn section(session: &Session, name: &str, rows: Option<u32>) -> Outcome<Vec<SectionAnswer>> {
    answers(session, &wanted(&[name.to_owned()])?, &top(rows.unwrap_or(DEFAULT_TOP))).await
}

/// The parameter of every section.
fn top(rows: u32) -> [(&'static str, u64); 1] {
    [("$top", rows.into())]
}

/// The query of a section, as a user can run it.
pub fn query_of(name: &str) -> Outcome<String> {
    SECTIONS
        .iter()
        .find(|section| section.name == name)
        .map(|section| section.sql(&top(DEFAULT_TOP)))
        .ok_or_else(|| {
            let sections = SECTIONS.map(|section| section.name).join(", ");
            CommandFailure::message(USAGE, format!("`{name}` is neither a view nor a section of the report"))
                .hint(format!("sections: {sections}; .views lists views"))
        })
}

/// The names of the sections.
pub fn section_names() -> impl Iterator<Item = String> {
    SECTIONS.iter().map(|section| section.name.to_owned())
}

fn wanted(names: &[String]) -> Outcome<Vec<CommandQuery>> {
    if let Some(unknown) = names.iter().find(|name| !SECTIONS.iter().any(|section| section.name == **name)) {
        let hint = nearest(unknown, SECTIONS.iter().map(|section| section.name)).map_or_else(
            || format!("sections: {}", SECTIONS.map(|section| section.name).join(", ")),
            |name| format!("did you mean `{name}`?"),
        );
        let message = if unknown.is_empty() {
            "no section is named".to_owned()
        } else {
            format!("no section `{unknown}`")
        };
        return Err(CommandFailure::message(USAGE, message).hint(hint));
    }
    Ok(SECTIONS
        .into_iter()
        .filter(|section| names.is_empty() || names.iter().any(|name| name == section.name))
        .collect())
}

/// Tensors by their accesses, where no sample ranks one, and no filter leaves out those that are ranked.
async fn with_accesses(
    session: &Session,
    answers: &mut Vec<SectionAnswer>,
    top: &[(&'static str, u64)],
    filter: Option<&LaunchFilter>,
) -> Outcome<()> {
    let is_unranked = |answer: &SectionAnswer| answer.section == queries::TENSORS && answer.count() == 0;
    let Some(at) = answers.iter().position(is_unranked).filter(|_| filter.is_none()) else {
        return Ok(());
    };
    let touched = answers_of(session, vec![(rankings::TOUCHED, rankings::TOUCHED.sql(top))]).await?;
    answers.splice(at..=at, touched.into_iter().filter(|answer| answer.count() > 0));
    Ok(())
}

/// Answers with the flaws of the coverage instead of all of it, if it has any.
fn without_coverage(mut answers: Vec<SectionAnswer>) -> Outcome<Vec<SectionAnswer>> {
    for answer in answers.iter_mut().filter(|answer| answer.section == queries::COVERAGE) {
        answer.rows = answer.rows.iter().map(flaws).collect::<Outcome<_>>()?;
    }
    answers.retain(|answer| answer.section != queries::COVERAGE || answer.count() > 0);
    Ok(answers)
}

/// The rows of coverage that mark themselves as flaws. Losses have a section of their own.
fn flaws(rows: &RecordBatch) -> Outcome<RecordBatch> {
    let known = column::<Option<String>>(queries::COVERAGE.name, rows, "known")?;
    let is_flaw = |known: String| known.starts_with("! ") && !known.starts_with("! lost");
    let mask: BooleanArray = known.into_iter().map(|known| Some(known.is_some_and(is_flaw))).collect();
    filter_record_batch(rows, &mask).map_err(arrow_failure)
}

/// The sections of some launches, and the losses.
fn filtered(wanted: Vec<CommandQuery>, named: &[String]) -> Outcome<Vec<CommandQuery>> {
    if let Some(name) = named.iter().find(|name| !FILTERED.contains(&name.as_str())) {
        return Err(CommandFailure::message(USAGE, format!("section `{name}` is about the whole capture"))
            .hint(format!("--kernel, --line and --op restrict {}", FILTERED.join(", "))));
    }
    let is_shown = |section: &CommandQuery| FILTERED.contains(&section.name) || section.name == "losses";
    Ok(wanted.into_iter().filter(is_shown).collect())
}

/// Warns about losses when a single section is requested, on standard error.
async fn warn_of_losses(session: &Session, capture: &Path) -> Outcome<()> {
    let count: usize =
        rows(session, &queries::LOSSES.sql(&top(DEFAULT_TOP))).await?.iter().map(RecordBatch::num_rows).sum();
    if count > 0 {
        output::note(format_args!(
            "warning: the capture is incomplete; `stallmap report {} --section losses` lists the losses",
            output::path(capture)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_completed() {
        assert_eq!(SECTIONS.map(|section| section.name), stallmap_console::complete::SECTIONS);
    }
}

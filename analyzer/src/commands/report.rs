//! `stallmap report`: stalls by cost, coverage first.

mod page;
mod subject;
mod write;

use std::path::Path;

use arrow::array::RecordBatch;
use stallmap::session::Session;

use super::answer::{answers, csv, json, rows};
use super::names::nearest;
use super::section::{self, Section};
use crate::args::{Report, ReportFormat};
use crate::exit::{Failure, OK, Outcome, USAGE};
use crate::output;
use crate::output::progress::Progress;

/// Default rows of a section.
const DEFAULT_TOP: u32 = 10;

/// The sections in printing order: always coverage first, then losses.
const ORDER: &[&str] = &[
    "coverage", "losses", "ranks", "findings", "tensors", "why", "kernels", "lines", "ops", "counters",
    "replays",
];
/// Sections that are printed if they have rows, or on request.
const OPTIONAL: &[&str] = &["ranks", "counters", "replays"];

fn sections() -> Vec<Section> {
    section::sections("report", ORDER)
}

/// Prints the report, some sections of it, or their queries.
pub(super) fn run(args: &Report) -> Outcome {
    let wanted = wanted(&args.section)?;
    let top = top(args.top.unwrap_or(DEFAULT_TOP));
    if args.sql {
        // The capture is opened anyway, to report a wrong path.
        super::open(&[(None, args.capture.clone())])?;
        let texts: Vec<String> = wanted.iter().map(|section| section.sql(&top)).collect();
        return output::print(&texts.join("\n")).map(|()| OK);
    }
    let session = {
        let _progress = Progress::start(format!("opening {}", args.capture.display()));
        super::open(&[(None, args.capture.clone())])?
    };
    let runtime = super::runtime()?;
    let subject = runtime.block_on(subject::subject(&session))?;
    if let Some(path) = &args.html {
        let text = runtime.block_on(page::page(args, &session, subject))?;
        page::save(path, &text)?;
        output::note(format_args!("wrote {}", path.display()));
        return Ok(OK);
    }
    let mut answers = runtime.block_on(answers(&session, &wanted, &top))?;
    let is_asked_for = |section: Section| args.section.iter().any(|name| name == section.name);
    answers.retain(|answer| {
        answer.count() > 0 || !OPTIONAL.contains(&answer.section.name) || is_asked_for(answer.section)
    });
    let mut out = output::stdout();
    match args.format {
        ReportFormat::Text => write::text(&mut out, &args.capture, &subject, &answers),
        ReportFormat::Json => json(&mut out, &args.capture, &answers),
        ReportFormat::Csv => csv(&mut out, &answers),
    }?;
    if !wanted.iter().any(|section| section.name == "losses") {
        runtime.block_on(warn_of_losses(&session, &args.capture))?;
    }
    Ok(OK)
}

/// The parameter of every section.
fn top(rows: u32) -> [(&'static str, u64); 1] {
    [("$top", rows.into())]
}

/// The query of a section, as a user can run it.
pub(crate) fn query_of(name: &str) -> Outcome<String> {
    let known = sections();
    known
        .iter()
        .find(|section| section.name == name)
        .map(|section| section.sql(&top(DEFAULT_TOP)))
        .ok_or_else(|| {
            let sections = known.iter().map(|section| section.name).collect::<Vec<_>>().join(", ");
            Failure::message(USAGE, format!("`{name}` is neither a view nor a section of the report"))
                .hint(format!("sections: {sections}; .views lists views"))
        })
}

/// The names of the sections.
pub(crate) fn section_names() -> impl Iterator<Item = String> {
    ORDER.iter().map(|name| (*name).to_owned())
}

fn wanted(names: &[String]) -> Outcome<Vec<Section>> {
    let known = sections();
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|section| section.name == **name)) {
        let hint = nearest(unknown, known.iter().map(|section| section.name)).map_or_else(
            || {
                format!(
                    "sections: {}",
                    known.iter().map(|section| section.name).collect::<Vec<_>>().join(", ")
                )
            },
            |name| format!("did you mean `{name}`?"),
        );
        return Err(Failure::message(USAGE, format!("no section `{unknown}`")).hint(hint));
    }
    Ok(known
        .into_iter()
        .filter(|section| names.is_empty() || names.iter().any(|name| name == section.name))
        .collect())
}

/// Warns about losses when a single section is requested, on standard error.
async fn warn_of_losses(session: &Session, capture: &Path) -> Outcome<()> {
    let Some(losses) = sections().into_iter().find(|section| section.name == "losses") else { return Ok(()) };
    let count: usize =
        rows(session, &losses.sql(&top(DEFAULT_TOP))).await?.iter().map(RecordBatch::num_rows).sum();
    if count > 0 {
        output::note(format_args!(
            "warning: the capture is incomplete; `stallmap report {} --section losses` lists the losses",
            capture.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stallmap::library;

    #[test]
    fn every_query_of_the_folder_has_its_place() {
        let mut names: Vec<_> = library::queries("report").map(|(name, _)| name).collect();
        let mut ordered = super::ORDER.to_vec();
        names.sort_unstable();
        ordered.sort_unstable();
        assert_eq!(names, ordered);
    }
}

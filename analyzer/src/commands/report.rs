//! `stallmap report`: what the GPU waited for, coverage first.

mod section;
mod subject;
mod write;

use std::path::Path;

use arrow::array::RecordBatch;
use stallmap::session::Session;

use self::section::{Section, sections};
use super::explain;
use super::names::nearest;
use crate::args::{Report, ReportFormat};
use crate::exit::{Failure, OK, Outcome, USAGE};
use crate::output;
use crate::output::progress::Progress;

/// Rows of a section where nobody says how many.
const DEFAULT_TOP: u32 = 10;

/// A section with its rows.
struct Answer {
    section: Section,
    sql: String,
    rows: Vec<RecordBatch>,
}

impl Answer {
    fn count(&self) -> usize {
        self.rows.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Prints the report, some sections of it, or their queries.
pub(super) fn run(args: &Report) -> Outcome {
    let wanted = wanted(&args.section)?;
    if args.sql {
        // The capture is opened all the same: a wrong path is not answered with a query.
        super::open(&[(None, args.capture.clone())])?;
        let texts: Vec<String> = wanted.iter().map(|section| section.sql(args.top)).collect();
        return output::print(&texts.join("\n")).map(|()| OK);
    }
    let session = {
        let _progress = Progress::start(format!("opening {}", args.capture.display()));
        super::open(&[(None, args.capture.clone())])?
    };
    let runtime = super::runtime()?;
    let subject = runtime.block_on(subject::subject(&session))?;
    let answers = runtime.block_on(answers(&session, &wanted, args.top))?;
    let mut out = output::stdout();
    match args.format {
        ReportFormat::Text => write::text(&mut out, &args.capture, &subject, &answers),
        ReportFormat::Json => write::json(&mut out, &args.capture, &answers),
        ReportFormat::Csv => write::csv(&mut out, &answers),
    }?;
    if !wanted.iter().any(|section| section.name == "losses") {
        runtime.block_on(warn_of_losses(&session, &args.capture))?;
    }
    Ok(OK)
}

/// The query of a section, as a user can run it.
pub(crate) fn query_of(name: &str) -> Outcome<String> {
    let known = sections();
    known.iter().find(|section| section.name == name).map(|section| section.sql(DEFAULT_TOP)).ok_or_else(
        || {
            let sections = known.iter().map(|section| section.name).collect::<Vec<_>>().join(", ");
            Failure::message(USAGE, format!("`{name}` is neither a view nor a section of the report"))
                .hint(format!("sections: {sections}; .views lists views"))
        },
    )
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

async fn answers(session: &Session, wanted: &[Section], top: u32) -> Outcome<Vec<Answer>> {
    let progress = Progress::start("asking");
    let mut answers = Vec::new();
    for &section in wanted {
        progress.say(format!("asking for {}", section.name));
        let sql = section.sql(top);
        let rows = rows(session, &sql).await?;
        answers.push(Answer { section, sql, rows });
    }
    Ok(answers)
}

/// The rows of a query; at least one batch, so that its columns are known.
async fn rows(session: &Session, sql: &str) -> Outcome<Vec<RecordBatch>> {
    let fail = |error| explain(error, Some(session));
    let frame = session.sql(sql).await.map_err(fail)?;
    let schema = std::sync::Arc::clone(frame.schema().inner());
    let mut rows = frame.collect().await.map_err(|error| fail(error.into()))?;
    if rows.is_empty() {
        rows.push(RecordBatch::new_empty(schema));
    }
    Ok(rows)
}

/// A reader of one section hears of losses too, beside the data.
async fn warn_of_losses(session: &Session, capture: &Path) -> Outcome<()> {
    let Some(losses) = sections().into_iter().find(|section| section.name == "losses") else { return Ok(()) };
    let count: usize = rows(session, &losses.sql(DEFAULT_TOP)).await?.iter().map(RecordBatch::num_rows).sum();
    if count > 0 {
        output::note(format_args!(
            "warning: the capture does not hold everything; `stallmap report {} --section losses` says what is lost",
            capture.display()
        ));
    }
    Ok(())
}

//! `stallmap report --over`: all captures together, and what changed over time.

use std::io::Write;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;
use stallmap::session::Session;
use stallmap_console::answer::{fresh_rows, json_rows, write_rows};
use stallmap_console::args::trend::{TrendMetric, TrendSubject};
use stallmap_console::args::{ReportArgs, RowFormat};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::{NumberFormat, with_hex};
use stallmap_console::output::{self, written};

use crate::trend::costs::{pictures, sentence};
use crate::trend::open::{open, say_skipped};
use crate::trend::series;
use crate::trend::top::costs;

/// Default rows of a section.
const DEFAULT_TOP: u32 = 5;
/// The captures of a fleet, by the labels that most have.
const CAPTURES: &str = "\
SELECT
  label(labels, 'model') AS model, commit, gpu, count(*) AS captures, sum(bytes) AS bytes, min(time) AS first,
  max(time) AS last, count(*) OVER () AS found
FROM fleet
WHERE skipped IS NULL
GROUP BY 1, 2, 3
ORDER BY last DESC, model, commit, gpu";
/// The ranks of jobs whose ranks have captures or runs of their own.
const RANKS: &str = "\
SELECT
  capture, commit, model, job, rank, capture_count AS captures, launch_count AS launches, time_ns, ratio,
  count(*) OVER () AS found
FROM rank_spread
ORDER BY abs(ratio - 1.0) DESC NULLS LAST, commit, model, job, rank";

/// A section: its name, title and statement.
struct FleetSection {
    name: &'static str,
    title: &'static str,
    sql: String,
}

/// Prints the report, or its queries.
pub fn run(context: &CommandContext, args: &ReportArgs) -> Outcome {
    let top = args.top.unwrap_or(DEFAULT_TOP);
    let sections = sections(top);
    if args.sql {
        let texts: Vec<&str> = sections.iter().map(|section| section.sql.as_str()).collect();
        return output::print(&texts.join("\n")).map(|()| OK);
    }
    let fleet = open(context, &args.over, &[])?;
    let runtime = runtime()?;
    let answers = {
        let _progress = ProgressSpinner::for_work(fleet.session.work(), "reading costs of all captures");
        let mut answers = Vec::new();
        for section in &sections {
            answers.push(runtime.block_on(fresh_rows(&fleet.session, &section.sql))?);
        }
        answers
    };
    if let Some(format) = args.format().list().for_programs() {
        for_program(&sections, &answers, format)?;
    } else {
        output::print(&runtime.block_on(changes(&fleet.session, top))?)?;
        show(&sections, &answers)?;
    }
    say_skipped(fleet.found, &fleet.skipped);
    Ok(OK)
}

fn sections(top: u32) -> Vec<FleetSection> {
    let cost = |name, title, kind| FleetSection { name, title, sql: costs(kind, top, "cost") };
    let limited =
        |name, title, sql: &str| FleetSection { name, title, sql: format!("{sql}\nLIMIT {top};\n") };
    vec![
        limited("captures", "Captures", CAPTURES),
        cost("kernels", "Kernels by cost", "kernel"),
        cost("lines", "Python lines by cost", "line"),
        cost("roles", "Roles of tensors by cost", "role"),
        cost("tensors", "Tensors by cost", "tensor"),
        limited("ranks", "Ranks", RANKS),
    ]
}

/// The time of all launches, drawn, with its changes and those of kernels.
async fn changes(session: &Session, top: u32) -> Outcome<String> {
    let canvas = output::page();
    let ask = async |subject| {
        let sql = series::statement(subject, TrendMetric::Time);
        series::all(&fresh_rows(session, &sql).await?)
    };
    let (total, kernels) = (ask(TrendSubject::Total).await?, ask(TrendSubject::Kernels).await?);
    let mut text = pictures(TrendMetric::Time, &total, canvas);
    let all = total.iter().chain(&kernels);
    let lines = all
        .flat_map(|series| series.changes().map(move |change| sentence(TrendMetric::Time, series, change)));
    let lines: Vec<String> = lines.take(usize::try_from(top).unwrap_or(usize::MAX)).collect();
    if !lines.is_empty() {
        text += &(canvas.paint.text(TextRole::Heading, "Changes") + "\n" + &lines.concat() + "\n");
    }
    Ok(text)
}

fn show(sections: &[FleetSection], answers: &[Vec<RecordBatch>]) -> Outcome<()> {
    let canvas = output::page();
    for (section, rows) in sections.iter().zip(answers) {
        let table = TextTable::from_batches(rows, NumberFormat::Report).map_err(arrow_failure)?;
        let shown = table.rows();
        if shown > 0 {
            output::print(&(canvas.paint.text(TextRole::Heading, section.title) + "\n"))?;
            written(table.without(&["found"]).without_empty().draw(&mut output::stdout(), canvas))?;
            let more = found(rows).saturating_sub(shown);
            let more = if more > 0 { format!("and {more} more: -n shows them\n") } else { String::new() };
            output::print(&(more + "\n"))?;
        }
    }
    Ok(())
}

/// Rows of a section without its limit. 0 where its last row is the sum of all others.
fn found(rows: &[RecordBatch]) -> usize {
    let counts = rows.iter().filter_map(|rows| rows.column_by_name("found"));
    let first =
        counts.filter_map(|counts| counts.as_primitive_opt::<Int64Type>()).find(|counts| !counts.is_empty());
    first.map_or(0, |counts| usize::try_from(counts.value(0)).unwrap_or(0))
}

/// The sections as one JSON object, or the rows of each behind a line with its name.
fn for_program(sections: &[FleetSection], answers: &[Vec<RecordBatch>], format: RowFormat) -> Outcome<()> {
    let mut out = output::data();
    if format != RowFormat::Json {
        for (section, rows) in sections.iter().zip(answers) {
            written(writeln!(out, "# {}", section.name).and_then(|()| out.flush()))?;
            write_rows(rows, format)?;
        }
        return Ok(());
    }
    written(write!(out, "{{\"sections\":["))?;
    for (index, (section, rows)) in sections.iter().zip(answers).enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let rows = rows.iter().map(with_hex).collect::<Result<Vec<_>, _>>().map_err(arrow_failure)?;
        written(write!(out, "{comma}\n{{\"name\":\"{}\",\"rows\":", section.name))?;
        written(out.write_all(&json_rows(&rows)?).and_then(|()| write!(out, "}}")))?;
    }
    written(writeln!(out, "\n]}}").and_then(|()| out.flush()))
}

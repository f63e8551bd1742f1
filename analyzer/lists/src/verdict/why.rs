//! `stallmap why`: one finding with its evidence, its instructions and its tensor.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, UInt32Type};
use arrow::error::ArrowError;
use serde_json::Value;
use stallmap::library::queries::verdict as queries;
use stallmap::session::Session;
use stallmap_console::answer::{self, asked, json_rows};
use stallmap_console::args::list::ListFormat;
use stallmap_console::args::verdict::WhyArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, QUERY, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::order::ordered;
use stallmap_console::output::number::counted;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::shorten::{printable, wrap};
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::{NumberFormat, with_hex};
use stallmap_console::output::{self, written};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

use crate::filter::LaunchFilter;

use crate::verdict::{FindingRow, json};

/// Version of the object's form. It grows when a field changes or goes.
const VERSION: u32 = 1;

rows! {
    /// A run and its start, nanoseconds since the Unix epoch.
    struct EvidenceStart {
        run_id: u32,
        started_ns: i64,
    }

    /// A number of rows.
    struct EvidenceCount {
        rows: i64,
    }
}

/// A finding with the rows behind it.
struct ExplainedFinding {
    finding: FindingRow,
    /// Words about the order of the evidence.
    order: String,
    evidence: Vec<RecordBatch>,
    /// Rows of evidence behind these.
    more: u64,
    /// Starts of the runs that the evidence is of.
    starts: Vec<EvidenceStart>,
    instructions: Vec<RecordBatch>,
    tensor: Vec<RecordBatch>,
}

/// Prints the finding, or the query of its evidence.
pub fn run(context: &CommandContext, args: &WhyArgs) -> Outcome {
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let filter = runtime.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    let finding = {
        let _progress = ProgressSpinner::for_work(session.work(), "querying findings");
        runtime.block_on(finding(&session, filter.as_ref(), args.number))?
    };
    if args.sql {
        return output::print(&format!("{};\n", finding.query)).map(|()| OK);
    }
    let is_json = args.output.is_json();
    let format = if is_json { ListFormat::Json } else { ListFormat::Table };
    filter.iter().try_for_each(|filter| filter.say(format, "all samples"))?;
    let explained = runtime.block_on(explained(&session, finding, args.rows))?;
    if is_json {
        return output::print(&json(&explained, &args.capture)?).map(|()| OK);
    }
    head(&explained.finding)?;
    let evidence = since_starts(&explained.evidence, &explained.starts);
    show(&format!("Evidence{}", explained.order), &evidence.map_err(arrow_failure)?)?;
    if explained.more > 0 {
        let more = counted(explained.more, "more row", "more rows");
        output::print(&format!("{more}: -n shows them\n"))?;
    }
    show("Instructions", &explained.instructions)?;
    show("Tensor", &explained.tensor)?;
    let options = filter.map_or_else(String::new, |filter| format!(" {}", filter.words()));
    output::print(&footer(&args.capture, explained.finding.number, &printable(&options))).map(|()| OK)
}

/// Queries the rows behind a finding, up to `rows` each.
async fn explained(session: &Session, finding: FindingRow, most: u32) -> Outcome<ExplainedFinding> {
    let evidence =
        ordered(session, &finding.query, Some(usize::try_from(most).unwrap_or(usize::MAX))).await?;
    let shown: usize = evidence.rows.iter().map(RecordBatch::num_rows).sum();
    let (mut more, mut starts) = (0, Vec::new());
    if shown > 0 {
        let count = format!("SELECT count(*) AS rows FROM ({})", finding.query);
        let all = EvidenceCount::read("why", &answer::rows(session, &count).await?)?;
        more = all.first().map_or(0, |all| u64::try_from(all.rows).unwrap_or(0)).saturating_sub(shown as u64);
        starts =
            EvidenceStart::read("why", &answer::rows(session, "SELECT run_id, started_ns FROM run").await?)?;
    }
    let order = if evidence.order.is_empty() { String::new() } else { format!(" {}", evidence.order) };
    let instructions = match instructions(&finding, most) {
        // A query of evidence without instructions has no columns for them.
        Some(sql) => answer::rows(session, &sql).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let tensor = match finding.tensor_id {
        Some(tensor) => answer::rows(session, &queries::WHY_TENSOR.sql(&[("$tensors", tensor)])).await?,
        None => Vec::new(),
    };
    Ok(ExplainedFinding { finding, order, evidence: evidence.rows, more, starts, instructions, tensor })
}

/// One JSON object: the fields of the finding, and the rows behind it. Shares are parts of all samples.
fn json(explained: &ExplainedFinding, capture: &Path) -> Outcome<String> {
    let mut object = json::finding(&explained.finding);
    object.insert("version".to_owned(), VERSION.into());
    object.insert("capture".to_owned(), capture.display().to_string().into());
    let parts = [
        ("evidence", &explained.evidence),
        ("instructions", &explained.instructions),
        ("tensor", &explained.tensor),
    ];
    for (name, rows) in parts {
        let rows = rows.iter().map(with_hex).collect::<Result<Vec<_>, _>>().map_err(arrow_failure)?;
        let rows: Value = serde_json::from_slice(&json_rows(&rows)?).map_err(|error| {
            CommandFailure::message(QUERY, format!("rows of {name} are no JSON: {error}"))
        })?;
        object.insert(name.to_owned(), rows);
    }
    Ok(format!("{:#}\n", Value::from(object)))
}

/// The finding of a rank, of those that a filter chooses.
async fn finding(session: &Session, filter: Option<&LaunchFilter>, number: u32) -> Outcome<FindingRow> {
    let sql = queries::FINDINGS.sql(&[("$top", number.into())]);
    let sql = filter.map_or(sql.clone(), |filter| filter.sql(&sql));
    let batches = asked(session, queries::FINDINGS, &sql).await?;
    let mut findings = FindingRow::read(queries::FINDINGS.name, &batches)?;
    let found = findings.first().map_or(0, |finding| finding.found);
    let last = findings.pop().filter(|finding| finding.number == u64::from(number));
    last.ok_or_else(|| {
        let count = counted(found, "finding", "findings");
        let (whose, options) = match filter {
            Some(filter) => ("these launches have", format!(" {}", filter.words())),
            None => ("the capture has", String::new()),
        };
        let message = format!("no finding {number}: {whose} {count}");
        let hint = match (found, filter) {
            (0, Some(_)) => "without the filter, `stallmap why` has those of all launches".to_owned(),
            _ => format!("`stallmap top findings{options}` lists them"),
        };
        CommandFailure::message(USAGE, message).hint(hint)
    })
}

fn head(finding: &FindingRow) -> Outcome<()> {
    let canvas = output::page();
    let columns = canvas.width.unwrap_or(usize::MAX);
    let title = format!("Finding {}: {}, {}", finding.number, finding.kind(), finding.bound());
    let sentence = wrap(&printable(finding.sentence.as_deref().unwrap_or_default()), columns);
    let advice = wrap(&printable(finding.advice.as_deref().unwrap_or_default()), columns.saturating_sub(2));
    let advice = advice.replace('\n', "\n  ");
    let source = finding.line.as_deref().zip(finding.text.as_deref());
    let source =
        source.map(|(line, text)| format!("{}: {}\n", printable(line), printable(text))).unwrap_or_default();
    output::print(&format!(
        "{}\n{source}{sentence}\n→ {advice}\n",
        canvas.paint.text(TextRole::Heading, &title)
    ))
}

/// The instructions among the evidence, with their text and line.
fn instructions(finding: &FindingRow, rows: u32) -> Option<String> {
    finding.query.contains("pc").then(|| {
        format!(
            "SELECT DISTINCT i.pc, i.text, i.file, i.line FROM ({}) e JOIN instruction i ON i.function_id = e.function_id \
             AND i.pc = e.pc ORDER BY i.pc LIMIT {rows}",
            finding.query
        )
    })
}

/// Rows with times from the start of their run on, in place of times since the Unix epoch.
fn since_starts(batches: &[RecordBatch], starts: &[EvidenceStart]) -> Result<Vec<RecordBatch>, ArrowError> {
    let moved = |batch: &RecordBatch| {
        let runs = batch.column_by_name("run_id").and_then(|runs| runs.as_primitive_opt::<UInt32Type>());
        let Some(runs) = runs else { return Ok(batch.clone()) };
        let start = |row: usize| {
            let run = starts.iter().find(|start| runs.is_valid(row) && start.run_id == runs.value(row));
            run.map_or(0, |run| run.started_ns)
        };
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
            let times = column.as_primitive_opt::<Int64Type>().filter(|_| is_moment(field.name()));
            times.map_or_else(
                || Arc::clone(column),
                |times| {
                    let since =
                        times.iter().enumerate().map(|(row, ns)| Some(ns?.saturating_sub(start(row))));
                    Arc::new(since.collect::<Int64Array>()) as ArrayRef
                },
            )
        });
        RecordBatch::try_new(Arc::clone(&schema), columns.collect())
    };
    batches.iter().map(moved).collect()
}

/// True for a column of times since the Unix epoch.
fn is_moment(name: &str) -> bool {
    ["begin_ns", "end_ns"].iter().any(|moment| name == *moment || name.ends_with(&format!("_{moment}")))
}

fn show(title: &str, rows: &[RecordBatch]) -> Outcome<()> {
    let table = TextTable::from_batches(rows, NumberFormat::Report).map_err(arrow_failure)?;
    if table.rows() == 0 {
        return Ok(());
    }
    let canvas = output::page();
    output::print(&format!("\n{}\n", canvas.paint.text(TextRole::Heading, title)))?;
    let (differing, equal) = table.differing();
    written(differing.draw(&mut output::stdout(), canvas))?;
    if equal.is_empty() {
        return Ok(());
    }
    let equal: Vec<String> = equal.into_iter().map(|(header, cell)| format!("{header} {cell}")).collect();
    let columns = canvas.width.unwrap_or(usize::MAX);
    let text = wrap(&format!("in these rows: {}", equal.join(", ")), columns);
    output::print(&(canvas.paint.text(TextRole::Dim, &text) + "\n"))
}

fn footer(capture: &Path, number: u64, options: &str) -> String {
    let capture = output::path(capture);
    let hint = format!("stallmap why {capture} {number}{options} --sql   prints the query of the evidence");
    format!("\n{}\n", output::page().paint.text(TextRole::Dim, &hint))
}

//! `stallmap why`: one finding with its evidence, its instructions and its tensor.

use std::path::Path;

use arrow::array::RecordBatch;
use stallmap::library::queries::verdict as queries;
use stallmap::session::Session;
use stallmap_console::answer::{asked, rows};
use stallmap_console::args::verdict::Why;
use stallmap_console::context::{Context, runtime};
use stallmap_console::exit::{Failure, OK, Outcome, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::order::ordered;
use stallmap_console::output::number::counted;
use stallmap_console::output::paint::Role;
use stallmap_console::output::progress::Progress;
use stallmap_console::output::shorten::{printable, wrap};
use stallmap_console::output::table::Table;
use stallmap_console::output::value::Look;
use stallmap_console::output::{self, written};
use stallmap_console::row::Row as _;

use crate::Finding;

/// Prints the finding, or the query of its evidence.
pub fn run(context: &Context, args: &Why) -> Outcome {
    let session = {
        let _progress = Progress::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let finding = {
        let _progress = Progress::start("querying findings");
        runtime.block_on(finding(&session, args.number))?
    };
    if args.sql {
        return output::print(&format!("{};\n", finding.query)).map(|()| OK);
    }
    head(&finding)?;
    let most = usize::try_from(args.rows).unwrap_or(usize::MAX);
    let evidence = runtime.block_on(ordered(&session, &finding.query, Some(most)))?;
    let order = if evidence.order.is_empty() { String::new() } else { format!(" {}", evidence.order) };
    show(&format!("Evidence{order}"), &evidence.rows)?;
    if let Some(sql) = instructions(&finding, args.rows) {
        // A query of evidence without instructions has no columns for them.
        if let Ok(found) = runtime.block_on(rows(&session, &sql)) {
            show("Instructions", &found)?;
        }
    }
    if let Some(tensor) = finding.tensor_id {
        show(
            "Tensor",
            &runtime.block_on(rows(&session, &queries::WHY_TENSOR.sql(&[("$tensors", tensor)])))?,
        )?;
    }
    output::print(&footer(&args.capture, args.number)).map(|()| OK)
}

/// The finding of a rank.
async fn finding(session: &Session, number: u32) -> Outcome<Finding> {
    let sql = queries::FINDINGS.sql(&[("$top", number.into())]);
    let batches = asked(session, queries::FINDINGS, &sql).await?;
    let mut findings = Finding::read(queries::FINDINGS.name, &batches)?;
    let found = findings.first().map_or(0, |finding| finding.found);
    let last = findings.pop().filter(|finding| finding.number == u64::from(number));
    last.ok_or_else(|| {
        let message =
            format!("no finding {number}: the capture has {}", counted(found, "finding", "findings"));
        Failure::message(USAGE, message).hint("`stallmap top findings` lists them".to_owned())
    })
}

fn head(finding: &Finding) -> Outcome<()> {
    let canvas = output::page();
    let columns = canvas.width.unwrap_or(usize::MAX);
    let title = format!("Finding {}: {}, {}", finding.number, finding.kind(), finding.bound());
    let sentence = wrap(&printable(finding.sentence.as_deref().unwrap_or_default()), columns);
    let advice = wrap(&printable(finding.advice.as_deref().unwrap_or_default()), columns.saturating_sub(2));
    let advice = advice.replace('\n', "\n  ");
    let source = finding.line.as_deref().zip(finding.text.as_deref());
    let source =
        source.map(|(line, text)| format!("{}: {}\n", printable(line), printable(text))).unwrap_or_default();
    output::print(&format!("{}\n{source}{sentence}\n→ {advice}\n", canvas.paint.text(Role::Heading, &title)))
}

/// The instructions among the evidence, with their text and line.
fn instructions(finding: &Finding, rows: u32) -> Option<String> {
    finding.query.contains("pc").then(|| {
        format!(
            "SELECT DISTINCT i.pc, i.text, i.file, i.line FROM ({}) e JOIN instruction i ON i.function_id = e.function_id \
             AND i.pc = e.pc ORDER BY i.pc LIMIT {rows}",
            finding.query
        )
    })
}

fn show(title: &str, rows: &[RecordBatch]) -> Outcome<()> {
    let table = Table::of(rows, Look::Report).map_err(arrow_failure)?;
    if table.rows() == 0 {
        return Ok(());
    }
    let canvas = output::page();
    output::print(&format!("\n{}\n", canvas.paint.text(Role::Heading, title)))?;
    let (differing, equal) = table.differing();
    written(differing.draw(&mut output::stdout(), canvas))?;
    if equal.is_empty() {
        return Ok(());
    }
    let equal: Vec<String> = equal.into_iter().map(|(header, cell)| format!("{header} {cell}")).collect();
    let columns = canvas.width.unwrap_or(usize::MAX);
    let text = wrap(&format!("in all rows: {}", equal.join(", ")), columns);
    output::print(&(canvas.paint.text(Role::Dim, &text) + "\n"))
}

fn footer(capture: &Path, number: u32) -> String {
    let capture = printable(&capture.display().to_string());
    let hint = format!("stallmap why {capture} {number} --sql   prints the query of the evidence");
    format!("\n{}\n", output::page().paint.text(Role::Dim, &hint))
}

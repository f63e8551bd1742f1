//! Custom gates: statements that must return no row, and their rows otherwise.

use std::path::Path;

use arrow::array::RecordBatch;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::DataFrame;
use stallmap::session::Session;

use super::gate::SHOWN_ROWS;
use stallmap::statements;
use stallmap_console::exit::{Failure, Outcome};
use stallmap_console::explain::arrow_failure;
use stallmap_console::explain::explain;
use stallmap_console::output::paint::Paint;
use stallmap_console::output::table::{Canvas, Table};
use stallmap_console::output::value::Look;
use stallmap_console::output::{self, written};

/// Reason why a file's statements fail. None if none returns a row.
pub(super) async fn failure(session: &Session, file: &Path) -> Outcome<Option<String>> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::io(error, format!("read statements from `{}`", file.display())))?;
    let (mut count, mut shown) = (0, String::new());
    for statement in statements::split(&text) {
        let rows = rows(session, statement).await?;
        let found = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        if found > 0 {
            shown += &first_rows(&rows, found)?;
        }
        count += found;
    }
    let rows = if count == 1 { "row" } else { "rows" };
    let failed = || format!("failed: {} returns {count} {rows}\n{}", file.display(), shown.trim_end());
    Ok((count > 0).then(failed))
}

/// A statement's rows: in its order, or without one the largest first.
async fn rows(session: &Session, statement: &str) -> Outcome<Vec<RecordBatch>> {
    let fail = |error| explain(error, Some(session));
    let frame = session.sql(statement).await.map_err(fail)?;
    let largest = if is_sorted(frame.logical_plan()) { None } else { measure(&frame) };
    let frame = match largest {
        Some(column) => frame.sort(vec![Expr::Column(column).sort(false, false)]),
        None => Ok(frame),
    };
    let frame = frame.map_err(|error| fail(error.into()))?;
    frame.collect().await.map_err(|error| fail(error.into()))
}

fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        // A limit preserves the order. Columns may be omitted after the sort.
        LogicalPlan::Limit(_) | LogicalPlan::Projection(_) => plan.inputs().into_iter().any(is_sorted),
        _ => false,
    }
}

/// The first column that measures something: a number that is no identity.
fn measure(frame: &DataFrame) -> Option<Column> {
    let is_identity = |name: &str| name == "pc" || name == "ordinal" || name.ends_with("_id");
    let mut columns = frame.schema().iter();
    let found = columns.find(|(_, field)| field.data_type().is_numeric() && !is_identity(field.name()));
    found.map(Column::from)
}

/// The first rows as a table, and the number of remaining ones.
fn first_rows(rows: &[RecordBatch], count: usize) -> Outcome<String> {
    let mut left = SHOWN_ROWS;
    let mut first = Vec::new();
    for batch in rows {
        let part = batch.slice(0, batch.num_rows().min(left));
        left -= part.num_rows();
        first.push(part);
    }
    let canvas = Canvas { paint: Paint::PLAIN, ..output::page() };
    let canvas = Canvas { width: canvas.width.map(|width| width.saturating_sub(2)), ..canvas };
    let mut table = Vec::new();
    written(Table::of(&first, Look::Exact).map_err(arrow_failure)?.draw(&mut table, canvas))?;
    let table = String::from_utf8_lossy(&table);
    let mut lines: Vec<String> = table.lines().map(|line| format!("  {line}")).collect();
    if count > SHOWN_ROWS {
        lines.push(format!("  and {} more", count - SHOWN_ROWS));
    }
    Ok(lines.join("\n") + "\n")
}

//! Custom gates: statements that must return no row, and their rows otherwise.

use std::path::Path;

use arrow::array::RecordBatch;
use stallmap::session::Session;

use super::gate::SHOWN_ROWS;
use stallmap::statements;
use stallmap_console::exit::{CommandFailure, Outcome};
use stallmap_console::explain::arrow_failure;
use stallmap_console::order::ordered;
use stallmap_console::output::paint::TextPaint;
use stallmap_console::output::table::{TableCanvas, TextTable};
use stallmap_console::output::value::NumberFormat;
use stallmap_console::output::{self, written};

/// Reason why a file's statements fail. None if none returns a row.
pub(super) async fn failure(session: &Session, file: &Path) -> Outcome<Option<String>> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandFailure::io(error, format!("read statements from `{}`", file.display())))?;
    let (mut count, mut shown) = (0, String::new());
    for statement in statements::split(&text) {
        let rows = ordered(session, statement, None).await?.rows;
        let found = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        if found > 0 {
            shown += &first_rows(&rows, found)?;
        }
        count += found;
    }
    let rows = if count == 1 { "row" } else { "rows" };
    let failed = || format!("failed: {} returns {count} {rows}\n{}", output::path(file), shown.trim_end());
    Ok((count > 0).then(failed))
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
    let canvas = TableCanvas { paint: TextPaint::PLAIN, ..output::page() };
    let canvas = TableCanvas { width: canvas.width.map(|width| width.saturating_sub(2)), ..canvas };
    let mut table = Vec::new();
    written(
        TextTable::from_batches(&first, NumberFormat::Exact).map_err(arrow_failure)?.draw(&mut table, canvas),
    )?;
    let table = String::from_utf8_lossy(&table);
    let mut lines: Vec<String> = table.lines().map(|line| format!("  {line}")).collect();
    if count > SHOWN_ROWS {
        lines.push(format!("  and {} more", count - SHOWN_ROWS));
    }
    Ok(lines.join("\n") + "\n")
}

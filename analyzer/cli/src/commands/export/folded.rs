//! Folded stacks: one call path a line with its samples, as flame graph programs read them.

use arrow::array::{Array as _, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use stallmap::library::queries::export as queries;
use stallmap_console::answer::rows;
use stallmap_console::args::export::Folded;
use stallmap_console::context::Context;
use stallmap_console::context::Context;
use stallmap_console::context::runtime;
use stallmap_console::exit::{Failure, OK, Outcome, QUERY};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output;
use stallmap_console::output::progress::Progress;

/// Writes the stacks to standard output, or prints their query.
pub(super) fn run(context: &Context, args: &Folded) -> Outcome {
    let session = {
        let _progress = Progress::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let sql = queries::FOLDED.sql(&[]);
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    let batches = {
        let _progress = Progress::start("asking for call paths");
        runtime()?.block_on(rows(&session, &sql))?
    };
    let mut text = String::new();
    for batch in &batches {
        fold(&mut text, batch)?;
    }
    output::print(&text).map(|()| OK)
}

fn fold(text: &mut String, batch: &RecordBatch) -> Outcome<()> {
    let column = |name: &str, data_type: &DataType| {
        let found = batch.column_by_name(name);
        let found = found.ok_or_else(|| {
            Failure::message(QUERY, format!("sql/queries/export/folded.sql has no column `{name}`"))
        })?;
        cast(found, data_type).map_err(arrow_failure)
    };
    let (stacks, samples) = (column("stack", &DataType::LargeUtf8)?, column("samples", &DataType::Int64)?);
    let (stacks, samples) = (stacks.as_string::<i64>(), samples.as_primitive::<Int64Type>());
    for row in (0..batch.num_rows()).filter(|&row| stacks.is_valid(row) && samples.is_valid(row)) {
        text.extend([format!("{} {}\n", stacks.value(row), samples.value(row))]);
    }
    Ok(())
}

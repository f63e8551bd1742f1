//! Folded stacks: one call path per line with its samples, for flame graph programs.

use arrow::array::{Array as _, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use crate::args::export::Folded;
use crate::commands::answer::rows;
use crate::commands::section;
use crate::commands::{arrow_failure, open, runtime};
use crate::exit::{Failure, OK, Outcome, QUERY};
use crate::output;
use crate::output::progress::Progress;

/// The query in `sql/export`.
pub(super) const QUERY_NAME: &str = "folded";

/// Writes the stacks to standard output, or prints their query.
pub(super) fn run(args: &Folded) -> Outcome {
    let session = {
        let _progress = Progress::start(format!("opening {}", args.capture.display()));
        open(&[(None, args.capture.clone())])?
    };
    let section = section::sections("export", &[QUERY_NAME]).into_iter().next();
    let section =
        section.ok_or_else(|| Failure::message(QUERY, format!("sql/export/{QUERY_NAME}.sql is missing")))?;
    let sql = section.sql(&[]);
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    let batches = {
        let _progress = Progress::start("querying call paths");
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
            Failure::message(QUERY, format!("sql/export/{QUERY_NAME}.sql has no column `{name}`"))
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

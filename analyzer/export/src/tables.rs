//! Every view as a Parquet file, with the descriptions of the view and its columns as metadata.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use stallmap::library::{ViewDoc, views};
use stallmap_console::args::export::FolderExport;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::{arrow_failure, explain};
use stallmap_console::output;

use crate::folder::ExportFolder;
use crate::source::{ExportSource, print_queries};

/// Metadata that holds a description, of a table and of a column.
const DOC: &str = "doc";

/// Writes the files, or prints their queries.
pub(crate) fn run(context: &CommandContext, args: &FolderExport) -> Outcome {
    let views = views().map_err(|error| explain(error, None))?;
    if args.sql {
        print_queries(views.iter().map(|view| (file(view), query(view))))?;
        return Ok(OK);
    }
    let source = ExportSource::open(context, &args.capture)?;
    let folder = ExportFolder::new(&args.folder)?;
    let session = source.session();
    for view in session.library().map_err(|error| explain(error, Some(session)))? {
        let rows = source.batches(&query(view))?;
        let rows = rows.iter().map(|batch| documented(view, batch)).collect::<Outcome<Vec<_>>>()?;
        folder.parquet(&file(view), &rows)?;
    }
    folder.keep()?;
    output::wrote(&args.folder);
    Ok(OK)
}

fn file(view: &ViewDoc) -> String {
    format!("{}.parquet", view.name)
}

fn query(view: &ViewDoc) -> String {
    format!("SELECT * FROM {};\n", view.name)
}

/// The rows with descriptions in the schema.
fn documented(view: &ViewDoc, batch: &RecordBatch) -> Outcome<RecordBatch> {
    let schema = batch.schema();
    let field = |field: &Arc<Field>| {
        let column = view.columns.iter().find(|column| column.name == *field.name());
        let metadata = column.map(|column| (DOC.to_owned(), column.doc.clone()));
        field.as_ref().clone().with_metadata(metadata.into_iter().collect())
    };
    let fields: Vec<Field> = schema.fields().iter().map(field).collect();
    let metadata = HashMap::from([(DOC.to_owned(), view.doc.clone())]);
    let schema = Schema::new_with_metadata(fields, metadata);
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).map_err(arrow_failure)
}

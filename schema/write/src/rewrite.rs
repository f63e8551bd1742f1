//! Rewriting of captures: tables copied, changed or left empty, files copied or changed.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::labels::CaptureLabels;
use stallmap_schema::capture::manifest::{Manifest, TableEntry};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables;

use crate::writer::{CaptureForm, CaptureWriter};

/// The treatment of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFate {
    /// It is copied, byte for byte.
    Copied,
    /// Its rows change, batch by batch, and keep their order.
    Changed,
    /// Its rows change together: for small tables, whose order changes.
    ChangedWhole,
    /// It has no rows any more.
    Emptied,
    /// It is left out, with its name and those of its columns. A known one has no rows any more.
    Omitted,
}

/// The changes that a rewrite makes.
pub trait CaptureRewrite {
    /// The treatment of a table, even of one that this release does not know.
    fn fate(&self, table: &str) -> TableFate;

    /// Rows as they shall be, in the table's order.
    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String>;

    /// A file's bytes as they shall be; `None` where it is left out.
    fn file(&mut self, name: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String>;

    /// Adds rows of tables that the capture does not have.
    fn add(&mut self, _: &mut CaptureWriter) -> Result<(), CaptureError> {
        Ok(())
    }

    /// Notes about the change for the manifest.
    fn notes(&self) -> Vec<String>;

    /// The notes of the capture before, as they shall be.
    fn earlier_notes(&mut self, notes: &[String]) -> Vec<String> {
        notes.to_vec()
    }

    /// The labels of the capture before, as they shall be.
    fn labels(&mut self, labels: &CaptureLabels) -> CaptureLabels {
        labels.clone()
    }

    /// Inspects the complete result before it is put into place. After an error there is none.
    fn inspect(&self, _: &CaptureReader) -> Result<(), CaptureError> {
        Ok(())
    }
}

/// Rewrites a capture, in the order of its tables.
pub fn rewrite(
    reader: &CaptureReader,
    output: &Path,
    form: CaptureForm,
    how: &mut dyn CaptureRewrite,
) -> Result<Manifest, CaptureError> {
    let mut writer = CaptureWriter::create(output, form)?;
    for table in reader.tables() {
        rewrite_table(reader, table, &mut writer, how)?;
    }
    how.add(&mut writer)?;
    for file in &reader.manifest().files {
        let bytes = reader.verified_entry(&file.path)?.to_vec();
        let changed = how
            .file(&file.path, bytes)
            .map_err(|cause| CaptureError::refused(format!("file `{}`", file.path), cause, output))?;
        if let Some(bytes) = changed {
            writer.add_file(&file.path, &bytes)?;
        }
    }
    writer.note(how.earlier_notes(&reader.manifest().notes));
    writer.label(how.labels(&reader.manifest().labels));
    writer.note(how.notes());
    writer.finish_inspected(|written| how.inspect(written))
}

fn rewrite_table(
    reader: &CaptureReader,
    table: &TableEntry,
    writer: &mut CaptureWriter,
    how: &mut dyn CaptureRewrite,
) -> Result<(), CaptureError> {
    let definition = tables::by_name(&table.name);
    match (how.fate(&table.name), definition) {
        (TableFate::Copied, _) => writer.take_table(reader, table),
        (TableFate::Emptied, Some(_)) | (TableFate::Omitted, _) => Ok(()),
        (TableFate::Emptied, None) => {
            let empty = RecordBatch::new_empty(reader.read_table(&table.name)?.schema().clone());
            writer.append(&table.name, &empty)
        }
        (TableFate::Changed, Some(definition)) => {
            for batch in reader.read_table(&table.name)? {
                append(writer, definition, &batch?, how, reader.path())?;
            }
            Ok(())
        }
        (TableFate::ChangedWhole, Some(definition)) => {
            append(writer, definition, &whole(reader, definition)?, how, reader.path())
        }
        // The columns of a table that this release does not know are unknown.
        (TableFate::Changed | TableFate::ChangedWhole, None) => Err(CaptureError::refused(
            format!("table `{}`", table.name),
            "this release does not know its columns",
            reader.path(),
        )),
    }
}

fn append(
    writer: &mut CaptureWriter,
    definition: &'static TableDef,
    batch: &RecordBatch,
    how: &mut dyn CaptureRewrite,
    path: &Path,
) -> Result<(), CaptureError> {
    let changed = how
        .change(definition, batch)
        .map_err(|cause| CaptureError::corrupt(format!("table `{}`", definition.name), cause, path))?;
    writer.append(definition.name, &changed)
}

fn whole(reader: &CaptureReader, definition: &TableDef) -> Result<RecordBatch, CaptureError> {
    let batches = reader.read_table(definition.name)?;
    let schema = batches.schema().clone();
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    concat_batches(&schema, &batches).map_err(|cause| {
        CaptureError::corrupt(format!("table `{}`", definition.name), cause.to_string(), reader.path())
    })
}

/// Changes the rows of a batch one by one.
pub fn change_rows<R: TableRow>(
    batch: &RecordBatch,
    mut change: impl FnMut(&mut R),
) -> Result<RecordBatch, String> {
    let mut rows = R::read_all(batch).map_err(|cause| cause.to_string())?;
    rows.iter_mut().for_each(&mut change);
    R::batch(rows).map_err(|cause| cause.to_string())
}

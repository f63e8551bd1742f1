//! Merge of new rows into an old table, in its order, with one batch of each in memory.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::row::{Row, RowConverter, Rows, SortField};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::{CaptureReader, TableBatches};
use stallmap_schema::table::TableDef;
use stallmap_write::CaptureWriter;

use crate::error::FinishError;

/// A table of the old capture on its way into the new one.
pub(super) struct TableMerge<'a> {
    table: &'static TableDef,
    reader: &'a CaptureReader,
    old: Option<TableBatches>,
    converter: RowConverter,
    current: Option<SortedBatch>,
}

/// A batch with the values of the order's columns, and the first row that is not written yet.
struct SortedBatch {
    batch: RecordBatch,
    keys: Rows,
    next: usize,
}

impl<'a> TableMerge<'a> {
    /// Begins with a table of a capture. A capture that does not have the table has no rows in it.
    pub(super) fn new(reader: &'a CaptureReader, table: &'static TableDef) -> Result<Self, FinishError> {
        let column = |name: &&str| table.columns.iter().find(|column| column.name == *name);
        let fields = table.sort.iter().filter_map(column).map(|column| SortField::new((column.data_type)()));
        let converter = RowConverter::new(fields.collect())?;
        let mut old = None;
        if reader.tables().iter().any(|entry| entry.name == table.name) {
            reader.verified_entry(&entry::table(table.name))?;
            old = Some(reader.read_table(table.name)?);
        }
        Ok(Self { table, reader, old, converter, current: None })
    }

    /// Writes sorted rows, and before each the old rows that come before it. Later calls bring later rows.
    pub(super) fn push(
        &mut self,
        batch: &RecordBatch,
        writer: &mut CaptureWriter,
    ) -> Result<(), FinishError> {
        let keys = self.keys(batch)?;
        let mut from = 0;
        while from < keys.num_rows() {
            self.write_old(Some(keys.row(from)), writer)?;
            let mut to = from + 1;
            // An old row that is left comes behind row `from`, and new rows before it go in one piece.
            let border = self.current.as_ref().map(|old| old.keys.row(old.next));
            while to < keys.num_rows() && border.is_none_or(|border| keys.row(to) < border) {
                to += 1;
            }
            writer.append(self.table.name, &batch.slice(from, to - from))?;
            from = to;
        }
        Ok(())
    }

    /// Writes the old rows that are left.
    pub(super) fn finish(mut self, writer: &mut CaptureWriter) -> Result<(), FinishError> {
        self.write_old(None, writer)
    }

    /// Writes old rows up to a key and those equal to it. All of them without a key.
    fn write_old(&mut self, until: Option<Row<'_>>, writer: &mut CaptureWriter) -> Result<(), FinishError> {
        while let Some(mut old) = self.take_current()? {
            let rows = old.keys.num_rows();
            let mut end = old.next;
            while end < rows && until.is_none_or(|until| old.keys.row(end) <= until) {
                end += 1;
            }
            if end > old.next {
                writer.append(self.table.name, &old.batch.slice(old.next, end - old.next))?;
            }
            if end < rows {
                old.next = end;
                self.current = Some(old);
                break;
            }
        }
        Ok(())
    }

    /// The batch that is not written to its end, or the next one.
    fn take_current(&mut self) -> Result<Option<SortedBatch>, FinishError> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        while let Some(batch) = self.old.as_mut().and_then(Iterator::next) {
            let batch = batch?;
            if batch.num_rows() > 0 {
                let keys = self.keys(&batch)?;
                return Ok(Some(SortedBatch { batch, keys, next: 0 }));
            }
        }
        Ok(None)
    }

    fn keys(&mut self, batch: &RecordBatch) -> Result<Rows, FinishError> {
        let column = |name: &&str| batch.column_by_name(name).cloned();
        let columns: Option<Vec<ArrayRef>> = self.table.sort.iter().map(column).collect();
        let damaged = |cause: String| CaptureError::Corrupt {
            thing: format!("table `{}`", self.table.name),
            cause,
            path: self.reader.path().to_owned(),
        };
        let columns = columns.ok_or_else(|| damaged("a column of its order is missing".to_owned()))?;
        let keys = self.converter.convert_columns(&columns).map_err(|cause| damaged(cause.to_string()))?;
        Ok(keys)
    }
}

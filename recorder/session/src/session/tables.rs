//! Buffers of rows before they become batches, by table.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use stallmap_schema::table::TableRow;

/// Rows that make a batch.
const FULL: usize = 8192;

/// A batch of one table.
pub(super) struct TableBatch {
    /// The table's name.
    pub(super) table: &'static str,
    /// Its rows.
    pub(super) rows: RecordBatch,
}

/// Every table's waiting rows.
#[derive(Default)]
pub(super) struct WaitingTables(BTreeMap<TypeId, Box<dyn WaitingRows>>);

impl WaitingTables {
    /// Adds a row. A table that is full comes back as a batch.
    pub(super) fn append<R>(&mut self, row: R) -> Option<TableBatch>
    where
        R: TableRow + 'static,
        R::Builder: Send,
    {
        let waiting =
            self.0.entry(TypeId::of::<R>()).or_insert_with(|| Box::new(WaitingColumns::<R>::default()));
        let columns = waiting.as_any().downcast_mut::<WaitingColumns<R>>()?;
        row.append(&mut columns.builder);
        columns.count += 1;
        if columns.count >= FULL { columns.take() } else { None }
    }

    /// Every waiting row.
    pub(super) fn take(&mut self) -> Vec<TableBatch> {
        self.0.values_mut().filter_map(|waiting| waiting.take()).collect()
    }
}

trait WaitingRows: Send {
    fn take(&mut self) -> Option<TableBatch>;
    fn as_any(&mut self) -> &mut dyn Any;
}

struct WaitingColumns<R: TableRow> {
    builder: R::Builder,
    count: usize,
}

impl<R: TableRow> Default for WaitingColumns<R> {
    fn default() -> Self {
        Self { builder: R::Builder::default(), count: 0 }
    }
}

impl<R> WaitingRows for WaitingColumns<R>
where
    R: TableRow + 'static,
    R::Builder: Send,
{
    fn take(&mut self) -> Option<TableBatch> {
        if self.count == 0 {
            return None;
        }
        self.count = 0;
        // The columns come from one builder of the same declaration, so they always fit the schema.
        let rows = RecordBatch::try_new(R::TABLE.schema(), R::finish(&mut self.builder)).ok()?;
        Some(TableBatch { table: R::TABLE.name, rows })
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

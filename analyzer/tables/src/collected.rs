//! The rows of a view while they are computed: batches in memory, or a file in it if there are many.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::planning::texts::{held_bytes, owned};
use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use parquet::basic::Compression;

use crate::packed::{self, ParquetEncoder};

/// The rows of a view, and their memory.
pub struct ViewRows {
    /// The rows themselves.
    pub held: HeldRows,
    /// The number of rows.
    pub count: usize,
    /// The memory that they take.
    pub memory: MemoryReservation,
}

/// The rows of a view.
pub enum HeldRows {
    /// Few, as they were computed.
    Batches(Vec<RecordBatch>),
    /// Many: the bytes of a Parquet file.
    File(Vec<u8>),
}

/// Rows that are added up.
pub struct CollectedRows<'a> {
    schema: SchemaRef,
    sources: &'a BTreeSet<String>,
    most_cells: usize,
    batches: Vec<RecordBatch>,
    /// All rows, if there are many.
    file: Option<ParquetEncoder>,
    count: usize,
    memory: MemoryReservation,
}

impl<'a> CollectedRows<'a> {
    /// For rows of this schema, of a view that reads some tables. They become a file if rows times columns exceed a number.
    pub fn new(
        schema: SchemaRef,
        sources: &'a BTreeSet<String>,
        most_cells: usize,
        memory: MemoryReservation,
    ) -> Self {
        Self { schema, sources, most_cells, batches: Vec::new(), file: None, count: 0, memory }
    }

    /// Adds rows. Returns false if all are too many to cache, or the types of the view cannot hold them: as SQL is read,
    /// a union has the types of its first input.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<bool> {
        let Some(batch) = exact(batch, &self.schema) else { return Ok(false) };
        self.count += batch.num_rows();
        let cells = self.count.saturating_mul(batch.num_columns());
        if self.file.is_none() && cells > self.most_cells {
            let mut file = ParquetEncoder::new(&self.schema, self.sources, Compression::SNAPPY)?;
            for batch in self.batches.drain(..) {
                file.add(&batch)?;
            }
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else {
            let batch = owned(batch)?;
            let is_granted = self.memory.try_grow(bytes_of(&batch)?).is_ok();
            self.batches.push(batch);
            return Ok(is_granted);
        };
        file.add(&batch)?;
        let is_granted = self.memory.try_resize(file.size_bytes()).is_ok();
        Ok(is_granted && self.count <= packed::MAX_ROWS && file.size_bytes() <= packed::MAX_BYTES)
    }

    /// All rows.
    pub fn finish(self) -> Result<ViewRows> {
        let held = match self.file {
            Some(file) => {
                let content = file.finish()?;
                // They exist: to refuse them now frees nothing.
                self.memory.resize(content.len());
                HeldRows::File(content)
            }
            None => HeldRows::Batches(self.batches),
        };
        Ok(ViewRows { held, count: self.count, memory: self.memory })
    }
}

/// Bytes that a batch holds. Batches of an aggregate are slices of the same buffers.
fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    let bytes = |column: &ArrayRef| match column.as_string_view_opt() {
        Some(texts) => Ok(size_of_val::<[u128]>(texts.views()) + held_bytes(texts)),
        None => column.to_data().get_slice_memory_size(),
    };
    Ok(batch.columns().iter().map(bytes).sum::<Result<usize, _>>()?)
}

/// A batch with the names and types of a view: executed plans may encode texts differently from planned ones.
pub fn typed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<std::result::Result<_, _>>()?)?)
}

/// A batch with the types of a view. None if these cannot hold all values.
pub fn exact(batch: &RecordBatch, schema: &SchemaRef) -> Option<RecordBatch> {
    let is_equal = |(own, typed): (&ArrayRef, &ArrayRef)| {
        let is_same_kind = own.data_type() == typed.data_type() || !own.data_type().is_numeric();
        is_same_kind || cast(typed, own.data_type()).is_ok_and(|back| &back == own)
    };
    let typed = typed(batch, schema).ok()?;
    batch.columns().iter().zip(typed.columns()).all(is_equal).then_some(typed)
}

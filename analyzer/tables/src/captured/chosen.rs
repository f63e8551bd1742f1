//! Some rows of a large table, by their keys.

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use stallmap_schema::capture::bounds;
use stallmap_schema::contained::contained;

use super::CapturedTable;
use crate::error::{failed, unreadable};

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 256;

impl CapturedTable {
    /// Reads the row groups that may hold rows with some numbers in a column, and gives their rows batch by batch: those
    /// and others. The numbers are sorted.
    ///
    /// # Errors
    /// Fails if the table cannot be read, or if `each` does.
    pub fn read_groups_of(
        &self,
        columns: &[&str],
        (key, wanted): (&str, &[u64]),
        mut each: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.vet()?;
        let read = || -> Result<()> {
            let builder = ParquetRecordBatchReaderBuilder::try_new(self.file.bytes.clone())?;
            let at = builder.parquet_schema().columns().iter().position(|column| column.name() == key);
            let groups = self.file.metadata.row_groups().iter().enumerate();
            let groups = groups.filter(|(_, group)| at.is_none_or(|at| may_hold(group, at, wanted)));
            let groups = groups.map(|(number, _)| number).collect();
            let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
            let batches =
                builder.with_projection(mask).with_row_groups(groups).with_batch_size(BATCH_ROWS).build()?;
            let mut row = 0;
            for batch in batches {
                let batch = batch?;
                bounds::check(&self.name, &batch, row).map_err(|reason| unreadable(&self.name, reason))?;
                row += batch.num_rows() as u64;
                each(&batch)?;
            }
            Ok(())
        };
        // Parquet's decoder can panic on damage.
        let read = contained(read).unwrap_or_else(|panic| Err(DataFusionError::Execution(panic)));
        read.map_err(|error| failed(&self.name, &self.file.bytes, error.strip_backtrace()))
    }
}

/// True if a row group may hold one of the sorted numbers in a column.
fn may_hold(group: &RowGroupMetaData, column: usize, wanted: &[u64]) -> bool {
    let Some(Statistics::Int64(known)) = group.column(column).statistics() else { return true };
    let (Some(min), Some(max)) = (known.min_opt(), known.max_opt()) else { return true };
    let (min, max) = (min.cast_unsigned(), max.cast_unsigned());
    wanted.get(wanted.partition_point(|&number| number < min)).is_some_and(|&number| number <= max)
}

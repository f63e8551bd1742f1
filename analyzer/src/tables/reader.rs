//! Hands Parquet's decoder slices of a table's bytes, and the footer that was parsed once.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

/// The bytes and the footer of one table.
#[derive(Clone, Debug)]
pub(super) struct TableBytes {
    pub(super) bytes: Bytes,
    pub(super) metadata: Arc<ParquetMetaData>,
}

impl ParquetFileReaderFactory for TableBytes {
    fn create_reader(
        &self,
        _partition_index: usize,
        _file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(self.clone()))
    }
}

impl AsyncFileReader for TableBytes {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        let slice = slice(&self.bytes, &range);
        async move { slice }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let metadata = Arc::clone(&self.metadata);
        async move { Ok(metadata) }.boxed()
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Result<Bytes, ParquetError> {
    let start = usize::try_from(range.start).ok();
    let end = usize::try_from(range.end).ok();
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= bytes.len() => Ok(bytes.slice(start..end)),
        _ => Err(ParquetError::EOF(format!(
            "bytes {} to {} of a table of {} bytes are asked for",
            range.start,
            range.end,
            bytes.len()
        ))),
    }
}

//! Hands Parquet's decoder a table's bytes, in memory or fetched by ranges, and the footer that was parsed once.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::source::EntryBytes;

/// Maximum bytes of columns fetched in advance.
const PREFETCH_BYTES: u64 = 64 << 20;

/// The bytes and the footer of one table.
#[derive(Clone, Debug)]
pub(super) struct TableBytes {
    pub(super) bytes: EntryBytes,
    pub(super) metadata: Arc<ParquetMetaData>,
}

impl TableBytes {
    /// Fetches columns in advance, together. Nothing to do for columns in memory. A failed fetch is reported on read.
    pub(super) fn prefetch(&self, columns: &ProjectionMask) {
        if self.bytes.is_near() {
            return;
        }
        let mut left = PREFETCH_BYTES;
        let mut ranges = Vec::new();
        for group in self.metadata.row_groups() {
            let chunks = group.columns().iter().enumerate().filter(|(leaf, _)| columns.leaf_included(*leaf));
            for (start, length) in chunks.map(|(_, chunk)| chunk.byte_range()) {
                let Some(rest) = left.checked_sub(length) else { break };
                left = rest;
                ranges.push(start..start.saturating_add(length));
            }
        }
        drop(self.bytes.read_ranges(&ranges));
    }
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
        let read = self.get_byte_ranges(vec![range]);
        async move { Ok(read.await?.pop().unwrap_or_default()) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        let bytes = self.bytes.clone();
        if bytes.is_near() {
            let slices = bytes.read_ranges(&ranges).map_err(external);
            return async move { slices }.boxed();
        }
        // Fetching blocks its thread, so it must not use one of the query threads.
        let fetch = tokio::task::spawn_blocking(move || bytes.read_ranges(&ranges));
        let fetched = async move {
            match fetch.await {
                Ok(fetched) => fetched.map_err(external),
                Err(gone) => Err(ParquetError::External(Box::new(gone))),
            }
        };
        fetched.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let metadata = Arc::clone(&self.metadata);
        async move { Ok(metadata) }.boxed()
    }
}

fn external(error: CaptureError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

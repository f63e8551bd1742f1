//! Rows of a view that would take much memory: the bytes of a Parquet file, a tenth to a thirtieth of it.
//!
//! Views of a large capture have millions of rows, by launch, stall reason and object, and most of their values repeat.
//! A scan decodes the columns that it reads, in as many partitions as there are threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::catalog::TableProvider;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::captured::CapturedTable;
use crate::error::TableError;

/// Maximum size of a file.
pub const MAX_BYTES: usize = 256 << 20;
/// Maximum number of rows.
pub const MAX_ROWS: usize = 64_000_000;
/// Rows of a row group: the part that one thread reads.
const GROUP_ROWS: usize = 256 << 10;
/// The tables that a view reads, in the metadata of its file.
const SOURCES: &str = "stallmap.sources";

/// The rows in the bytes of a file, as a table of this name.
pub fn open(name: &str, content: Bytes) -> Result<Arc<dyn TableProvider>, TableError> {
    CapturedTable::open(name, None, content.into()).map(|table| Arc::new(table) as _)
}

/// Writes the file.
pub struct ParquetEncoder(ArrowWriter<Vec<u8>>);

impl ParquetEncoder {
    /// For rows of a schema, of a view that reads some tables.
    pub fn new(
        schema: &SchemaRef,
        sources: &BTreeSet<String>,
        compression: Compression,
    ) -> parquet::errors::Result<Self> {
        let sources = sources.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_key_value_metadata(Some(vec![KeyValue::new(SOURCES.to_owned(), sources)]))
            .build();
        ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties)).map(Self)
    }

    /// Adds rows.
    pub fn add(&mut self, batch: &RecordBatch) -> parquet::errors::Result<()> {
        self.0.write(batch)
    }

    /// Bytes of memory that it takes.
    pub fn size_bytes(&self) -> usize {
        self.0.bytes_written() + self.0.memory_size()
    }

    /// The bytes of the file.
    pub fn finish(self) -> parquet::errors::Result<Vec<u8>> {
        self.0.into_inner()
    }
}

/// The tables that a view reads through all others, from its file.
pub fn sources(metadata: &ParquetMetaData) -> Option<BTreeSet<String>> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let sources = pairs.iter().find(|pair| pair.key == SOURCES)?.value.as_ref()?;
    Some(sources.split_whitespace().map(str::to_owned).collect())
}

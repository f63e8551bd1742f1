//! One table's Parquet file, row group by row group.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;

use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::TableEntry;
use stallmap_schema::tables;

use super::pages::{EncodedChunk, PageForm};
use super::{delta, few, lists, runs};
use crate::encoding;

/// Encodes row groups of one table, on any thread.
pub struct GroupEncoder {
    table: String,
    schema: SchemaRef,
    /// Every column is one leaf.
    leaves: Vec<(ColumnDescPtr, PageForm)>,
    factory: ArrowRowGroupWriterFactory,
    group_rows: usize,
    /// The capture that errors name.
    output: PathBuf,
}

impl GroupEncoder {
    /// Encodes rows as one row group.
    pub fn encode(self: &Arc<Self>, batches: &[RecordBatch]) -> Result<RowGroup, CaptureError> {
        let conform = |batch| self.conform(batch);
        self.encode_conforming(&batches.iter().map(conform).collect::<Result<Vec<_>, _>>()?)
    }

    fn encode_conforming(self: &Arc<Self>, batches: &[RecordBatch]) -> Result<RowGroup, CaptureError> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let columns = self.columns(batches).map_err(|cause| self.error(&cause))?;
        Ok(RowGroup { encoder: Arc::clone(self), rows, columns })
    }

    fn columns(&self, batches: &[RecordBatch]) -> Result<Vec<EncodedColumn>, ParquetError> {
        // Only encrypted files differ by the row group's position.
        let writers = || self.factory.create_column_writers(0);
        let mut general: Vec<Option<ArrowColumnWriter>> = Vec::new();
        let mut columns = Vec::new();
        for (position, (leaf, form)) in self.leaves.iter().enumerate() {
            let arrays: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(position)).collect();
            let mut own = runs::encode(leaf, &arrays)?;
            for encode in [delta::encode, few::encode, lists::encode] {
                if own.is_none() {
                    own = encode(leaf, *form, &arrays)?;
                }
            }
            if let Some(chunk) = own {
                columns.push(EncodedColumn::Own(chunk));
                continue;
            }
            if general.is_empty() {
                general = writers()?.into_iter().map(Some).collect();
            }
            let writer = general.get_mut(position).and_then(Option::take);
            let writer = writer.ok_or_else(|| ParquetError::General("a column has no writer".to_owned()))?;
            columns.push(EncodedColumn::General(values(self.schema.field(position), &arrays, writer)?));
        }
        Ok(columns)
    }

    /// A batch with the declared schema, which carries the docs that batches from segments have lost. Earlier releases
    /// wrote fewer columns.
    fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch, CaptureError> {
        let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
            Some(column) => Ok(column.clone()),
            None if tables::is_added_column(&self.table, field.name()) => {
                Ok(new_null_array(field.data_type(), batch.num_rows()))
            }
            None => Err(self.refused(format!("column `{}` is missing", field.name()))),
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<_, CaptureError>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|cause| self.refused(cause.to_string()))
    }

    fn refused(&self, cause: String) -> CaptureError {
        CaptureError::refused(format!("rows of table `{}`", self.table), cause, &self.output)
    }

    fn error(&self, cause: &ParquetError) -> CaptureError {
        parquet_error(&self.table, cause, &self.output)
    }
}

/// Rows on their way into row groups: they are cut at the borders of these.
pub struct PendingRows {
    /// Rows of a complete group.
    most: usize,
    /// Rows that make no complete group yet.
    rest: Vec<RecordBatch>,
    count: usize,
}

impl PendingRows {
    /// For the row groups of an encoder.
    pub fn new(encoder: &GroupEncoder) -> Self {
        Self { most: encoder.group_rows, rest: Vec::new(), count: 0 }
    }

    /// Adds rows, and takes those of the groups that they complete. What is not taken is lost.
    pub fn push(&mut self, batch: RecordBatch) -> impl Iterator<Item = Vec<RecordBatch>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let length = (batch.num_rows() - from).min(self.most - self.count);
            if length > 0 {
                self.rest.push(batch.slice(from, length));
                self.count += length;
                from += length;
            }
            if self.count == self.most { self.rest() } else { None }
        })
    }

    /// Takes the rows that make no complete group, if there are any.
    pub fn rest(&mut self) -> Option<Vec<RecordBatch>> {
        self.count = 0;
        Some(std::mem::take(&mut self.rest)).filter(|rest| !rest.is_empty())
    }
}

/// An encoded row group, on its way into its table.
pub struct RowGroup {
    encoder: Arc<GroupEncoder>,
    rows: usize,
    columns: Vec<EncodedColumn>,
}

/// An encoded column.
enum EncodedColumn {
    /// By the encoders here.
    Own(EncodedChunk),
    /// Value by value.
    General(ArrowColumnChunk),
}

impl RowGroup {
    /// Bytes of its columns.
    pub fn bytes(&self) -> u64 {
        let bytes = |column: &EncodedColumn| match column {
            EncodedColumn::Own(chunk) => chunk.close.bytes_written,
            EncodedColumn::General(chunk) => chunk.close().bytes_written,
        };
        self.columns.iter().map(bytes).sum()
    }

    /// The table's name.
    pub(super) fn table(&self) -> &str {
        &self.encoder.table
    }
}

/// A table that grows.
pub(super) struct TableWriter {
    file: SerializedFileWriter<HashedFile>,
    encoder: Arc<GroupEncoder>,
    waiting: PendingRows,
    rows: u64,
}

impl TableWriter {
    /// Creates the file of a table in the staging folder. Errors behind that name the output.
    pub(super) fn create(
        staging: &Path,
        table: &str,
        schema: SchemaRef,
        output: &Path,
    ) -> Result<Self, CaptureError> {
        let name = entry::table(table);
        let path = staging.join(&name);
        if !entry::is_table(&name) || !entry::is_allowed(&name) {
            return Err(CaptureError::refused(format!("table `{table}`"), "the name is not allowed", &path));
        }
        let file = File::create_new(&path).map_err(CaptureError::io("create table", &path))?;
        let properties = encoding::properties(tables::by_name(table));
        let group_rows = properties.max_row_group_row_count().unwrap_or(encoding::ROW_GROUP_ROWS);
        let (file, factory) =
            ArrowWriter::try_new(HashedFile::new(file), schema.clone(), Some(properties.clone()))
                .and_then(ArrowWriter::into_serialized_writer)
                .map_err(|cause| parquet_error(table, &cause, &path))?;
        let (table, output) = (table.to_owned(), output.to_owned());
        let form = |leaf: &ColumnDescPtr| PageForm {
            encoding: properties.encoding(leaf.path()).unwrap_or(Encoding::PLAIN),
            codec: properties.compression(leaf.path()),
            has_dictionary: properties.dictionary_enabled(leaf.path()),
        };
        let leaves = file.schema_descr().columns().iter().map(|leaf| (leaf.clone(), form(leaf))).collect();
        let encoder = Arc::new(GroupEncoder { table, schema, leaves, factory, group_rows, output });
        let waiting = PendingRows::new(&encoder);
        Ok(Self { file, encoder, waiting, rows: 0 })
    }

    /// The encoder of the table's row groups.
    pub(super) fn encoder(&self) -> Arc<GroupEncoder> {
        Arc::clone(&self.encoder)
    }

    /// Appends rows. They are encoded when a row group is complete.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CaptureError> {
        let batch = self.encoder.conform(batch)?;
        let complete: Vec<_> = self.waiting.push(batch).collect();
        complete.iter().try_for_each(|group| self.encode(group))
    }

    /// Appends a row group behind all rows so far.
    pub(super) fn write_group(&mut self, group: RowGroup) -> Result<(), CaptureError> {
        self.flush()?;
        self.append(group)
    }

    /// Completes the file.
    pub(super) fn finish(mut self, name: String) -> Result<TableEntry, CaptureError> {
        self.flush()?;
        self.file.finish().map_err(|cause| self.encoder.error(&cause))?;
        let written = self.file.inner_mut().finish();
        let (bytes, blake3) = written.map_err(CaptureError::io("write table of", &self.encoder.output))?;
        Ok(TableEntry { name, rows: self.rows, bytes, blake3 })
    }

    /// Encodes the rows that make no complete row group.
    pub(super) fn flush(&mut self) -> Result<(), CaptureError> {
        self.waiting.rest().map_or(Ok(()), |group| self.encode(&group))
    }

    fn encode(&mut self, batches: &[RecordBatch]) -> Result<(), CaptureError> {
        let group = self.encoder.encode_conforming(batches)?;
        self.append(group)
    }

    fn append(&mut self, group: RowGroup) -> Result<(), CaptureError> {
        self.rows += group.rows as u64;
        append(&mut self.file, group.columns).map_err(|cause| self.encoder.error(&cause))
    }
}

/// Encodes a column value by value.
fn values(
    field: &Field,
    arrays: &[&ArrayRef],
    mut writer: ArrowColumnWriter,
) -> Result<ArrowColumnChunk, ParquetError> {
    for array in arrays {
        for leaf in compute_leaves(field, array)? {
            writer.write(&leaf)?;
        }
    }
    writer.close()
}

fn append(
    file: &mut SerializedFileWriter<HashedFile>,
    columns: Vec<EncodedColumn>,
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for column in columns {
        match column {
            EncodedColumn::Own(EncodedChunk { bytes, close }) => group.append_column(&bytes, close)?,
            EncodedColumn::General(chunk) => chunk.append_to_row_group(&mut group)?,
        }
    }
    group.close().map(drop)
}

fn parquet_error(table: &str, cause: &ParquetError, path: &Path) -> CaptureError {
    if let ParquetError::External(inner) = cause
        && let Some(source) = inner.downcast_ref::<io::Error>()
    {
        let source = source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
        return CaptureError::Io { action: "write table of", path: path.to_owned(), source };
    }
    CaptureError::refused(format!("table `{table}`"), cause.to_string(), path)
}

/// A file that is hashed as it is written.
struct HashedFile {
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl HashedFile {
    fn new(file: File) -> Self {
        Self { file: BufWriter::with_capacity(1 << 16, file), hasher: blake3::Hasher::new(), bytes: 0 }
    }

    fn finish(&mut self) -> io::Result<(u64, String)> {
        self.file.flush()?;
        Ok((self.bytes, self.hasher.finalize().to_hex().to_string()))
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

//! Rows of a query, batch by batch, in the requested format.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::csv;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited, Writer, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::markdown::MarkdownRows;
use super::table::{TableCanvas, TableShape, TextTable};
use super::value::{NumberFormat, with_hex};
use crate::args::RowFormat;

/// Destination of rows.
pub type RowSink = Box<dyn Write + Send>;

/// Format of rows.
#[derive(Clone, Copy, Debug)]
pub struct RowStyle {
    /// The format.
    pub format: RowFormat,
    /// For tables: size and style.
    pub canvas: TableCanvas,
    /// For tables: columns or records.
    pub shape: TableShape,
    /// For tables: maximum rows. None for all.
    pub limit: Option<usize>,
}

/// Takes batches and writes them.
pub trait RowWriter: Send {
    /// Writes a batch, or stores it until the end.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError>;
    /// Writes the rest.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// Why rows could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk, the pipe.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Values that the format cannot represent.
    #[error("{0}")]
    Arrow(ArrowError),
    /// The same of Parquet.
    #[error("{0}")]
    Parquet(ParquetError),
}

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => Self::Io(source),
            other => Self::Arrow(other),
        }
    }
}

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(source) => Self::Io(*source),
                Err(source) => Self::Parquet(ParquetError::External(source)),
            },
            other => Self::Parquet(other),
        }
    }
}

/// A writer of rows with a schema.
pub fn writer(sink: RowSink, schema: &SchemaRef, style: RowStyle) -> Result<Box<dyn RowWriter>, WriteError> {
    let failure = SinkError::default();
    let sink = Box::new(WatchedSink { sink, failure: failure.clone() });
    let rows = of_format(sink, schema, style).map_err(|error| failure.cause_of(error))?;
    Ok(Box::new(ExplainedRows { rows, failure }))
}

/// The error of a destination. Writers of formats turn it into text.
#[derive(Clone, Default)]
struct SinkError(Arc<OnceLock<(Option<i32>, io::ErrorKind)>>);

impl SinkError {
    fn cause_of(&self, error: WriteError) -> WriteError {
        match (error, self.0.get()) {
            (WriteError::Arrow(_) | WriteError::Parquet(_), Some((code, kind))) => {
                WriteError::Io(code.map_or_else(|| (*kind).into(), io::Error::from_raw_os_error))
            }
            (error, _) => error,
        }
    }
}

/// A destination whose error is remembered.
struct WatchedSink {
    sink: RowSink,
    failure: SinkError,
}

impl WatchedSink {
    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        let interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        if let Some(error) = result.as_ref().err().filter(|error| !interrupted(error)) {
            self.failure.0.get_or_init(|| (error.raw_os_error(), error.kind()));
        }
        result
    }
}

impl Write for WatchedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes);
        self.watch(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.sink.flush();
        self.watch(flushed)
    }
}

/// Rows whose errors are those of their destination, where it has one.
struct ExplainedRows {
    rows: Box<dyn RowWriter>,
    failure: SinkError,
}

impl RowWriter for ExplainedRows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        self.rows.write(batch).map_err(|error| self.failure.cause_of(error))
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        self.rows.finish().map_err(|error| self.failure.cause_of(error))
    }
}

fn of_format(sink: RowSink, schema: &SchemaRef, style: RowStyle) -> Result<Box<dyn RowWriter>, WriteError> {
    Ok(match style.format {
        RowFormat::Table => {
            let first = RecordBatch::new_empty(Arc::clone(schema));
            Box::new(TableRows { sink, style, collected: vec![first], shown: 0, seen: 0 })
        }
        RowFormat::Csv => Box::new(CsvRows::new(sink, schema)?),
        RowFormat::Json => Box::new(JsonRows::<JsonArray>::new(sink, b"\n")),
        RowFormat::Jsonl => Box::new(JsonRows::<LineDelimited>::new(sink, b"")),
        RowFormat::Markdown => Box::new(MarkdownRows::new(sink, schema)?),
        RowFormat::Parquet => {
            let level = ZstdLevel::try_new(3)?;
            let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
            Box::new(ParquetRows(ArrowWriter::try_new(sink, Arc::clone(schema), Some(properties))?))
        }
    })
}

/// Bytes of rows from which on the next ones have a table of their own.
const PART_BYTES: usize = 16 << 20;

/// A table needs its rows before its column widths are known. A long one is drawn part by part.
struct TableRows {
    sink: RowSink,
    style: RowStyle,
    collected: Vec<RecordBatch>,
    shown: usize,
    seen: usize,
}

impl RowWriter for TableRows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let room = self.style.limit.map_or(usize::MAX, |limit| limit - self.shown);
        let rows = batch.num_rows().min(room);
        if rows > 0 {
            if self.collected.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() >= PART_BYTES {
                draw(self)?;
            }
            self.collected.push(batch.slice(0, rows));
        }
        self.shown += rows;
        self.seen += batch.num_rows();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        draw(&mut self)?;
        self.sink.flush()?;
        if self.seen > self.shown {
            let left = super::number::counted((self.seen - self.shown) as u64, "more row", "more rows");
            super::note(format_args!(
                "… {left} of {}; --rows 0 (in the shell: .rows 0) shows all",
                self.seen
            ));
        }
        Ok(())
    }
}

/// Draws the rows that wait. The first batch has none: it names the columns.
fn draw(rows: &mut TableRows) -> Result<(), WriteError> {
    let table = TextTable::from_batches(&rows.collected, NumberFormat::Exact)?;
    let is_whole = rows.style.canvas.width.is_some() || super::is_wide();
    let table = if is_whole { table } else { table.bounded() };
    rows.collected.truncate(1);
    Ok(table.draw_as(rows.style.shape, &mut rows.sink, rows.style.canvas)?)
}

struct CsvRows(csv::Writer<RowSink>);

impl CsvRows {
    fn new(sink: RowSink, schema: &SchemaRef) -> Result<Self, WriteError> {
        let mut writer = csv::WriterBuilder::new().with_header(true).build(sink);
        // The header, even without rows.
        writer.write(&flat(&with_hex(&RecordBatch::new_empty(Arc::clone(schema)))?)?)?;
        Ok(Self(writer))
    }
}

impl RowWriter for CsvRows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(&flat(&with_hex(batch)?)?)?)
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.0.into_inner().flush()?)
    }
}

/// The batch with lists and structs as text, because CSV has no nested values.
fn flat(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        if field.data_type().is_nested() {
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            columns.push(as_text(array)?);
        } else {
            fields.push(field.as_ref().clone());
            columns.push(Arc::clone(array));
        }
    }
    if fields.is_empty() {
        return Ok(batch.clone());
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn as_text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let formatter = ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default())?;
    let text = (0..array.len()).map(|row| {
        if array.is_null(row) { Ok(None) } else { formatter.value(row).try_to_string().map(Some) }
    });
    Ok(Arc::new(text.collect::<Result<StringArray, _>>()?))
}

struct JsonRows<F: JsonFormat> {
    writer: Writer<RowSink, F>,
    end: &'static [u8],
}

impl<F: JsonFormat> JsonRows<F> {
    fn new(sink: RowSink, end: &'static [u8]) -> Self {
        Self { writer: WriterBuilder::new().with_explicit_nulls(true).build(sink), end }
    }
}

impl<F: JsonFormat + Send> RowWriter for JsonRows<F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.writer.write(&with_hex(batch)?)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.writer.finish()?;
        let mut sink = self.writer.into_inner();
        sink.write_all(self.end)?;
        Ok(sink.flush()?)
    }
}

struct ParquetRows(ArrowWriter<RowSink>);

impl RowWriter for ParquetRows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(batch)?)
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.0.into_inner()?.flush()?)
    }
}

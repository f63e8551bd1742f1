//! Results for another program on stdout, in frames: a letter, the number of bytes (32 bits, little-endian), the bytes.
//!
//! ```text
//! H  JSON: protocol, version, losses     once, when the captures are open
//! S  JSON: name, title, sql, rows        before the rows of a named section
//! A  bytes of an Arrow IPC stream        several in a row are one stream
//! D  JSON: rows, absence                 end of a request without an error
//! E  JSON: error, excerpt, hint, code    end of a request, or failure to open
//! ```

use std::io::{self, BufWriter, Read, Stdout, Write};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use serde_json::{Value, json};

use super::gate::shown;
use crate::exit::CommandFailure;

/// Version of this protocol.
pub const PROTOCOL: u32 = 1;
/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: u32 = 64 << 20;
/// Bytes of an Arrow frame, after which it is written.
const FRAME_BYTES: usize = 1 << 20;

/// The frames on stdout.
#[derive(Debug)]
pub struct StdoutFrames(BufWriter<Stdout>);

impl StdoutFrames {
    /// Frames on stdout.
    pub fn stdout() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    /// Writes one frame with JSON.
    pub fn json(&mut self, letter: u8, content: &Value) -> io::Result<()> {
        self.bytes(letter, content.to_string().as_bytes())?;
        self.0.flush()
    }

    /// Writes the reason for a failure. Text of a capture in it cannot steer a terminal.
    pub fn failure(&mut self, failure: &CommandFailure) -> io::Result<()> {
        let text = |text: &str| shown(text, false);
        let content = json!({
            "error": text(&failure.reason()),
            "excerpt": failure.excerpt_text().map(text),
            "hint": failure.hint_text().map(text),
            "code": failure.code(),
        });
        self.json(b'E', &content)
    }

    fn bytes(&mut self, letter: u8, bytes: &[u8]) -> io::Result<()> {
        let count = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.0.write_all(&[letter])?;
        self.0.write_all(&count.to_le_bytes())?;
        self.0.write_all(bytes)
    }
}

/// The rows of one result, as an Arrow IPC stream in frames.
pub struct FramedRows<'a> {
    writer: StreamWriter<FrameChunks<'a>>,
    schema: SchemaRef,
    count: usize,
}

impl<'a> FramedRows<'a> {
    /// Begins a stream of rows with a schema.
    pub fn begin(frames: &'a mut StdoutFrames, schema: &Schema) -> Result<Self, super::rows::WriteError> {
        let schema = SchemaRef::new(without_views(schema));
        let chunks = FrameChunks { frames, held: Vec::new() };
        Ok(Self { writer: StreamWriter::try_new(chunks, &schema)?, schema, count: 0 })
    }

    /// Writes a batch.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), super::rows::WriteError> {
        self.count += batch.num_rows();
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns: Result<Vec<ArrayRef>, _> =
            columns.map(|(column, field)| cast(column, field.data_type())).collect();
        let plain = RecordBatch::try_new(SchemaRef::clone(&self.schema), columns?)?;
        Ok(self.writer.write(&plain)?)
    }

    /// Ends the stream. Returns the number of rows.
    pub fn finish(mut self) -> Result<usize, super::rows::WriteError> {
        self.writer.finish()?;
        self.writer.into_inner()?.write_held()?;
        Ok(self.count)
    }
}

/// Every reader of Arrow knows plain text and bytes. Their views are newer than some.
fn without_views(schema: &Schema) -> Schema {
    let plain = |field: &std::sync::Arc<Field>| match field.data_type() {
        DataType::Utf8View => field.as_ref().clone().with_data_type(DataType::Utf8),
        DataType::BinaryView => field.as_ref().clone().with_data_type(DataType::Binary),
        _ => field.as_ref().clone(),
    };
    Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>())
}

/// Collects bytes into frames of a bounded size.
struct FrameChunks<'a> {
    frames: &'a mut StdoutFrames,
    held: Vec<u8>,
}

impl FrameChunks<'_> {
    fn write_held(&mut self) -> io::Result<()> {
        self.frames.bytes(b'A', &self.held)?;
        self.held.clear();
        Ok(())
    }
}

impl Write for FrameChunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(FRAME_BYTES);
        self.held.extend(bytes.iter().take(count));
        if self.held.len() >= FRAME_BYTES {
            self.write_held()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a request: the number of bytes (32 bits, little-endian), then JSON. None at the end of the input.
///
/// # Errors
/// Fails if the input ends within a request, is longer than 64 MiB, or is not JSON.
pub fn request(input: &mut impl Read) -> io::Result<Option<Value>> {
    let mut count = [0; 4];
    let mut start = input.take(4);
    let mut begun = Vec::new();
    start.read_to_end(&mut begun)?;
    if begun.is_empty() {
        return Ok(None);
    }
    if begun.len() < count.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    count.copy_from_slice(&begun);
    let count = u32::from_le_bytes(count);
    if count > MAX_REQUEST_BYTES {
        return Err(io::Error::other(format!("a request has {count} bytes, more than {MAX_REQUEST_BYTES}")));
    }
    let mut text = Vec::new();
    input.take(count.into()).read_to_end(&mut text)?;
    if text.len() < count as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(text: &[u8], count: u32) -> Vec<u8> {
        [&count.to_le_bytes()[..], text].concat()
    }

    #[test]
    fn requests_follow_each_other_until_the_input_ends() {
        let bytes = [framed(b"{\"sql\":\"a\"}", 11), framed(b"{}", 2)].concat();
        let mut input = bytes.as_slice();
        assert_eq!(request(&mut input).unwrap(), Some(json!({ "sql": "a" })));
        assert_eq!(request(&mut input).unwrap(), Some(json!({})));
        assert_eq!(request(&mut input).unwrap(), None);
    }

    #[test]
    fn a_wrong_request_is_an_error() {
        for bytes in [b"ab".to_vec(), framed(b"{", 2), framed(b"{]", 2), framed(b"", u32::MAX)] {
            assert!(request(&mut bytes.as_slice()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn views_become_plain_columns_and_nothing_else_changes() {
        let field = |name: &str, kind| Field::new(name, kind, true);
        let schema = Schema::new(vec![
            field("text", DataType::Utf8View),
            field("bytes", DataType::BinaryView),
            field("id", DataType::UInt64),
        ]);
        let kinds: Vec<DataType> =
            without_views(&schema).fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(kinds, [DataType::Utf8, DataType::Binary, DataType::UInt64]);
    }
}

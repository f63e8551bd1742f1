//! Appends frames to a segment.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_ipc::writer::StreamWriter;
use zstd::bulk::Compressor;

use super::{
    CHECKED_HEADER_BYTES, FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameKind,
    MAX_PAYLOAD_BYTES, MAX_RAW_BYTES, TABLE_KEY, VERSION,
};
use crate::capture::error::CaptureError;
use crate::capture::request::{RequestHeader, SLOT_BYTES};
use crate::hash;

/// The level at which compression keeps up with a recording.
const ZSTD_LEVEL: i32 = 1;
/// Size of a frame of requests. Finalizing decodes frames of about this size in parallel and in little memory.
const REQUEST_FRAME_BYTES: usize = 4 << 20;

/// The target of a segment's bytes. Writes are positioned, so the next write simply replaces a failed one.
pub trait SegmentSink {
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Removes everything from `length` on.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Waits until written data is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl SegmentSink for File {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes a segment. Every append that returned `Ok` survives the death of the process.
///
/// After an error the segment still ends with its last complete frame, and later appends may succeed.
pub struct SegmentWriter<S = File> {
    sink: S,
    path: PathBuf,
    /// Offset of the next frame: the end of the last complete one.
    end: u64,
    encoder: FrameEncoder,
    raw: Vec<u8>,
}

impl SegmentWriter<File> {
    /// Makes a new segment. An existing file is an error.
    pub fn create(path: &Path) -> Result<Self, CaptureError> {
        let file = File::create_new(path).map_err(CaptureError::io("create segment", path))?;
        Self::over(file, path)
    }
}

impl<S: SegmentSink> SegmentWriter<S> {
    /// Begins a segment in an empty sink. Errors name `path`.
    pub fn over(mut sink: S, path: &Path) -> Result<Self, CaptureError> {
        let mut header = [0; FILE_HEADER_BYTES];
        header[..8].copy_from_slice(&FILE_MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..].copy_from_slice(&VERSION.to_le_bytes());
        sink.write_all_at(&header, 0).map_err(CaptureError::io("write segment", path))?;
        let encoder = FrameEncoder::new(path)?;
        let end = FILE_HEADER_BYTES as u64;
        Ok(Self { sink, path: path.to_owned(), end, encoder, raw: Vec::new() })
    }

    /// Appends rows of a table: one frame, or more where they are too many bytes for one.
    pub fn append_batch(&mut self, table: &str, batch: &RecordBatch) -> Result<(), CaptureError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut raw = std::mem::take(&mut self.raw);
        raw.clear();
        let encoded = encode(table, batch, &mut raw);
        let length = raw.len();
        let written = match encoded {
            Err(cause) => {
                Err(CaptureError::refused(format!("rows of table `{table}`"), cause.to_string(), &self.path))
            }
            Ok(()) if length <= MAX_RAW_BYTES => self.append(FrameKind::Rows, 0, &raw),
            Ok(()) => Ok(()),
        };
        self.raw = raw;
        written?;
        if length > MAX_RAW_BYTES { self.append_halves(table, batch) } else { Ok(()) }
    }

    /// Appends the records of a launch's requests, complete records only: one frame, or more if they are many.
    pub fn append_requests(&mut self, launch_ordinal: u64, records: &[u8]) -> Result<(), CaptureError> {
        let mut rest = records;
        while !rest.is_empty() {
            let length = whole_records(rest).ok_or_else(|| {
                let thing = format!("requests of launch {launch_ordinal}");
                CaptureError::refused(thing, "the records end within one", &self.path)
            })?;
            let (records, after) = rest.split_at(length);
            self.append(FrameKind::Requests, launch_ordinal, records)?;
            rest = after;
        }
        Ok(())
    }

    /// Waits until everything is on the disk: needed against the machine's death, not against the process's.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.sink.sync().map_err(CaptureError::io("flush segment", &self.path))
    }

    /// Bytes of the segment so far.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    fn append_halves(&mut self, table: &str, batch: &RecordBatch) -> Result<(), CaptureError> {
        let rows = batch.num_rows();
        if rows == 1 {
            let cause = format!("the row has more than {MAX_RAW_BYTES} bytes");
            return Err(CaptureError::refused(format!("a row of table `{table}`"), cause, &self.path));
        }
        self.append_batch(table, &batch.slice(0, rows / 2))?;
        self.append_batch(table, &batch.slice(rows / 2, rows - rows / 2))
    }

    /// Appends a frame that was made elsewhere.
    pub fn append_frame(&mut self, frame: &EncodedFrame) -> Result<(), CaptureError> {
        self.write_frame(&frame.0)
    }

    fn append(&mut self, kind: FrameKind, aux: u64, raw: &[u8]) -> Result<(), CaptureError> {
        let frame = self.encoder.encode(kind, aux, raw)?;
        self.append_frame(&frame)
    }

    fn write_frame(&mut self, frame: &[u8]) -> Result<(), CaptureError> {
        if let Err(source) = self.sink.write_all_at(frame, self.end) {
            // Best effort: if even this fails, the reader drops the truncated frame by its checksum.
            drop(self.sink.cut(self.end));
            return Err(CaptureError::Io { action: "append to segment", path: self.path.clone(), source });
        }
        self.end += frame.len() as u64;
        Ok(())
    }
}

/// A complete frame, ready to be appended.
pub struct EncodedFrame(Vec<u8>);

/// Encodes frames away from the file, for compression by several threads at once.
pub struct FrameEncoder {
    compressor: Compressor<'static>,
    /// The segment that errors name.
    path: PathBuf,
}

impl FrameEncoder {
    /// An encoder for a segment. Errors name `path`.
    pub fn new(path: &Path) -> Result<Self, CaptureError> {
        let compressor = Compressor::new(ZSTD_LEVEL).map_err(CaptureError::io("start zstd for", path))?;
        Ok(Self { compressor, path: path.to_owned() })
    }

    /// A frame of complete records of one launch, up to [`MAX_RAW_BYTES`].
    pub fn requests(&mut self, launch_ordinal: u64, records: &[u8]) -> Result<EncodedFrame, CaptureError> {
        self.encode(FrameKind::Requests, launch_ordinal, records)
    }

    /// A frame of complete pages, whose content_ids count on from the first one's. Up to [`MAX_RAW_BYTES`].
    pub fn pages(&mut self, first_content_id: u64, bytes: &[u8]) -> Result<EncodedFrame, CaptureError> {
        self.encode(FrameKind::Pages, first_content_id, bytes)
    }

    fn encode(&mut self, kind: FrameKind, aux: u64, raw: &[u8]) -> Result<EncodedFrame, CaptureError> {
        // The checksum stands behind the header that it covers. To hash header and payload in one piece, the header
        // is first put right before the payload, eight bytes late, and moved when the checksum is known.
        const SPARE: usize = FRAME_HEADER_BYTES - CHECKED_HEADER_BYTES;
        let mut frame = vec![0; FRAME_HEADER_BYTES + zstd::zstd_safe::compress_bound(raw.len())];
        let length = self
            .compressor
            .compress_to_buffer(raw, &mut frame[FRAME_HEADER_BYTES..])
            .map_err(CaptureError::io("compress a frame of segment", &self.path))?;
        let sizes = u32::try_from(length).ok().zip(u32::try_from(raw.len()).ok());
        let fits = length <= MAX_PAYLOAD_BYTES && raw.len() <= MAX_RAW_BYTES;
        let Some((payload_bytes, raw_bytes)) = sizes.filter(|_| fits) else {
            return Err(CaptureError::refused("a frame", "it is too large", &self.path));
        };
        frame.truncate(FRAME_HEADER_BYTES + length);
        let header = &mut frame[SPARE..FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(&FRAME_MAGIC);
        header[4..6].copy_from_slice(&kind.code().to_le_bytes());
        header[6..8].fill(0);
        header[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
        header[12..16].copy_from_slice(&raw_bytes.to_le_bytes());
        header[16..24].copy_from_slice(&aux.to_le_bytes());
        let checksum = hash::checksum(&frame[SPARE..]);
        frame.copy_within(SPARE..FRAME_HEADER_BYTES, 0);
        frame[CHECKED_HEADER_BYTES..FRAME_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Ok(EncodedFrame(frame))
    }
}

fn encode(table: &str, batch: &RecordBatch, into: &mut Vec<u8>) -> Result<(), arrow::error::ArrowError> {
    let metadata = [(TABLE_KEY.to_owned(), table.to_owned())].into_iter().collect();
    // Docs and units are known to whoever reads the segment. Only the fields' types are needed.
    let fields: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_metadata(std::collections::HashMap::new()))
        .collect();
    let schema = Schema::new_with_metadata(fields, metadata);
    let mut writer = StreamWriter::try_new(into, &schema)?;
    writer.write(&RecordBatch::try_new(schema.into(), batch.columns().to_vec())?)?;
    writer.finish()
}

/// Bytes of the records at the start that make a frame; `None` where they end within a record.
fn whole_records(records: &[u8]) -> Option<usize> {
    let mut end = 0;
    while end < records.len() && end < REQUEST_FRAME_BYTES {
        let slot: &[u8; SLOT_BYTES] = records[end..].first_chunk()?;
        end += RequestHeader::read(slot).slots() * SLOT_BYTES;
        if end > records.len() {
            return None;
        }
    }
    Some(end)
}

//! Reader of segments: the complete frames, and the lost bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use zstd::bulk::Decompressor;

use super::{
    CHECKED_HEADER_BYTES, FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameKind,
    MAX_PAYLOAD_BYTES, MAX_RAW_BYTES, TABLE_KEY, VERSION,
};
use crate::capture::error::CaptureError;
use crate::contained::contained;
use crate::hash;

/// Bytes that a search for the next complete frame looks at in one piece.
const SEARCH_BYTES: usize = 1 << 20;

/// Bytes of false frames after which the rest of a segment is damage: each false header can claim many.
const MAX_FALSE_BYTES: u64 = 1 << 30;

/// Fewest bytes of a segment for each thread that verifies it.
const THREAD_BYTES: u64 = 8 << 20;

/// A frame's header as it is in the file.
struct FrameHeader {
    frame: FrameRef,
    bytes: [u8; FRAME_HEADER_BYTES],
}

/// A complete frame in a segment: its checksum has been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRef {
    /// Offset of the frame's header.
    pub offset: u64,
    /// The kind of its content. `None` where a later release wrote it.
    pub kind: Option<FrameKind>,
    /// The launch's ordinal, in frames of requests. The first content_id, in frames of pages.
    pub aux: u64,
    /// Bytes of the payload as stored.
    pub payload_bytes: u32,
    /// Bytes of the payload uncompressed.
    pub raw_bytes: u32,
}

impl FrameRef {
    fn end(&self) -> u64 {
        self.offset + FRAME_HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }
}

/// Bytes of a segment that belong to no complete frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentDamage {
    /// Offset of the first damaged byte.
    pub offset: u64,
    /// Number of damaged bytes.
    pub bytes: u64,
    /// True if they are the truncated end of the file, as a writer that died leaves it.
    pub is_tail: bool,
}

/// The content of a frame.
#[derive(Clone, Debug)]
pub enum SegmentFrame {
    /// Rows of a table of [`mod@crate::tables`] or [`crate::capture::recording`].
    Rows {
        /// The table's name.
        table: String,
        /// The rows.
        batch: RecordBatch,
    },
    /// Records of [`crate::capture::request`].
    Requests {
        /// Ordinal of the launch that made them.
        launch_ordinal: u64,
        /// Complete records, one after the other.
        records: Vec<u8>,
    },
    /// Contents of pages, 4096 bytes each.
    Pages {
        /// The content_id of the first page. The next pages count on from it.
        first_content_id: u64,
        /// The pages, one after the other.
        bytes: Vec<u8>,
    },
}

/// Memory for the content of one frame after the other.
#[derive(Default)]
pub struct FrameBuffer {
    payload: Vec<u8>,
    raw: Vec<u8>,
    decompressor: Option<Decompressor<'static>>,
}

/// An open segment. Frames can be read in any order and from several threads at once.
#[derive(Debug)]
pub struct SegmentReader {
    file: File,
    path: PathBuf,
    frames: Vec<FrameRef>,
    damages: Vec<SegmentDamage>,
    /// Bytes of frames that turned out to be none.
    false_bytes: u64,
}

impl SegmentReader {
    /// Opens a segment and finds its complete frames, verifying every checksum.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        // To open a pipe waits for its writer.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(CaptureError::corrupt("segment", "it is not a file", path));
        }
        let file = File::open(path).map_err(CaptureError::io("open segment", path))?;
        let length = file.metadata().map_err(CaptureError::io("open segment", path))?.len();
        let (frames, damages, false_bytes) = (Vec::new(), Vec::new(), 0);
        let mut reader = Self { file, path: path.to_owned(), frames, damages, false_bytes };
        if length < FILE_HEADER_BYTES as u64 {
            // The writer died before its first bytes were out: nothing was complete.
            reader.note_damage(0, length, true);
            return Ok(reader);
        }
        let is_segment = reader.check_file_header()?;
        if !is_segment {
            reader.note_damage(0, FILE_HEADER_BYTES as u64, false);
        }
        reader.scan(length)?;
        // Damaged first bytes do not cost the frames behind them.
        if !is_segment && reader.frames.is_empty() {
            return Err(CaptureError::corrupt("segment", "its first bytes are not a segment's", path));
        }
        Ok(reader)
    }

    /// The complete frames, in the order in which they were written.
    pub fn frames(&self) -> &[FrameRef] {
        &self.frames
    }

    /// The bytes that belong to no complete frame.
    pub fn damages(&self) -> &[SegmentDamage] {
        &self.damages
    }

    /// The content of a frame; [`CaptureError::Corrupt`] where it cannot be understood.
    pub fn read(&self, frame: &FrameRef) -> Result<SegmentFrame, CaptureError> {
        let corrupt = |cause: String| {
            CaptureError::corrupt(format!("frame at byte {}", frame.offset), cause, &self.path)
        };
        let raw_bytes = frame.raw_bytes as usize;
        if raw_bytes > MAX_RAW_BYTES {
            return Err(corrupt(format!("it claims {raw_bytes} bytes uncompressed")));
        }
        let mut payload = vec![0; frame.payload_bytes as usize];
        self.read_at(&mut payload, frame.offset + FRAME_HEADER_BYTES as u64)?;
        let raw = zstd::bulk::decompress(&payload, raw_bytes).map_err(|cause| corrupt(cause.to_string()))?;
        if raw.len() != raw_bytes {
            return Err(corrupt(format!("it has {} bytes uncompressed, not {raw_bytes}", raw.len())));
        }
        match frame.kind {
            None => Err(corrupt("this release does not know its kind".to_owned())),
            Some(FrameKind::Requests) => {
                Ok(SegmentFrame::Requests { launch_ordinal: frame.aux, records: raw })
            }
            Some(FrameKind::Pages) => Ok(SegmentFrame::Pages { first_content_id: frame.aux, bytes: raw }),
            Some(FrameKind::Rows) => decode(raw).map_err(corrupt),
        }
    }

    /// The records of a frame of requests, for readers of many: the buffer's memory is used again.
    pub fn requests<'b>(
        &self,
        frame: &FrameRef,
        buffer: &'b mut FrameBuffer,
    ) -> Result<&'b [u8], CaptureError> {
        let corrupt = |cause: String| {
            CaptureError::corrupt(format!("frame at byte {}", frame.offset), cause, &self.path)
        };
        let raw_bytes = frame.raw_bytes as usize;
        if frame.kind != Some(FrameKind::Requests) || raw_bytes > MAX_RAW_BYTES {
            return Err(corrupt(format!("it claims {raw_bytes} bytes of requests uncompressed")));
        }
        let FrameBuffer { payload, raw, decompressor } = buffer;
        payload.resize(frame.payload_bytes as usize, 0);
        self.read_at(payload, frame.offset + FRAME_HEADER_BYTES as u64)?;
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(|cause| corrupt(cause.to_string()))?),
        };
        raw.clear();
        raw.reserve(raw_bytes);
        decompressor.decompress_to_buffer(payload, raw).map_err(|cause| corrupt(cause.to_string()))?;
        if raw.len() != raw_bytes {
            return Err(corrupt(format!("it has {} bytes uncompressed, not {raw_bytes}", raw.len())));
        }
        Ok(raw)
    }

    /// True for the first bytes of a segment.
    fn check_file_header(&self) -> Result<bool, CaptureError> {
        let mut header = [0; FILE_HEADER_BYTES];
        self.read_at(&mut header, 0)?;
        if header[..8] != FILE_MAGIC {
            return Ok(false);
        }
        let (version, copy) = (u32_at(&header, 8), u32_at(&header, 12));
        // One wrong bit must not cost all frames: a later version has a copy. The first releases wrote none, of version 1.
        if version > VERSION && version == copy {
            let cause = format!("it has version {version}, and this release reads {VERSION}");
            return Err(CaptureError::corrupt("segment", cause, &self.path));
        }
        Ok(true)
    }

    fn scan(&mut self, length: u64) -> Result<(), CaptureError> {
        self.frames = self.undamaged(length)?;
        let mut buffer = Vec::new();
        let mut position = self.frames.last().map_or(FILE_HEADER_BYTES as u64, FrameRef::end);
        while position < length {
            if let Some(frame) = self.frame_at(position, length, &mut buffer)? {
                position = frame.end();
                self.frames.push(frame);
                continue;
            }
            let next = self.next_frame(position + 1, length, &mut buffer)?;
            let end = next.map_or(length, |frame| frame.offset);
            self.note_damage(position, end - position, next.is_none());
            position = end;
        }
        Ok(())
    }

    /// The complete frames before the first damage, verified by several threads: one reads a gigabyte in a third of a
    /// second.
    fn undamaged(&self, length: u64) -> Result<Vec<FrameRef>, CaptureError> {
        let (mut headers, mut position) = (Vec::new(), FILE_HEADER_BYTES as u64);
        while let Some(header) = self.header_at(position, length)? {
            position = header.frame.end();
            headers.push(header);
        }
        let most = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let threads = (length / THREAD_BYTES).clamp(1, most);
        let share = length.div_ceil(threads);
        let parts: Vec<&[FrameHeader]> =
            headers.chunk_by(|a, b| a.frame.offset / share == b.frame.offset / share).collect();
        let complete: Vec<Result<usize, CaptureError>> = std::thread::scope(|scope| {
            let mut begun = Vec::new();
            for part in &parts {
                let verify = move || self.complete_frames(part);
                begun.push((part, std::thread::Builder::new().spawn_scoped(scope, verify).ok()));
            }
            let end = |(part, thread): (&&[FrameHeader], Option<ScopedJoinHandle<'_, _>>)| match thread {
                Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // The system starts no more threads.
                None => self.complete_frames(part),
            };
            begun.into_iter().map(end).collect()
        });
        let mut frames = Vec::with_capacity(headers.len());
        for (part, complete) in parts.iter().zip(complete) {
            let complete = complete?;
            frames.extend(part[..complete].iter().map(|header| header.frame));
            if complete < part.len() {
                break;
            }
        }
        Ok(frames)
    }

    /// Number of complete frames before the first one that is not.
    fn complete_frames(&self, headers: &[FrameHeader]) -> Result<usize, CaptureError> {
        let mut buffer = Vec::new();
        for (at, header) in headers.iter().enumerate() {
            if !self.is_complete(header, &mut buffer)? {
                return Ok(at);
            }
        }
        Ok(headers.len())
    }

    /// The header at a position, if the file has room for its frame.
    fn header_at(&self, offset: u64, length: u64) -> Result<Option<FrameHeader>, CaptureError> {
        let rest = length.saturating_sub(offset);
        if rest < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; FRAME_HEADER_BYTES];
        self.read_at(&mut bytes, offset)?;
        let payload_bytes = u32_at(&bytes, 8);
        let fits = payload_bytes as usize <= MAX_PAYLOAD_BYTES
            && u64::from(payload_bytes) <= rest - FRAME_HEADER_BYTES as u64;
        if bytes[..4] != FRAME_MAGIC || !fits {
            return Ok(None);
        }
        let frame = FrameRef {
            offset,
            kind: FrameKind::from_code(u16::from_le_bytes([bytes[4], bytes[5]])),
            aux: u64_at(&bytes, 16),
            payload_bytes,
            raw_bytes: u32_at(&bytes, 12),
        };
        Ok(Some(FrameHeader { frame, bytes }))
    }

    /// True if a frame has the checksum of its header.
    fn is_complete(&self, header: &FrameHeader, buffer: &mut Vec<u8>) -> Result<bool, CaptureError> {
        buffer.clear();
        buffer.extend_from_slice(&header.bytes[..CHECKED_HEADER_BYTES]);
        buffer.resize(CHECKED_HEADER_BYTES + header.frame.payload_bytes as usize, 0);
        self.read_at(&mut buffer[CHECKED_HEADER_BYTES..], header.frame.offset + FRAME_HEADER_BYTES as u64)?;
        Ok(hash::checksum(buffer) == u64_at(&header.bytes, CHECKED_HEADER_BYTES))
    }

    /// The complete frame that begins at a position, if one does.
    fn frame_at(
        &mut self,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<FrameRef>, CaptureError> {
        let Some(header) = self.header_at(offset, length)? else { return Ok(None) };
        let complete = self.is_complete(&header, buffer)?;
        if !complete {
            self.false_bytes += u64::from(header.frame.payload_bytes);
        }
        Ok(complete.then_some(header.frame))
    }

    /// The first complete frame at or behind a position.
    fn next_frame(
        &mut self,
        mut position: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<FrameRef>, CaptureError> {
        let (mut window, zeros) = (vec![0; SEARCH_BYTES], vec![0; SEARCH_BYTES]);
        while length.saturating_sub(position) >= FRAME_HEADER_BYTES as u64 {
            let size = (length - position).min(SEARCH_BYTES as u64);
            let window = &mut window[..usize::try_from(size).unwrap_or(SEARCH_BYTES)];
            self.read_at(window, position)?;
            // Where a file has holes or was never written, it is zero for gigabytes.
            let is_empty = *window == zeros[..window.len()];
            for index in magics(if is_empty { &[] } else { window }) {
                if let Some(frame) = self.frame_at(position + index as u64, length, buffer)? {
                    return Ok(Some(frame));
                }
                if self.false_bytes > MAX_FALSE_BYTES {
                    return Ok(None);
                }
            }
            // A magic may lie across the windows' border.
            position += size - (FRAME_MAGIC.len() as u64 - 1);
        }
        Ok(None)
    }

    fn note_damage(&mut self, offset: u64, bytes: u64, is_tail: bool) {
        if bytes > 0 {
            self.damages.push(SegmentDamage { offset, bytes, is_tail });
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), CaptureError> {
        self.file.read_exact_at(buffer, offset).map_err(CaptureError::io("read segment", &self.path))
    }
}

fn magics(window: &[u8]) -> impl Iterator<Item = usize> {
    window
        .windows(FRAME_MAGIC.len())
        .enumerate()
        .filter(|(_, bytes)| **bytes == FRAME_MAGIC)
        .map(|(at, _)| at)
}

/// Rows of a payload. The checksum only detects accidents, so the bytes are still untrusted:
/// arrow-ipc has panicked on malformed ones.
fn decode(raw: Vec<u8>) -> Result<SegmentFrame, String> {
    let decoded = contained(|| {
        let mut buffer = Buffer::from_vec(raw);
        let mut decoder = StreamDecoder::new();
        let batch = decoder.decode(&mut buffer).map_err(|cause| cause.to_string())?;
        batch.ok_or_else(|| "it holds no batch".to_owned())
    });
    let batch = decoded.unwrap_or_else(|_| Err("its rows are malformed".to_owned()))?;
    let table = batch.schema().metadata().get(TABLE_KEY).cloned();
    Ok(SegmentFrame::Rows { table: table.ok_or_else(|| "its rows name no table".to_owned())?, batch })
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes[offset..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

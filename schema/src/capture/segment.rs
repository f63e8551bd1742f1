//! Segments: append-only files of checksummed frames, readable up to the last complete one.
//!
//! A segment is a 16-byte header (magic `STALLSEG`, version as u32, the version again), then frames. A frame is a
//! 32-byte header and a zstd-compressed payload. All numbers are little endian:
//!
//! | bytes | field |
//! |---|---|
//! | 0-3 | magic `SMFR` |
//! | 4-5 | kind: 1 rows, 2 requests, 3 pages |
//! | 6-7 | flags, 0 |
//! | 8-11 | bytes of the payload as stored |
//! | 12-15 | bytes of the payload uncompressed, up to [`MAX_RAW_BYTES`] |
//! | 16-23 | requests: the launch's ordinal. Pages: the first one's content_id. Rows: 0 |
//! | 24-31 | XXH3-64 of bytes 0-23 and the payload |
//!
//! Rows are an Arrow IPC stream of one batch whose schema names its table under the metadata key `table`. Requests
//! are records of [`super::request`], one after the other. Pages are contents of pages, 4096 bytes each, their
//! content_ids counting on from the first. A writer that dies leaves no more than one truncated frame, at the
//! end. A reader finds the complete frames, also those behind a damaged one, and reports which bytes are lost.

mod reader;
mod writer;

pub use reader::{FrameBuffer, FrameRef, SegmentDamage, SegmentFrame, SegmentReader};
pub use writer::{EncodedFrame, FrameEncoder, SegmentSink, SegmentWriter};

/// Name of the segment file in a run's folder of a recording in progress.
pub const FILE_NAME: &str = "rows.seg";

/// Name of a second segment in the folder, of [`RESERVE_BYTES`] that are allocated before they are needed. Where rows
/// cannot be written any more, losses and facts about the run's end still can. All zero until then.
pub const RESERVE_FILE_NAME: &str = "reserve.seg";

/// Bytes of the reserve.
pub const RESERVE_BYTES: usize = 64 << 10;

/// Most bytes that a frame's payload may have when uncompressed.
pub const MAX_RAW_BYTES: usize = 64 << 20;

/// The version of the layout that this module writes and reads.
pub const VERSION: u32 = 1;

const FILE_MAGIC: [u8; 8] = *b"STALLSEG";
const FILE_HEADER_BYTES: usize = 16;
const FRAME_MAGIC: [u8; 4] = *b"SMFR";
const FRAME_HEADER_BYTES: usize = 32;
/// Bytes of the frame header that the checksum covers: all but the checksum itself.
const CHECKED_HEADER_BYTES: usize = 24;
/// Most bytes that zstd makes of [`MAX_RAW_BYTES`] that do not compress, with room to spare.
const MAX_PAYLOAD_BYTES: usize = MAX_RAW_BYTES + (MAX_RAW_BYTES >> 7);
/// Metadata key of the schema in a frame of rows.
const TABLE_KEY: &str = "table";

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Rows of one table.
    Rows,
    /// The GPU's records of one launch's warp requests.
    Requests,
    /// Contents of pages.
    Pages,
}

impl FrameKind {
    fn code(self) -> u16 {
        match self {
            Self::Rows => 1,
            Self::Requests => 2,
            Self::Pages => 3,
        }
    }

    fn from_code(code: u16) -> Option<Self> {
        [Self::Rows, Self::Requests, Self::Pages].into_iter().find(|kind| kind.code() == code)
    }
}

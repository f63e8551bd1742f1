//! Threads that compress records and pages: the disk's pace bounds a recording, not that of one core.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::segment::{EncodedFrame, FrameEncoder};

/// A frame, or why there is none.
pub(super) type CompressedFrame = Result<EncodedFrame, CaptureError>;

/// Pieces that may wait for a thread.
const QUEUE: usize = 16;
/// Most threads: beyond, memory is the bound.
const MOST: usize = 8;

/// Content of a frame.
pub(super) enum RawFrame {
    /// Records of one launch.
    Requests {
        /// The launch.
        ordinal: u64,
        /// Complete records.
        records: Vec<u8>,
    },
    /// Contents of pages.
    Pages {
        /// The first page's content_id.
        first_content_id: u64,
        /// Complete pages.
        bytes: Vec<u8>,
    },
}

struct FrameJob {
    raw: RawFrame,
    answer: SyncSender<CompressedFrame>,
}

/// The threads' common queue.
pub(super) struct FrameCompressors(SyncSender<FrameJob>);

impl FrameCompressors {
    /// Starts a thread for every second core, up to [`MOST`]. Errors name `path`.
    pub(super) fn start(path: &Path) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (sender, receiver) = sync_channel(QUEUE);
        let jobs = Arc::new(Mutex::new(receiver));
        for _ in 0..(cores / 2).clamp(1, MOST) {
            let encoder = FrameEncoder::new(path).map_err(|error| error.to_string())?;
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new()
                .name("stallmap-compress".into())
                .spawn(move || work(&jobs, encoder))
                .map_err(|error| format!("failed to start a compressing thread: {error}"))?;
        }
        Ok(Self(sender))
    }

    /// Hands over a frame's contents. The returned channel holds their place in the writer's queue.
    pub(super) fn compress(&self, raw: RawFrame) -> Receiver<CompressedFrame> {
        let (answer, frame) = sync_channel(1);
        // The threads live as long as the process. If they were gone, the channel would be closed.
        self.0.send(FrameJob { raw, answer }).unwrap_or_default();
        frame
    }
}

fn work(jobs: &Mutex<Receiver<FrameJob>>, mut encoder: FrameEncoder) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(FrameJob { raw, answer }) = job else { return };
        let frame = match raw {
            RawFrame::Requests { ordinal, records } => encoder.requests(ordinal, &records),
            RawFrame::Pages { first_content_id, bytes } => encoder.pages(first_content_id, &bytes),
        };
        answer.send(frame).unwrap_or_default();
    }
}

//! The writer thread: rows and frames to the segment file, each at the latest [`FLUSH`] after it was recorded.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stallmap_config::progress::ProgressWord;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::recording::{LossTotal, RunFact};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::table::TableRow;
use stallmap_schema::word::LossKind;

use super::compress::CompressedFrame;
use super::losses::SessionLosses;
use super::progress::ProgressCounts;
use super::reserve::FileReserve;
use super::switch::RecordingSwitch;
use super::tables::{TableBatch, WaitingTables};
use crate::guard::{self, say};

/// Longest time until rows and losses reach the disk.
const FLUSH: Duration = Duration::from_millis(100);

/// Messages to the writer thread.
pub(super) enum WriterMessage {
    /// Rows of one table.
    Rows(TableBatch),
    /// Records of one launch, or contents of pages, which a compressing thread will deliver.
    Frame(Receiver<CompressedFrame>),
    /// Write everything and these facts, then reply.
    End(Vec<RunFact>, SyncSender<()>),
    /// Write the losses since the end, then reply.
    Losses(SyncSender<()>),
}

/// State that the writer shares with the threads that record.
pub(super) struct WriterShared {
    tables: Mutex<WaitingTables>,
    losses: Mutex<SessionLosses>,
    has_failed: AtomicBool,
    is_paused: AtomicBool,
    written_bytes: AtomicU64,
    counts: ProgressCounts,
}

impl WriterShared {
    /// Nothing yet. Counts of a run are in its folder.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            tables: Mutex::default(),
            losses: Mutex::default(),
            has_failed: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            written_bytes: AtomicU64::new(0),
            counts: ProgressCounts::create(folder),
        }
    }

    /// Bytes of the segment so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// True if launches are being left out.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Leaves launches out, or no longer.
    pub(super) fn set_paused(&self, paused: bool) {
        self.is_paused.store(paused, Ordering::Relaxed);
    }

    /// True if rows cannot be written any more.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Adds a row. A table that is full comes back as a batch.
    pub(super) fn append<R>(&self, row: R) -> Option<TableBatch>
    where
        R: TableRow + 'static,
        R::Builder: Send,
    {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.add(ProgressWord::GivenRows, 1);
        tables.append(row)
    }

    /// Counts rows that come as a batch.
    pub(super) fn count_rows(&self, count: usize) {
        // The lock is the count's: single rows are counted under it, without a slower instruction.
        let _tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.add(ProgressWord::GivenRows, count);
    }

    /// Counts a frame that comes.
    pub(super) fn count_frame(&self) {
        self.counts.add_shared(ProgressWord::GivenFrames);
    }

    /// Counts things that are not recorded.
    pub(super) fn lose(&self, kind: LossKind, reason: &'static str, count: u64, detail: Option<String>) {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).add(kind, reason, count, detail);
    }

    /// Counts rows that come after the writer failed.
    pub(super) fn lose_rows(&self, count: usize) {
        self.lose(LossKind::Segment, "row after the recording stopped", count as u64, None);
    }

    fn take_rows(&self) -> Vec<TableBatch> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn take_changed_losses(&self) -> Vec<LossTotal> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).take_changed()
    }

    fn all_losses(&self) -> Vec<LossTotal> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).all()
    }
}

/// The thread's own state.
pub(super) struct SessionWriter {
    pub(super) file: SegmentWriter,
    /// Null where it could not be made: the disk was full from the start.
    pub(super) reserve: Option<FileReserve>,
    /// Null where only the program starts and stops recording.
    pub(super) switch: Option<RecordingSwitch>,
    pub(super) shared: Arc<WriterShared>,
}

impl SessionWriter {
    /// Writes until the session is gone.
    pub(super) fn run(mut self, messages: &Receiver<WriterMessage>) {
        let mut due = Instant::now() + FLUSH;
        loop {
            match messages.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Not only when idle: a busy program's losses and rare rows must be on the disk too when it dies.
            if Instant::now() >= due {
                self.write_waiting();
                if let Some(switch) = &mut self.switch {
                    switch.apply(&self.shared);
                }
                due = Instant::now() + FLUSH;
            }
        }
    }

    fn take(&mut self, message: WriterMessage) {
        match message {
            WriterMessage::Rows(batch) => self.write_batch(&batch),
            WriterMessage::Frame(frame) => {
                // A compressing thread that is gone has reported why.
                let Ok(frame) = frame.recv() else { return };
                let is_written = self.write(|file| file.append_frame(&frame?));
                let word = if is_written { ProgressWord::WrittenFrames } else { ProgressWord::RefusedFrames };
                self.shared.counts.add(word, 1);
                if self.shared.has_failed() {
                    self.shared.lose(LossKind::Segment, "frame after the recording stopped", 1, None);
                }
            }
            WriterMessage::End(facts, answer) => {
                self.end(facts);
                answer.send(()).unwrap_or_default();
            }
            WriterMessage::Losses(answer) => {
                self.write_waiting();
                self.write(SegmentWriter::flush);
                answer.send(()).unwrap_or_default();
            }
        }
    }

    /// Writes waiting rows, whose table is not full, and losses.
    fn write_waiting(&mut self) {
        if guard::take_memory_ran_out() {
            say("the program's memory ran out: recording has ended, the program runs on");
            self.shared.lose(LossKind::Segment, "memory ran out and recording ended", 1, None);
        }
        for batch in self.shared.take_rows() {
            self.write_batch(&batch);
        }
        if self.shared.has_failed() {
            if self.reserve.as_ref().is_some_and(FileReserve::is_due) {
                self.write_to_reserve(Vec::new());
            }
            return;
        }
        let losses = self.shared.take_changed_losses();
        self.write(|file| append(file, losses));
    }

    fn write_batch(&mut self, batch: &TableBatch) {
        let is_written = self.write(|file| file.append_batch(batch.table, &batch.rows));
        let word = if is_written { ProgressWord::WrittenRows } else { ProgressWord::RefusedRows };
        self.shared.counts.add(word, batch.rows.num_rows());
        if self.shared.has_failed() {
            self.shared.lose_rows(batch.rows.num_rows());
        }
    }

    fn end(&mut self, facts: Vec<RunFact>) {
        self.write_waiting();
        self.write(|file| append(file, facts.clone()).and_then(|()| file.flush()));
        if self.shared.has_failed() {
            self.write_to_reserve(facts);
        } else if let Some(reserve) = &mut self.reserve {
            reserve.remove_unused();
        }
    }

    /// Writes to the segment, and never again once that failed. Returns whether it was written.
    fn write(&mut self, write: impl FnOnce(&mut SegmentWriter) -> Result<(), CaptureError>) -> bool {
        if self.shared.has_failed() {
            return false;
        }
        match write(&mut self.file) {
            Ok(()) => {
                self.shared.written_bytes.store(self.file.bytes(), Ordering::Relaxed);
                return true;
            }
            Err(error @ CaptureError::Io { .. }) => self.fail(&error),
            // One frame cannot be written. The next one can.
            Err(error) => {
                self.shared.lose(LossKind::Segment, "frame was refused", 1, Some(error.to_string()));
            }
        }
        false
    }

    fn fail(&mut self, error: &CaptureError) {
        self.shared.has_failed.store(true, Ordering::Release);
        let detail = Some(error.to_string());
        self.shared.lose(LossKind::Segment, "recording stopped: rows could not be written", 1, detail);
        say(&format!("recording stopped, earlier rows remain on disk: {error}"));
        self.write_to_reserve(Vec::new());
    }

    /// Writes every loss, and facts but that of a clean end, into the reserved room.
    fn write_to_reserve(&mut self, mut facts: Vec<RunFact>) {
        let Some(reserve) = &mut self.reserve else { return };
        facts.retain(|fact| fact.name != super::CLEAN_END);
        let losses = batch(self.shared.all_losses());
        let facts = batch(facts);
        let written = losses.and_then(|losses| reserve.append(LossTotal::TABLE.name, &losses).ok());
        if let Some((facts, ())) = facts.zip(written) {
            // Nothing is left to write to, and the failure itself has been reported.
            reserve.append(RunFact::TABLE.name, &facts).unwrap_or_default();
        }
    }
}

/// Rows as a batch. They come from one declaration and always fit it.
fn batch<R: TableRow>(rows: Vec<R>) -> Option<arrow::array::RecordBatch> {
    R::batch(rows).ok()
}

fn append<R: TableRow>(file: &mut SegmentWriter, rows: Vec<R>) -> Result<(), CaptureError> {
    batch(rows).map_or(Ok(()), |rows| file.append_batch(R::TABLE.name, &rows))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use stallmap_config::progress::{self, RunProgress};
    use stallmap_schema::capture::segment;

    use super::*;

    #[test]
    fn the_counts_tell_what_is_written_from_what_waits() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Arc::new(WriterShared::new(folder.path()));
        let file = SegmentWriter::create(&folder.path().join(segment::FILE_NAME)).unwrap();
        let writer = SessionWriter { file, reserve: None, switch: None, shared: Arc::clone(&shared) };
        let (sender, messages) = sync_channel(8);
        let thread = std::thread::spawn(move || writer.run(&messages));
        let fact = || RunFact { name: "a".into(), value: "b".into() };
        let rows = RunFact::batch([fact(), fact()]).unwrap();
        shared.count_rows(2);
        sender.send(WriterMessage::Rows(TableBatch { table: RunFact::TABLE.name, rows })).unwrap();
        let (answer, done) = sync_channel(1);
        sender.send(WriterMessage::End(vec![fact()], answer)).unwrap();
        done.recv().unwrap();
        // The process could die here: a row waits, and a frame was never compressed.
        assert!(shared.append(fact()).is_none());
        shared.count_frame();
        let Ok(bytes) = std::fs::read(folder.path().join(progress::FILE_NAME)) else { return };
        let found = RunProgress::read(&bytes).unwrap();
        drop(sender);
        thread.join().unwrap();
        assert_eq!((found.given_rows, found.written_rows, found.given_frames), (3, 2, 1));
        assert_eq!(found.unwritten(2, 0), (1, 1));
    }
}

//! Room for a run's last rows, taken before the disk is full.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::segment::{RESERVE_BYTES, RESERVE_FILE_NAME, SegmentWriter};

/// Reserved for the rows of the end.
const LAST_BYTES: u64 = 16 << 10;
/// The first wait between two writes of losses. Each wait is twice the one before, which makes the room last.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// A file of [`RESERVE_BYTES`] whose blocks are allocated. Its rows overwrite them and need no further block.
pub(super) struct FileReserve {
    path: PathBuf,
    state: ReserveState,
    wait: Duration,
    due: Instant,
}

enum ReserveState {
    Allocated(File),
    InUse(SegmentWriter),
    Unusable,
}

impl FileReserve {
    /// Allocates the file in a run's folder.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(RESERVE_FILE_NAME);
        let file = File::create_new(&path)?;
        // Zeros that were written have blocks. A length that was set has none.
        file.write_all_at(&vec![0; RESERVE_BYTES], 0)?;
        Ok(Self { path, state: ReserveState::Allocated(file), wait: FIRST_WAIT, due: Instant::now() })
    }

    /// True if losses are to be written again.
    pub(super) fn is_due(&self) -> bool {
        let ReserveState::InUse(rows) = &self.state else { return false };
        Instant::now() >= self.due && rows.bytes() + LAST_BYTES < RESERVE_BYTES as u64
    }

    /// Writes rows.
    pub(super) fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), CaptureError> {
        if let ReserveState::Allocated(_) = &self.state {
            self.begin()?;
        }
        self.due = Instant::now() + self.wait;
        self.wait *= 2;
        match &mut self.state {
            ReserveState::InUse(segment) => segment.append_batch(table, rows),
            ReserveState::Allocated(_) | ReserveState::Unusable => Ok(()),
        }
    }

    /// Removes the file where nothing is in it.
    pub(super) fn remove_unused(&mut self) {
        if let ReserveState::Allocated(_) = &self.state {
            self.state = ReserveState::Unusable;
            // Zeros that stay are ignored by whoever reads the recording.
            drop(std::fs::remove_file(&self.path));
        }
    }

    fn begin(&mut self) -> Result<(), CaptureError> {
        if let ReserveState::Allocated(file) = std::mem::replace(&mut self.state, ReserveState::Unusable) {
            self.state = ReserveState::InUse(SegmentWriter::over(file, &self.path)?);
        }
        Ok(())
    }
}

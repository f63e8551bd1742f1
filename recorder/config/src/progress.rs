//! Counts of a recorded process, in a memory-mapped file of its run's folder. They outlive the process, however it ends,
//! and show what it had recorded that no segment holds.

/// Name of the file in a run's folder of a recording in progress.
pub const FILE_NAME: &str = "progress";

/// Bytes of the file: the magic, then [`WORDS`] 64-bit numbers, little endian, then zeros up to a page.
pub const BYTES: usize = 4096;

/// Bytes in front of the words.
pub const MAGIC: [u8; 8] = *b"STALLPRG";

/// Numbers in the file.
pub const WORDS: usize = 6;

/// Counts since the run began. A frame is one of requests or of pages. Losses have rows of their own and are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Rows that were recorded.
    pub given_rows: u64,
    /// Recorded rows that reached the segment.
    pub written_rows: u64,
    /// Recorded rows that were refused or came after the disk was full, which is a counted loss.
    pub refused_rows: u64,
    /// The same of frames.
    pub given_frames: u64,
    /// The same of frames.
    pub written_frames: u64,
    /// The same of frames.
    pub refused_frames: u64,
}

/// A count in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressWord {
    /// [`RunProgress::given_rows`].
    GivenRows,
    /// [`RunProgress::written_rows`].
    WrittenRows,
    /// [`RunProgress::refused_rows`].
    RefusedRows,
    /// [`RunProgress::given_frames`].
    GivenFrames,
    /// [`RunProgress::written_frames`].
    WrittenFrames,
    /// [`RunProgress::refused_frames`].
    RefusedFrames,
}

impl RunProgress {
    /// The counts of a file; `None` where it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.strip_prefix(&MAGIC)?.as_chunks::<8>();
        let word = |word: ProgressWord| words.get(word as usize).map(|bytes| u64::from_le_bytes(*bytes));
        Some(Self {
            given_rows: word(ProgressWord::GivenRows)?,
            written_rows: word(ProgressWord::WrittenRows)?,
            refused_rows: word(ProgressWord::RefusedRows)?,
            given_frames: word(ProgressWord::GivenFrames)?,
            written_frames: word(ProgressWord::WrittenFrames)?,
            refused_frames: word(ProgressWord::RefusedFrames)?,
        })
    }

    /// Rows and frames that were written and are not among those found.
    pub fn missing(&self, rows: u64, frames: u64) -> (u64, u64) {
        (self.written_rows.saturating_sub(rows), self.written_frames.saturating_sub(frames))
    }

    /// Rows and frames that were recorded and had not been written when the process ended. A row may have been written and
    /// not yet counted as such, so those found count too.
    pub fn unwritten(&self, rows: u64, frames: u64) -> (u64, u64) {
        let rest =
            |given: u64, refused: u64, written: u64| given.saturating_sub(refused).saturating_sub(written);
        (
            rest(self.given_rows, self.refused_rows, self.written_rows.max(rows)),
            rest(self.given_frames, self.refused_frames, self.written_frames.max(frames)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_or_missing_or_was_never_written() {
        let progress =
            RunProgress { given_rows: 10, written_rows: 6, refused_rows: 1, ..RunProgress::default() };
        assert_eq!((progress.missing(6, 0), progress.unwritten(6, 0)), ((0, 0), (3, 0)));
        assert_eq!((progress.missing(7, 0), progress.unwritten(7, 0)), ((0, 0), (2, 0)));
        assert_eq!((progress.missing(4, 0), progress.unwritten(4, 0)), ((2, 0), (3, 0)));
        assert_eq!(progress.unwritten(100, 100), (0, 0));
    }

    #[test]
    fn other_files_have_no_counts() {
        assert_eq!(RunProgress::read(b""), None);
        assert_eq!(RunProgress::read(&MAGIC), None);
        assert_eq!(RunProgress::read(&[0; BYTES]), None);
        let mut bytes = vec![0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = 3;
        assert_eq!(RunProgress::read(&bytes).map(|read| read.given_rows), Some(3));
    }
}

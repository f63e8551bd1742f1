//! Counts of what was recorded and of what was written, in a file that outlives the process: see [`progress`].
#![expect(unsafe_code, reason = "a memory map of a file that only this process writes")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use stallmap_config::progress::{self, MAGIC, ProgressWord, WORDS};

/// File systems on which a page that was written once never needs more room: tmpfs, ramfs, ext2 to ext4, XFS, overlayfs.
/// On others a store could end the program when the disk is full.
const SAFE: [i64; 5] = [0x0102_1994, 0x8584_58f6, 0xef53, 0x5846_5342, 0x794c_7630];

/// The counts. A store is all that one costs.
pub(super) struct ProgressCounts(&'static [AtomicU64; WORDS]);

impl Default for ProgressCounts {
    /// Counts that end with the process.
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}

impl ProgressCounts {
    /// Counts in a file of a run's folder. Where there can be none, they end with the process.
    pub(super) fn create(folder: &Path) -> Self {
        map(&folder.join(progress::FILE_NAME)).map_or_else(|_| Self::default(), Self)
    }

    /// Adds to a count that one thread changes, or several under a lock of theirs.
    pub(super) fn add(&self, word: ProgressWord, count: usize) {
        let Some(word) = self.0.get(word as usize) else { return };
        word.store(word.load(Ordering::Relaxed).wrapping_add(count as u64), Ordering::Relaxed);
    }

    /// Adds one to a count that several threads change.
    pub(super) fn add_shared(&self, word: ProgressWord) {
        self.0.get(word as usize).map(|word| word.fetch_add(1, Ordering::Relaxed));
    }
}

/// Makes the file, and maps it for as long as the process lives.
fn map(path: &Path) -> io::Result<&'static [AtomicU64; WORDS]> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    if !SAFE.contains(&file_system(&file)?) {
        drop(std::fs::remove_file(path));
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Zeros that were written have blocks. A length that was set has none.
    let mut bytes = [0; progress::BYTES];
    bytes.split_at_mut(MAGIC.len()).0.copy_from_slice(&MAGIC);
    file.write_all_at(&bytes, 0)?;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, of a file that has that many bytes.
    let mapping =
        unsafe { libc::mmap(null_mut(), progress::BYTES, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if mapping == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the words lie in the mapping, aligned as their offset in a page is. It is never unmapped, nothing makes the
    // file shorter, and other processes only read it.
    Ok(unsafe { &*mapping.byte_add(MAGIC.len()).cast::<[AtomicU64; WORDS]>() })
}

/// The number of a file's kind of file system.
fn file_system(file: &File) -> io::Result<i64> {
    // SAFETY: all-zero bytes are a valid statfs.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is a valid statfs that the call fills.
    let code = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut facts) };
    if code == 0 { Ok(facts.f_type) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use stallmap_config::progress::RunProgress;

    use super::*;

    #[test]
    fn what_is_counted_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let counts = ProgressCounts::create(folder.path());
        counts.add(ProgressWord::GivenRows, 3);
        counts.add(ProgressWord::GivenRows, 2);
        counts.add_shared(ProgressWord::GivenFrames);
        counts.add(ProgressWord::WrittenRows, 4);
        let Ok(bytes) = std::fs::read(folder.path().join(progress::FILE_NAME)) else { return };
        let expected =
            RunProgress { given_rows: 5, written_rows: 4, given_frames: 1, ..RunProgress::default() };
        assert_eq!(RunProgress::read(&bytes), Some(expected));
        // A second one in the same folder, as of a process that executed another program, counts for itself.
        ProgressCounts::create(folder.path()).add(ProgressWord::GivenRows, 1);
        let again = std::fs::read(folder.path().join(progress::FILE_NAME)).unwrap();
        assert_eq!(RunProgress::read(&again), Some(expected));
    }
}

//! Files of a local capture: small ones in memory, larger ones read by ranges as they are requested.
//!
//! No file is mapped. A map ends the process by SIGBUS where another process cuts the file, and its bytes change under
//! their readers where another process writes to it. Here both are an error that names the file, and a server goes on.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use super::error::CaptureError;
use super::source::{EntryBytes, RangeSource};

/// Files up to this size are read at once: it takes a few milliseconds.
const READ_BYTES: u64 = 32 << 20;

/// A file of a capture.
pub(super) enum OpenedFile {
    /// All of it.
    Read(Bytes),
    /// It is read by ranges.
    File(Arc<OpenFile>),
}

/// Opens a regular file. Another one is an error of the kind `InvalidInput`.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    // To open a pipe waits for its writer.
    if path.metadata()?.is_file() {
        let file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Ok(file);
        }
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is a device, a pipe or a socket"))
}

/// Opens a file of a capture.
pub(super) fn open(path: &Path) -> Result<OpenedFile, CaptureError> {
    let failed = |source| CaptureError::io("open capture", path)(source);
    let file = open_regular(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            CaptureError::NotACapture { cause: error.to_string(), path: path.to_owned() }
        }
        _ => failed(error),
    })?;
    let found = file.metadata().map_err(failed)?;
    if found.len() <= READ_BYTES {
        return Ok(OpenedFile::Read(fs::read(path).map_err(failed)?.into()));
    }
    Ok(OpenedFile::File(Arc::new(OpenFile {
        file,
        version: FileVersion::from_metadata(&found),
        path: path.to_owned(),
    })))
}

impl From<OpenedFile> for EntryBytes {
    fn from(opened: OpenedFile) -> Self {
        match opened {
            OpenedFile::Read(bytes) => bytes.into(),
            OpenedFile::File(file) => {
                let size = file.size_bytes();
                Self::part(file, 0..size)
            }
        }
    }
}

/// An open file that is read by ranges.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    version: FileVersion,
    path: PathBuf,
}

/// Properties that differ once another process wrote to a file. Renaming, linking or removing it changes none of them.
#[derive(Debug, PartialEq, Eq)]
struct FileVersion {
    size: u64,
    modified: Option<SystemTime>,
}

impl FileVersion {
    fn from_metadata(found: &Metadata) -> Self {
        Self { size: found.len(), modified: found.modified().ok() }
    }
}

impl OpenFile {
    fn read_range(&self, range: &Range<u64>) -> Result<Bytes, CaptureError> {
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.version.size);
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            let (cause, path) =
                (format!("bytes {} to {} are requested", range.start, range.end), self.path.clone());
            return Err(CaptureError::Truncated { cause, path });
        };
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, range.start) {
            Err(cause) if cause.kind() != ErrorKind::UnexpectedEof => {
                Err(CaptureError::io("read", &self.path)(cause))
            }
            // Behind the new end of a file that was cut.
            Err(_) => Err(self.changed()),
            Ok(()) => Ok(bytes.into()),
        }
    }

    fn changed(&self) -> CaptureError {
        CaptureError::Changed { path: self.path.clone() }
    }
}

impl RangeSource for OpenFile {
    fn size_bytes(&self) -> u64 {
        self.version.size
    }

    fn location(&self) -> &Path {
        &self.path
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        let read = ranges.iter().map(|range| self.read_range(range)).collect();
        // After reading: what was written before is seen now.
        self.unchanged()?;
        read
    }

    fn unchanged(&self) -> Result<(), CaptureError> {
        let found = self.file.metadata().map_err(CaptureError::io("read", &self.path))?;
        if FileVersion::from_metadata(&found) == self.version { Ok(()) } else { Err(self.changed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(folder: &Path) -> (PathBuf, EntryBytes) {
        let path = folder.join("large");
        let content = vec![7; usize::try_from(READ_BYTES).unwrap() + 100];
        fs::write(&path, content).unwrap();
        let bytes = EntryBytes::from(open(&path).unwrap());
        assert!(bytes.in_memory().is_none() && bytes.is_near());
        (path, bytes)
    }

    #[test]
    fn a_large_file_is_read_by_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = opened(folder.path());
        assert_eq!(bytes.size_bytes(), READ_BYTES + 100);
        assert_eq!(bytes.read(READ_BYTES..READ_BYTES + 100).unwrap(), vec![7; 100]);
        assert!(bytes.read(READ_BYTES..READ_BYTES + 101).is_err());
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        assert_eq!(bytes.read(0..1).unwrap(), vec![7]);
        let whole: Vec<u8> = bytes.pieces().flat_map(|piece| piece.unwrap().to_vec()).collect();
        assert_eq!(whole.len() as u64, bytes.size_bytes());
        assert_eq!(bytes.hash().unwrap(), blake3::hash(&whole).to_hex().to_string());
    }

    #[test]
    fn a_file_that_is_cut_or_written_to_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = opened(folder.path());
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(100).unwrap();
        for range in [0..10, 200..300] {
            let error = bytes.read(range).unwrap_err().to_string();
            assert!(error.starts_with("capture changed while it was read: `"), "{error}");
        }
        let (path, bytes) = opened(folder.path());
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(bytes.read(0..10).is_err());
    }

    #[test]
    fn a_pipe_is_no_capture_and_does_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe.stallmap");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(matches!(open(&path), Err(CaptureError::NotACapture { .. })));
    }
}

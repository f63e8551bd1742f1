//! Errors of finalizing a recording.

use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use stallmap_schema::capture::error::CaptureError;

/// Errors of finalizing a recording. The recording itself is never changed.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The folder holds no recording.
    #[error("no recording found: {cause}: `{}`", path.display())]
    NoRecording {
        /// The evidence.
        cause: String,
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{action}: {source}: `{}`", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A segment could not be read, or the capture not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The thread that writes the capture has stopped. It says why.
    #[error("writing the capture has stopped")]
    Stopped,
    /// Rows did not fit their table: a fault of stallmap.
    #[error("make rows: {source}")]
    Rows {
        /// The mismatch.
        #[from]
        source: ArrowError,
    },
}

impl FinishError {
    /// An action that may help, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRecording { .. } => Some(
                "name the folder that the recording left next to its output, `NAME.stallmap.partial`, or that \
                 replays left, `NAME.stallmap.replays`"
                    .to_owned(),
            ),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space and run `stallmap-record recover` again: nothing is lost".to_owned())
            }
            Self::Capture(error) => error.hint(),
            Self::Io { .. } | Self::Rows { .. } | Self::Stopped => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

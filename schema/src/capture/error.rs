//! Errors of captures and segments: the thing, the cause, the path, and a hint.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate. [`CaptureError::hint`] has an action that may help.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refused.
    #[error("{action}: {source}: `{}`", path.display())]
    Io {
        /// The action that failed, such as "open capture".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A server did not return the requested data.
    #[error("{action}: {cause}: `{}`", path.display())]
    Remote {
        /// The action that failed, such as "open capture".
        action: &'static str,
        /// The server's error, or a note that it sent none.
        cause: String,
        /// An action that may help.
        hint: Option<&'static str>,
        /// The capture's URL.
        path: PathBuf,
    },
    /// The file or folder is something else.
    #[error("not a stallmap capture: {cause}: `{}`", path.display())]
    NotACapture {
        /// The evidence.
        cause: String,
        /// The file or folder.
        path: PathBuf,
    },
    /// The file ends too early.
    #[error("capture is truncated: {cause}: `{}`", path.display())]
    Truncated {
        /// The missing part.
        cause: String,
        /// The file.
        path: PathBuf,
    },
    /// Another process wrote to the file.
    #[error("capture changed while it was read: `{}`", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The capture was written by a later release.
    #[error(
        "capture has format {found}, written by stallmap {writer}, but this release reads up to {supported}.x: `{}`",
        path.display()
    )]
    NewerFormat {
        /// The capture's format, major and minor.
        found: String,
        /// The latest major version that this release reads.
        supported: u32,
        /// The release that wrote the capture.
        writer: String,
        /// The capture.
        path: PathBuf,
    },
    /// Its format is from before the first release.
    #[error("capture has format {found}, but this release reads {supported}.x: `{}`", path.display())]
    OlderFormat {
        /// The capture's format, major and minor.
        found: String,
        /// The major version that this release reads.
        supported: u32,
        /// The capture.
        path: PathBuf,
    },
    /// A table is not in the capture.
    #[error("table `{table}` is missing: `{}`", path.display())]
    MissingTable {
        /// The table.
        table: String,
        /// The capture.
        path: PathBuf,
    },
    /// A file is not in the capture.
    #[error("entry `{entry}` is missing: `{}`", path.display())]
    MissingEntry {
        /// The entry's path in the capture.
        entry: String,
        /// The capture.
        path: PathBuf,
    },
    /// Something in the capture or segment is damaged.
    #[error("{thing} is damaged: {cause}: `{}`", path.display())]
    Corrupt {
        /// The damaged thing, such as "table `launch`".
        thing: String,
        /// The evidence.
        cause: String,
        /// The capture or segment.
        path: PathBuf,
    },
    /// Rows or records that cannot be written.
    #[error("write {thing}: {cause}: `{}`", path.display())]
    Refused {
        /// The thing that was to be written.
        thing: String,
        /// The reason.
        cause: String,
        /// The capture or segment.
        path: PathBuf,
    },
}

/// An error is returned through every layer, so it stays small.
const _: () = assert!(size_of::<CaptureError>() <= 128, "CaptureError is too large");

impl CaptureError {
    /// An action that may help, where one is known.
    pub fn hint(&self) -> Option<String> {
        let check = || Some("run `stallmap check` to list all problems of a capture".to_owned());
        match self {
            Self::Io { source, .. } => io_hint(source.kind()),
            Self::Remote { hint, .. } => hint.map(str::to_owned),
            Self::NotACapture { .. } => {
                Some("a capture is made by `stallmap-record -o NAME.stallmap -- PROGRAM`".to_owned())
            }
            Self::Truncated { .. } => Some(
                "copy the file again, or if the recording was interrupted, run `stallmap-record recover` on its \
                 `.stallmap.partial` folder"
                    .to_owned(),
            ),
            Self::Changed { .. } => {
                Some("run the command again, on a complete file that no program writes to".to_owned())
            }
            Self::OlderFormat { .. } => Some("record the program again".to_owned()),
            Self::NewerFormat { writer, .. } => {
                Some(format!("install stallmap {writer} or later to read this capture"))
            }
            Self::Corrupt { thing, .. } if thing == "segment" || thing.starts_with("frame ") => None,
            Self::MissingTable { .. } => check(),
            Self::Corrupt { thing, .. } if thing.starts_with("table ") || thing.starts_with("cubin ") => check(),
            // Such a capture is not opened, not even to check it.
            Self::MissingEntry { .. } | Self::Corrupt { .. } => {
                Some("copy the capture again, or ask its sender for another copy".to_owned())
            }
            Self::Refused { .. } => None,
        }
    }

    /// Wraps an error of the operating system, for `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// A damaged thing.
    pub fn corrupt(thing: impl Into<String>, cause: impl Into<String>, path: &Path) -> Self {
        Self::Corrupt { thing: thing.into(), cause: cause.into(), path: path.to_owned() }
    }

    /// A thing that cannot be written.
    pub fn refused(thing: impl Into<String>, cause: impl Into<String>, path: &Path) -> Self {
        Self::Refused { thing: thing.into(), cause: cause.into(), path: path.to_owned() }
    }
}

fn io_hint(kind: io::ErrorKind) -> Option<String> {
    let hint = match kind {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check the permissions of the file and of its folder",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space and try again",
        io::ErrorKind::AlreadyExists => "choose another name or remove the old one",
        _ => return None,
    };
    Some(hint.to_owned())
}

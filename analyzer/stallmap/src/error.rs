//! Errors between a capture and a result.

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use stallmap_schema::capture::error::CaptureError;
use stallmap_tables::error::TableError;

use crate::library::fault::LibraryFault;

/// Why a capture could not be opened or a query not be answered.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// No capture was named.
    #[error("no capture given; hint: give the path of a .stallmap file")]
    NoCapture,
    /// Two captures have one name.
    #[error("two captures are named `{name}`; hint: give each its own, as in a=one.stallmap b=two.stallmap")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Several captures, one of them without a name.
    #[error("{} has no name, but there are several captures; hint: name it, as in a={}", path.display(), path.display())]
    MissingName {
        /// The nameless capture.
        path: PathBuf,
    },
    /// A name that SQL cannot refer to.
    #[error(
        "`{name}` cannot name a capture; hint: use letters, digits and _, beginning with a letter (`every` means all captures)"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// A sample of stored rows was computed again, and differs.
    #[error(
        "stored rows of view `{view}` are not those that it computes: `{}`; hint: --recompute ignores stored rows, `stallmap check` lists all that differ", path.display()
    )]
    StoredRows {
        /// The view.
        view: String,
        /// The capture.
        path: PathBuf,
    },
    /// A table or the code of a capture cannot be read.
    #[error(transparent)]
    Table(TableError),
    /// A view of the library is wrong: a fault of this program, not of the capture.
    #[error("view `{view}` cannot be defined: {reason}")]
    View {
        /// The view.
        view: String,
        /// Why not.
        reason: String,
    },
    /// The folder of a user's library cannot be read.
    #[error("library `{}` cannot be read: {source}; hint: name a folder of .sql files", path.display())]
    LibraryFolder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file of a user's library breaks a rule.
    #[error("{fault}{}; hint: {}", and_more(*others), fault.flaw.rule.hint())]
    Library {
        /// The first that was found.
        fault: Box<LibraryFault>,
        /// Number of further ones.
        others: usize,
    },
    /// A statement that changes something.
    #[error("{statement} is not allowed: captures are read-only; hint: {hint}")]
    ReadOnly {
        /// The statement's kind.
        statement: String,
        /// Recommended action.
        hint: &'static str,
    },
    /// A capture could not be opened.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The engine's error for a query.
    #[error("{}", plain(.0))]
    Query(Box<DataFusionError>),
}

impl From<DataFusionError> for AnalyzeError {
    fn from(error: DataFusionError) -> Self {
        Self::Query(Box::new(error))
    }
}

impl From<TableError> for AnalyzeError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Capture(error) => Self::Capture(error),
            error @ TableError::Table { .. } => Self::Table(error),
        }
    }
}

fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more that `stallmap check` lists") }
}

/// The engine's message without its backtrace and without the wrappers' repeated prefixes.
fn plain(error: &DataFusionError) -> String {
    error.find_root().strip_backtrace()
}

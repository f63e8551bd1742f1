//! Why a recording of another tool was not read.

use std::fmt;

/// Result of reading.
pub type ReadResult<T> = Result<T, ReadError>;

/// A recording that cannot be read: its cause, which names the file and the position, and a recommended action.
#[derive(Debug)]
pub struct ReadError {
    /// True where the request is wrong and not the file.
    pub is_usage: bool,
    /// The cause, with those below it.
    pub cause: anyhow::Error,
    /// The recommended action.
    pub hint: Option<String>,
}

impl ReadError {
    /// A file whose content is wrong.
    pub fn message(message: impl fmt::Display) -> Self {
        Self { is_usage: false, cause: anyhow::anyhow!("{message}"), hint: None }
    }

    /// A file that cannot be opened or read.
    pub fn io(error: impl Into<anyhow::Error>, context: impl fmt::Display) -> Self {
        Self { is_usage: false, cause: error.into().context(context.to_string()), hint: None }
    }

    /// Files that cannot be read together, or a format that there is not.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { is_usage: true, ..Self::message(message) }
    }

    /// The same with a hint, if any.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().or(self.hint);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.cause)
    }
}

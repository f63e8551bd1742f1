//! Errors of the program: what failed, why, and what to do.

use std::fmt;

use datafusion::error::DataFusionError;
use tonic::{Code, Status};

/// An error with a recommended action.
#[derive(Debug)]
pub(crate) struct ClusterError {
    message: String,
    hint: Option<String>,
}

/// The result of most functions here.
pub(crate) type ClusterResult<T> = Result<T, ClusterError>;

impl ClusterError {
    pub(crate) fn message(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The error as a reply. The hint travels behind the message.
    pub(crate) fn status(&self) -> Status {
        Status::new(Code::InvalidArgument, self.to_string())
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for ClusterError {}

impl From<DataFusionError> for ClusterError {
    fn from(error: DataFusionError) -> Self {
        Self::message(error.strip_backtrace())
    }
}

impl From<stallmap::error::AnalyzeError> for ClusterError {
    fn from(error: stallmap::error::AnalyzeError) -> Self {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((message, hint)) => Self::message(message).hint(hint),
            None => Self::message(text),
        }
    }
}

impl From<tonic::transport::Error> for ClusterError {
    fn from(error: tonic::transport::Error) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Self::message(format!("{error}{}", cause.unwrap_or_default()))
    }
}

impl From<Status> for ClusterError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument => Self::message(status.message()),
            code => Self::message(format!("{code}: {}", status.message())),
        }
    }
}

impl From<arrow::error::ArrowError> for ClusterError {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::message(error.to_string())
    }
}

//! Errors as PostgreSQL's clients expect them: a code (SQLSTATE), the message, a hint.

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use stallmap_console::exit::{CommandFailure, QUERY};
use stallmap_console::explain::explain_in;

use crate::message::ServerMessage;
use crate::wire::ClientWire;

/// A failure with its code.
#[derive(Debug)]
pub(crate) struct CodedFailure {
    state: &'static str,
    failure: CommandFailure,
}

impl CodedFailure {
    /// A failure with a code of PostgreSQL.
    pub(crate) fn new(state: &'static str, failure: CommandFailure) -> Self {
        Self { state, failure }
    }

    /// A message and a hint with a code of PostgreSQL.
    pub(crate) fn message(state: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state, failure: CommandFailure::message(QUERY, message.into()).hint(hint.into()) }
    }

    /// Why a statement failed.
    pub(crate) fn from_error(error: AnalyzeError, session: &Session, sql: &str) -> Self {
        Self { state: state(&error), failure: explain_in(error, session, sql) }
    }

    /// A statement that no part of the protocol allows.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self { state: "08P01", failure: CommandFailure::message(QUERY, message.into()) }
    }

    /// Its code.
    pub(crate) fn state(&self) -> &'static str {
        self.state
    }

    /// The failure without its code.
    pub(crate) fn into_failure(self) -> CommandFailure {
        self.failure
    }

    /// Its message, excerpt and hint.
    pub(crate) fn failure(&self) -> &CommandFailure {
        &self.failure
    }

    /// Sends it as an error of a statement, or as the end of the connection.
    pub(crate) fn send(&self, wire: &mut ClientWire, is_fatal: bool) {
        let (reason, severity) = (self.failure.reason(), if is_fatal { "FATAL" } else { "ERROR" });
        let mut fields = vec![(b'S', severity), (b'V', severity), (b'C', self.state), (b'M', &reason)];
        fields.extend(self.failure.excerpt_text().map(|excerpt| (b'D', excerpt)));
        fields.extend(self.failure.hint_text().map(|hint| (b'H', hint)));
        wire.send(&ServerMessage::Error(&fields));
    }
}

/// The code for an error of the library.
fn state(error: &AnalyzeError) -> &'static str {
    match error {
        AnalyzeError::Query(error) => state_of_query(error),
        AnalyzeError::ReadOnly { .. } => "25006",
        AnalyzeError::Table(_) | AnalyzeError::Capture(_) => "58030",
        _ => "XX000",
    }
}

fn state_of_query(error: &DataFusionError) -> &'static str {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42000",
        },
        DataFusionError::SQL(..) => "42601",
        DataFusionError::ResourcesExhausted(_) => "53200",
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::Plan(text) if text.contains("table '") => "42P01",
        DataFusionError::Plan(text) if text.contains("nvalid function") => "42883",
        DataFusionError::Plan(_) => "42000",
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::DivideByZero => "22012",
            _ => "22000",
        },
        DataFusionError::Execution(_) => "22000",
        DataFusionError::External(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
            "58030"
        }
        _ => "XX000",
    }
}

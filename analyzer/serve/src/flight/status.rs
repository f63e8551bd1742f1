//! Errors as gRPC has them: a code, and a text with excerpt and hint.

use crate::failure::CodedFailure;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use tonic::{Code, Status};

/// Most characters of a text. It travels in a header, which clients bound.
const MAX_CHARS: usize = 2_000;

/// The status for a refusal.
pub(crate) fn status(refusal: &CodedFailure) -> Status {
    let failure = refusal.failure();
    let mut text = failure.reason();
    if let Some(excerpt) = failure.excerpt_text() {
        text = format!("{text}\n{excerpt}");
    }
    text = text.chars().take(MAX_CHARS).collect();
    if let Some(hint) = failure.hint_text() {
        text = format!("{text}\nhint: {hint}");
    }
    Status::new(code(refusal.state()), text)
}

/// The status for an error of the library within a statement.
pub(crate) fn failed(error: AnalyzeError, session: &Session, sql: &str) -> Status {
    status(&CodedFailure::from_error(error, session, sql))
}

/// The status for a call that the server cannot read.
pub(crate) fn unreadable(noun: &str, reason: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("{noun} cannot be read: {reason}"))
}

/// The code for one of PostgreSQL's (SQLSTATE).
fn code(state: &str) -> Code {
    match state {
        "25006" => Code::PermissionDenied,
        "28000" | "28P01" => Code::Unauthenticated,
        "42P01" => Code::NotFound,
        "0A000" => Code::Unimplemented,
        "57014" => Code::DeadlineExceeded,
        _ => match state.get(..2) {
            Some("22" | "26" | "42" | "08") => Code::InvalidArgument,
            Some("53" | "54") => Code::ResourceExhausted,
            _ => Code::Internal,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_hint_and_bound() {
        let refusal = CodedFailure::message("42703", "x".repeat(5_000), "did you mean `y`?");
        let status = status(&refusal);
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().ends_with("x\nhint: did you mean `y`?"));
        assert!(status.message().len() < 2_100);
    }

    #[test]
    fn states_have_codes() {
        for (state, expected) in [
            ("25006", Code::PermissionDenied),
            ("53200", Code::ResourceExhausted),
            ("53300", Code::ResourceExhausted),
            ("22012", Code::InvalidArgument),
            ("58030", Code::Internal),
            ("", Code::Internal),
        ] {
            assert_eq!(code(state), expected, "{state}");
        }
    }
}

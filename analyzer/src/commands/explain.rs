//! Errors of the library as failures of a command: exit code, one line, a hint.

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use stallmap_schema::capture::error::CaptureError;

use super::names::{Names, nearest};
use crate::exit::{CAPTURE, Failure, IO, QUERY, USAGE};

/// Columns that a hint lists at most.
const MOST_COLUMNS: usize = 12;

/// Why a capture could not be opened or a statement not be answered; the session knows the names that exist.
pub(crate) fn explain(error: AnalyzeError, session: Option<&Session>) -> Failure {
    let names = session.and_then(|session| Names::of(session).ok()).unwrap_or_default();
    match error {
        AnalyzeError::Query(error) => explain_query(&error, &names),
        AnalyzeError::Capture(error) => capture_failure(&error),
        other => {
            let text = other.to_string();
            let (message, hint) = match text.split_once("; hint: ") {
                Some((message, hint)) => (message, Some(hint.to_owned())),
                None => (text.as_str(), None),
            };
            Failure::message(code(&other), message).hint(hint)
        }
    }
}

/// Why rows could not be turned into text.
pub(crate) fn arrow_failure(error: ArrowError) -> Failure {
    explain(DataFusionError::from(error).into(), None)
}

/// Why a capture could not be opened or written.
pub(crate) fn capture_failure(error: &CaptureError) -> Failure {
    let code = match error {
        CaptureError::Io { action: "open capture" | "map capture" | "read", .. } => CAPTURE,
        CaptureError::Io { .. } | CaptureError::Refused { .. } => IO,
        _ => CAPTURE,
    };
    Failure::message(code, error).hint(error.hint())
}

fn code(error: &AnalyzeError) -> u8 {
    match error {
        AnalyzeError::NoCapture
        | AnalyzeError::DuplicateName { .. }
        | AnalyzeError::MissingName { .. }
        | AnalyzeError::BadName { .. } => USAGE,
        AnalyzeError::Query(_) | AnalyzeError::ReadOnly { .. } | AnalyzeError::View { .. } => QUERY,
        _ => CAPTURE,
    }
}

fn explain_query(error: &DataFusionError, names: &Names) -> Failure {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields),
            other => Failure::message(QUERY, other),
        },
        DataFusionError::SQL(error, _) => Failure::message(QUERY, one_line(&syntax(&error.to_string()))),
        root => {
            let message = one_line(&root.strip_backtrace());
            let message =
                strip(&message, &["Error during planning: ", "Execution error: ", "External error: "]);
            match missing_table(message) {
                Some(table) => no_table(table, names),
                None => Failure::message(QUERY, message),
            }
        }
    }
}

/// The table that the engine did not find.
fn missing_table(message: &str) -> Option<&str> {
    message.strip_prefix("table '")?.strip_suffix("' not found")
}

fn no_table(qualified: &str, names: &Names) -> Failure {
    let mut parts = qualified.rsplit('.');
    let (table, capture) = (parts.next().unwrap_or(qualified), parts.next());
    if let Some(capture) = capture.filter(|name| !names.captures.iter().any(|known| known == name)) {
        let captures = names.captures.join(", ");
        return Failure::message(QUERY, format!("no capture is named `{capture}`"))
            .hint(format!("captures here: {captures}"));
    }
    let hint = match nearest(table, names.relations()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            "`stallmap info NAME.stallmap` (in the shell: .tables, .views) lists tables and views".to_owned()
        }
    };
    Failure::message(QUERY, format!("no table or view `{table}`")).hint(hint)
}

fn no_column(field: &Column, valid: &[Column]) -> Failure {
    let hint = match nearest(&field.name, valid.iter().map(|column| column.name.as_str())) {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None if valid.is_empty() => None,
        None => {
            let shown =
                valid.iter().take(MOST_COLUMNS).map(|column| column.name.as_str()).collect::<Vec<_>>();
            let more = if valid.len() > MOST_COLUMNS { ", …" } else { "" };
            Some(format!("columns here: {}{more}", shown.join(", ")))
        }
    };
    let of = field.relation.as_ref().map(|table| format!(" in `{}`", table.table())).unwrap_or_default();
    Failure::message(QUERY, format!("no column `{}`{of}", field.name)).hint(hint)
}

fn syntax(message: &str) -> String {
    let message = strip(message, &["sql parser error: ", "SQL error: "]);
    format!("syntax error: {message}")
}

fn strip<'a>(message: &'a str, prefixes: &[&str]) -> &'a str {
    let mut message = message;
    while let Some(rest) = prefixes.iter().find_map(|prefix| message.strip_prefix(prefix)) {
        message = rest;
    }
    message
}

fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

//! Errors of the library as failures of a command: exit code, one line, a hint.

mod alternatives;
mod outer;

use std::error::Error;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError, TableReference};
use datafusion::error::DataFusionError;
use stallmap::error::AnalyzeError;
use stallmap::library::FLEET;
use stallmap::session::Session;
use stallmap::tables::error::TableError;
use stallmap_schema::capture::error::CaptureError;

use super::excerpt;
use super::names::{SessionNames, in_fleets, nearest};
use crate::exit::{CAPTURE, CommandFailure, IO, QUERY, USAGE};
use crate::output;

/// Maximum captures that a hint lists.
const MAX_CAPTURES: usize = 5;
/// Maximum entries of a folder that are searched for captures.
const MAX_ENTRIES: usize = 10_000;
/// Bytes of a file that say what it is.
const HEAD_BYTES: u64 = 64;
/// Words for which there is no table, and the views that are meant.
const SYNONYMS: [(&str, &str); 4] = [
    ("kernels", "`kernel_cost` has the cost of each kernel, `launch` each launch"),
    ("kernel", "`kernel_cost` has the cost of each kernel, `launch` each launch"),
    ("tensors", "`object_cost` has the cost of each tensor, `tensor` its properties"),
    ("lines", "`line_cost` has the cost of each line"),
];
/// Parts of the engine that put their name before an error.
const LAYERS: [&str; 8] = [
    "Error during planning: ",
    "Execution error: ",
    "External error: ",
    "Parquet error: ",
    "External: ",
    "Compute error: ",
    "Arrow error: ",
    "Cast error: ",
];
/// Maximum columns that a hint lists.
const MAX_COLUMNS: usize = 12;

/// Reason why a capture could not be opened or a statement failed. The session provides the names that exist.
pub fn explain(error: AnalyzeError, session: Option<&Session>) -> CommandFailure {
    let names = session.and_then(|session| SessionNames::from_session(session).ok()).unwrap_or_default();
    match error {
        AnalyzeError::Query(error) => explain_query(&error, &names, ""),
        AnalyzeError::Capture(error) => capture_failure(&error),
        other => damaged(&other.to_string(), code(&other)),
    }
}

/// An error whose text ends with a hint.
fn damaged(text: &str, code: u8) -> CommandFailure {
    let (message, hint) = match text.split_once("; hint: ") {
        Some((message, hint)) => (message, Some(hint.to_owned())),
        None => (text, None),
    };
    CommandFailure::message(code, message).hint(hint)
}

/// The same for a statement that the user typed, with the location of the error in it.
pub fn explain_in(error: AnalyzeError, session: &Session, sql: &str) -> CommandFailure {
    match error {
        AnalyzeError::Query(error) => {
            explain_query(&error, &SessionNames::from_session(session).unwrap_or_default(), sql)
        }
        other => explain(other, Some(session)),
    }
}

/// Why rows could not be turned into text.
pub fn arrow_failure(error: ArrowError) -> CommandFailure {
    explain(DataFusionError::from(error).into(), None)
}

/// Why a capture could not be opened or written.
pub fn capture_failure(error: &CaptureError) -> CommandFailure {
    let code = match error {
        CaptureError::Io { action: "open capture" | "read", .. } => CAPTURE,
        CaptureError::Io { .. } | CaptureError::Refused { .. } => IO,
        _ => CAPTURE,
    };
    CommandFailure::message(code, error).hint(here(error).or_else(|| error.hint()))
}

/// First bytes of files that are imported: compressed ones, tables of SQLite, pickles.
const HEADS: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"SQLite format 3", b"\x80"];
/// Endings of others.
const ENDINGS: [&str; 6] = ["csv", "ncu-rep", "nsys-rep", "pb", "pftrace", "trace"];

/// Captures in the folder of a wrong path: the one with a similar name, or those in the folder itself.
fn here(error: &CaptureError) -> Option<String> {
    match error {
        CaptureError::Io { action: "open capture", path, source } if source.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let names = captures(folder.unwrap_or_else(|| Path::new(".")));
            let name = nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
            Some(format!("did you mean `{}`?", output::path(&path.with_file_name(name))))
        }
        CaptureError::NotACapture { path, .. } if path.is_dir() => {
            let mut names = captures(path);
            let count = names.len();
            names.truncate(MAX_CAPTURES);
            let more = if count > MAX_CAPTURES { ", …" } else { "" };
            let noun = if count == 1 { "capture is" } else { "captures are" };
            (count > 0).then(|| format!("{count} {noun} in it: {}{more}", output::in_line(&names.join(", "))))
        }
        CaptureError::NotACapture { path, .. } if is_import(path) => {
            let path = output::path(path);
            Some(format!(
                "for a file of another tool, `stallmap import {path} -o NAME.stallmap` makes a capture"
            ))
        }
        _ => None,
    }
}

/// True for a file that looks like one of the formats that are imported, by its first bytes or its ending.
fn is_import(path: &Path) -> bool {
    let mut head = Vec::new();
    let file = File::open(path).map(|file| file.take(HEAD_BYTES));
    if file.and_then(|mut file| file.read_to_end(&mut head)).is_err() || head.is_empty() {
        return false;
    }
    let text = String::from_utf8_lossy(&head);
    let is_json = text
        .trim_start_matches(|char: char| char == '\u{feff}' || char.is_whitespace())
        .starts_with(['{', '[']);
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    is_json || HEADS.iter().any(|start| head.starts_with(start)) || ENDINGS.contains(&ending.as_str())
}

/// The names of captures in a folder.
fn captures(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".stallmap")).collect();
    names.sort();
    names
}

fn code(error: &AnalyzeError) -> u8 {
    match error {
        AnalyzeError::NoCapture
        | AnalyzeError::DuplicateName { .. }
        | AnalyzeError::MissingName { .. }
        | AnalyzeError::BadName { .. } => USAGE,
        AnalyzeError::LibraryFolder { .. } => IO,
        AnalyzeError::Query(_)
        | AnalyzeError::ReadOnly { .. }
        | AnalyzeError::View { .. }
        | AnalyzeError::Library { .. } => QUERY,
        _ => CAPTURE,
    }
}

/// An empty statement cannot come from the user.
fn explain_query(error: &DataFusionError, names: &SessionNames, sql: &str) -> CommandFailure {
    if let Some(error) = of_capture(error.find_root()) {
        return capture_failure(error);
    }
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields, sql),
            SchemaError::AmbiguousReference { field } => ambiguous(&field.name, sql),
            other => CommandFailure::message(QUERY, other),
        },
        DataFusionError::SQL(error, _) => syntax(&error.to_string(), sql),
        DataFusionError::ResourcesExhausted(_) => {
            let subject = view_of(error).unwrap_or("the query");
            let less = match sql {
                "" => "query a part of the capture (`stallmap pack --launches` writes one)",
                _ => "select fewer launches or tensors (WHERE)",
            };
            CommandFailure::message(QUERY, format!("{subject} needs more memory than --memory allows"))
                .hint(format!("{less}, or raise the limit: --memory 90%"))
        }
        DataFusionError::External(error) if error.is::<TableError>() => damaged(&error.to_string(), CAPTURE),
        root => {
            let message = one_line(&root.strip_backtrace());
            planning(strip(&message, &LAYERS), names, sql)
        }
    }
}

/// The view of the library whose rows were computed, as the session says.
fn view_of(error: &DataFusionError) -> Option<&str> {
    match error {
        DataFusionError::Context(subject, _) if subject.starts_with("view ") => Some(subject),
        DataFusionError::Shared(error) => view_of(error),
        _ => None,
    }
}

/// The error of reading a capture's bytes that made a query fail.
fn of_capture(error: &DataFusionError) -> Option<&CaptureError> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(TableError::Capture(found)) = error.downcast_ref() {
            return Some(found);
        }
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Rewords the planner's errors.
fn planning(message: &str, names: &SessionNames, sql: &str) -> CommandFailure {
    if let Some(table) = missing_table(message) {
        return no_table(table, names, sql);
    }
    if let Some(name) = between(message, "Invalid function '", "'") {
        return no_function(name, names, sql);
    }
    if let Some(name) = between(message, "table function '", "'") {
        let failure = CommandFailure::message(QUERY, format!("no table function `{name}`"));
        return failure.excerpt(excerpt::of_name(sql, name, true));
    }
    if let Some(name) = between(message, "call to '", "' function") {
        let usage = names.signature(name).map(|usage| format!("it is called as {usage}"));
        let failure = CommandFailure::message(QUERY, format!("`{name}` does not take these arguments"));
        return failure.excerpt(excerpt::of_name(sql, name, true)).hint(usage);
    }
    if let Some(column) = between(message, "column \"", "\" must appear in the GROUP BY") {
        if let Some(failure) = alternatives::window(column) {
            return failure;
        }
        let column = column.rsplit('.').next().unwrap_or(column);
        let failure =
            CommandFailure::message(QUERY, format!("column `{column}` is neither grouped by nor aggregated"));
        let hint = format!("add it to GROUP BY, or use min({column}), first_value({column}) or similar");
        return failure.excerpt(excerpt::of_name(sql, column, false)).hint(hint);
    }
    if let Some(alias) = message.strip_prefix("Invalid qualifier ") {
        let failure = CommandFailure::message(QUERY, format!("no table is called `{alias}` here"));
        return failure.excerpt(excerpt::of_name(sql, alias, false));
    }
    if let Some(failure) = values(message, sql)
        .or_else(|| outer::reworded(message, names, sql))
        .or_else(|| alternatives::reworded(message, sql))
    {
        return failure;
    }
    CommandFailure::message(QUERY, message)
}

/// Rewords errors about values, which come while rows are computed.
fn values(message: &str, sql: &str) -> Option<CommandFailure> {
    // The second is a condition that the scan of a table computes.
    if message.contains("Divide by zero") || message.contains("DivideByZero") {
        let hint = "write a / nullif(b, 0), which is null there".to_owned();
        return Some(CommandFailure::message(QUERY, "division by zero").hint(hint));
    }
    let text = between(message, "Cannot cast string '", "' to value of ")?;
    let failure = CommandFailure::message(QUERY, format!("the text '{text}' is no number"));
    let column = excerpt::compared_with_number(sql);
    let hint = column.map_or_else(
        || "try_cast(column AS DOUBLE) is null where a text is no number".to_owned(),
        |column| format!("`{column}` holds text: compare it with text in quotes, as in {column} = '{text}'"),
    );
    Some(failure.excerpt(column.and_then(|column| excerpt::of_name(sql, column, false))).hint(hint))
}

/// Text between two markers in a message.
fn between<'a>(message: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &message[message.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

/// The table that the engine did not find.
fn missing_table(message: &str) -> Option<&str> {
    message.strip_prefix("table '")?.strip_suffix("' not found")
}

fn no_table(qualified: &str, names: &SessionNames, sql: &str) -> CommandFailure {
    let mut parts = qualified.rsplit('.');
    let (table, capture) = (parts.next().unwrap_or(qualified), parts.next());
    if let Some(capture) = capture.filter(|name| !names.captures.iter().any(|known| known == name)) {
        let captures = names.captures.join(", ");
        let (noun, hint) = if names.captures == [FLEET] {
            ("schema", "write the table's name alone: it has the rows of all captures".to_owned())
        } else {
            ("capture", format!("captures here: {captures}"))
        };
        return CommandFailure::message(QUERY, format!("no {noun} is named `{capture}`"))
            .excerpt(excerpt::of_name(sql, capture, false))
            .hint(hint);
    }
    let synonym = SYNONYMS.iter().find(|(name, _)| table.eq_ignore_ascii_case(name));
    let hint = match (synonym, in_fleets(table), nearest(table, names.relations())) {
        (Some((_, hint)), ..) => (*hint).to_owned(),
        (None, Some(hint), _) => hint,
        (None, None, Some(name)) => format!("did you mean `{name}`?"),
        (None, None, None) => {
            "`stallmap info NAME.stallmap` (in the shell: .tables, .views) lists tables and views".to_owned()
        }
    };
    let failure = CommandFailure::message(QUERY, format!("no table or view `{table}`"));
    failure.excerpt(excerpt::of_name(sql, table, false)).hint(hint)
}

fn no_function(name: &str, names: &SessionNames, sql: &str) -> CommandFailure {
    let near = nearest(name, names.functions.iter().map(String::as_str));
    let hint = near.map(|near| match names.signature(near) {
        Some(usage) => format!("did you mean {usage}?"),
        None => format!("did you mean `{near}`?"),
    });
    let hint = alternatives::for_function(name).map(str::to_owned).or(hint);
    let failure = CommandFailure::message(QUERY, format!("no function `{name}`"));
    failure.excerpt(excerpt::of_name(sql, name, true)).hint(hint)
}

fn ambiguous(name: &str, sql: &str) -> CommandFailure {
    let failure = CommandFailure::message(QUERY, format!("several tables have a column `{name}`"));
    let hint = format!("write the table's name or alias before it, as in t.{name}");
    failure.excerpt(excerpt::of_name(sql, name, false)).hint(hint)
}

fn no_column(field: &Column, valid: &[Column], sql: &str) -> CommandFailure {
    let place = excerpt::of_name(sql, &field.name, false);
    let table = field.relation.as_ref().map(|table| table.table().to_owned());
    let is_of = |column: &Column, table: &str| column.relation.as_ref().is_some_and(|of| of.table() == table);
    if let Some(table) = &table
        && !valid.is_empty()
        && !valid.iter().any(|column| is_of(column, table))
    {
        let mut tables: Vec<&str> =
            valid.iter().filter_map(|column| column.relation.as_ref()).map(TableReference::table).collect();
        tables.sort_unstable();
        tables.dedup();
        let failure = CommandFailure::message(QUERY, format!("no table is called `{table}` here"));
        let hint = (!tables.is_empty()).then(|| format!("tables here: {}", tables.join(", ")));
        return failure.excerpt(excerpt::of_name(sql, table, false)).hint(hint);
    }
    // Computed columns have names that the user would not type.
    let is_typed = |column: &&Column| column.name.chars().all(stallmap::lexer::is_word);
    let names: Vec<&str> = valid
        .iter()
        .filter(is_typed)
        .filter(|column| table.as_ref().is_none_or(|table| is_of(column, table)))
        .map(|column| column.name.as_str())
        .collect();
    let hint = match nearest(&field.name, names.iter().copied()) {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None if names.is_empty() => None,
        None => {
            let shown = names.iter().take(MAX_COLUMNS).copied().collect::<Vec<_>>();
            let more = if names.len() > MAX_COLUMNS { ", …" } else { "" };
            Some(format!("columns here: {}{more}", shown.join(", ")))
        }
    };
    let of = table.map(|table| format!(" in `{table}`")).unwrap_or_default();
    CommandFailure::message(QUERY, format!("no column `{}`{of}", field.name)).excerpt(place).hint(hint)
}

/// A syntax error at the location from the parser, or at the end without one.
fn syntax(message: &str, sql: &str) -> CommandFailure {
    let message = one_line(strip(message, &["sql parser error: ", "ParserError(\"", "SQL error: "]));
    let (text, place) = message.split_once(" at Line: ").unwrap_or((message.as_str(), ""));
    let number = |text: &str| text.trim().trim_end_matches(['"', ')']).parse::<usize>().ok();
    let at = place.split_once(", Column: ");
    let at = at.and_then(|(line, column)| Some((number(line)?, number(column)?)));
    let place = match at {
        _ if sql.is_empty() => None,
        Some((line, column)) => excerpt::at(sql, line, column),
        None => excerpt::end(sql),
    };
    let text = text.replace("found: EOF", "but the statement ends");
    let where_to = match (at, &place) {
        (Some((line, column)), None) => format!(" at line {line}, column {column}"),
        _ => String::new(),
    };
    let failure = CommandFailure::message(QUERY, format!("syntax error: {text}{where_to}"));
    failure.excerpt(place).hint(misspelt(&text))
}

/// The keyword that was probably meant.
fn misspelt(message: &str) -> Option<String> {
    const BEGINNINGS: [&str; 9] =
        ["SELECT", "WITH", "EXPLAIN", "DESCRIBE", "SHOW", "CREATE", "DROP", "VALUES", "FROM"];
    let found = between(&format!("{message} "), "found: ", " ")?.to_owned();
    let near = nearest(&found, BEGINNINGS.into_iter())?;
    (!near.eq_ignore_ascii_case(&found)).then(|| format!("did you mean {near}?"))
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

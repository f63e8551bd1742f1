//! The kinds of statements: rows of the captures, and those that clients send to manage their session.

use std::time::Duration;

use stallmap::lexer::{self, SqlToken, TokenKind};

use crate::catalog::rewrite::rewritten;
use crate::failure::CodedFailure;

/// Settings that clients read. Rows are text in UTF-8, and times are UTC.
pub(crate) const SETTINGS: [(&str, &str); 13] = [
    ("server_version", concat!("14.0 (stallmap ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("default_transaction_read_only", "on"),
    ("in_hot_standby", "off"),
    ("is_superuser", "off"),
    ("session_authorization", "stallmap"),
    ("application_name", ""),
];
/// Further settings that `SHOW` knows. Captures do not change: transactions are as if one followed the other.
const SHOWN: [(&str, &str); 5] = [
    ("transaction_isolation", "serializable"),
    ("transaction_read_only", "on"),
    ("max_identifier_length", "63"),
    ("server_version_num", "140000"),
    ("bytea_output", "hex"),
];
/// Settings that may be set, without effect on answers.
const SETTABLE: [&str; 14] = [
    "application_name",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "extra_float_digits",
    "idle_in_transaction_session_timeout",
    "intervalstyle",
    "lock_timeout",
    "names",
    "session",
    "standard_conforming_strings",
    "time",
    "timezone",
];

/// The action for a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementAction {
    /// Nothing: the text is empty.
    Empty,
    /// Rows of this statement.
    Rows(String),
    /// A statement without rows, and its tag.
    Done(&'static str, StatementEffect),
}

/// The effect of a statement without rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementEffect {
    None,
    Begin,
    End,
    /// The end of an error within a transaction.
    Back,
    /// Forgets a prepared statement, or all.
    Forget(Option<String>),
    /// A shorter time for queries. None for the server's.
    Timeout(Option<Duration>),
}

/// The action of one statement.
pub(crate) fn action(sql: &str) -> Result<StatementAction, CodedFailure> {
    let tokens: Vec<SqlToken<'_>> = lexer::tokens(sql)
        .filter(|token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment) && token.text != ";")
        .collect();
    let words: Vec<String> = tokens.iter().map(|token| token.text.to_ascii_lowercase()).collect();
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    Ok(match word(0) {
        "" => StatementAction::Empty,
        "begin" | "start" => StatementAction::Done("BEGIN", StatementEffect::Begin),
        "commit" | "end" => StatementAction::Done("COMMIT", StatementEffect::End),
        "rollback" | "abort" if words.contains(&"to".to_owned()) => {
            StatementAction::Done("ROLLBACK", StatementEffect::Back)
        }
        "rollback" | "abort" => StatementAction::Done("ROLLBACK", StatementEffect::End),
        "savepoint" => StatementAction::Done("SAVEPOINT", StatementEffect::None),
        "release" => StatementAction::Done("RELEASE", StatementEffect::None),
        "unlisten" => StatementAction::Done("UNLISTEN", StatementEffect::None),
        "reset" => StatementAction::Done("RESET", StatementEffect::Timeout(None)),
        "discard" => StatementAction::Done("DISCARD ALL", StatementEffect::Forget(None)),
        "deallocate" => StatementAction::Done("DEALLOCATE", StatementEffect::Forget(forgotten(&tokens))),
        "set" => StatementAction::Done("SET", set(&words)?),
        "show" => show(sql, &words),
        kind @ ("copy" | "declare" | "fetch" | "listen" | "lock" | "prepare" | "execute" | "call" | "do") => {
            let message = format!("{} is not supported", kind.to_uppercase());
            return Err(CodedFailure::message(
                "0A000",
                message,
                "use SELECT: rows are streamed as the client reads them",
            ));
        }
        _ => StatementAction::Rows(rewritten(sql)),
    })
}

/// The name in `DEALLOCATE [PREPARE] name`. None for all.
fn forgotten(tokens: &[SqlToken<'_>]) -> Option<String> {
    let name = tokens.iter().skip(1).find(|token| !token.text.eq_ignore_ascii_case("prepare"))?.text;
    let plain = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    (!name.eq_ignore_ascii_case("all"))
        .then(|| plain.map_or_else(|| name.to_ascii_lowercase(), str::to_owned))
}

/// The effect of `SET [SESSION | LOCAL] name = value`.
fn set(words: &[String]) -> Result<StatementEffect, CodedFailure> {
    let mut rest = words.iter().skip(1).map(String::as_str).peekable();
    if rest.peek() == Some(&"session") && words.get(2).is_none_or(|next| next != "characteristics") {
        rest.next();
    }
    rest.next_if_eq(&"local");
    let name = rest.next().unwrap_or_default().trim_matches('"').to_ascii_lowercase();
    let value: String = rest.filter(|word| !matches!(*word, "=" | "to")).collect();
    let value = value.trim_matches('\'');
    match name.as_str() {
        "transaction" | "default_transaction_read_only" => Ok(StatementEffect::None),
        "statement_timeout" if value == "default" => Ok(StatementEffect::Timeout(None)),
        "statement_timeout" => duration(value).ok_or_else(|| {
            CodedFailure::message(
                "22023",
                format!("`{value}` is not a time"),
                "use milliseconds, or a number with ms, s or min",
            )
        }),
        "client_encoding" | "names" if !value.to_ascii_lowercase().replace('-', "").starts_with("utf8") => {
            Err(CodedFailure::message(
                "22023",
                format!("the encoding `{value}` is not supported"),
                "use UTF8",
            ))
        }
        name if SETTABLE.contains(&name) => Ok(StatementEffect::None),
        name => Err(CodedFailure::message(
            "42704",
            format!("`{name}` cannot be set"),
            "names of another capture are written as CAPTURE.TABLE, and options belong on the server's command line",
        )),
    }
}

/// The effect of a time such as `5000`, `5s` or `1min`. 0 is the server's time.
fn duration(text: &str) -> Option<StatementEffect> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    let milliseconds = match text[digits.len()..].trim() {
        "" | "ms" => number,
        "s" => number.checked_mul(1_000)?,
        "min" => number.checked_mul(60_000)?,
        _ => return None,
    };
    Some(StatementEffect::Timeout((milliseconds > 0).then(|| Duration::from_millis(milliseconds))))
}

/// A setting of this server, or one of the engine's statements.
fn show(sql: &str, words: &[String]) -> StatementAction {
    let name = match words.get(1..).unwrap_or_default() {
        [transaction, isolation, level]
            if [transaction, isolation, level] == ["transaction", "isolation", "level"] =>
        {
            "transaction_isolation"
        }
        [time, zone] if [time, zone] == ["time", "zone"] => "timezone",
        [name] => name.as_str(),
        _ => "",
    };
    let found = SETTINGS.iter().chain(&SHOWN).find(|(known, _)| known.eq_ignore_ascii_case(name));
    StatementAction::Rows(match found {
        None if name == "search_path" => "SELECT current_schema() AS search_path".to_owned(),
        Some((name, value)) => format!("SELECT '{value}' AS \"{name}\""),
        None => sql.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(sql: &str) -> StatementAction {
        action(sql).unwrap()
    }

    #[test]
    fn statements_of_drivers_have_their_tags() {
        assert_eq!(state("BEGIN READ ONLY"), StatementAction::Done("BEGIN", StatementEffect::Begin));
        assert_eq!(state("rollback;"), StatementAction::Done("ROLLBACK", StatementEffect::End));
        assert_eq!(
            state("ROLLBACK TO SAVEPOINT a"),
            StatementAction::Done("ROLLBACK", StatementEffect::Back)
        );
        assert_eq!(state("SET extra_float_digits = 3"), StatementAction::Done("SET", StatementEffect::None));
        assert_eq!(
            state("SET client_encoding TO 'UTF-8'"),
            StatementAction::Done("SET", StatementEffect::None)
        );
        assert_eq!(
            state("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
            StatementAction::Done("SET", StatementEffect::None)
        );
        let half = StatementAction::Done("SET", StatementEffect::Timeout(Some(Duration::from_millis(500))));
        assert_eq!(state("SET LOCAL statement_timeout = 500"), half);
        let forget = StatementAction::Done("DEALLOCATE", StatementEffect::Forget(Some("_pg3_0".to_owned())));
        assert_eq!(state("DEALLOCATE \"_pg3_0\""), forget);
        assert_eq!(state("/* nothing */ ;"), StatementAction::Empty);
    }

    #[test]
    fn settings_are_shown() {
        let shown = StatementAction::Rows("SELECT 'serializable' AS \"transaction_isolation\"".to_owned());
        assert_eq!(state("SHOW TRANSACTION ISOLATION LEVEL"), shown);
        assert_eq!(state("SHOW TABLES"), StatementAction::Rows("SHOW TABLES".to_owned()));
    }

    #[test]
    fn settings_that_would_change_answers_are_refused() {
        for sql in
            ["SET search_path TO b", "SET client_encoding = 'LATIN1'", "SET statement_timeout = 'soon'"]
        {
            assert!(action(sql).is_err(), "{sql}");
        }
        assert!(action("COPY launch TO STDOUT").is_err());
    }
}

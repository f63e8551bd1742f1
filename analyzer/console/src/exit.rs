//! Exit codes, and the failure that carries one from a command to `main`.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use stallmap_schema::text::in_line;

/// The command succeeded.
pub const OK: u8 = 0;
/// `check` found violations.
pub const VIOLATIONS: u8 = 1;
/// `id` found different captures.
pub const DIFFERENT: u8 = 1;
/// The command line, or a name given on it, is wrong.
pub const USAGE: u8 = 2;
/// A capture cannot be opened: missing, truncated, unrecognized, damaged, or of a newer version.
pub const CAPTURE: u8 = 3;
/// A query is wrong or failed while running.
pub const QUERY: u8 = 4;
/// A file that is not a capture cannot be read, or output cannot be written.
pub const IO: u8 = 5;
/// A failing condition of `diff` holds.
pub const GATE: u8 = 6;
/// The captures cannot be compared.
pub const NOT_COMPARABLE: u8 = 7;

/// The exit codes as every `--help` shows them.
pub const HELP: &str = "\
Exit codes:
  0  success
  1  check found violations, or id found different captures
  2  the command line, or a name given on it, is wrong
  3  a capture cannot be opened: missing, truncated, unrecognized, damaged, or of a newer version
  4  a query is wrong or failed while running
  5  a file cannot be read, or output cannot be written
  6  a condition of diff --fail-if or --fail-if-rows holds
  7  the captures cannot be compared by this metric";

/// Reason why a command ended, with its exit code and a recommended action.
#[derive(Debug)]
pub struct CommandFailure {
    code: u8,
    error: anyhow::Error,
    /// The location of the error, on separate lines.
    excerpt: Option<String>,
    hint: Option<String>,
}

/// Result of a command: an exit code, or the failure.
pub type Outcome<T = u8> = Result<T, CommandFailure>;

impl CommandFailure {
    /// A failure with a code of this file.
    pub fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into(), excerpt: None, hint: None }
    }

    /// A failure with a message of stallmap's.
    pub fn message(code: u8, message: impl fmt::Display) -> Self {
        Self::new(code, anyhow::anyhow!("{message}"))
    }

    /// A failure to write output or to read a file that is not a capture.
    pub fn io(error: impl Into<anyhow::Error>, context: impl fmt::Display) -> Self {
        Self::new(IO, error.into().context(context.to_string()))
    }

    /// The end of work by its time.
    pub fn over_time(noun: &str, longest: Duration) -> Self {
        let hint = "filter by one kernel_id, function_id or tensor_id, or raise --timeout";
        Self::message(QUERY, format!("the {noun} ran longer than {} s", longest.as_secs_f64()))
            .hint(hint.to_owned())
    }

    /// The same with a hint, if any.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().or(self.hint);
        self
    }

    /// The same with an excerpt of the statement below it.
    #[must_use]
    pub fn excerpt(mut self, excerpt: Option<String>) -> Self {
        self.excerpt = excerpt;
        self
    }

    /// The error and its causes in one line.
    pub fn reason(&self) -> String {
        chain(&self.error)
    }

    /// The location of the error, on separate lines.
    pub fn excerpt_text(&self) -> Option<&str> {
        self.excerpt.as_deref()
    }

    /// The recommended action.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// True if the reader of standard output closed it, which is not a failure.
    pub fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }

    /// The code of this file that it carries.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The exit code for the operating system.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.is_broken_pipe() { OK } else { self.code })
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.reason())?;
        self.excerpt.iter().try_for_each(|excerpt| write!(f, "\n{excerpt}"))?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

/// The causes in one line, without those that repeat the end of the text before them.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    in_line(text.trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_error_causes_and_hint() {
        let failure = CommandFailure::io(std::io::Error::other("disk on fire"), "write `out.csv`")
            .hint("use another disk".to_owned());
        assert_eq!(failure.to_string(), "error: write `out.csv`: disk on fire\nhint: use another disk");
    }

    #[test]
    fn a_name_begins_no_line() {
        let failure = CommandFailure::message(IO, "`a\nb.stallmap: ok` exists");
        assert_eq!(failure.to_string(), "error: `a␊b.stallmap: ok` exists");
    }

    #[test]
    fn broken_pipe_is_success() {
        let failure =
            CommandFailure::io(std::io::Error::from(std::io::ErrorKind::BrokenPipe), "write output");
        assert!(failure.is_broken_pipe());
        assert_eq!(failure.exit_code(), ExitCode::from(OK));
    }
}

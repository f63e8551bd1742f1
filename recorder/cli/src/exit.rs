//! Exit codes, with the report of failures.

use std::fmt::Display;
use std::process::{ExitCode, ExitStatus};

use crate::message;

/// The program ran, but the capture could not be written. Its rows remain in the recording's folder.
pub(crate) const NOT_WRITTEN: u8 = 124;
/// The program was not run: wrong options, an output that exists or cannot be written.
pub(crate) const NOT_STARTED: u8 = 125;
/// The program could not be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// `doctor` found something that keeps this machine from recording both sides.
pub(crate) const CANNOT_RECORD: u8 = 1;

/// The exit code where the capture could not be written: that of the program, if it failed itself.
pub(crate) fn after(program_code: u8) -> u8 {
    if program_code == 0 { NOT_WRITTEN } else { program_code }
}

/// A failure of the recorder itself: the error, a hint, the exit code.
#[derive(Debug)]
pub(crate) struct RecorderFailure {
    code: u8,
    error: anyhow::Error,
    hints: Vec<String>,
}

impl RecorderFailure {
    /// The failure before the program ran.
    pub(crate) fn before(error: anyhow::Error) -> Self {
        Self::new(NOT_STARTED, error)
    }

    /// The failure after the program ran.
    pub(crate) fn not_written(error: anyhow::Error) -> Self {
        Self::new(NOT_WRITTEN, error)
    }

    /// The failure with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// The failure with exit code `code`.
    pub(crate) fn new(code: u8, error: anyhow::Error) -> Self {
        Self { code, error, hints: Vec::new() }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// The error with its causes, but for those that it names already.
    fn chain(&self) -> String {
        self.error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
            "" => cause,
            _ if text.contains(&cause) => text,
            _ => format!("{text}: {cause}"),
        })
    }

    /// Prints the failure as something that does not end the work.
    pub(crate) fn warn(&self, what: impl Display) {
        message::warning(format_args!("{what}: {}", self.chain()));
        self.hints.iter().for_each(message::hint);
    }

    /// Prints the failure. Gives its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        message::error(self.chain());
        self.hints.iter().for_each(message::hint);
        ExitCode::from(self.code)
    }
}

/// Prints help, the version, or the error of the command line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is not an error.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(NOT_STARTED) } else { ExitCode::SUCCESS }
}

/// The exit code that says the same as `status`: the program's own, or 128 + signal.
pub(crate) fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(u8::MAX)
}

//! The only module that prints: rows to standard output, messages to standard error.

use std::fmt::Display;
use std::io;

/// Prints a message.
pub(crate) fn note(message: impl Display) {
    eprintln!("{message}");
}

/// The destination of rows.
pub(crate) fn rows() -> io::Stdout {
    io::stdout()
}

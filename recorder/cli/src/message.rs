//! Messages to the user on stderr, each line with the command's name.

use std::fmt::Display;

use stallmap_schema::text::printable;

use crate::args::MessageVerbosity;

/// Prints messages up to the verbosity that the user chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessagePrinter(pub MessageVerbosity);

impl MessagePrinter {
    /// A result.
    pub(crate) fn result(self, text: impl Display) {
        if !self.0.quiet {
            line(&text);
        }
    }

    /// A step, for those who want to follow.
    pub(crate) fn step(self, text: impl Display) {
        if self.0.verbose {
            line(&text);
        }
    }
}

/// Something that is not as it should be, while work goes on.
pub(crate) fn warning(text: impl Display) {
    line(&format_args!("warning: {text}"));
}

/// Something that ends the work.
pub(crate) fn error(text: impl Display) {
    line(&format_args!("error: {text}"));
}

/// An action that follows from the line before.
pub(crate) fn hint(text: impl Display) {
    line(&format_args!("hint: {text}"));
}

/// A line of its own, even if the program's output did not end with one. A closed stderr is not an error.
fn line(text: &dyn Display) {
    use std::io::Write as _;
    let text = text.to_string();
    drop(writeln!(std::io::stderr().lock(), "stallmap-record: {}", printable(&text)));
}

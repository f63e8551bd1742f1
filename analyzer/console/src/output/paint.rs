//! Colour: highlighted roles, and the choice to use colour at all.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ColorChoice;

/// Role of a piece of text, for colouring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    /// A heading.
    Heading,
    /// The names of columns.
    Header,
    /// Less important text: rules, unattributed and aggregated rows, hints.
    Dim,
    /// A loss, a violation.
    Warning,
    /// All is well.
    Good,
    /// An error.
    Error,
    /// A keyword of SQL.
    Keyword,
    /// A literal of SQL.
    Literal,
    /// Nothing special.
    Plain,
}

/// Every sequence that a painted text holds.
pub(super) const SEQUENCES: [&str; 8] =
    ["\x1b[0m", "\x1b[1m", "\x1b[1;36m", "\x1b[2m", "\x1b[1;33m", "\x1b[1;31m", "\x1b[34m", "\x1b[32m"];

impl TextRole {
    /// The parameters of the terminal's SGR sequence.
    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Header => "1;36",
            Self::Dim => "2",
            Self::Warning => "1;33",
            Self::Error => "1;31",
            Self::Keyword => "34",
            Self::Good | Self::Literal => "32",
            Self::Plain => "",
        }
    }
}

/// The choice on the command line.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Makes the choice for all output. The first one counts.
pub fn choose(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// Use of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextPaint(bool);

impl TextPaint {
    /// Never coloured.
    pub const PLAIN: Self = Self(false);

    /// Always coloured.
    #[cfg(test)]
    pub(super) const ALWAYS: Self = Self(true);

    /// True if texts are coloured.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// Coloured as the command line says. By default on a terminal that can, unless `NO_COLOR` is set
    /// (<https://no-color.org>), or where `CLICOLOR_FORCE` is (<https://bixense.com/clicolors>).
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_forced =
            || std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let is_dumb = || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self(match CHOICE.get() {
            Some(ColorChoice::Always) => true,
            Some(ColorChoice::Never) => false,
            _ => !is_set("NO_COLOR") && (is_forced() || stream.is_terminal() && !is_dumb()),
        })
    }

    /// The text in its role's colour.
    pub fn text(self, role: TextRole, text: &str) -> String {
        if !self.0 || role == TextRole::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", role.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(TextPaint::PLAIN.text(TextRole::Warning, "lost"), "lost");
        assert_eq!(TextPaint(true).text(TextRole::Warning, "lost"), "\x1b[1;33mlost\x1b[0m");
    }

    #[test]
    fn every_sequence_is_listed() {
        use TextRole::{Dim, Error, Good, Header, Heading, Keyword, Literal, Warning};
        for role in [Heading, Header, Dim, Warning, Good, Error, Keyword, Literal] {
            let text = TextPaint(true).text(role, "x");
            let (begin, end) = text.split_once('x').unwrap();
            assert!(SEQUENCES.contains(&begin) && SEQUENCES.contains(&end), "{role:?}");
        }
    }
}

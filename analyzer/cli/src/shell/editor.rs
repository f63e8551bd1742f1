//! The line editor: lines until a semicolon, colour, completion.

use std::borrow::Cow;
use std::io;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use stallmap::lexer::{self, TokenKind};

use super::{RECORDS, complete, dot};
use stallmap_console::names::SessionNames;
use stallmap_console::output::paint::{TextPaint, TextRole};

/// The prompt of the first line.
pub(super) const PROMPT: &str = "stallmap> ";
/// The prompt of further lines of a statement.
pub(super) const CONTINUED: &str = "     ...> ";

/// An editor with the names of a session.
pub(super) fn editor(names: SessionNames) -> rustyline::Result<Editor<LineAssistant, FileHistory>> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(10_000)?
        .build();
    let mut editor = Editor::with_config(config)?;
    let paint = TextPaint::for_stream(&io::stdout());
    editor.set_helper(Some(LineAssistant { names, above: String::new(), paint }));
    Ok(editor)
}

/// True if a text can be run: a dot-command, one of another shell, nothing, or statements up to a semicolon or `\G`.
pub(super) fn is_complete(text: &str) -> bool {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.starts_with(['.', '\\']) || dot::is_alias(trimmed) {
        return true;
    }
    if let Some(statement) = trimmed.strip_suffix(RECORDS) {
        return !lexer::tokens(statement).any(|token| token.is_open);
    }
    let significant =
        |token: &lexer::SqlToken<'_>| !matches!(token.kind, TokenKind::Space | TokenKind::Comment);
    let last = lexer::tokens(trimmed).filter(significant).last();
    let is_open = lexer::tokens(trimmed).any(|token| token.is_open);
    !is_open && last.is_none_or(|token| token.text == ";" && token.kind == TokenKind::Other)
}

/// Completes and colours lines.
pub(super) struct LineAssistant {
    names: SessionNames,
    /// The lines of the statement above.
    above: String,
    paint: TextPaint,
}

impl LineAssistant {
    /// Replaces the known names.
    pub(super) fn learn(&mut self, names: &SessionNames) {
        self.names.clone_from(names);
    }

    /// Sets the lines of the statement above the next one.
    pub(super) fn continue_below(&mut self, above: &str) {
        above.clone_into(&mut self.above);
    }
}

impl Helper for LineAssistant {}

impl Hinter for LineAssistant {
    type Hint = String;
}

impl Completer for LineAssistant {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let whole = format!("{}{line}", self.above);
        let (start, found) = complete::complete(&self.names, &whole, self.above.len() + at);
        // What is completed is part of this line.
        Ok((start.saturating_sub(self.above.len()), found))
    }
}

impl Validator for LineAssistant {}

impl Highlighter for LineAssistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let paint = |token: lexer::SqlToken<'_>| {
            let role = match token.kind {
                TokenKind::Word if complete::is_keyword(token.text) => TextRole::Keyword,
                TokenKind::Literal => TextRole::Literal,
                TokenKind::Comment => TextRole::Dim,
                _ => TextRole::Plain,
            };
            self.paint.text(role, token.text)
        };
        Cow::Owned(lexer::tokens(line).map(paint).collect())
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(self.paint.text(TextRole::Heading, prompt))
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_ends_a_statement() {
        for text in [
            "",
            "  ",
            ".help",
            "SELECT 1;",
            "SELECT 1; -- done",
            "SELECT 1;\nSELECT 2;",
            "-- only a comment",
            "\\d",
            "help",
            "SELECT 1\\G",
        ] {
            assert!(is_complete(text), "{text}");
        }
        for text in
            ["SELECT 1", "SELECT '\\G", "SELECT ';", "SELECT 1 -- ;", "SELECT 1; SELECT 2", "/* open ;"]
        {
            assert!(!is_complete(text), "{text}");
        }
    }
}

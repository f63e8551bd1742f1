//! The line editor: lines until a semicolon, colour, completion.

use std::borrow::Cow;
use std::io;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use stallmap::lexer::{self, Kind};

use super::complete;
use stallmap_console::names::Names;
use stallmap_console::output::paint::{Paint, Role};

/// The prompt of the first line.
pub(super) const PROMPT: &str = "stallmap> ";

/// An editor with the names of a session.
pub(super) fn editor(names: Names) -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(10_000)?
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant { names, paint: Paint::for_stream(&io::stdout()) }));
    Ok(editor)
}

/// True if a text can be run: a dot-command, nothing, or statements up to a semicolon.
pub(super) fn is_complete(text: &str) -> bool {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.starts_with('.') {
        return true;
    }
    let significant = |token: &lexer::Token<'_>| !matches!(token.kind, Kind::Space | Kind::Comment);
    let last = lexer::tokens(trimmed).filter(significant).last();
    let is_open = lexer::tokens(trimmed).any(|token| token.is_open);
    !is_open && last.is_none_or(|token| token.text == ";" && token.kind == Kind::Other)
}

/// Completes, colours and validates lines.
pub(super) struct Assistant {
    names: Names,
    paint: Paint,
}

impl Assistant {
    /// Replaces the known names.
    pub(super) fn learn(&mut self, names: &Names) {
        self.names.clone_from(names);
    }
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete::complete(&self.names, line, at))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        // Commands of other shells need no semicolon here either.
        let text = context.input().trim();
        let is_complete = is_complete(text) || super::dot::is_alias(text);
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let paint = |token: lexer::Token<'_>| {
            let role = match token.kind {
                Kind::Word if complete::is_keyword(token.text) => Role::Keyword,
                Kind::Literal => Role::Literal,
                Kind::Comment => Role::Dim,
                _ => Role::Plain,
            };
            self.paint.text(role, token.text)
        };
        Cow::Owned(lexer::tokens(line).map(paint).collect())
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(self.paint.text(Role::Heading, prompt))
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
        for text in
            ["", "  ", ".help", "SELECT 1;", "SELECT 1; -- done", "SELECT 1;\nSELECT 2;", "-- only a comment"]
        {
            assert!(is_complete(text), "{text}");
        }
        for text in ["SELECT 1", "SELECT ';", "SELECT 1 -- ;", "SELECT 1; SELECT 2", "/* open ;"] {
            assert!(!is_complete(text), "{text}");
        }
    }
}

//! The statements of a text.

use crate::lexer::{self, TokenKind};

/// The statements of a text, without semicolons and without comment-only ones.
pub fn split(text: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let (mut start, mut is_empty) = (0, true);
    for token in lexer::tokens(text) {
        if token.text == ";" && token.kind == TokenKind::Other {
            if !is_empty {
                statements.push(text[start..token.start].trim());
            }
            (start, is_empty) = (token.start + 1, true);
        } else if !matches!(token.kind, TokenKind::Space | TokenKind::Comment) {
            is_empty = false;
        }
    }
    if !is_empty {
        statements.push(text[start..].trim());
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split(text), expected);
    }

    #[test]
    fn semicolons_end_statements() {
        check("SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]);
        check(" ;; SELECT 1 ;\n-- done\n", &["SELECT 1"]);
        check("", &[]);
    }

    #[test]
    fn semicolons_in_text_and_comments_do_not() {
        check(
            "SELECT ';' AS \"a;b\" -- c;d\n; SELECT /* ; */ 2",
            &["SELECT ';' AS \"a;b\" -- c;d", "SELECT /* ; */ 2"],
        );
    }
}

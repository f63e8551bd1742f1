//! A minimal SQL lexer: finds the ends of statements, for highlighting and completion.

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or a name without quotes.
    Word,
    /// A string in single quotes, or a number.
    Literal,
    /// A name in double quotes.
    Quoted,
    /// A comment.
    Comment,
    /// White space.
    Space,
    /// One character of punctuation.
    Other,
}

/// A piece of SQL text. The tokens of a text, concatenated, are the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlToken<'a> {
    /// Its kind.
    pub kind: TokenKind,
    /// Its text.
    pub text: &'a str,
    /// Start, in bytes.
    pub start: usize,
    /// True if its end is missing: an unclosed quote or comment.
    pub is_open: bool,
}

/// The tokens of a text.
pub fn tokens(text: &str) -> impl Iterator<Item = SqlToken<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &text[start..];
        let (kind, length, is_open) = next(rest)?;
        let token = SqlToken { kind, text: &rest[..length], start, is_open };
        start += length;
        Some(token)
    })
}

/// A statement without comments, and with one space in place of several: DataFusion's parser makes a token of each. Its
/// errors name places in the shorter text.
pub fn compact(sql: &str) -> String {
    let mut compact = String::with_capacity(sql.len());
    for token in tokens(sql) {
        match token.kind {
            TokenKind::Comment | TokenKind::Space if compact.ends_with(' ') => {}
            TokenKind::Comment | TokenKind::Space => compact.push(' '),
            _ => compact.push_str(token.text),
        }
    }
    compact
}

/// Kind, bytes and openness of the first token.
fn next(rest: &str) -> Option<(TokenKind, usize, bool)> {
    let first = rest.chars().next()?;
    let run = |is_part: fn(char) -> bool| rest.find(|char| !is_part(char)).unwrap_or(rest.len());
    Some(match first {
        _ if rest.starts_with("--") => (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len()), false),
        _ if rest.starts_with("/*") => block_comment(rest),
        '\'' => quoted(rest, '\'', TokenKind::Literal),
        '"' => quoted(rest, '"', TokenKind::Quoted),
        _ if first.is_whitespace() => (TokenKind::Space, run(char::is_whitespace), false),
        _ if first.is_ascii_digit() => {
            (TokenKind::Literal, run(|char| char.is_alphanumeric() || char == '.'), false)
        }
        _ if is_word(first) => (TokenKind::Word, run(is_word), false),
        _ => (TokenKind::Other, first.len_utf8(), false),
    })
}

/// True if a character can occur in a name without quotes.
pub fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// A doubled quote inside represents one.
fn quoted(rest: &str, quote: char, kind: TokenKind) -> (TokenKind, usize, bool) {
    let mut from = 1;
    while let Some(at) = rest[from..].find(quote) {
        let end = from + at + 1;
        if !rest[end..].starts_with(quote) {
            return (kind, end, false);
        }
        from = end + 1;
    }
    (kind, rest.len(), true)
}

/// Block comments nest.
fn block_comment(rest: &str) -> (TokenKind, usize, bool) {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let here = &rest[at..];
        let step = if here.starts_with("/*") {
            depth += 1;
            2
        } else if here.starts_with("*/") {
            depth -= 1;
            2
        } else {
            here.chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            return (TokenKind::Comment, at, false);
        }
    }
    (TokenKind::Comment, rest.len(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(TokenKind, &str)]) {
        let found: Vec<_> = tokens(text).map(|token| (token.kind, token.text)).collect();
        assert_eq!(found, expected);
        assert_eq!(tokens(text).map(|token| token.text).collect::<String>(), text);
    }

    #[test]
    fn words_literals_and_quotes() {
        check(
            "a1 'it''s' \"x\"\"y\" 0x1f;",
            &[
                (TokenKind::Word, "a1"),
                (TokenKind::Space, " "),
                (TokenKind::Literal, "'it''s'"),
                (TokenKind::Space, " "),
                (TokenKind::Quoted, "\"x\"\"y\""),
                (TokenKind::Space, " "),
                (TokenKind::Literal, "0x1f"),
                (TokenKind::Other, ";"),
            ],
        );
    }

    #[test]
    fn compact_statements_have_no_comments() {
        let sql = "SELECT  'a  -- b',\n  -- text\n  \"x  y\" /* more */ - -1\nFROM t -- end";
        assert_eq!(compact(sql), "SELECT 'a  -- b', \"x  y\" - -1 FROM t ");
    }

    #[test]
    fn comments_nest_and_end() {
        check(
            "/* a /* b */ c */-- d\ne",
            &[
                (TokenKind::Comment, "/* a /* b */ c */"),
                (TokenKind::Comment, "-- d"),
                (TokenKind::Space, "\n"),
                (TokenKind::Word, "e"),
            ],
        );
    }

    #[test]
    fn what_is_not_closed_is_open() {
        for text in ["'abc", "\"abc", "/* abc", "'it''", "/* é"] {
            assert!(tokens(text).all(|token| token.is_open), "{text}");
        }
        assert!(tokens("'é'").all(|token| !token.is_open));
    }
}

//! Location of an error in a statement: its line, with a caret below.

use stallmap::lexer::{self, SqlToken, TokenKind};

/// Maximum columns of a line.
const WIDTH: usize = 100;

/// The line of a location (line and column from 1), and carets below it, as many as the word is long.
pub fn at(sql: &str, line: usize, column: usize) -> Option<String> {
    let text = sql.lines().nth(line.checked_sub(1)?)?;
    let start = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(column.checked_sub(1)?)?;
    let word = lexer::tokens(&text[start..]).next().filter(|token| token.kind != TokenKind::Space);
    Some(draw(text, start, word.map_or(1, |word| word.text.chars().count())))
}

/// The first occurrence of a name. With `is_call`, only before a parenthesis.
pub fn of_name(sql: &str, name: &str, is_call: bool) -> Option<String> {
    let tokens: Vec<_> = lexer::tokens(sql).collect();
    let unquoted = |text: &str| text.trim_matches('"').to_owned();
    let found = tokens.iter().enumerate().find(|(index, token)| {
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::Quoted)
            && unquoted(token.text).eq_ignore_ascii_case(name);
        let next = tokens.iter().skip(index + 1).find(|next| next.kind != TokenKind::Space);
        is_name && (!is_call || next.is_some_and(|next| next.text == "("))
    });
    let (_, token) = found?;
    place(sql, token.start, token.text.chars().count())
}

/// The name before the first comparison with a number without quotes.
pub fn compared_with_number(sql: &str) -> Option<&str> {
    let is_solid = |token: &SqlToken<'_>| !matches!(token.kind, TokenKind::Space | TokenKind::Comment);
    let tokens: Vec<_> = lexer::tokens(sql).filter(is_solid).collect();
    let is_comparison = |token: &SqlToken<'_>| matches!(token.text, "=" | "<" | ">" | "!");
    let is_number = |token: &SqlToken<'_>| token.kind == TokenKind::Literal && !token.text.starts_with('\'');
    tokens.iter().enumerate().find_map(|(index, name)| {
        let rest = &tokens[index + 1..];
        let signs = rest.iter().take_while(|token| is_comparison(token)).count();
        let is_meant = name.kind == TokenKind::Word && signs > 0 && rest.get(signs).is_some_and(is_number);
        is_meant.then_some(name.text)
    })
}

/// The end of a statement.
pub fn end(sql: &str) -> Option<String> {
    let sql = sql.trim_end();
    place(sql, sql.len(), 1)
}

/// The line of the bytes at an offset, with carets below.
pub fn place(sql: &str, start: usize, length: usize) -> Option<String> {
    let begin = sql.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
    let line = sql.get(begin..)?.lines().next().unwrap_or_default();
    Some(draw(line, start - begin, length))
}

/// A line with carets below `length` characters from a byte offset. Long lines are cut around them.
fn draw(line: &str, start: usize, length: usize) -> String {
    let plain =
        |text: &str| text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect::<String>();
    let (before, rest) = line.split_at_checked(start).unwrap_or((line, ""));
    let (before, rest): (Vec<char>, Vec<char>) =
        (plain(before).chars().collect(), plain(rest).chars().collect());
    let cut = before.len().saturating_sub(WIDTH / 2);
    let (head, lead) = if cut > 0 { ("…", cut + 1) } else { ("", 0) };
    let shown: String = head.chars().chain(before.iter().skip(lead).copied()).collect();
    let tail: String = rest.iter().take(WIDTH / 2).collect();
    let more = if rest.len() > WIDTH / 2 { "…" } else { "" };
    let carets = "^".repeat(length.clamp(1, WIDTH / 2));
    format!("  {shown}{tail}{more}\n  {}{carets}", " ".repeat(shown.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_in_its_line() {
        assert_eq!(at("SELECT 1\nFROM whre", 2, 6).unwrap(), "  FROM whre\n       ^^^^");
        assert_eq!(
            of_name("SELECT x, 'kernel', kernel FROM l", "kernel", false).unwrap(),
            "  SELECT x, 'kernel', kernel FROM l\n                      ^^^^^^"
        );
        assert_eq!(of_name("SELECT f, f (1)", "f", true).unwrap(), "  SELECT f, f (1)\n            ^");
        assert_eq!(end("SELECT (1\n").unwrap(), "  SELECT (1\n           ^");
    }

    #[test]
    fn a_number_is_compared() {
        let sql = "SELECT 1 FROM t WHERE a = '1' AND b.c >= -- why\n 3 AND d = 4";
        assert_eq!(compared_with_number(sql), Some("c"));
        assert_eq!(compared_with_number("SELECT a = b, c IN (1), 2 = 3"), None);
    }

    #[test]
    fn no_place_is_no_failure() {
        assert_eq!(at("SELECT 1", 3, 1), None);
        assert_eq!(at("SELECT 1", 0, 0), None);
        assert_eq!(at("SELECT 1", 1, 99), None);
        assert_eq!(of_name("SELECT 1", "x", false), None);
        assert_eq!(end("").unwrap(), "  \n  ^");
        assert_eq!(at("é\tx", 1, 3).unwrap(), "  é x\n    ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = format!("SELECT {} AS wrong, {}", "a + ".repeat(100), "b + ".repeat(100));
        let shown = of_name(&line, "wrong", false).unwrap();
        let (text, carets) = shown.split_once('\n').unwrap();
        assert!(text.chars().count() <= WIDTH + 4, "{shown}");
        let at = carets.find('^').unwrap();
        assert_eq!(text.chars().skip(at).take(5).collect::<String>(), "wrong");
    }
}

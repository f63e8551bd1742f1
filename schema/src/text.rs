//! The gate for text from captures: characters that a terminal obeys, or that reorder a line, become visible ones.
//!
//! Captures, their names and the names of their files are untrusted. Everything that prints uses this rule.

use std::borrow::Cow;
use std::path::Path;

/// True for a character that steers: all control characters, the controls of bidirectional text, and separators of
/// lines and paragraphs, which some terminals take for line ends.
pub fn steers(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text without characters that steer, except line ends.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, |char| char == '\n')
}

/// A text as a part of a line: without characters that steer, line ends among them.
pub fn in_line(text: &str) -> Cow<'_, str> {
    shown(text, |_| false)
}

/// A path as a part of a line. A file's name may have line ends: what follows one would be a line of its own.
pub fn path(path: &Path) -> String {
    in_line(&path.to_string_lossy()).into_owned()
}

/// The text without characters that steer, except some.
pub fn shown(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let obeyed = |char: char| steers(char) && !stays(char);
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|char| if obeyed(char) { picture(char) } else { char }).collect())
}

/// The visible substitute of a character, such as ␛ for escape.
pub fn picture(char: char) -> char {
    match u32::from(char) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_passes() {
        assert_eq!(printable("a\x1b[31mb\nc\u{9b}\r\t\x7f"), "a␛[31mb\nc\u{fffd}␍␉␡");
        assert_eq!(printable("\u{202e}gnp.exe\u{2066}"), "\u{fffd}gnp.exe\u{fffd}");
        let every = ('\0'..=char::MAX).collect::<String>();
        let left: Vec<char> = printable(&every).chars().filter(|char| steers(*char)).collect();
        assert_eq!(left, ['\n']);
    }

    #[test]
    fn a_path_is_a_part_of_a_line() {
        assert_eq!(path(Path::new("a\nb.stallmap: ok\r\u{2028}")), "a␊b.stallmap: ok␍\u{fffd}");
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(printable("aten::mm 漢字\n"), Cow::Borrowed(_)));
    }
}

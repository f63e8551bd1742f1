//! Text shortened to a width: kernel names lose their middle, paths their beginning.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Which part of a text can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortenSide {
    /// None: numbers and texts that would mislead when cut.
    Never,
    /// The middle: names that differ at both ends.
    Middle,
    /// The beginning: paths with a line number.
    Start,
    /// The end: prose.
    End,
}

/// Columns of a text on a terminal.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text in up to `limit` columns, with an ellipsis for the removed part.
pub fn shorten(text: &str, limit: usize, how: ShortenSide) -> String {
    if width(text) <= limit || how == ShortenSide::Never {
        return text.to_owned();
    }
    let room = limit.saturating_sub(1);
    let (head, tail) = match how {
        ShortenSide::Start => (0, room),
        ShortenSide::End | ShortenSide::Never => (room, 0),
        ShortenSide::Middle => (room - room / 2, room / 2),
    };
    format!(
        "{}…{}",
        take(text.chars(), head),
        take(text.chars().rev(), tail).chars().rev().collect::<String>()
    )
}

/// A text in `limit` columns, whose cut middle is counted. The limit leaves room for the count.
pub fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let all = text.chars().count();
    let mark = |cut: usize| format!("…{} characters…", super::number::grouped(cut as i128));
    let room = limit.saturating_sub(width(&mark(all)));
    let head = take(text.chars(), room - room / 2);
    let tail = take(text.chars().rev(), room / 2);
    let left = all.saturating_sub(head.chars().count() + tail.chars().count());
    format!("{head}{}{}", mark(left), tail.chars().rev().collect::<String>())
}

fn take(chars: impl Iterator<Item = char>, limit: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|&char| {
            used += char.width().unwrap_or(0);
            used <= limit
        })
        .collect()
}

/// The text in lines of up to `limit` columns, broken between words. A longer word has its own line.
pub fn wrap(text: &str, limit: usize) -> String {
    let (mut lines, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let needed = width(word);
        if used > 0 && used + 1 + needed > limit {
            lines.push('\n');
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += needed;
    }
    lines
}

/// The text without characters that steer a terminal, except line ends: captures are untrusted.
pub fn printable(text: &str) -> String {
    stallmap_schema::text::printable(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, limit: usize, how: ShortenSide, expected: &str) {
        let short = shorten(text, limit, how);
        assert_eq!(short, expected);
        assert!(width(&short) <= limit.max(width(text).min(limit)), "{short} is wider than {limit}");
    }

    #[test]
    fn names_lose_their_middle() {
        check("ampere_sgemm_128x64_tn", 11, ShortenSide::Middle, "amper…64_tn");
        check("short", 11, ShortenSide::Middle, "short");
    }

    #[test]
    fn paths_lose_their_beginning() {
        check("torch/nn/functional.py:12", 10, ShortenSide::Start, "…nal.py:12");
    }

    #[test]
    fn wide_characters_count_twice() {
        check("漢字漢字漢字", 7, ShortenSide::End, "漢字漢…");
    }

    #[test]
    fn nothing_fits_in_nothing() {
        assert_eq!(shorten("text", 1, ShortenSide::Middle), "…");
        assert_eq!(shorten("text", 0, ShortenSide::Start), "…");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrap("it waits for a load", 9), "it waits\nfor a\nload");
        assert_eq!(wrap("a incomprehensibilities b", 6), "a\nincomprehensibilities\nb");
        assert_eq!(wrap("short", 99), "short");
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(printable("a\x1b[31mb\nc\u{9b}"), "a␛[31mb\nc\u{fffd}");
    }
}

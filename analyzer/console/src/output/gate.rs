//! The gate before the terminal: whatever a capture put into a text, only stallmap's own colours steer.

use std::io::{self, Write};

use stallmap_schema::text::{picture, steers};

use super::paint::SEQUENCES;

/// A sink that passes text on without characters that steer, except line ends, tabs and colours.
#[derive(Debug)]
pub struct ControlFilter<W: Write> {
    sink: W,
    /// True if colours pass: the sink is a terminal that shows them.
    colours: bool,
    /// Bytes that may be the beginning of a character or of a colour.
    held: Vec<u8>,
}

impl<W: Write> ControlFilter<W> {
    /// A gate before a sink.
    pub fn new(sink: W, colours: bool) -> Self {
        Self { sink, colours, held: Vec::new() }
    }

    /// Passes on what is complete, or all of it at the end.
    fn pass(&mut self, is_end: bool) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.held);
        let keep = if is_end { 0 } else { incomplete(&bytes) };
        self.held = bytes.split_off(bytes.len() - keep);
        let text = String::from_utf8_lossy(&bytes);
        self.sink.write_all(shown(&text, self.colours).as_bytes())
    }
}

impl<W: Write> Write for ControlFilter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        self.pass(false).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(true)?;
        self.sink.flush()
    }
}

impl<W: Write> Drop for ControlFilter<W> {
    fn drop(&mut self) {
        // A failure was reported by the flush before, or cannot be reported.
        drop(self.pass(true));
    }
}

/// A text as the terminal may have it.
pub fn shown(text: &str, colours: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let colour = SEQUENCES.iter().find(|sequence| colours && rest.starts_with(**sequence));
        if let Some(colour) = colour {
            shown += colour;
            rest = &rest[colour.len()..];
            continue;
        }
        shown.push(if steers(char) && !matches!(char, '\n' | '\t') { picture(char) } else { char });
        rest = &rest[char.len_utf8()..];
    }
    shown
}

/// Bytes at the end that may go on: the beginning of a character, or of a colour.
fn incomplete(bytes: &[u8]) -> usize {
    let longest = SEQUENCES.iter().map(|sequence| sequence.len()).max().unwrap_or(1);
    let tail = bytes.len().saturating_sub(longest);
    let is_open = |start: &usize| {
        let end = &bytes[*start..];
        let is_colour = SEQUENCES
            .iter()
            .any(|sequence| sequence.len() > end.len() && sequence.as_bytes().starts_with(end));
        is_colour
            || std::str::from_utf8(end)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (tail..bytes.len()).find(is_open).map_or(0, |start| bytes.len() - start)
}

#[cfg(test)]
mod tests {
    use super::super::paint::{TextPaint, TextRole};
    use super::*;

    const HOSTILE: &str = "\x1b]0;title\x07\x1b[8mhidden \u{202e}gnp\u{2066}\u{9b}2J\r\x7f\tend\n";

    #[test]
    fn nothing_of_a_capture_steers() {
        let shown = shown(HOSTILE, true);
        assert_eq!(shown, "␛]0;title␇␛[8mhidden \u{fffd}gnp\u{fffd}\u{fffd}2J␍␡\tend\n");
    }

    #[test]
    fn own_colours_pass_where_they_are_wanted() {
        let text = TextPaint::ALWAYS.text(TextRole::Error, "error:");
        assert_eq!(shown(&text, true), text);
        assert!(!shown(&text, false).contains('\x1b'));
    }

    #[test]
    fn pieces_of_any_size_give_the_same() {
        let text = format!("{}{HOSTILE}漢字", TextPaint::ALWAYS.text(TextRole::Header, "é"));
        for size in 1..12 {
            let mut out = Vec::new();
            let mut gate = ControlFilter::new(&mut out, true);
            text.as_bytes().chunks(size).for_each(|piece| gate.write_all(piece).unwrap());
            drop(gate);
            assert_eq!(String::from_utf8(out).unwrap(), shown(&text, true), "pieces of {size} bytes");
        }
    }
}

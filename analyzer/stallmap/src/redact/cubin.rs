//! Cubins without information about their build: every byte stays at its offset, and code, symbols and lines can be
//! read as before.
//!
//! Removed: folders in line tables and in strings among the data, PTX and its comments, debug information, the
//! compiler's notes with its options. Names of functions on request. Retained: code, line numbers, base names of files.

mod elf;
mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use self::elf::{Section, sections, symbols};
use super::words::Words;

/// Shorter texts among data are taken for data.
const SHORTEST_TEXT: usize = 4;

/// Findings in a cubin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Names of symbols, old and new, if replaced.
    pub(super) names: BTreeMap<String, String>,
    /// Bytes that were replaced by zeros.
    pub(super) zeroed_bytes: u64,
}

/// Replaces secrets in a cubin. An error is the reason why it cannot be read.
pub(super) fn redact(bytes: &mut [u8], words: &mut Words, with_symbols: bool) -> Result<Summary, String> {
    let sections = sections(bytes)?;
    let mut tally = Summary::default();
    for section in &sections {
        let Some(part) = bytes.get_mut(section.bytes.clone()) else { continue };
        match treatment(section, with_symbols) {
            Treatment::Stays => {}
            Treatment::Zeroed => tally.zeroed_bytes += zero(part),
            Treatment::Lines => {
                if line::redact(part, words).is_err() {
                    tally.zeroed_bytes += zero(part);
                }
            }
            Treatment::Texts => redact_texts(part, words),
        }
    }
    if with_symbols {
        tally.names = rename(bytes, &sections, words)?;
    }
    Ok(tally)
}

/// Texts in which secrets are looked for: everything but code and numbers.
pub(super) fn texts(bytes: &[u8]) -> Result<Vec<Range<usize>>, String> {
    let is_text =
        |section: &Section| section.is_string_table() || treatment(section, false) != Treatment::Stays;
    Ok(sections(bytes)?.into_iter().filter(is_text).map(|section| section.bytes).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Stays,
    Zeroed,
    Lines,
    Texts,
}

fn treatment(section: &Section, with_symbols: bool) -> Treatment {
    let name = section.name.as_str();
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    match name {
        ".debug_frame" => Treatment::Stays,
        ".debug_line" | ".nv_debug_line_sass" => Treatment::Lines,
        ".debug_str" if with_symbols => Treatment::Zeroed,
        ".debug_str" | ".debug_line_str" => Treatment::Texts,
        ".comment" | ".note.nv.tkinfo" => Treatment::Zeroed,
        _ if begins(&[".debug_", ".nv_debug", ".nv.merc.debug", ".zdebug"]) => Treatment::Zeroed,
        _ if begins(&[".nv.constant0"]) => Treatment::Stays,
        _ if begins(&[".nv.constant", ".nv.global", ".rodata", ".data"]) => Treatment::Texts,
        _ => Treatment::Stays,
    }
}

fn zero(part: &mut [u8]) -> u64 {
    part.fill(0);
    part.len() as u64
}

/// Replaces paths in zero-terminated texts.
fn redact_texts(part: &mut [u8], words: &mut Words) {
    let mut start = 0;
    while let Some(length) = part.get(start..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) {
        // Data may precede a text: the text begins after the last byte that cannot be part of one.
        let run = &part[start..start + length];
        let data = run.iter().rposition(|byte| !(0x20..0x7f).contains(byte)).map_or(0, |at| at + 1);
        let place = start + data..start + length;
        if place.len() >= SHORTEST_TEXT
            && let Ok(text) = std::str::from_utf8(&part[place.clone()])
            && text.contains('/')
        {
            let replaced = words.path_in_place(text);
            put(part, place, &replaced);
        }
        start += length + 1;
    }
}

/// Replaces a range by a text of the same length.
fn put(part: &mut [u8], place: Range<usize>, text: &str) {
    if let Some(bytes) = part.get_mut(place).filter(|bytes| bytes.len() == text.len()) {
        bytes.copy_from_slice(text.as_bytes());
    }
}

/// Replaces names of functions and variables in every string table, also at the end of a section's name. Returns the
/// old and new names of all symbols.
fn rename(bytes: &mut [u8], sections: &[Section], words: &Words) -> Result<BTreeMap<String, String>, String> {
    let before = symbols(bytes, sections);
    let names: BTreeSet<&str> = before.iter().map(String::as_str).collect();
    for section in sections.iter().filter(|section| section.is_string_table()) {
        let Some(part) = bytes.get_mut(section.bytes.clone()) else { continue };
        let mut start = 0;
        while let Some(length) = part.get(start..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) {
            let text = String::from_utf8_lossy(&part[start..start + length]).into_owned();
            if let Some(name) = named(&text, &names) {
                put(part, start + length - name.len()..start + length, &alias(name, words));
            }
            start += length + 1;
        }
    }
    // Read again: a name may be the suffix of another, whose new suffix it is now.
    let after = symbols(bytes, sections);
    let renamed: BTreeMap<String, String> = before.iter().cloned().zip(after).collect();
    let different: BTreeSet<&String> = renamed.values().collect();
    if different.len() < renamed.len() {
        return Err("two of its names would collide".to_owned());
    }
    Ok(renamed)
}

/// The longest name that a text equals, or ends with after a dot.
fn named<'a>(text: &'a str, names: &BTreeSet<&str>) -> Option<&'a str> {
    let ends = text.match_indices('.').map(|(dot, _)| &text[dot + 1..]);
    std::iter::once(text).chain(ends).find(|end| names.contains(end))
}

/// The name that a symbol gets, as long as it was.
pub(super) fn alias(name: &str, words: &Words) -> String {
    let text = words.letters(name, name.len());
    // A name does not begin with a digit.
    text.replacen(
        |c: char| c.is_ascii_digit(),
        "k",
        usize::from(text.starts_with(|c: char| c.is_ascii_digit())),
    )
}

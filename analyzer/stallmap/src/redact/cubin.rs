//! Cubins without information about their build: every byte stays at its offset, and code, symbols and lines can be
//! read as before.
//!
//! Retained: code, symbols, relocations, the driver's tables, line numbers, base names of files, and data without the
//! texts among it that name places or people. Everything else becomes zeros: PTX and its comments, debug information,
//! the compiler's notes with its options, sections that this release does not know, bytes that no section owns, texts
//! that nothing has for its name. On request names of functions, unknown sections and source files are replaced, and all
//! texts among the data.

mod elf;
mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use self::elf::{ElfSection, sections, symbols};
use super::words::WordRedactor;

/// Shorter texts among data are taken for data.
const SHORTEST_TEXT: usize = 4;
/// Shorter texts without a folder among data are taken for data where all texts are replaced.
const SHORTEST_WORD: usize = 8;

/// Findings in a cubin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CubinFindings {
    /// Names of symbols, old and new, if replaced.
    pub(super) names: BTreeMap<String, String>,
    /// Bytes that were replaced by zeros.
    pub(super) zeroed_bytes: u64,
}

/// Replaces secrets in a cubin. An error is the reason why it cannot be read.
pub(super) fn redact(
    bytes: &mut [u8],
    words: &mut WordRedactor,
    with_symbols: bool,
) -> Result<CubinFindings, String> {
    let sections = sections(bytes)?;
    let mut tally = CubinFindings { zeroed_bytes: zero_gaps(bytes, &sections)?, ..CubinFindings::default() };
    tally.zeroed_bytes += zero_unnamed(bytes, &sections);
    for section in &sections {
        let Some(part) = bytes.get_mut(section.bytes.clone()) else { continue };
        match treatment(section, with_symbols) {
            SectionTreatment::Stays => {}
            SectionTreatment::Zeroed => tally.zeroed_bytes += zero(part),
            SectionTreatment::Lines => {
                if line::redact(part, words).is_err() {
                    tally.zeroed_bytes += zero(part);
                }
            }
            SectionTreatment::Names => redact_texts(part, words, paths),
            SectionTreatment::Texts => {
                let rule = if with_symbols { every_text } else { paths_and_people };
                redact_texts(part, words, rule);
                redact_wide_texts(part, words, rule);
            }
        }
    }
    redact_files(bytes, &sections, words);
    if with_symbols {
        tally.names = rename(bytes, &sections, words)?;
        rename_unknown(bytes, &sections, words);
    }
    Ok(tally)
}

/// Bytes that are neither a header nor part of a section.
fn zero_gaps(bytes: &mut [u8], sections: &[ElfSection]) -> Result<u64, String> {
    let mut used = elf::headers(bytes)?;
    used.extend(sections.iter().map(|section| section.bytes.clone()));
    used.push(bytes.len()..bytes.len());
    used.sort_unstable_by_key(|range| range.start);
    let (mut zeroed, mut end) = (0, 0);
    for range in used {
        if let Some(gap) = bytes.get_mut(end..range.start) {
            zeroed += zero(gap);
        }
        end = end.max(range.end);
    }
    Ok(zeroed)
}

/// Texts of string tables that no symbol and no section has for its name.
fn zero_unnamed(bytes: &mut [u8], sections: &[ElfSection]) -> u64 {
    let mut named: Vec<Range<usize>> =
        elf::names(bytes, sections).into_iter().map(|name| name.bytes).collect();
    named.sort_unstable_by_key(|range| range.start);
    let mut zeroed = 0;
    for table in sections.iter().filter(|section| section.is_string_table()) {
        let mut end = table.bytes.start;
        for range in named.iter().filter(|range| table.bytes.contains(&range.start)) {
            zeroed += bytes.get_mut(end..range.start).map_or(0, zero);
            end = end.max(range.end);
        }
        zeroed += bytes.get_mut(end..table.bytes.end).map_or(0, zero);
    }
    zeroed
}

/// Replaces names of source files as the options say.
fn redact_files(bytes: &mut [u8], sections: &[ElfSection], words: &mut WordRedactor) {
    for name in elf::names(bytes, sections).into_iter().filter(elf::SymbolName::is_file) {
        let text = String::from_utf8_lossy(&bytes[name.bytes.clone()]).into_owned();
        put(bytes, name.bytes, &words.path_in_place(&text));
    }
}

/// Texts in which secrets are looked for: everything but code and numbers.
pub(super) fn texts(bytes: &[u8]) -> Result<Vec<Range<usize>>, String> {
    let is_text = |section: &ElfSection| treatment(section, false) != SectionTreatment::Stays;
    Ok(sections(bytes)?.into_iter().filter(is_text).map(|section| section.bytes).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionTreatment {
    Stays,
    Zeroed,
    Lines,
    /// Names, whose folders go.
    Names,
    /// Data with texts in it.
    Texts,
}

/// Sections of numbers: code, symbols, relocations, the driver's tables.
const NUMBERS: [&str; 13] = [
    ".text",
    ".rel",
    ".nv.info",
    ".nv.callgraph",
    ".nv.compat",
    ".nv.prototype",
    ".nv.rel.action",
    ".nv.resolvedrela",
    ".nv.shared",
    ".nv.uft",
    ".nv.udt",
    ".symtab",
    ".debug_frame",
];

/// Starts of the names that compilers give to other sections.
const COMPILERS: [&str; 5] = [".nv", ".debug_", ".note.nv.", ".comment", ".bss"];

/// The treatment of a section. A list has all that stay.
fn treatment(section: &ElfSection, with_symbols: bool) -> SectionTreatment {
    let name = section.name.as_str();
    let begins = |words: &[&str]| {
        // A function's section has its name behind a dot.
        let rest = |word: &&str| name.strip_prefix(*word);
        words.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with(['.', '_', 'a']))
    };
    match name {
        _ if section.is_string_table() => SectionTreatment::Names,
        ".debug_line" | ".nv_debug_line_sass" => SectionTreatment::Lines,
        ".debug_str" if with_symbols => SectionTreatment::Zeroed,
        ".debug_str" | ".debug_line_str" => SectionTreatment::Texts,
        // Parameters of kernels, which the driver fills.
        _ if name.starts_with(".nv.constant0") => SectionTreatment::Zeroed,
        _ if begins(&NUMBERS) => SectionTreatment::Stays,
        _ if [".nv.constant", ".nv.global", ".rodata", ".data"].iter().any(|word| name.starts_with(word)) => {
            SectionTreatment::Texts
        }
        _ => SectionTreatment::Zeroed,
    }
}

/// Fills with zeros. Returns the number of bytes that were not.
fn zero(part: &mut [u8]) -> u64 {
    let count = part.iter().filter(|byte| **byte != 0).count();
    part.fill(0);
    count as u64
}

/// Replaces what a rule replaces in texts, which end with a zero or with the section.
fn redact_texts(part: &mut [u8], words: &mut WordRedactor, rule: fn(&str, &mut WordRedactor) -> String) {
    let mut start = 0;
    while start < part.len() {
        let run = &part[start..];
        let length = run.iter().position(|byte| *byte == 0).unwrap_or(run.len());
        let range = start + text_start(&run[..length])..start + length;
        let text =
            part.get(range.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
        if let Some(text) = text.filter(|text| text.len() >= SHORTEST_TEXT) {
            put(part, range, &rule(&text, words));
        }
        start += length + 1;
    }
}

/// A text without paths, as long as it was. Names of symbols stay: [`rename`] replaces them.
fn paths(text: &str, words: &mut WordRedactor) -> String {
    if text.contains(['/', '\\']) { words.path_in_place(text) } else { text.to_owned() }
}

fn paths_and_people(text: &str, words: &mut WordRedactor) -> String {
    let text = paths(text, words);
    words.named_in_place(&text)
}

/// A short text may be numbers. A folder in a longer one is a secret, which is searched for elsewhere.
fn every_text(text: &str, words: &mut WordRedactor) -> String {
    let without = paths_and_people(text, words);
    if text.len() < SHORTEST_WORD { without } else { words.letters(text, text.len()) }
}

/// Data may precede a text: the text begins after the last byte that cannot be part of one.
fn text_start(run: &[u8]) -> usize {
    let after =
        |is_data: &dyn Fn(u8) -> bool| run.iter().rposition(|byte| is_data(*byte)).map_or(0, |at| at + 1);
    let control = after(&|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f);
    match std::str::from_utf8(&run[control..]) {
        Ok(_) => control,
        Err(_) => after(&|byte| !(0x20..0x7f).contains(&byte)),
    }
}

/// Replaces what a rule replaces in texts of two bytes a character.
fn redact_wide_texts(part: &mut [u8], words: &mut WordRedactor, rule: fn(&str, &mut WordRedactor) -> String) {
    let is_text = |pair: &[u8]| pair.len() == 2 && pair[1] == 0 && (0x20..0x7f).contains(&pair[0]);
    let mut start = 0;
    while start + 1 < part.len() {
        let count = part[start..].chunks(2).take_while(|pair| is_text(pair)).count();
        let text: String =
            part[start..].iter().step_by(2).take(count).map(|byte| char::from(*byte)).collect();
        if count >= SHORTEST_TEXT {
            // Small numbers look like short texts.
            let new = if count < SHORTEST_WORD { words.named_in_place(&text) } else { rule(&text, words) };
            for (at, letter) in new.bytes().take(count).enumerate() {
                part[start + 2 * at] = letter;
            }
        }
        start += (2 * count).max(1);
    }
}

/// Replaces a range by a text of the same length.
fn put(part: &mut [u8], range: Range<usize>, text: &str) {
    if let Some(bytes) = part.get_mut(range).filter(|bytes| bytes.len() == text.len()) {
        bytes.copy_from_slice(text.as_bytes());
    }
}

/// Replaces names of functions and variables in every string table, also at the end of a section's name. Returns the
/// old and new names of all symbols.
fn rename(
    bytes: &mut [u8],
    sections: &[ElfSection],
    words: &WordRedactor,
) -> Result<BTreeMap<String, String>, String> {
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

/// Replaces names of sections that neither a compiler nor a linker gives.
fn rename_unknown(bytes: &mut [u8], sections: &[ElfSection], words: &WordRedactor) {
    let is_known = |section: &ElfSection| {
        treatment(section, true) != SectionTreatment::Zeroed
            || COMPILERS.iter().any(|start| section.name.starts_with(start))
    };
    let names = elf::section_names(bytes, sections);
    for (section, name) in sections.iter().zip(names).filter(|(section, _)| !is_known(section)) {
        put(bytes, name, &words.letters(&section.name, section.name.len()));
    }
}

/// The longest name that a text equals, or ends with after a dot.
fn named<'a>(text: &'a str, names: &BTreeSet<&str>) -> Option<&'a str> {
    let ends = text.match_indices('.').map(|(dot, _)| &text[dot + 1..]);
    std::iter::once(text).chain(ends).find(|end| names.contains(end))
}

/// The name that a symbol gets, as long as it was.
pub(super) fn alias(name: &str, words: &WordRedactor) -> String {
    let text = words.letters(name, name.len());
    // A name does not begin with a digit.
    text.replacen(
        |c: char| c.is_ascii_digit(),
        "k",
        usize::from(text.starts_with(|c: char| c.is_ascii_digit())),
    )
}

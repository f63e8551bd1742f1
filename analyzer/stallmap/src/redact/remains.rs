//! Verification of the result: every byte is searched for replaced values, as stored and uncompressed.
//!
//! The search cannot turn itself off: what cannot be searched is an error.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::secrecy::{ColumnSecrecy, secrecy};
use stallmap_schema::tables;

use super::change::unpack;
use super::cubin;
use super::words::{WordRedactor, is_word};

/// Shorter secrets occur in compressed bytes at random. Texts are searched for all of them.
const SHORTEST_IN_BYTES: usize = 7;

/// Longer secrets are searched for by their beginning: the memory of a search grows with the bytes of all secrets.
const LONGEST: usize = 256;

/// Searches a complete capture for secrets. An error names the location of a remaining one.
pub(super) fn search(reader: &CaptureReader, words: &WordRedactor) -> Result<(), CaptureError> {
    let refused = |cause: String| CaptureError::Refused {
        thing: "the redacted capture".to_owned(),
        cause: format!("{cause}; nothing was written"),
        path: reader.path().to_owned(),
    };
    let secrets =
        SecretValues::new(words).map_err(|cause| refused(format!("its search cannot begin: {cause}")))?;
    for name in reader.entry_names() {
        if let Some(kind) = secrets.in_entry(reader, name)? {
            return Err(refused(format!("{kind} remains in entry `{name}`")));
        }
    }
    for table in reader.tables() {
        for batch in reader.read_table(&table.name)? {
            let found = secrets.in_batch(&table.name, &batch?);
            let found =
                found.map_err(|cause| refused(format!("`{}` cannot be searched: {cause}", table.name)))?;
            if let Some((kind, column)) = found {
                return Err(refused(format!("{kind} remains in `{}.{column}`", table.name)));
            }
        }
    }
    Ok(())
}

/// Values that must not remain.
struct SecretValues {
    /// Secrets long enough to search in any bytes, also as UTF-16.
    anywhere: AhoCorasick,
    /// Folders and machines, as words.
    folders: AhoCorasick,
    /// Users, as words in any case.
    people: AhoCorasick,
    /// Names of files, code and models, as words where such names are.
    names: AhoCorasick,
}

const FOLDER: &str = "a folder's or a machine's name";
const PERSON: &str = "a user's name, or a word like it,";
const NAME: &str = "a replaced name";

impl SecretValues {
    fn new(words: &WordRedactor) -> Result<Self, String> {
        let people: BTreeSet<&str> = words.people().collect();
        let long = words.folders().chain(people.iter().copied());
        let long = long.filter(|secret| secret.len() >= SHORTEST_IN_BYTES);
        let wide = |secret: &str| secret.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let long: Vec<Vec<u8>> = long.flat_map(|secret| [secret.as_bytes().to_vec(), wide(secret)]).collect();
        Ok(Self {
            anywhere: automaton(long, false)?,
            folders: automaton(words.folders(), false)?,
            people: automaton(people, true)?,
            names: automaton(words.names(), false)?,
        })
    }

    /// The kind of secret in an entry's bytes, as stored and uncompressed.
    fn in_entry(&self, reader: &CaptureReader, name: &str) -> Result<Option<&'static str>, CaptureError> {
        let bytes = reader.entry(name)?;
        if self.anywhere.is_match(&bytes) {
            return Ok(Some(FOLDER));
        }
        if let Some(kind) = self.in_text(name.as_bytes()) {
            return Ok(Some(kind));
        }
        if name == entry::MANIFEST {
            return Ok(self.in_text(&bytes));
        }
        if !entry::is_compressed(name) {
            return Ok(None);
        }
        let wrong = |cause| CaptureError::Refused {
            thing: format!("entry `{name}`"),
            cause: format!("it cannot be searched: {cause}"),
            path: reader.path().to_owned(),
        };
        let content = unpack(&bytes).map_err(wrong)?;
        let texts = cubin::texts(&content).map_err(wrong)?;
        let in_texts =
            texts.into_iter().filter_map(|range| content.get(range)).find_map(|text| self.in_text(text));
        Ok(if self.anywhere.is_match(&content) { Some(FOLDER) } else { in_texts })
    }

    fn in_text(&self, text: &[u8]) -> Option<&'static str> {
        let kinds = [(&self.folders, FOLDER), (&self.people, PERSON)];
        kinds.into_iter().find(|(secrets, _)| has_word(secrets, text)).map(|(_, kind)| kind)
    }

    /// The kind of secret, and its column. Repeated values are checked once.
    fn in_batch(&self, table: &str, batch: &RecordBatch) -> Result<Option<(&'static str, String)>, String> {
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let Some(texts) = texts(array.as_ref()).map_err(|cause| cause.to_string())? else { continue };
            let texts = texts.as_binary::<i32>();
            let distinct: BTreeSet<&[u8]> = texts.iter().flatten().collect();
            let is_named = holds_names(table, field.name());
            for text in distinct {
                let name = || (is_named && has_word(&self.names, text)).then_some(NAME);
                if let Some(kind) = self.in_text(text).or_else(name) {
                    return Ok(Some((kind, field.name().clone())));
                }
            }
        }
        Ok(None)
    }
}

/// True for columns that hold what a user named. In others, a word such as `python` is stallmap's own.
fn holds_names(table: &str, column: &str) -> bool {
    let Some(table) = tables::by_name(table) else { return true };
    let column = table.columns.iter().find(|known| known.name == column);
    let kind = column.and_then(|column| secrecy(table, column));
    !matches!(kind, Some(ColumnSecrecy::Open))
}

/// The texts or bytes of a column, as bytes. None for numbers.
fn texts(array: &dyn Array) -> Result<Option<arrow::array::ArrayRef>, arrow::error::ArrowError> {
    let is_text = |data_type: &DataType| {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
    };
    match array.data_type() {
        DataType::Dictionary(_, values) => {
            let values = cast(array, values)?;
            if is_text(values.data_type()) { cast(&values, &DataType::Binary).map(Some) } else { Ok(None) }
        }
        data_type if is_text(data_type) => cast(array, &DataType::Binary).map(Some),
        _ => Ok(None),
    }
}

fn automaton<P: AsRef<[u8]>>(
    secrets: impl IntoIterator<Item = P>,
    any_case: bool,
) -> Result<AhoCorasick, String> {
    // Every occurrence is needed: one inside of another word must not hide one that is a word.
    let mut builder = AhoCorasickBuilder::new();
    builder.match_kind(MatchKind::Standard).ascii_case_insensitive(any_case);
    let secrets: BTreeSet<Vec<u8>> =
        secrets.into_iter().map(|secret| beginning(secret.as_ref()).to_vec()).collect();
    builder.build(secrets).map_err(|cause| cause.to_string())
}

fn beginning(secret: &[u8]) -> &[u8] {
    secret.get(..LONGEST).unwrap_or(secret)
}

/// True if a secret stands in a text as a word, or the beginning of a long one.
fn has_word(secrets: &AhoCorasick, text: &[u8]) -> bool {
    secrets.patterns_len() > 0
        && secrets.find_overlapping_iter(text).any(|found| {
            let end = if found.len() == LONGEST { text.len() } else { found.end() };
            is_word(text, found.start()..end)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(count: usize) -> SecretValues {
        let mut words = WordRedactor::new(b"salt", false);
        for number in 0..count {
            words.path(&format!("/home/alice/a/folder/of/fifty/characters/or/so/{number:06}/x.py"));
        }
        SecretValues::new(&words).unwrap()
    }

    #[test]
    fn long_secrets_are_searched_for_by_their_beginning() {
        let mut words = WordRedactor::new(b"salt", false);
        for number in 0..2_000 {
            words.path(&format!("/srv/{number:06}{}/x.py", "a".repeat(60_000)));
        }
        let secrets = SecretValues::new(&words).unwrap();
        assert!(secrets.folders.memory_usage() < 1 << 30, "{} bytes", secrets.folders.memory_usage());
        let text = format!("in /srv/001999{}, line 1", "a".repeat(60_000));
        assert_eq!(secrets.in_text(text.as_bytes()), Some(FOLDER));
        assert_eq!(secrets.in_text(&text.as_bytes()[1_000..]), None);
    }

    #[test]
    fn any_number_of_secrets_is_searched_for() {
        for count in [1, 100, 20_000] {
            let secrets = secrets(count);
            let last = count - 1;
            let text = format!("in /home/alice/a/folder/of/fifty/characters/or/so/{last:06}, line 1");
            assert_eq!(secrets.in_text(text.as_bytes()), Some(FOLDER), "{count} secrets");
            assert!(secrets.anywhere.is_match(text.as_bytes()));
            assert_eq!(secrets.in_text(b"/home/al/a/folder"), None);
        }
    }

    #[test]
    fn people_are_found_in_any_case_and_as_words_only() {
        let secrets = secrets(1);
        assert_eq!(secrets.in_text(b"by ALICE."), Some(PERSON));
        assert_eq!(secrets.in_text(b"malice"), None);
        assert_eq!(secrets.in_text(b"malice alice"), Some(PERSON));
    }
}

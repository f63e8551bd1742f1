//! Verification of the result: every byte is searched for replaced values, as stored and uncompressed.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use regex::bytes::Regex;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;

use super::change::unpack;
use super::cubin;
use super::words::Words;

/// Shorter secrets occur in compressed bytes at random. Texts are searched for all of them.
const SHORTEST_IN_BYTES: usize = 7;

/// Searches a capture for secrets. An error names the location of a remaining one.
pub(super) fn search(output: &Path, words: &Words) -> Result<(), CaptureError> {
    let Some(secrets) = Secrets::new(words) else { return Ok(()) };
    let reader = CaptureReader::open(output)?;
    let remains = |place: String| CaptureError::Refused {
        thing: "the redacted capture".to_owned(),
        cause: format!("a secret remains in {place}; the output was deleted"),
        path: output.to_owned(),
    };
    for name in reader.entry_names() {
        let bytes = reader.entry(name)?;
        if secrets.in_bytes(&bytes) || secrets.in_text(name.as_bytes()) {
            return Err(remains(format!("entry `{name}`")));
        }
        if entry::is_compressed(name) {
            let content =
                unpack(&bytes).map_err(|_| remains(format!("entry `{name}`, which cannot be read")))?;
            let texts = cubin::texts(&content).unwrap_or_default();
            let in_texts =
                texts.into_iter().filter_map(|range| content.get(range)).any(|text| secrets.in_text(text));
            if secrets.in_bytes(&content) || in_texts {
                return Err(remains(format!("entry `{name}`")));
            }
        }
    }
    for table in reader.tables() {
        for batch in reader.read_table(&table.name)? {
            if let Some(column) = secrets.in_batch(&batch?) {
                return Err(remains(format!("`{}.{column}`", table.name)));
            }
        }
    }
    Ok(())
}

/// Values that must not remain.
struct Secrets {
    /// Secrets long enough to search in any bytes, also as UTF-16.
    anywhere: Option<Regex>,
    /// All secrets, as words.
    words: Regex,
}

impl Secrets {
    fn new(words: &Words) -> Option<Self> {
        let secrets = words.secrets();
        let long = secrets.iter().filter(|secret| secret.len() >= SHORTEST_IN_BYTES);
        let wide = |secret: &String| secret.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let long: Vec<String> =
            long.flat_map(|secret| [escaped(secret.as_bytes()), escaped(&wide(secret))]).collect();
        let all: Vec<String> = secrets.iter().map(|secret| escaped(secret.as_bytes())).collect();
        if all.is_empty() {
            return None;
        }
        let joined = |parts: &[String], begin: &str, end: &str| {
            Regex::new(&format!("(?s-u){begin}(?:{}){end}", parts.join("|"))).ok()
        };
        let anywhere = if long.is_empty() { None } else { joined(&long, "", "") };
        Some(Self { anywhere, words: joined(&all, "(?:^|[^A-Za-z0-9_])", "(?:$|[^A-Za-z0-9_])")? })
    }

    fn in_bytes(&self, bytes: &[u8]) -> bool {
        self.anywhere.as_ref().is_some_and(|regex| regex.is_match(bytes))
    }

    fn in_text(&self, text: &[u8]) -> bool {
        self.words.is_match(text)
    }

    /// The column with a secret. Repeated values are checked once.
    fn in_batch(&self, batch: &RecordBatch) -> Option<String> {
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let mut seen: BTreeMap<&[u8], bool> = BTreeMap::new();
            let texts = match field.data_type() {
                DataType::Utf8 => Some(cast(array, &DataType::Binary)),
                DataType::Dictionary(..) => {
                    Some(cast(array, &DataType::Utf8).and_then(|text| cast(&text, &DataType::Binary)))
                }
                DataType::Binary => Some(Ok(array.clone())),
                _ => None,
            };
            let Some(Ok(texts)) = texts else { continue };
            let texts = texts.as_binary::<i32>();
            for text in (0..texts.len()).filter(|row| texts.is_valid(*row)).map(|row| texts.value(row)) {
                if *seen.entry(text).or_insert_with(|| self.in_text(text)) {
                    return Some(field.name().clone());
                }
            }
        }
        None
    }
}

/// Bytes as a regular expression for bytes has them.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("\\x{byte:02x}"))
}

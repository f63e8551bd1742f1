//! Samples of stored rows that were computed again: by a process of its own, after the first command that read them.
//!
//! To compute all stored rows of a capture takes as long as it took without them, so `check` does it and no other command. A
//! sample costs a view or two, and the cache holds its outcome: rows that were found to differ are an error from then on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use stallmap_engine::code::ResultCache;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::stored::StoredAnswer;
use stallmap_schema::table::TableRow as _;

use super::Session;
use crate::error::AnalyzeError;

/// Views of a sample.
const MAX_VIEWS: usize = 2;
/// Maximum size of an outcome: the name of a view.
const MAX_BYTES: u64 = 256;

/// Capture files with stored rows that were read and never sampled.
static UNSAMPLED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The file with the outcome of a capture's sample. None without a cache.
fn outcome_path(cache: &ResultCache, reader: &CaptureReader, rules: &str) -> Option<PathBuf> {
    let stated = reader.stated_hash(&entry::table(StoredAnswer::TABLE.name))?;
    let key = format!("{rules}\n{}\n{stated}\n", reader.manifest().recorded_id());
    Some(cache.trusted()?.join("sampled").join(blake3::hash(key.as_bytes()).to_hex().as_str()))
}

/// The view whose stored rows differ, as a sample found.
pub(super) fn differing(cache: &ResultCache, reader: &CaptureReader, rules: &str) -> Option<String> {
    let outcome = cache.read(&outcome_path(cache, reader, rules)?, MAX_BYTES)?;
    let view = String::from_utf8(outcome).ok()?;
    (!view.is_empty()).then_some(view)
}

/// Notes that stored rows were read, for a sample of them.
pub(super) fn note_use(cache: &ResultCache, reader: &CaptureReader, rules: &str) {
    let is_new = outcome_path(cache, reader, rules).is_some_and(|path| !path.exists());
    if is_new && reader.path().is_file() {
        UNSAMPLED.lock().unwrap_or_else(PoisonError::into_inner).insert(reader.path().to_owned());
    }
}

/// A capture file whose stored rows this process read and no process sampled. One of many: each command pays for one.
pub fn unsampled() -> Option<PathBuf> {
    let files = UNSAMPLED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = random().checked_rem(files.len())?;
    files.iter().nth(at).cloned()
}

impl Session {
    /// Computes a sample of the stored rows of the first capture again, and keeps the outcome in a cache. Returns what
    /// differs, one text each. The session must have no cache, and not read stored rows.
    pub async fn sample_answers(&self, cache: &ResultCache) -> Result<Vec<String>, AnalyzeError> {
        let Some(capture) = self.captures().first() else { return Ok(Vec::new()) };
        let views = self.stored_views()?;
        let first = random().checked_rem(views.len()).unwrap_or(0);
        let sample: BTreeSet<&String> =
            views.iter().cycle().skip(first).take(MAX_VIEWS.min(views.len())).collect();
        let differing = self.differing_among(|view| sample.contains(&view.to_owned())).await?;
        let found = differing.first().map(String::as_str).unwrap_or_default();
        let is_there = cache.folder().is_some_and(Path::is_dir);
        if let Some(path) = outcome_path(cache, &capture.reader, &capture.store.rules()).filter(|_| is_there)
        {
            // An outcome that cannot be written is sampled again.
            drop(ResultCache::write(&path, &[found.as_bytes()]));
        }
        Ok(differing.iter().map(|view| super::answers::difference(view)).collect())
    }
}

/// A number that differs from call to call.
fn random() -> usize {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let mixed = blake3::hash(format!("{now} {}", std::process::id()).as_bytes());
    mixed.as_bytes().iter().take(4).fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
}

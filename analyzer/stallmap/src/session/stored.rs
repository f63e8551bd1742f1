//! Rows of the library's views on disk, by the content of the capture and the rules that made them.
//!
//! The implications of a capture are computed once: a view that a session caches is written here, and later sessions read it.
//! The key is the content of the capture's files as they are, not as its manifest describes them, and a hash of all
//! code and SQL that takes part ([`RULES`]), and the samples that count as cost. So nothing stored can be out of date.
//! Rows that the capture itself holds ([`super::answers`]) are part of that content where they are read.
//! A file begins with a hash of its key and its content, so no file stands in for another. One that cannot be read or
//! written costs time and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::catalog::TableProvider;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use stallmap_engine::code::ResultCache;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::source::EntryBytes;
use stallmap_schema::capture::stored::{self as answers, StoredAnswer};
use stallmap_schema::capture::{bounds, entry, pages};
use stallmap_schema::contained::contained;
use stallmap_schema::table::TableRow as _;
use stallmap_tables::packed::{self, ParquetEncoder};

use super::plain::is_plain;
use super::resources::{CostFrom, SessionResources};
use super::verified;
use crate::library::ViewDoc;

include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = (packed::MAX_BYTES + HASH_BYTES) as u64;
/// Maximum rows of a file that is read into memory.
const MAX_ROWS: i64 = 4_000_000;
/// Maximum memory of the rows of a file.
const MAX_ROW_BYTES: usize = 1 << 30;
/// Maximum size of rows that are not compressed by themselves.
const MAX_PLAIN_BYTES: usize = 4 << 20;
/// Bytes of the hash in front of a file.
const HASH_BYTES: usize = blake3::OUT_LEN;

/// The stored views of one capture.
#[derive(Debug)]
pub(crate) struct ViewStore {
    reader: CaptureReader,
    cache: ResultCache,
    /// The samples that count as cost in these rows.
    cost_from: CostFrom,
    /// True if answers in the capture are read.
    reads_answers: bool,
    /// Rows times columns of a view above which its rows are not decoded.
    most_cells: usize,
    /// The answers in the capture, by view.
    answers: OnceLock<BTreeMap<String, Vec<u8>>>,
    /// The hash of the capture's content. None if the capture is not in memory.
    content: OnceLock<Option<blake3::Hash>>,
}

/// The rows of a view.
#[derive(Debug)]
pub(crate) struct StoredRows {
    pub(crate) schema: SchemaRef,
    pub(crate) rows: Vec<RecordBatch>,
    /// The tables that the view reads through all others.
    pub(crate) sources: BTreeSet<String>,
}

/// Stored rows of a view: in memory, or as a table of the file.
pub(crate) enum StoredView {
    Few(StoredRows),
    Many { table: Arc<dyn TableProvider>, rows: usize, sources: BTreeSet<String> },
}

impl ViewStore {
    /// The store of a capture in a cache, and in the capture itself.
    pub(crate) fn new(reader: CaptureReader, resources: &SessionResources) -> Self {
        let (cache, cost_from) = (resources.cache.clone(), resources.cost_from);
        let (reads_answers, most_cells) = (resources.reads_stored, resources.most_cells);
        Self {
            reader,
            cache,
            cost_from,
            reads_answers,
            most_cells,
            answers: OnceLock::new(),
            content: OnceLock::new(),
        }
    }

    /// The stored rows of a view.
    pub(crate) fn get(&self, view: &ViewDoc) -> Option<StoredView> {
        // The cache's key is a hash of the capture's content. Rows that it brings along need none.
        let cached = || load(&self.cache, &self.entry(&view.name)?);
        let content = self.answer(view).or_else(cached)?;
        guarded(|| self.find(&view.name, content))
    }

    /// The rows of a view in the capture: of a view whose rows may be stored there, with its columns.
    fn answer(&self, view: &ViewDoc) -> Option<Bytes> {
        let content = self.answers().get(&view.name).filter(|_| is_plain(view))?;
        checked(content.clone().into()).filter(|content| has_columns(view, content))
    }

    fn find(&self, view: &str, content: Bytes) -> Option<StoredView> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(content.clone()).ok()?;
        let rows = usize::try_from(builder.metadata().file_metadata().num_rows()).ok()?;
        if rows.saturating_mul(builder.schema().fields().len()) <= self.most_cells {
            return rows_of(builder).map(StoredView::Few);
        }
        let sources = packed::sources(builder.metadata())?;
        Some(StoredView::Many { table: packed::open(view, content).ok()?, rows, sources })
    }

    /// The rows of a view in the cache, even if the cache is to be replaced.
    pub(crate) fn written(&self, view: &str) -> Option<StoredRows> {
        let content = load(&ResultCache::at(self.cache.folder()?), &self.entry(view)?)?;
        guarded(|| read(content))
    }

    /// The answers in the capture, if they are read. Those that cannot be read are computed.
    pub(crate) fn answers(&self) -> &BTreeMap<String, Vec<u8>> {
        self.answers.get_or_init(|| {
            let read = || {
                // The manifest's hash of the rows is the key of what is known about them.
                self.reader.verified_entry(&entry::table(StoredAnswer::TABLE.name)).ok()?;
                answers::read(&self.reader, &self.rules()).ok()
            };
            let answers = if self.reads_answers { read().unwrap_or_default() } else { BTreeMap::new() };
            if !answers.is_empty() {
                verified::note_use(&self.cache, &self.reader, &self.rules());
            }
            answers
        })
    }

    /// The view whose rows in the capture are not those that it computes, as an earlier sample found. None if there is none.
    pub(crate) fn differing(&self) -> Option<String> {
        if self.reads_answers { verified::differing(&self.cache, &self.reader, &self.rules()) } else { None }
    }

    /// Stores the rows of a view. Returns false if there is no store, or it cannot be written.
    pub(crate) fn put(&self, view: &str, stored: &StoredRows) -> bool {
        self.entry(view).is_some_and(|entry| save(&entry, stored))
    }

    /// The same for rows that are encoded.
    pub(crate) fn put_packed(&self, view: &str, content: &[u8]) -> bool {
        self.entry(view).is_some_and(|entry| save_content(&entry, content))
    }

    fn entry(&self, view: &str) -> Option<CacheEntry> {
        // Without a cache nothing is hashed.
        self.cache.folder()?;
        CacheEntry::for_name(&self.cache, "views", &self.content()?, &self.name(view))
    }

    /// The name of a thing that depends on the samples that count as cost: its own name where these are the default.
    pub(super) fn name(&self, thing: &str) -> String {
        name_for(thing, self.cost_from)
    }

    /// The version of rows that the capture holds.
    pub(super) fn rules(&self) -> String {
        self.name(RULES)
    }

    /// The hash of the capture's content.
    pub(super) fn content(&self) -> Option<blake3::Hash> {
        *self.content.get_or_init(|| content_hash(&self.reader, !self.answers().is_empty()))
    }

    /// The cache.
    pub(super) const fn cache(&self) -> &ResultCache {
        &self.cache
    }

    /// Rows times columns of a view above which its rows are held as a file.
    pub(crate) const fn most_cells(&self) -> usize {
        self.most_cells
    }
}

fn name_for(thing: &str, cost_from: CostFrom) -> String {
    match cost_from {
        CostFrom::Auto => thing.to_owned(),
        chosen => format!("{thing}.{chosen}"),
    }
}

/// The version of rows that a capture holds for samples that count as cost.
pub(super) fn rules_for(cost_from: CostFrom) -> String {
    name_for(RULES, cost_from)
}

/// A file of the cache.
pub(super) struct CacheEntry {
    /// The question of its rows: its kind, the content of the captures, the rules, and its name. It is the path below the
    /// cache's folder.
    key: String,
    path: PathBuf,
}

impl CacheEntry {
    /// The rows of a view or of a query, which these rules make from this content. None without a cache.
    pub(super) fn for_name(
        cache: &ResultCache,
        kind: &str,
        content: &blake3::Hash,
        name: &str,
    ) -> Option<Self> {
        let content = content.to_hex();
        let (first, rest) = content.split_at(2);
        let key = format!("{kind}/{first}/{rest}/{RULES}/{name}.parquet");
        Some(Self { path: cache.trusted()?.join(&key), key })
    }

    /// The hash of its key and its content. Rows of another capture, view or version have another one, wherever they lie.
    fn hash(&self, content: &[u8]) -> blake3::Hash {
        let mut all = blake3::Hasher::new();
        all.update(&(self.key.len() as u64).to_le_bytes())
            .update(self.key.as_bytes())
            .update(content)
            .finalize()
    }
}

/// The rows of a query in a file. None if there is none, or if it is damaged.
pub(super) fn load_rows(cache: &ResultCache, entry: &CacheEntry) -> Option<StoredRows> {
    let content = load(cache, entry)?;
    guarded(|| read(content))
}

/// The content of a file, which has the hash in front of it.
fn load(cache: &ResultCache, entry: &CacheEntry) -> Option<Bytes> {
    let bytes = Bytes::from(cache.read(&entry.path, MAX_FILE_BYTES)?);
    let (hash, content) = bytes.split_at_checked(HASH_BYTES)?;
    (hash == entry.hash(content).as_bytes()).then(|| bytes.slice_ref(content))
}

/// The result of a reader of foreign bytes. It may panic: the hash is no secret.
fn guarded<T>(read: impl FnOnce() -> Option<T>) -> Option<T> {
    contained(read).ok()?
}

/// Writes rows to a file. Returns false if it cannot be written.
pub(super) fn save(entry: &CacheEntry, stored: &StoredRows) -> bool {
    encode(stored, Compression::SNAPPY).is_ok_and(|content| save_content(entry, &content))
}

fn save_content(entry: &CacheEntry, content: &[u8]) -> bool {
    write(&entry.path, &[entry.hash(content).as_bytes(), content]).is_ok()
}

/// The hash of the names and bytes of a capture's tables and files. Stored answers are a part if results depend on them:
/// results of forged answers are not those of the same recording. None if the files are not on this machine: reading all of
/// a remote capture would cost more than it saves.
fn content_hash(reader: &CaptureReader, has_answers: bool) -> Option<blake3::Hash> {
    let answers = entry::table(StoredAnswer::TABLE.name);
    let is_content = |name: &&str| *name != entry::MANIFEST && (has_answers || *name != answers);
    let mut names: Vec<&str> = reader.entry_names().filter(is_content).collect();
    names.sort_unstable();
    let mut all = blake3::Hasher::new();
    for name in names {
        let bytes = reader.entry_bytes(name).ok().filter(|bytes| bytes.is_near())?;
        all.update(&(name.len() as u64).to_le_bytes());
        all.update(name.as_bytes());
        all.update(blake3::Hash::from_hex(bytes.hash().ok()?).ok()?.as_bytes());
    }
    Some(all.finalize())
}

/// The rows of a view for a capture. The capture compresses them together: views repeat each other's columns. Many rows are
/// compressed by themselves.
pub(crate) fn encode_small(stored: &StoredRows) -> parquet::errors::Result<Vec<u8>> {
    let plain = encode(stored, Compression::UNCOMPRESSED)?;
    if plain.len() <= MAX_PLAIN_BYTES {
        return Ok(plain);
    }
    encode(stored, Compression::ZSTD(ZstdLevel::try_new(9)?))
}

fn encode(stored: &StoredRows, compression: Compression) -> parquet::errors::Result<Vec<u8>> {
    let mut encoder = ParquetEncoder::new(&stored.schema, &stored.sources, compression)?;
    for batch in &stored.rows {
        encoder.add(batch)?;
    }
    encoder.finish()
}

/// Reads the rows of untrusted bytes. None if they are damaged, or beyond a bound.
pub(crate) fn read_bounded(content: Vec<u8>) -> Option<StoredRows> {
    let content = checked(content.into())?;
    guarded(|| read(content))
}

/// True if rows have the columns of a view.
fn has_columns(view: &ViewDoc, content: &Bytes) -> bool {
    let names = || {
        let builder = ParquetRecordBatchReaderBuilder::try_new(content.clone()).ok()?;
        let fields = builder.schema().fields();
        let is_equal =
            fields.iter().map(|field| field.name()).eq(view.columns.iter().map(|column| &column.name));
        Some(is_equal)
    };
    guarded(names) == Some(true)
}

/// Untrusted bytes of a file with pages of bounded size.
fn checked(content: Bytes) -> Option<Bytes> {
    guarded(|| {
        let bytes = EntryBytes::from(content.clone());
        let metadata = ParquetRecordBatchReaderBuilder::try_new(content.clone()).ok()?;
        pages::check("stored_answer", &bytes, metadata.metadata(), |_| true).ok()?;
        Some(content)
    })
}

fn read(content: Bytes) -> Option<StoredRows> {
    rows_of(ParquetRecordBatchReaderBuilder::try_new(content).ok()?)
}

fn rows_of(builder: ParquetRecordBatchReaderBuilder<Bytes>) -> Option<StoredRows> {
    if builder.metadata().file_metadata().num_rows() > MAX_ROWS {
        return None;
    }
    let sources = packed::sources(builder.metadata())?;
    // The metadata of the file is no part of the view: plans that read two views would differ in it.
    let schema = Arc::new(builder.schema().as_ref().clone().with_metadata(HashMap::new()));
    let (mut rows, mut size_bytes) = (Vec::new(), 0);
    for batch in builder.build().ok()? {
        let batch = batch.ok()?.with_schema(Arc::clone(&schema)).ok()?;
        size_bytes += batch.get_array_memory_size();
        bounds::check("stored_answer", &batch, 0).ok().filter(|()| size_bytes <= MAX_ROW_BYTES)?;
        rows.push(batch);
    }
    Some(StoredRows { schema, rows, sources })
}

/// Writes a file. Other rules' rows of the capture are removed with the first.
fn write(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    if !folder.exists() {
        remove_others(folder);
    }
    ResultCache::write(path, parts)
}

/// Removes the folders next to one, which another thread may already fill. What remains only takes space.
fn remove_others(folder: &Path) {
    let Some(Ok(folders)) = folder.parent().map(fs::read_dir) else { return };
    for other in folders.flatten().filter(|other| Some(other.file_name().as_os_str()) != folder.file_name()) {
        drop(fs::remove_dir_all(other.path()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::remove_others;

    #[test]
    fn rows_of_other_rules_go_and_rows_of_another_thread_stay() {
        let capture = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|rules| capture.path().join(rules));
        for folder in [&own, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("view"), "rows").unwrap();
        }
        remove_others(&own);
        assert!(own.join("view").exists() && !other.exists());
        remove_others(&capture.path().join("missing").join("rules"));
    }
}

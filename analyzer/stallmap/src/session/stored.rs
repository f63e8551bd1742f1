//! Rows of the library's views on disk, by the content of the capture and the rules that made them.
//!
//! The implications of a capture are computed once: a view that a session caches is written here, and later sessions read it.
//! The key is the content of the capture's files as they are, not as its manifest describes them, and a hash of all
//! code and SQL that takes part ([`RULES`]). So nothing stored can be out of date, and no capture can stand in for
//! another. A file that cannot be read or written costs time and nothing else.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use stallmap_code::Cache;
use stallmap_schema::capture::reader::CaptureReader;

use super::views::materialize::MOST_KEPT_ROWS;

include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The tables that a view reads, in the metadata of its file.
const SOURCES: &str = "stallmap.sources";
/// Bytes of the hash in front of a file.
const HASH_BYTES: usize = blake3::OUT_LEN;

/// The stored views of one capture.
#[derive(Debug)]
pub(crate) struct Store {
    reader: CaptureReader,
    cache: Cache,
    /// The folder of this capture and these rules. None if the capture is not in memory.
    folder: OnceLock<Option<PathBuf>>,
}

/// The rows of a view.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) schema: SchemaRef,
    pub(crate) rows: Vec<RecordBatch>,
    /// The tables that the view reads through all others.
    pub(crate) sources: BTreeSet<String>,
}

impl Store {
    /// The store of a capture in a cache.
    pub(crate) fn new(reader: CaptureReader, cache: &Cache) -> Self {
        Self { reader, cache: cache.clone(), folder: OnceLock::new() }
    }

    /// The stored rows of a view.
    pub(crate) fn get(&self, view: &str) -> Option<Stored> {
        let bytes = self.cache.read(&self.path(view)?, MAX_FILE_BYTES)?;
        let (hash, content) = bytes.split_at_checked(HASH_BYTES)?;
        if hash != hash_of(view, content).as_bytes() {
            return None;
        }
        // The hash is no secret: a reader of foreign bytes may panic.
        catch_unwind(AssertUnwindSafe(|| read(content.to_vec()))).ok()?
    }

    /// Stores the rows of a view. Returns false if there is no store, or it cannot be written.
    pub(crate) fn put(&self, view: &str, stored: &Stored) -> bool {
        let Some(path) = self.path(view) else { return false };
        let written =
            encode(stored).map(|content| write(&path, &[hash_of(view, &content).as_bytes(), &content]));
        matches!(written, Ok(Ok(())))
    }

    fn path(&self, view: &str) -> Option<PathBuf> {
        let folder = self.folder.get_or_init(|| {
            let root = self.cache.folder()?.join("views");
            let content = content_hash(&self.reader)?.to_hex();
            let (first, rest) = content.split_at(2);
            Some(root.join(first).join(rest).join(RULES))
        });
        folder.as_ref().map(|folder| folder.join(format!("{view}.parquet")))
    }
}

/// The hash of the names and bytes of a capture's tables and files. None if they are not in memory: reading all of a
/// remote capture would cost more than it saves.
fn content_hash(reader: &CaptureReader) -> Option<blake3::Hash> {
    let mut names: Vec<&str> = reader.entry_names().collect();
    names.sort_unstable();
    let mut all = blake3::Hasher::new();
    for name in names {
        let bytes = reader.entry_bytes(name).ok()?.in_memory()?;
        all.update(&(name.len() as u64).to_le_bytes());
        all.update(name.as_bytes());
        all.update(blake3::hash(bytes).as_bytes());
    }
    Some(all.finalize())
}

fn hash_of(view: &str, content: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(view.as_bytes()).update(content).finalize()
}

fn encode(stored: &Stored) -> parquet::errors::Result<Vec<u8>> {
    let sources = stored.sources.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new(SOURCES.to_owned(), sources)]))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&stored.schema), Some(properties))?;
    for batch in &stored.rows {
        writer.write(batch)?;
    }
    writer.into_inner()
}

fn read(content: Vec<u8>) -> Option<Stored> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(content)).ok()?;
    let metadata = builder.metadata().file_metadata();
    if metadata.num_rows() > i64::try_from(MOST_KEPT_ROWS).ok()? {
        return None;
    }
    let sources = metadata.key_value_metadata()?.iter().find(|pair| pair.key == SOURCES)?.value.as_ref()?;
    let sources = sources.split_whitespace().map(str::to_owned).collect();
    // The metadata of the file is no part of the view: plans that read two views would differ in it.
    let schema = Arc::new(builder.schema().as_ref().clone().with_metadata(HashMap::new()));
    let rows = builder.build().ok()?.map(|batch| batch?.with_schema(Arc::clone(&schema)));
    let rows = rows.collect::<Result<Vec<_>, _>>().ok()?;
    Some(Stored { schema, rows, sources })
}

/// Writes a file. Other rules' rows of the capture are removed first.
fn write(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    if !folder.exists() {
        // The folder may not exist. What remains only takes space.
        drop(folder.parent().map(fs::remove_dir_all));
    }
    Cache::write(path, parts)
}

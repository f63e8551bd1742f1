//! Reader of captures. A small local file is in memory: every entry is a slice of it and nothing is copied. A large one,
//! and one elsewhere, is read by ranges: entries are read on demand.
//!
//! Captures are untrusted: sizes are checked against the file, names cannot leave the capture, and a failure of the
//! Parquet reader on invalid bytes, a panic too, ends as an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{RecordBatch, RecordBatchReader as _};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::error::CaptureError;
use super::manifest::{Manifest, TableEntry};
use super::source::{self, EntryBytes, RangeSource};
use super::{bounds, container, entry, manifest, opened, pages};
use crate::contained::contained;
use crate::table::TableRow;

/// Most bytes that a cubin may have when decompressed.
pub const MAX_CUBIN_BYTES: u64 = 256 << 20;
/// Bytes of a cubin for each compressed one that are reserved at once. Most of a large cubin is zeros, and 272 were seen.
const MAX_RATIO: usize = 1 << 10;

/// An open capture. Cheap to clone the entries of: they share the file or its bytes.
#[derive(Clone, Debug)]
pub struct CaptureReader {
    path: PathBuf,
    manifest: Manifest,
    entries: BTreeMap<String, EntryBytes>,
    /// Tables whose pages are within their bounds.
    vetted: Arc<Mutex<BTreeSet<String>>>,
    /// The manifest's hash of each entry, once one was asked for.
    stated: OnceLock<Arc<BTreeMap<String, String>>>,
}

/// A table's file in an open capture.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// The table.
    pub name: String,
    /// Its entry, such as `tables/launch.parquet`.
    pub path: String,
    /// Number of rows in the manifest.
    pub rows: u64,
    /// Its Parquet file.
    pub bytes: EntryBytes,
}

impl CaptureReader {
    /// Opens a capture and checks that every entry of its manifest is there with its size.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let is_folder = path.metadata().map_err(CaptureError::io("open capture", path))?.is_dir();
        let reader = if is_folder { open_folder(path)? } else { open_file(path)? };
        reader.with_checked_sizes()
    }

    /// Opens a capture file that is read by ranges, and checks the same.
    pub fn open_remote(source: &Arc<dyn RangeSource>) -> Result<Self, CaptureError> {
        let entries = container::remote_entries(source)?;
        of_entries(source.location(), entries)?.with_checked_sizes()
    }

    fn new(path: &Path, manifest: Manifest, entries: BTreeMap<String, EntryBytes>) -> Self {
        Self { path: path.to_owned(), manifest, entries, vetted: Arc::default(), stated: OnceLock::new() }
    }

    fn with_checked_sizes(self) -> Result<Self, CaptureError> {
        for (name, bytes, _) in self.manifest.entries() {
            let found = self.entry_bytes(&name)?.size_bytes();
            if found != bytes {
                let cause = format!("it has {found} bytes, but the manifest states {bytes}");
                return Err(CaptureError::corrupt(format!("entry `{name}`"), cause, &self.path));
            }
        }
        Ok(self)
    }

    /// The path or URL of the capture.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The capture's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The tables, those too that this release does not know.
    pub fn tables(&self) -> &[TableEntry] {
        &self.manifest.tables
    }

    /// The tables' files, for a query engine to read.
    pub fn table_files(&self) -> Result<Vec<TableFile>, CaptureError> {
        let file = |table: &TableEntry| {
            let path = entry::table(&table.name);
            let bytes = self.entry_bytes(&path)?.clone();
            Ok(TableFile { name: table.name.clone(), path, rows: table.rows, bytes })
        };
        self.tables().iter().map(file).collect()
    }

    /// Names of all entries, those too that the manifest does not list.
    pub fn entry_names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// An entry's bytes, all of them, in memory.
    pub fn entry(&self, name: &str) -> Result<Bytes, CaptureError> {
        self.entry_bytes(name)?.whole()
    }

    /// An entry's bytes, read on demand.
    pub fn entry_bytes(&self, name: &str) -> Result<&EntryBytes, CaptureError> {
        self.entries
            .get(name)
            .ok_or_else(|| CaptureError::MissingEntry { entry: name.to_owned(), path: self.path.clone() })
    }

    /// Fetches entries that will be read, together: nothing to do where they are in memory. What cannot be fetched is
    /// an error when it is read.
    pub fn prefetch<'a>(&self, names: impl Iterator<Item = &'a str>) {
        source::prefetch(names.filter_map(|name| self.entries.get(name)));
    }

    /// An entry of the manifest, whose hash has been compared with the manifest's.
    pub fn verified_entry(&self, name: &str) -> Result<Bytes, CaptureError> {
        let bytes = self.entry(name)?;
        self.verify(name, blake3::hash(&bytes).to_hex().as_str())?;
        Ok(bytes)
    }

    /// Compares the hash of an entry with the manifest's.
    pub fn verify(&self, name: &str, hash: &str) -> Result<(), CaptureError> {
        if self.stated_hash(name) == Some(hash) {
            return Ok(());
        }
        let cause = "its hash differs from the manifest's";
        Err(CaptureError::corrupt(format!("entry `{name}`"), cause, &self.path))
    }

    /// The manifest's hash of an entry.
    pub fn stated_hash(&self, name: &str) -> Option<&str> {
        let manifest = &self.manifest;
        let stated = self.stated.get_or_init(|| {
            let hash = |(name, _, hash): (String, u64, &str)| (name, hash.to_owned());
            Arc::new(manifest.entries().map(hash).collect())
        });
        stated.get(name).map(String::as_str)
    }

    /// A table's Parquet file.
    pub fn table_bytes(&self, table: &str) -> Result<Bytes, CaptureError> {
        self.table_entry(table)?.whole()
    }

    /// A table's Parquet file, read on demand.
    pub fn table_entry(&self, table: &str) -> Result<&EntryBytes, CaptureError> {
        self.entry_bytes(&entry::table(table))
            .map_err(|_| CaptureError::MissingTable { table: table.to_owned(), path: self.path.clone() })
    }

    /// A table's batches.
    pub fn read_table(&self, table: &str) -> Result<TableBatches, CaptureError> {
        self.read_projected(table, None)
    }

    /// A table's batches with some columns only, in the file's order. Names that the file does not have are left out.
    pub fn read_columns(&self, table: &str, columns: &[&str]) -> Result<TableBatches, CaptureError> {
        self.read_projected(table, Some(columns))
    }

    fn read_projected(&self, table: &str, columns: Option<&[&str]>) -> Result<TableBatches, CaptureError> {
        let bytes = self.table_entry(table)?.clone();
        let file = bytes.clone();
        let opened = decoded(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
            let mask = columns.map(|columns| {
                let known = builder.schema().fields().iter().enumerate();
                let wanted = known.filter(|(_, field)| columns.contains(&field.name().as_str()));
                ProjectionMask::roots(builder.parquet_schema(), wanted.map(|(index, _)| index))
            });
            let mask = mask.unwrap_or_else(ProjectionMask::all);
            self.vet(table, builder.metadata(), &mask)?;
            builder.with_projection(mask).build()
        });
        let reader = opened.map_err(|cause| damaged(table, cause, &file, &self.path))?;
        let schema = reader.schema();
        let (table, path) = (table.to_owned(), self.path.clone());
        Ok(TableBatches { schema, reader: Some(reader), file, table, row: 0, path })
    }

    /// Checks the pages of a table that will be read: once where the file is in memory.
    fn vet(
        &self,
        table: &str,
        metadata: &ParquetMetaData,
        mask: &ProjectionMask,
    ) -> Result<(), ParquetError> {
        let bytes = self.table_entry(table).map_err(|error| ParquetError::General(error.to_string()))?;
        let vetted = || self.vetted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_here = bytes.is_near();
        if is_here && vetted().contains(table) {
            return Ok(());
        }
        pages::check(table, bytes, metadata, |leaf| is_here || mask.leaf_included(leaf))
            .map_err(ParquetError::General)?;
        vetted().insert(table.to_owned());
        Ok(())
    }

    /// All rows of a table: for small tables.
    pub fn read_rows<R: TableRow>(&self) -> Result<Vec<R>, CaptureError> {
        let mut rows = Vec::new();
        for batch in self.read_table(R::TABLE.name)? {
            rows.extend(self.rows_of(&batch?)?);
        }
        Ok(rows)
    }

    /// Reads a table row by row. One that an earlier release did not write has no rows. More than `most` rows are an
    /// error, for callers who keep something of each.
    pub fn for_each_row<R: TableRow>(
        &self,
        most: usize,
        mut each: impl FnMut(R),
    ) -> Result<(), CaptureError> {
        let name = R::TABLE.name;
        if !self.tables().iter().any(|table| table.name == name) {
            return Ok(());
        }
        let mut left = most;
        for batch in self.read_table(name)? {
            let batch = batch?;
            let Some(rest) = left.checked_sub(batch.num_rows()) else {
                let cause = format!("it has more than {most} rows");
                return Err(CaptureError::corrupt(format!("table `{name}`"), cause, &self.path));
            };
            left = rest;
            self.rows_of(&batch)?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    fn rows_of<R: TableRow>(&self, batch: &RecordBatch) -> Result<Vec<R>, CaptureError> {
        R::read_all(batch).map_err(|cause| {
            CaptureError::corrupt(format!("table `{}`", R::TABLE.name), cause.to_string(), &self.path)
        })
    }

    /// A cubin, decompressed, by the BLAKE3 hash of the cubin as loaded: `module.content_hash`.
    pub fn cubin(&self, content_hash: &str) -> Result<Vec<u8>, CaptureError> {
        let mut cubin = Vec::new();
        self.read_cubin(content_hash, &mut cubin)?;
        Ok(cubin)
    }

    /// The same, in place of what a buffer holds. Cubins of libraries have megabytes, mostly zeros where the capture has
    /// no code: fresh memory for each takes longer than decompressing it.
    pub fn read_cubin(&self, content_hash: &str, cubin: &mut Vec<u8>) -> Result<(), CaptureError> {
        let packed = self.entry(&entry::cubin(content_hash))?;
        let corrupt =
            |cause: String| CaptureError::corrupt(format!("cubin {content_hash}"), cause, &self.path);
        // Growing copies everything again and again. The header's size may be wrong.
        let declared = zstd::zstd_safe::get_frame_content_size(&packed).ok().flatten().unwrap_or(0);
        let most = packed.len().saturating_mul(MAX_RATIO);
        cubin.clear();
        cubin.reserve(usize::try_from(declared.min(MAX_CUBIN_BYTES)).unwrap_or(most).min(most));
        // At once, without the decoder's own window. What does not fit is decompressed piece by piece, up to the limit.
        let whole = zstd::bulk::Decompressor::new()
            .and_then(|mut decompressor| decompressor.decompress_to_buffer(&packed, cubin));
        if whole.is_ok_and(|bytes| bytes as u64 <= MAX_CUBIN_BYTES) {
            return Ok(());
        }
        cubin.clear();
        let decoder = zstd::Decoder::new(&packed[..]).map_err(|cause| corrupt(cause.to_string()))?;
        decoder.take(MAX_CUBIN_BYTES + 1).read_to_end(cubin).map_err(|cause| corrupt(cause.to_string()))?;
        if cubin.len() as u64 > MAX_CUBIN_BYTES {
            return Err(corrupt(format!("it has more than {MAX_CUBIN_BYTES} bytes uncompressed")));
        }
        Ok(())
    }
}

/// The batches of one table. After an error there are no more.
pub struct TableBatches {
    reader: Option<ParquetRecordBatchReader>,
    file: EntryBytes,
    schema: SchemaRef,
    table: String,
    /// Rows so far.
    row: u64,
    path: PathBuf,
}

impl TableBatches {
    /// The table's schema as its file has it.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for TableBatches {
    type Item = Result<RecordBatch, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        let (table, row) = (&self.table, self.row);
        let text = |error: ArrowError| error.to_string();
        let next = || -> Result<Option<RecordBatch>, String> {
            let Some(batch) = reader.next().transpose().map_err(text)? else { return Ok(None) };
            bounds::check(table, &batch, row)?;
            Ok(Some(batch))
        };
        match decoded(next) {
            Ok(batch) => {
                let batch = batch?;
                self.row += batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Err(cause) => {
                self.reader = None;
                Some(Err(damaged(&self.table, cause, &self.file, &self.path)))
            }
        }
    }
}

/// A table that cannot be read: damaged, unless its file was changed since it was opened.
fn damaged(table: &str, cause: String, file: &EntryBytes, path: &Path) -> CaptureError {
    let corrupt = || CaptureError::corrupt(format!("table `{table}`"), cause, path);
    file.unchanged().err().unwrap_or_else(corrupt)
}

/// Runs a reader of untrusted bytes: its panic becomes an error.
fn decoded<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match contained(read) {
        Ok(result) => result.map_err(|cause| cause.to_string()),
        Err(_) => Err("its Parquet file is malformed".to_owned()),
    }
}

fn open_file(path: &Path) -> Result<CaptureReader, CaptureError> {
    of_entries(path, container::entries(&opened::open(path)?, path)?)
}

fn of_entries(path: &Path, entries: BTreeMap<String, EntryBytes>) -> Result<CaptureReader, CaptureError> {
    let manifest = entries.get(entry::MANIFEST).ok_or_else(|| CaptureError::NotACapture {
        cause: format!("it holds no {}", entry::MANIFEST),
        path: path.to_owned(),
    })?;
    let json = manifest.read(0..manifest.size_bytes().min(manifest::MAX_BYTES + 1))?;
    let manifest = Manifest::parse(&json, path)?;
    Ok(CaptureReader::new(path, manifest, entries))
}

fn open_folder(path: &Path) -> Result<CaptureReader, CaptureError> {
    let manifest_path = path.join(entry::MANIFEST);
    if !manifest_path.exists() {
        let cause = if path.join("recording.json").exists() {
            "it is an unfinished recording; `stallmap-record recover` makes a capture of it".to_owned()
        } else {
            format!("it holds no {}", entry::MANIFEST)
        };
        return Err(CaptureError::NotACapture { cause, path: path.to_owned() });
    }
    let json = container::read_bounded(&manifest_path, manifest::MAX_BYTES + 1)
        .map_err(CaptureError::io("read", &manifest_path))?;
    let manifest = Manifest::parse(&json, path)?;
    let mut entries = BTreeMap::new();
    for (name, _, _) in manifest.entries() {
        let file = path.join(&name);
        if file.is_file() {
            entries.insert(name, opened::open(&file)?.into());
        }
    }
    entries.insert(entry::MANIFEST.to_owned(), Bytes::from(json).into());
    Ok(CaptureReader::new(path, manifest, entries))
}

//! Writer of captures: tables as streams of batches, cubins, and at the end the manifest.
//!
//! Everything goes to a folder next to the output, whose name begins with a dot. [`CaptureWriter::finish`] renames the
//! result into place, so a capture is complete or absent. The folder is removed in every case except a kill: see
//! [`unfinished`].

mod delta;
mod few;
mod hybrid;
mod lists;
mod pages;
mod runs;
mod table;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::labels::CaptureLabels;
use stallmap_schema::capture::manifest::{FileEntry, Manifest, TableEntry};
use stallmap_schema::capture::reader::{CaptureReader, TableFile};
use stallmap_schema::capture::{entry, stored, unfinished};
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables;

use crate::container;

use table::TableWriter;
pub use table::{GroupEncoder, PendingRows, RowGroup};

const CUBIN_ZSTD_LEVEL: i32 = 9;

/// The form of a capture on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureForm {
    /// One ZIP file.
    File,
    /// A folder with the same entries.
    Folder,
}

/// Writes one capture.
pub struct CaptureWriter {
    output: PathBuf,
    form: CaptureForm,
    staging: StagingFolder,
    tables: BTreeMap<String, TableWriter>,
    copied: BTreeMap<String, TableEntry>,
    files: BTreeMap<String, FileEntry>,
    notes: Vec<String>,
    labels: CaptureLabels,
}

impl CaptureWriter {
    /// Begins a capture at a path where nothing is yet.
    pub fn create(output: &Path, form: CaptureForm) -> Result<Self, CaptureError> {
        if output.symlink_metadata().is_ok() {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(CaptureError::Io { action: "create capture", path: output.to_owned(), source });
        }
        let staging = StagingFolder::next_to(output)?;
        for folder in ["tables", "cubins"] {
            let path = staging.0.join(folder);
            fs::create_dir(&path).map_err(CaptureError::io("create folder", &path))?;
        }
        let (tables, copied, files, notes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), Vec::new());
        let output = output.to_owned();
        let labels = CaptureLabels::new();
        Ok(Self { output, form, staging, tables, copied, files, notes, labels })
    }

    /// The folder next to an output that a kill of this process leaves.
    pub fn staging(output: &Path) -> PathBuf {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        output.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
    }

    /// Appends rows to a table. Rows must come in the table's order. Tables may grow side by side.
    pub fn append(&mut self, table: &str, batch: &RecordBatch) -> Result<(), CaptureError> {
        self.table(table, || batch.schema())?.write(batch)
    }

    /// The encoder of a known table's row groups, for threads that encode at the same time. Groups go to
    /// [`CaptureWriter::append_group`] in the table's order.
    pub fn encoder<R: TableRow>(&mut self) -> Result<Arc<GroupEncoder>, CaptureError> {
        Ok(self.table(R::TABLE.name, || R::TABLE.schema())?.encoder())
    }

    /// Appends an encoded row group to its table, behind the rows that were appended before.
    pub fn append_group(&mut self, group: RowGroup) -> Result<(), CaptureError> {
        match self.tables.get_mut(group.table()) {
            Some(writer) => writer.write_group(group),
            None => Err(CaptureError::refused("row group", "another capture encoded it", &self.output)),
        }
    }

    /// The writer of a table that grows.
    fn table(
        &mut self,
        table: &str,
        schema: impl FnOnce() -> SchemaRef,
    ) -> Result<&mut TableWriter, CaptureError> {
        if self.copied.contains_key(table) {
            let thing = format!("rows of table `{table}`");
            return Err(CaptureError::refused(thing, "it was copied from another capture", &self.output));
        }
        match self.tables.entry(table.to_owned()) {
            Entry::Occupied(writer) => Ok(writer.into_mut()),
            Entry::Vacant(vacant) => {
                let schema = tables::by_name(table).map_or_else(schema, TableDef::schema);
                let writer = TableWriter::create(&self.staging.0, table, schema, &self.output)?;
                Ok(vacant.insert(writer))
            }
        }
    }

    /// Appends rows to their table, in the table's order.
    pub fn append_rows<R: TableRow>(
        &mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), CaptureError> {
        let name = R::TABLE.name;
        let batch = R::batch(rows).map_err(|cause| {
            CaptureError::refused(format!("rows of table `{name}`"), cause.to_string(), &self.output)
        })?;
        self.append(name, &batch)
    }

    /// Encodes the rows of a table that make no complete row group yet: memory of a table that grows no more.
    pub fn flush<R: TableRow>(&mut self) -> Result<(), CaptureError> {
        self.tables.get_mut(R::TABLE.name).map_or(Ok(()), TableWriter::flush)
    }

    /// Adds a table as another capture has it, byte for byte. Such a table cannot grow.
    pub fn copy_table(&mut self, file: &TableFile) -> Result<(), CaptureError> {
        let entry = entry::table(&file.name);
        let taken = self.tables.contains_key(&file.name) || self.copied.contains_key(&file.name);
        if taken || !entry::is_table(&entry) || !entry::is_allowed(&entry) {
            let thing = format!("table `{}`", file.name);
            return Err(CaptureError::refused(thing, "the name is taken or not allowed", &self.output));
        }
        let blake3 = container::write_entry(&file.bytes, &self.staging.0.join(entry))?;
        let (name, rows, bytes) = (file.name.clone(), file.rows, file.bytes.size_bytes());
        self.copied.insert(name.clone(), TableEntry { name, rows, bytes, blake3 });
        Ok(())
    }

    /// Adds a table of another capture, byte for byte. Stored answers are left out: another capture has others.
    pub fn take_table(&mut self, reader: &CaptureReader, table: &TableEntry) -> Result<(), CaptureError> {
        if stored::is_table(&table.name) {
            return Ok(());
        }
        let path = entry::table(&table.name);
        let bytes = reader.entry_bytes(&path)?.clone();
        let (name, rows) = (table.name.clone(), table.rows);
        self.copy_table(&TableFile { name, path: path.clone(), rows, bytes })?;
        let hash = self.copied.get(&table.name).map_or("", |copied| &copied.blake3);
        reader.verify(&path, hash)
    }

    /// Adds a cubin under the BLAKE3 hash of the cubin as loaded. Returns its entry, for `module.file`.
    pub fn add_cubin(&mut self, content_hash: &str, cubin: &[u8]) -> Result<String, CaptureError> {
        let name = entry::cubin(content_hash);
        let packed = zstd::bulk::compress(cubin, CUBIN_ZSTD_LEVEL)
            .map_err(CaptureError::io("compress a cubin for", &self.output))?;
        self.add_file(&name, &packed)?;
        Ok(name)
    }

    /// Adds a cubin's file as it is. Adding the same name again is an error.
    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), CaptureError> {
        if !entry::is_allowed(name) || !entry::is_cubin(name) || self.files.contains_key(name) {
            let thing = format!("file `{name}`");
            return Err(CaptureError::refused(thing, "the name is taken or not allowed", &self.output));
        }
        let path = self.staging.0.join(name);
        let folder = path.parent().unwrap_or(&self.staging.0);
        fs::create_dir_all(folder).map_err(CaptureError::io("create folder", folder))?;
        fs::write(&path, bytes).map_err(CaptureError::io("write", &path))?;
        let blake3 = blake3::hash(bytes).to_hex().to_string();
        let entry = FileEntry { path: name.to_owned(), bytes: bytes.len() as u64, blake3 };
        self.files.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Notes in the manifest a change to the capture after it was recorded.
    pub fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes);
    }

    /// Gives the capture labels.
    pub fn label(&mut self, labels: CaptureLabels) {
        self.labels.extend(labels);
    }

    /// Writes the manifest and puts the capture into place. Tables without rows are written empty.
    pub fn finish(self) -> Result<Manifest, CaptureError> {
        self.finish_inspected(|_| Ok(()))
    }

    /// The same after an inspection of the complete capture, next to its place. One that fails leaves nothing.
    pub fn finish_inspected(
        mut self,
        inspect: impl FnOnce(&CaptureReader) -> Result<(), CaptureError>,
    ) -> Result<Manifest, CaptureError> {
        for table in tables::ALL {
            if !self.tables.contains_key(table.name) && !self.copied.contains_key(table.name) {
                let writer = TableWriter::create(&self.staging.0, table.name, table.schema(), &self.output)?;
                self.tables.insert(table.name.to_owned(), writer);
            }
        }
        let manifest = self.manifest()?;
        let json = manifest
            .to_json()
            .map_err(|cause| CaptureError::refused("manifest", cause.to_string(), &self.output))?;
        let path = self.staging.0.join(entry::MANIFEST);
        fs::write(&path, json).map_err(CaptureError::io("write", &path))?;
        let complete = self.complete(&manifest)?;
        inspect(&CaptureReader::open(&complete)?)?;
        put(&complete, &self.output)?;
        Ok(manifest)
    }

    fn manifest(&mut self) -> Result<Manifest, CaptureError> {
        let mut entries: Vec<_> = std::mem::take(&mut self.copied).into_values().collect();
        for (name, writer) in std::mem::take(&mut self.tables) {
            entries.push(writer.finish(name)?);
        }
        // In reading order. Tables that this release does not know come last.
        let position = |name: &str| tables::ALL.iter().position(|table| table.name == name);
        entries.sort_by_cached_key(|entry| {
            (position(&entry.name).unwrap_or(tables::ALL.len()), entry.name.clone())
        });
        let files = std::mem::take(&mut self.files).into_values().collect();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        let mut manifest = Manifest::new(now_ns, entries, files);
        manifest.notes = std::mem::take(&mut self.notes);
        manifest.labels = std::mem::take(&mut self.labels);
        Ok(manifest)
    }

    /// The complete capture in the staging folder.
    fn complete(&self, manifest: &Manifest) -> Result<PathBuf, CaptureError> {
        if self.form == CaptureForm::Folder {
            return Ok(self.staging.0.clone());
        }
        let zip = self.staging.0.join("capture.zip");
        let entries: Vec<_> = manifest.entries().map(|(name, _, _)| name).collect();
        container::write(&self.staging.0, &entries, &zip)?;
        Ok(zip)
    }
}

/// Gives a complete capture its name, unless something has it. Of two processes that write one file, one fails: a link
/// replaces nothing, as a rename would.
pub(crate) fn put(complete: &Path, output: &Path) -> Result<(), CaptureError> {
    let linked =
        if complete.is_dir() { fs::rename(complete, output) } else { fs::hard_link(complete, output) };
    match linked {
        // Some file systems have no links. There, the name was free when the writing began.
        Err(error) if !complete.is_dir() && error.kind() != io::ErrorKind::AlreadyExists => {
            fs::rename(complete, output)
        }
        linked => linked,
    }
    .map_err(CaptureError::io("create capture", output))
}

/// A folder next to the output that is removed when it is dropped.
pub(crate) struct StagingFolder(pub(crate) PathBuf);

impl StagingFolder {
    pub(crate) fn next_to(output: &Path) -> Result<Self, CaptureError> {
        if output.file_name().is_none() {
            return Err(CaptureError::refused("capture", "the path names no file", output));
        }
        let path = CaptureWriter::staging(output);
        fs::create_dir(&path).map_err(CaptureError::io("create folder", &path))?;
        unfinished::begin(&path);
        Ok(Self(path))
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        // The folder is gone already where the capture is a folder. Anything else would be noise behind an error.
        drop(fs::remove_dir_all(&self.0));
        unfinished::end(&self.0);
    }
}

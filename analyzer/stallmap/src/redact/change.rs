//! Change of each column, by its class of secrecy.

mod column;
mod meet;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{SortColumn, lexsort_to_indices, take_record_batch};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::labels::CaptureLabels;
use stallmap_schema::capture::reader::{CaptureReader, MAX_CUBIN_BYTES};
use stallmap_schema::secrecy::{ColumnSecrecy, secrecy};
use stallmap_schema::table::{ColumnDef, TableDef, TableRow as _};
use stallmap_schema::tables;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::python::SourceLine;
use stallmap_write::rewrite::{CaptureRewrite, TableFate};

use super::addresses::AddressRebase;
use super::cubin;
use super::identities::IdentityMap;
use super::remains;
use super::words::WordRedactor;
use super::{AlsoRedact, RedactOptions};

pub(super) use meet::{meet, rebase};

const ZSTD_LEVEL: i32 = 9;
/// The data that addresses give away, although they move.
const ACCESS_PATTERNS: &str =
    "accesses: they show which elements were read, such as the rows of an embedding by token";
/// The beginning of a note of this command.
const NOTE: &str = "redacted by stallmap ";

/// Counts of removed and retained data, by description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedactSummary {
    /// Removed data.
    pub gone: BTreeMap<&'static str, u64>,
    /// Data retained unchanged.
    pub stays: BTreeMap<&'static str, u64>,
}

/// Changes tables and cubins.
pub(super) struct CaptureRedactor {
    words: WordRedactor,
    identities: IdentityMap,
    rebase: AddressRebase,
    options: RedactOptions,
    shift_ns: i64,
    unreadable: BTreeSet<String>,
    tally: RedactSummary,
}

impl CaptureRedactor {
    pub(super) fn new(
        words: WordRedactor,
        identities: IdentityMap,
        rebase: AddressRebase,
        options: RedactOptions,
    ) -> Self {
        let mut tally = RedactSummary::default();
        tally.gone.insert("regions of memory moved", rebase.count() as u64);
        Self { words, identities, rebase, options, shift_ns: 0, unreadable: BTreeSet::new(), tally }
    }

    pub(super) fn set_shift_ns(&mut self, shift_ns: i64) {
        self.shift_ns = shift_ns;
    }

    /// Cubins that cannot be read: they do not go along.
    pub(super) fn set_unreadable(&mut self, files: impl Iterator<Item = String>) {
        self.unreadable = files.collect();
    }

    pub(super) fn tally(self) -> RedactSummary {
        self.tally
    }

    fn has(&self, also: AlsoRedact) -> bool {
        self.options.also.contains(&also)
    }

    fn gone(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.tally.gone.entry(what).or_default() += count;
        }
    }

    fn stays(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.tally.stays.entry(what).or_default() += count;
        }
    }

    /// True if rows of a table change their order: identities are part of it.
    fn is_reordered(&self, table: &TableDef) -> bool {
        let kinds = table.sort.iter().filter_map(|name| {
            let column = table.columns.iter().find(|column| column.name == *name)?;
            Some((*name, secrecy(table, column)?))
        });
        kinds.into_iter().any(|(name, kind)| match kind {
            ColumnSecrecy::Identity => name != "function_id" || self.has(AlsoRedact::Symbols),
            ColumnSecrecy::Symbol => self.has(AlsoRedact::Symbols),
            // Reasons are texts, and may contain paths.
            _ => table.name == Loss::TABLE.name,
        })
    }
}

impl CaptureRewrite for CaptureRedactor {
    fn fate(&self, table: &str) -> TableFate {
        match tables::by_name(table) {
            // Unknown content, under names that can say anything.
            None => TableFate::Omitted,
            Some(table) if self.is_reordered(table) => TableFate::ChangedWhole,
            Some(_) => TableFate::Changed,
        }
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        if table.name == MemoryAccess::TABLE.name {
            self.stays(ACCESS_PATTERNS, batch.num_rows() as u64);
        }
        if table.name == SourceLine::TABLE.name {
            self.gone("lines of source code", batch.num_rows() as u64);
            return Ok(RecordBatch::new_empty(table.schema()));
        }
        let mut columns: Vec<ArrayRef> = Vec::new();
        for column in table.columns {
            let changed = match batch.column_by_name(column.name) {
                Some(array) => self.column(table, column, array, batch)?,
                // A capture of an earlier release lacks columns that were added since.
                None if tables::is_added_column(table.name, column.name) => {
                    new_null_array(&(column.data_type)(), batch.num_rows())
                }
                None => return Err(format!("column `{}` is missing", column.name)),
            };
            columns.push(changed);
        }
        let changed = RecordBatch::try_new(table.schema(), columns).map_err(|cause| cause.to_string())?;
        if self.is_reordered(table) { sorted(table, &changed) } else { Ok(changed) }
    }

    fn file(&mut self, name: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        if self.unreadable.contains(name) || !entry::is_cubin(name) {
            self.gone("files that could not be read", 1);
            return Ok(None);
        }
        let mut content = unpack(&bytes)?;
        let with_symbols = self.has(AlsoRedact::Symbols);
        let tally = cubin::redact(&mut content, &mut self.words, with_symbols)?;
        self.gone("bytes of PTX, debug information and compilers' notes", tally.zeroed_bytes);
        self.stays("cubins: code, symbols, lines", 1);
        zstd::bulk::compress(&content, ZSTD_LEVEL).map(Some).map_err(|cause| cause.to_string())
    }

    fn notes(&self) -> Vec<String> {
        let gone: Vec<&str> = self.tally.gone.keys().copied().collect();
        vec![format!("{NOTE}{}: {}", env!("CARGO_PKG_VERSION"), gone.join("; "))]
    }

    fn labels(&mut self, labels: &CaptureLabels) -> CaptureLabels {
        if !labels.is_empty() {
            self.gone("labels of the capture", labels.len() as u64);
        }
        CaptureLabels::new()
    }

    fn earlier_notes(&mut self, notes: &[String]) -> Vec<String> {
        let (own, others): (Vec<&String>, Vec<_>) = notes.iter().partition(|note| note.starts_with(NOTE));
        self.gone("notes of the manifest", others.len() as u64);
        own.into_iter().map(|note| self.words.scrub(note)).collect()
    }

    fn inspect(&self, written: &CaptureReader) -> Result<(), CaptureError> {
        remains::search(written, &self.words)
    }
}

impl CaptureRedactor {
    fn column(
        &mut self,
        table: &TableDef,
        column: &ColumnDef,
        array: &ArrayRef,
        batch: &RecordBatch,
    ) -> Result<ArrayRef, String> {
        let kind =
            secrecy(table, column).ok_or_else(|| format!("`{}` has no class of secrecy", column.name))?;
        match kind {
            ColumnSecrecy::Address => Ok(column::numbers(array, |address| self.rebase.map(address))),
            ColumnSecrecy::Time => Ok(column::times(array, self.shift_ns)),
            ColumnSecrecy::Identity => Ok(self.identities(column.name, array)),
            ColumnSecrecy::ContentHash => Ok(self.content_hash(array)),
            ColumnSecrecy::Contents | ColumnSecrecy::Parameters | ColumnSecrecy::Attributes => {
                Ok(self.blobs(kind, array))
            }
            _ if column.name == "file" && table.name == "module" => Ok(self.cubin_files(array)),
            _ => Ok(self.texts(kind, table, column, array, batch)),
        }
    }
}

/// Rows in their table's order.
fn sorted(table: &TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
    let columns = table.sort.iter().filter_map(|name| batch.column_by_name(name)).cloned();
    // Rows that are equal in it stay as they are.
    let position: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..batch.num_rows() as u64));
    let columns: Vec<SortColumn> =
        columns.chain([position]).map(|values| SortColumn { values, options: None }).collect();
    let indices = lexsort_to_indices(&columns, None).map_err(|cause| cause.to_string())?;
    take_record_batch(batch, &indices).map_err(|cause| cause.to_string())
}

/// The content of a zstd-compressed file.
pub(super) fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let decoder = zstd::Decoder::new(packed).map_err(|cause| cause.to_string())?;
    let mut content = Vec::new();
    decoder.take(MAX_CUBIN_BYTES).read_to_end(&mut content).map_err(|cause| cause.to_string())?;
    Ok(content)
}

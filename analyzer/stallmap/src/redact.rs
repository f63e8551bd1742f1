//! Removal of names of users, machines and projects and of data from a capture: `stallmap redact`.
//!
//! [`stallmap_schema::secrecy`] classifies each column. [`change`] applies the class. For one salt, equal secrets
//! become equal placeholders: joins still work, and captures redacted with one salt can be compared. Hashes of names
//! are computed from the new names: only the salt, or a guess of a remaining name, can reproduce such a hash. The
//! complete result is read again and searched for replaced values before it is put into place: one with a remaining
//! value, or one that cannot be searched, never is.

mod addresses;
mod change;
mod cubin;
mod identities;
mod remains;
mod vocabulary;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::unfinished;
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::memory::AccessSummary;
use stallmap_schema::tables::run::Run;
use stallmap_write::CaptureForm;
use stallmap_write::rewrite::rewrite;
use stallmap_write::subset::coarsen;
use tempfile::TempDir;

use change::CaptureRedactor;
use identities::IdentityMap;
use words::WordRedactor;

pub use change::RedactSummary;

/// Deviations from the defaults, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedactOptions {
    /// Salt that makes placeholders equal in two captures.
    pub salt: Vec<u8>,
    /// Data removed in addition.
    pub also: BTreeSet<AlsoRedact>,
    /// Data retained.
    pub keep: BTreeSet<KeptData>,
    /// Counts in place of memory accesses.
    pub is_coarse: bool,
}

/// Data to remove on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlsoRedact {
    /// Names of kernels, functions, operators and regions.
    Symbols,
    /// Names of parts of models, and of their parameters.
    Names,
    /// Base names of files.
    Files,
    /// When it was: all times move together.
    Times,
}

/// Data to retain on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptData {
    /// Arguments of programs, without paths.
    Arguments,
    /// Texts of errors and other details, without paths.
    Details,
    /// Values that were passed to kernels.
    Parameters,
    /// Contents of memory.
    Contents,
}

/// Writes a capture without secrets. Returns counts of removed and retained data.
pub fn redact(
    reader: &CaptureReader,
    options: &RedactOptions,
    output: &Path,
) -> Result<RedactSummary, CaptureError> {
    if !options.is_coarse {
        return replace(reader, options, output);
    }
    let coarse = CoarseCapture::write(reader, output)?;
    let mut summary = replace(&coarse.reader, options, output)?;
    summary.gone.insert(COUNTED, coarse.rows);
    summary.stays.insert(EXTREMES, counts(&coarse.reader));
    Ok(summary)
}

/// A capture whose accesses are counts, in a folder of its own next to the output, until it is dropped.
struct CoarseCapture {
    folder: TempDir,
    reader: CaptureReader,
    rows: u64,
}

impl CoarseCapture {
    fn write(reader: &CaptureReader, output: &Path) -> Result<Self, CaptureError> {
        let parent =
            output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let fail =
            |source| CaptureError::Io { action: "create a folder in", path: parent.to_owned(), source };
        let folder = tempfile::tempdir_in(parent).map_err(fail)?;
        unfinished::begin(folder.path());
        let path = folder.path().join("coarse.stallmap");
        let written = coarsen(reader, &path).and_then(|rows| Ok((CaptureReader::open(&path)?, rows)));
        if written.is_err() {
            unfinished::end(folder.path());
        }
        written.map(|(reader, rows)| Self { folder, reader, rows })
    }
}

impl Drop for CoarseCapture {
    fn drop(&mut self) {
        unfinished::end(self.folder.path());
    }
}

/// Rows of counts.
fn counts(reader: &CaptureReader) -> u64 {
    let name = AccessSummary::TABLE.name;
    reader.tables().iter().find(|table| table.name == name).map_or(0, |table| table.rows)
}

fn replace(
    reader: &CaptureReader,
    options: &RedactOptions,
    output: &Path,
) -> Result<RedactSummary, CaptureError> {
    let mut words = WordRedactor::new(&options.salt, options.also.contains(&AlsoRedact::Files));
    change::meet(reader, &mut words, options)?;
    let cubins = cubins(reader, &mut words, options)?;
    let identities = IdentityMap::from_capture(reader, &mut words, options, &cubins)?;
    let shift_ns = if options.also.contains(&AlsoRedact::Times) { shift_ns(reader)? } else { 0 };
    let mut redactor = CaptureRedactor::new(words, identities, change::rebase(reader)?, options.clone());
    redactor.set_shift_ns(shift_ns);
    redactor.set_unreadable(cubins.into_iter().filter(|(_, names)| names.is_none()).map(|(name, _)| name));
    rewrite(reader, output, CaptureForm::File, &mut redactor).map_err(|error| match error {
        // The result never was where its inspection found it.
        CaptureError::Refused { thing, cause, .. } => {
            CaptureError::Refused { thing, cause, path: output.to_owned() }
        }
        error => error,
    })?;
    Ok(redactor.tally())
}

/// Accesses that became counts.
const COUNTED: &str = "rows of accesses, now counts by instruction and block of memory";
/// The addresses that counts still show.
const EXTREMES: &str = "counts of accesses: each has its lowest and highest address";
/// Digits of a BLAKE3 hash.
const HASH_DIGITS: usize = 64;

/// Each cubin's symbols, old and new. None if the cubin cannot be read.
type CubinSymbols = BTreeMap<String, Option<BTreeMap<String, String>>>;

/// Reads every cubin first: tables need the new names and the secrets in them.
fn cubins(
    reader: &CaptureReader,
    words: &mut WordRedactor,
    options: &RedactOptions,
) -> Result<CubinSymbols, CaptureError> {
    let mut cubins = CubinSymbols::new();
    for file in &reader.manifest().files {
        let packed = reader.verified_entry(&file.path)?;
        let unpacked = change::unpack(&packed).ok().filter(|_| is_hash(&file.path));
        let tally = unpacked.and_then(|mut bytes| {
            cubin::redact(&mut bytes, words, options.also.contains(&AlsoRedact::Symbols)).ok()
        });
        cubins.insert(file.path.clone(), tally.map(|tally| tally.names));
    }
    Ok(cubins)
}

/// True for the entry of a cubin that is named by a hash, and so says nothing.
fn is_hash(entry: &str) -> bool {
    let name = entry.strip_prefix("cubins/").and_then(|name| name.strip_suffix(".cubin.zst"));
    name.is_some_and(|name| name.len() == HASH_DIGITS && name.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Shift of times that moves the start of the first run to the year 2000.
fn shift_ns(reader: &CaptureReader) -> Result<i64, CaptureError> {
    const YEAR_2000_NS: i64 = 946_684_800_000_000_000;
    let first = reader.read_rows::<Run>()?.iter().map(|run| run.started_ns).min();
    Ok(first.map_or(0, |first| YEAR_2000_NS.saturating_sub(first)))
}

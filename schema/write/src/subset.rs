//! A part of a capture: without some kinds of data, only some tables, only some launches.
//!
//! Omitted data is counted in the table `loss` under [`REASON`], run by run. The counts of launches agree with it:
//! omitted requests and samples count as lost, and a bundle without its memory states why.

pub mod blocks;
mod coarsen;
pub mod counts;
mod losses;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use crate::CaptureForm;
use crate::rewrite::{CaptureRewrite, TableFate, change_rows, rewrite};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use regex::Regex;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::cell::ColumnCell;
use stallmap_schema::id::KernelId;
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::{AccessHistogram, AccessSummary, MemoryAccess};
use stallmap_schema::tables::replay::{Bundle, BundleContent, BundlePage, BundleSymbol, Counter};
use stallmap_schema::tables::sample::PcSample;

pub use coarsen::coarsen;
pub use losses::REASON;

/// A kind of data that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionalPart {
    /// The accesses of kernels to memory.
    Accesses,
    /// The memory that bundles hold.
    Bundles,
    /// PC samples.
    Samples,
    /// Hardware counters.
    Counters,
    /// Machine code.
    Code,
    /// The parameters of launches.
    Parameters,
}

impl OptionalPart {
    /// Its tables.
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Accesses => {
                const { &[MemoryAccess::TABLE.name, AccessSummary::TABLE.name, AccessHistogram::TABLE.name] }
            }
            Self::Bundles => {
                const { &[BundlePage::TABLE.name, BundleSymbol::TABLE.name, BundleContent::TABLE.name] }
            }
            Self::Samples => const { &[PcSample::TABLE.name] },
            Self::Counters => const { &[Counter::TABLE.name] },
            Self::Code => &[],
            Self::Parameters => const { &[LaunchParameter::TABLE.name] },
        }
    }

    const ALL: [Self; 6] =
        [Self::Accesses, Self::Bundles, Self::Samples, Self::Counters, Self::Code, Self::Parameters];
}

/// The selection of data that stays in the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubsetSelection {
    /// Kinds of data to omit.
    pub without: BTreeSet<OptionalPart>,
    /// The tables to keep, with those that they refer to and those that every capture needs. All where there are none.
    pub only: BTreeSet<String>,
    /// The launches to keep. All if `None`.
    pub launches: Option<BTreeSet<u64>>,
}

/// Tables that always stay: without them nothing is known of the rest.
const ALWAYS: [&str; 9] =
    ["run", "run_option", "device", "module", "function", "launch", "graph_launch", "launch_run", "loss"];

/// Writes a part of a capture.
pub fn pack_part(
    reader: &CaptureReader,
    selection: &SubsetSelection,
    output: &Path,
    form: CaptureForm,
) -> Result<Manifest, CaptureError> {
    let mut subset = CaptureSubset::new(reader, selection)?;
    rewrite(reader, output, form, &mut subset)
}

/// A selection, worked out for one capture.
struct CaptureSubset {
    without: BTreeSet<OptionalPart>,
    retained: BTreeSet<String>,
    launches: Option<BTreeSet<u64>>,
    /// Page contents of the selected bundles, where launches are selected.
    contents: BTreeSet<u64>,
    losses: Vec<Loss>,
}

impl CaptureSubset {
    fn new(reader: &CaptureReader, selection: &SubsetSelection) -> Result<Self, CaptureError> {
        let mut retained: BTreeSet<String> = reader.tables().iter().map(|table| table.name.clone()).collect();
        let mut without = selection.without.clone();
        if !selection.only.is_empty() {
            let wanted = closure(selection.only.iter().map(String::as_str).chain(ALWAYS));
            retained.retain(|table| wanted.contains(table.as_str()));
            // Kinds of data that the launches count follow their tables.
            let is_gone = |part: &OptionalPart| part.tables().iter().any(|table| !retained.contains(*table));
            without.extend(
                OptionalPart::ALL.into_iter().filter(|part| *part != OptionalPart::Code).filter(is_gone),
            );
        }
        for table in without.iter().flat_map(|part| part.tables()) {
            retained.remove(*table);
        }
        let mut subset = Self {
            without,
            retained,
            launches: selection.launches.clone(),
            contents: BTreeSet::new(),
            losses: Vec::new(),
        };
        subset.contents = subset.contents_of(reader)?;
        subset.losses = subset.losses(reader)?;
        Ok(subset)
    }

    fn is_without(&self, part: OptionalPart) -> bool {
        self.without.contains(&part)
    }

    fn has_launch(&self, kernel: u64) -> bool {
        self.launches.as_ref().is_none_or(|launches| launches.contains(&kernel))
    }

    fn contents_of(&self, reader: &CaptureReader) -> Result<BTreeSet<u64>, CaptureError> {
        let mut contents = BTreeSet::new();
        if self.launches.is_none() || !self.retained.contains(BundleContent::TABLE.name) {
            return Ok(contents);
        }
        let columns = ["kernel_id", "content_id", "content_after_id", "written_content_id"];
        for table in [BundlePage::TABLE.name, BundleSymbol::TABLE.name] {
            for batch in reader.read_columns(table, &columns)? {
                let batch = batch?;
                let [kernel, before, after, written] = columns.map(|name| batch.column_by_name(name));
                let Some(kernel) = kernel else { continue };
                for row in 0..batch.num_rows() {
                    if u64::read(kernel, row).is_some_and(|kernel| self.has_launch(kernel)) {
                        let ids = [before, after, written].into_iter().flatten();
                        contents.extend(ids.filter_map(|ids| u64::read(ids, row)));
                    }
                }
            }
        }
        Ok(contents)
    }

    /// The rows of a batch that belong to selected launches.
    fn filter(&self, table: &TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let is_kept = |row: usize| {
            if table.name == BundleContent::TABLE.name {
                let content = batch.column_by_name("content_id").and_then(|ids| u64::read(ids, row));
                return content.is_none_or(|content| self.contents.contains(&content));
            }
            let kernel = batch.column_by_name("kernel_id").and_then(|ids| u64::read(ids, row));
            kernel.is_none_or(|kernel| self.has_launch(kernel))
        };
        let mask: BooleanArray = (0..batch.num_rows()).map(|row| Some(is_kept(row))).collect();
        filter_record_batch(batch, &mask).map_err(|cause| cause.to_string())
    }

    /// A launch whose requests and samples are not there any more counts them as lost.
    fn change_launch_run(&self, row: &mut LaunchRun) {
        if self.is_without(OptionalPart::Accesses) {
            losses::lose_requests(row);
        }
        if self.is_without(OptionalPart::Samples) && row.sample_count.is_some() {
            row.lost_sample_count = row.sample_count;
        }
    }
}

impl CaptureRewrite for CaptureSubset {
    fn fate(&self, table: &str) -> TableFate {
        if !self.retained.contains(table) {
            return TableFate::Emptied;
        }
        let has_launches = || {
            let columns = tables::by_name(table).map(|table| table.columns).unwrap_or_default();
            table == BundleContent::TABLE.name || columns.iter().any(|column| column.name == "kernel_id")
        };
        let is_changed = match table {
            name if name == Loss::TABLE.name => return TableFate::ChangedWhole,
            name if name == LaunchRun::TABLE.name => true,
            name if name == Launch::TABLE.name => self.is_without(OptionalPart::Accesses),
            name if name == Bundle::TABLE.name => self.is_without(OptionalPart::Bundles),
            name if name == Module::TABLE.name => self.is_without(OptionalPart::Code),
            _ => false,
        };
        if is_changed || (self.launches.is_some() && has_launches()) {
            TableFate::Changed
        } else {
            TableFate::Copied
        }
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        if table.name == GpuActivity::TABLE.name {
            // Without the work of other launches the GPU would seem to be idle.
            let forget = |row: &mut GpuActivity| {
                row.kernel_id = row.kernel_id.filter(|kernel| self.has_launch(kernel.0));
            };
            return change_rows::<GpuActivity>(batch, forget);
        }
        let batch = if self.launches.is_some() { self.filter(table, batch)? } else { batch.clone() };
        match table.name {
            name if name == Launch::TABLE.name => {
                // A launch whose accesses are left out stands for no other.
                let is_known =
                    |model: &KernelId| !self.is_without(OptionalPart::Accesses) && self.has_launch(model.0);
                change_rows::<Launch>(&batch, |row| row.accesses_of = row.accesses_of.filter(is_known))
            }
            name if name == LaunchRun::TABLE.name => {
                change_rows::<LaunchRun>(&batch, |row| self.change_launch_run(row))
            }
            name if name == Bundle::TABLE.name && self.is_without(OptionalPart::Bundles) => {
                change_rows::<Bundle>(&batch, refuse)
            }
            name if name == Module::TABLE.name && self.is_without(OptionalPart::Code) => {
                change_rows::<Module>(&batch, |row| row.file = None)
            }
            name if name == Loss::TABLE.name => {
                let mut rows = Loss::read_all(&batch).map_err(|cause| cause.to_string())?;
                rows.append(&mut self.losses);
                rows.sort_by(|a, b| {
                    let key = |row: &Loss| (row.run_id, row.kind.word(), row.reason.clone());
                    key(a).cmp(&key(b))
                });
                Loss::batch(rows).map_err(|cause| cause.to_string())
            }
            _ => Ok(batch),
        }
    }

    fn file(&mut self, name: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes).filter(|_| !(self.is_without(OptionalPart::Code) && entry::is_cubin(name))))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A bundle without its memory is none any more.
fn refuse(bundle: &mut Bundle) {
    if bundle.refusal.is_none() {
        bundle.refusal = Some(REASON.to_owned());
        bundle.method = None;
        (bundle.page_count, bundle.written_page_count, bundle.new_page_count) = (0, 0, 0);
    }
}

/// Tables, and those that they refer to.
fn closure<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut closed = BTreeSet::new();
    let mut open: Vec<&str> = names.collect();
    while let Some(name) = open.pop() {
        if closed.insert(name) {
            let columns = tables::by_name(name).map(|table| table.columns).unwrap_or_default();
            open.extend(columns.iter().filter_map(|column| Some(column.reference?.0)));
        }
    }
    closed
}

/// Launches as `--launches` names them.
#[derive(Clone, Debug)]
pub enum LaunchRanges {
    /// By `kernel_id`, with both ends included.
    Ids(RangeInclusive<u64>),
    /// By a regular expression for the kernel's name.
    Kernel(Regex),
}

impl FromStr for LaunchRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self::Ids(first..=last)),
            (Ok(first), Ok(last)) => Err(format!("the range ends at {last}, before it begins at {first}")),
            _ => Regex::new(text).map(Self::Kernel).map_err(|cause| cause.to_string()),
        }
    }
}

/// The launches of a capture that a test picks: the launch, and the names of its kernel.
pub fn launches_where(
    reader: &CaptureReader,
    mut pick: impl FnMut(KernelId, &str, &str) -> bool,
) -> Result<BTreeSet<u64>, CaptureError> {
    use stallmap_schema::tables::code::Function;

    let functions: BTreeMap<_, _> =
        reader.read_rows::<Function>()?.into_iter().map(|row| (row.function_id, row)).collect();
    let mut launches = BTreeSet::new();
    for launch in reader.read_rows::<Launch>()? {
        let function = functions.get(&launch.function_id);
        let names = function.map_or(("", ""), |row| (row.name.as_str(), row.demangled_name.as_str()));
        if pick(launch.kernel_id, names.0, names.1) {
            launches.insert(launch.kernel_id.0);
        }
    }
    Ok(launches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_ids_ranges_and_patterns() {
        let read = |text: &str| text.parse::<LaunchRanges>();
        assert!(matches!(read("7"), Ok(LaunchRanges::Ids(ids)) if ids == (7..=7)));
        assert!(matches!(read("3-7"), Ok(LaunchRanges::Ids(ids)) if ids == (3..=7)));
        assert!(matches!(read("soft-max"), Ok(LaunchRanges::Kernel(name)) if name.as_str() == "soft-max"));
        assert!(matches!(read("7-3"), Err(cause) if cause == "the range ends at 3, before it begins at 7"));
        assert!(read("soft(").is_err());
    }
}

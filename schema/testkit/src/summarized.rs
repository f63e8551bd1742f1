//! A capture as a recorder with `--accesses=auto` would have written it, from one with all accesses.
//!
//! Counts of `access_summary` and `access_histogram` are computed from the lanes of the rows and the storages and allocations that lived then,
//! without code of the analyzer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::memory::{AccessHistogram, AccessSummary, DeviceAllocation, MemoryAccess};
use stallmap_schema::tables::tensor::Storage;
use stallmap_write::subset::blocks::LiveBlocks;
use stallmap_write::subset::counts::AccessCounter;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::shapes;

/// Addresses of launches of a kind agree in it.
const ALIGNMENT: u64 = 128;

/// The parts of the accesses that the capture holds.
#[derive(Clone, Copy, Debug)]
pub struct SummaryParts {
    /// Keeps the rows of blocks whose index is a multiple of this.
    pub every_block: u64,
    /// Has counts of every request.
    pub has_summary: bool,
    /// Every second launch of a kind refers to the first one, and has neither rows nor counts.
    pub refers: bool,
}

/// The tables that take part, complete.
pub struct AccessTables {
    launches: Vec<Launch>,
    runs: Vec<LaunchRun>,
    parameters: BTreeMap<KernelId, Vec<u64>>,
    rows: Vec<MemoryAccess>,
    summary: Vec<AccessSummary>,
    histogram: Vec<AccessHistogram>,
    blocks: BTreeMap<KernelId, LiveBlocks>,
}

impl AccessTables {
    /// Reads a capture with all accesses.
    ///
    /// # Errors
    ///
    /// A table that cannot be read.
    pub fn read(reader: &CaptureReader) -> Result<Self, CaptureError> {
        Self::read_changed(reader, |rows| rows)
    }

    /// Reads a capture with all accesses, and changes these.
    ///
    /// # Errors
    ///
    /// A table that cannot be read.
    pub fn read_changed(
        reader: &CaptureReader,
        change: impl FnOnce(Vec<MemoryAccess>) -> Vec<MemoryAccess>,
    ) -> Result<Self, CaptureError> {
        let launches = reader.read_rows::<Launch>()?;
        let (storages, allocations) =
            (reader.read_rows::<Storage>()?, reader.read_rows::<DeviceAllocation>()?);
        let rows = change(reader.read_rows::<MemoryAccess>()?);
        let recorded: BTreeSet<KernelId> = rows.iter().map(|row| row.kernel_id).collect();
        let recorded = launches.iter().filter(|launch| recorded.contains(&launch.kernel_id));
        let blocks =
            recorded.map(|launch| (launch.kernel_id, LiveBlocks::new(launch, &storages, &allocations)));
        let blocks: BTreeMap<KernelId, LiveBlocks> = blocks.collect();
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let words = |row: LaunchParameter| (row.kernel_id, row.bytes.0.chunks_exact(8).map(word).collect());
        let parameters = reader.read_rows::<LaunchParameter>()?.into_iter().map(words).collect();
        let mut counter = AccessCounter::new(reader)?;
        for row in &rows {
            counter.add(row.clone());
        }
        let summary = counter.finish();
        let histogram = shapes::count(&rows);
        let runs = reader.read_rows::<LaunchRun>()?;
        Ok(Self { launches, runs, parameters, rows, summary, histogram, blocks })
    }

    /// The launches of each kind that refer to the first one, with it.
    pub fn references(&self) -> BTreeMap<KernelId, KernelId> {
        let mut kinds = BTreeMap::<_, Vec<KernelId>>::new();
        for launch in self.launches.iter().filter(|launch| self.blocks.contains_key(&launch.kernel_id)) {
            let shape =
                [launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x, launch.block_y, launch.block_z];
            let kind = (launch.run_id, launch.function_id, shape, self.plain_words(launch.kernel_id));
            kinds.entry(kind).or_default().push(launch.kernel_id);
        }
        let pairs = kinds.values().flat_map(|kind| {
            let first = kind.first().copied();
            kind.iter().skip(1).step_by(2).filter_map(move |&launch| Some((launch, first?)))
        });
        pairs.collect()
    }

    /// The words of a launch's parameters, of addresses their alignment alone: the recorder compares these.
    fn plain_words(&self, launch: KernelId) -> Option<Vec<(bool, u64)>> {
        let (words, blocks) = (self.parameters.get(&launch)?, self.blocks.get(&launch)?);
        let plain = |&word: &u64| match blocks.find(word) {
            Some(_) => (true, word % ALIGNMENT),
            None => (false, word),
        };
        Some(words.iter().map(plain).collect())
    }

    /// Writes the capture with a part of the accesses.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written.
    pub fn write(
        &self,
        reader: &CaptureReader,
        output: &Path,
        how: SummaryParts,
    ) -> Result<(), CaptureError> {
        let references = if how.refers { self.references() } else { BTreeMap::new() };
        let is_kept = |row: &&MemoryAccess| {
            row.block.is_multiple_of(how.every_block) && !references.contains_key(&row.kernel_id)
        };
        let rows: Vec<&MemoryAccess> = self.rows.iter().filter(is_kept).collect();
        let mut writer = CaptureWriter::create(output, CaptureForm::File)?;
        let changed = [
            MemoryAccess::TABLE,
            AccessSummary::TABLE,
            AccessHistogram::TABLE,
            Launch::TABLE,
            LaunchRun::TABLE,
        ];
        for table in
            reader.tables().iter().filter(|table| changed.iter().all(|changed| changed.name != table.name))
        {
            writer.take_table(reader, table)?;
        }
        for file in &reader.manifest().files {
            writer.add_file(&file.path, &reader.verified_entry(&file.path)?)?;
        }
        let counts = counts(&rows);
        writer.append_rows(rows.into_iter().cloned())?;
        let summary =
            self.summary.iter().filter(|row| how.has_summary && !references.contains_key(&row.kernel_id));
        writer.append_rows(summary.cloned())?;
        let histogram =
            self.histogram.iter().filter(|row| how.has_summary && !references.contains_key(&row.kernel_id));
        writer.append_rows(histogram.cloned())?;
        writer.append_rows(self.launches.iter().map(|launch| Launch {
            accesses_of: references.get(&launch.kernel_id).copied(),
            ..launch.clone()
        }))?;
        writer.append_rows(self.runs.iter().map(|run| recount(run, &counts, &references)))?;
        writer.note(reader.manifest().notes.iter().cloned());
        writer.finish().map(drop)
    }
}

/// Requests and lanes of each launch.
fn counts(rows: &[&MemoryAccess]) -> BTreeMap<KernelId, (u64, u64)> {
    let (mut counts, mut last) = (BTreeMap::<KernelId, (u64, u64)>::new(), None);
    for row in rows {
        let count = counts.entry(row.kernel_id).or_default();
        let place = (row.kernel_id, row.sequence);
        count.0 += u64::from(last.replace(place) != Some(place));
        count.1 += u64::from(row.lane_mask.count_ones());
    }
    counts
}

/// A launch as its access run counts it now.
fn recount(
    run: &LaunchRun,
    counts: &BTreeMap<KernelId, (u64, u64)>,
    references: &BTreeMap<KernelId, KernelId>,
) -> LaunchRun {
    let (Some(before), Some(_)) = (run.request_count, run.lane_access_count) else { return run.clone() };
    let (requests, lanes) = counts.get(&run.kernel_id).copied().unwrap_or_default();
    let refers = references.contains_key(&run.kernel_id);
    let lost = run.lost_request_count.unwrap_or(0) + if refers { 0 } else { before - requests.min(before) };
    LaunchRun {
        recorded: run.recorded && !refers,
        request_count: Some(requests),
        lane_access_count: Some(lanes),
        lost_request_count: Some(lost),
        ..run.clone()
    }
}

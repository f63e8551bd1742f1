//! A capture as a recorder with `--accesses=auto` would have written it, from one with all accesses.
//!
//! Counts of `access_summary` are computed from the lanes of the rows and the storages and allocations that lived then,
//! without code of the analyzer.

mod blocks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use blocks::{Block, Blocks};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::writer::{CaptureWriter, Form};
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc};
use stallmap_schema::table::Row;
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::memory::{AccessSummary, DeviceAllocation, MemoryAccess};
use stallmap_schema::tables::tensor::Storage;
use stallmap_schema::word::{AccessKind, Space};

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 32;

/// The parts of the accesses that the capture holds.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Keeps the rows of blocks whose index is a multiple of this.
    pub every_block: u64,
    /// Has counts of every request.
    pub has_summary: bool,
    /// Every second launch of a kind refers to the first one, and has neither rows nor counts.
    pub refers: bool,
}

/// The tables that take part, complete.
pub struct Accesses {
    launches: Vec<Launch>,
    runs: Vec<LaunchRun>,
    parameters: BTreeMap<KernelId, Vec<u64>>,
    rows: Vec<MemoryAccess>,
    summary: Vec<AccessSummary>,
    blocks: BTreeMap<KernelId, Blocks>,
}

impl Accesses {
    /// Reads a capture with all accesses.
    ///
    /// # Errors
    ///
    /// A table that cannot be read.
    pub fn read(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let launches = reader.read_rows::<Launch>()?;
        let (storages, allocations) =
            (reader.read_rows::<Storage>()?, reader.read_rows::<DeviceAllocation>()?);
        let rows = reader.read_rows::<MemoryAccess>()?;
        let recorded: BTreeSet<KernelId> = rows.iter().map(|row| row.kernel_id).collect();
        let recorded = launches.iter().filter(|launch| recorded.contains(&launch.kernel_id));
        let blocks = recorded.map(|launch| (launch.kernel_id, Blocks::new(launch, &storages, &allocations)));
        let blocks: BTreeMap<KernelId, Blocks> = blocks.collect();
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let words = |row: LaunchParameter| (row.kernel_id, row.bytes.0.chunks_exact(8).map(word).collect());
        let parameters = reader.read_rows::<LaunchParameter>()?.into_iter().map(words).collect();
        let summary = summarize(&rows, &blocks);
        let runs = reader.read_rows::<LaunchRun>()?;
        Ok(Self { launches, runs, parameters, rows, summary, blocks })
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

    /// The words of a launch's parameters, without those that are addresses.
    fn plain_words(&self, launch: KernelId) -> Option<Vec<Option<u64>>> {
        let (words, blocks) = (self.parameters.get(&launch)?, self.blocks.get(&launch)?);
        Some(words.iter().map(|&word| blocks.find(word).is_none().then_some(word)).collect())
    }

    /// Writes the capture with a part of the accesses.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written.
    pub fn write(&self, reader: &CaptureReader, output: &Path, how: How) -> Result<(), CaptureError> {
        let references = if how.refers { self.references() } else { BTreeMap::new() };
        let is_kept = |row: &&MemoryAccess| {
            row.block.is_multiple_of(how.every_block) && !references.contains_key(&row.kernel_id)
        };
        let rows: Vec<&MemoryAccess> = self.rows.iter().filter(is_kept).collect();
        let mut writer = CaptureWriter::create(output, Form::File)?;
        let changed = [MemoryAccess::TABLE, AccessSummary::TABLE, Launch::TABLE, LaunchRun::TABLE];
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

type Key = (KernelId, FunctionId, Pc, AccessKind, Space, Option<Block>);

/// The counts of rows, by instruction and block of memory. Rows of one sequence number are one request.
fn summarize(rows: &[MemoryAccess], blocks: &BTreeMap<KernelId, Blocks>) -> Vec<AccessSummary> {
    let mut summary = BTreeMap::<Key, AccessSummary>::new();
    for request in
        rows.chunk_by(|one, other| (one.kernel_id, one.sequence) == (other.kernel_id, other.sequence))
    {
        let Some((first, blocks)) = request.first().and_then(|row| Some((row, blocks.get(&row.kernel_id)?)))
        else {
            continue;
        };
        let is_global = matches!(first.space, Space::Global | Space::GlobalAsync);
        let mut lanes: Vec<(u8, u64, u64)> = request
            .iter()
            .flat_map(|row| row.lanes().map(|(lane, at)| (lane, at.0, u64::from(row.access_bytes))))
            .collect();
        lanes.sort_unstable();
        let mut by_block = BTreeMap::<Option<Block>, Vec<(u64, u64)>>::new();
        let mut lowest = None;
        for &(_, address, bytes) in &lanes {
            let block = blocks.find(address).filter(|_| is_global);
            lowest.get_or_insert(block);
            by_block.entry(block).or_default().push((address, address + bytes));
        }
        for (block, ranges) in by_block {
            let key = (first.kernel_id, first.function_id, first.pc, first.kind, first.space, block);
            add(summary.entry(key).or_insert_with(|| empty(&key)), ranges, lowest == Some(block));
        }
    }
    let mut rows: Vec<AccessSummary> = summary.into_values().collect();
    // Texts, as the table sorts them.
    rows.sort_by_key(|row| {
        (row.kernel_id, row.function_id, row.pc, row.kind.word(), row.space.word(), row.address)
    });
    rows
}

fn empty(&(kernel_id, function_id, pc, kind, space, block): &Key) -> AccessSummary {
    AccessSummary {
        kernel_id,
        function_id,
        pc,
        kind,
        space,
        block_address: block.map(|(low, _)| Address(low)),
        address: Address(u64::MAX),
        span_bytes: 0,
        request_count: 0,
        shared_request_count: 0,
        lane_count: 0,
        sectors: 0,
        unique_bytes: 0,
        ideal_sectors: 0,
    }
}

/// Adds the lanes of one request in one block: first byte, and past the last.
fn add(row: &mut AccessSummary, mut ranges: Vec<(u64, u64)>, is_lowest: bool) {
    ranges.sort_unstable();
    let sectors: BTreeSet<u64> = ranges
        .iter()
        .flat_map(|&(low, high)| low / SECTOR_BYTES..=high.max(low + 1).saturating_sub(1) / SECTOR_BYTES)
        .collect();
    let (mut bytes, mut end) = (0, 0);
    for &(low, high) in &ranges {
        bytes += high - low.max(end).min(high);
        end = end.max(high);
    }
    let low = ranges.first().map_or(u64::MAX, |range| range.0);
    let before = row.address.0.saturating_add(row.span_bytes);
    let high = if row.request_count == 0 { end } else { end.max(before) };
    row.address = Address(low.min(row.address.0));
    row.span_bytes = high - row.address.0;
    row.request_count += 1;
    row.shared_request_count += u64::from(!is_lowest);
    row.lane_count += ranges.len() as u64;
    row.sectors += sectors.len() as u64;
    row.unique_bytes += bytes;
    row.ideal_sectors += bytes.div_ceil(SECTOR_BYTES);
}

//! Rows of `access_summary`, counted from rows of `memory_access`, request by request.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc};
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::memory::{AccessSummary, DeviceAllocation, MemoryAccess};
use stallmap_schema::tables::tensor::Storage;
use stallmap_schema::word::{AccessKind, Space};

use super::blocks::{AddressBlock, LiveBlocks};

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 32;

type AccessCountKey = (FunctionId, Pc, AccessKind, Space, Option<AddressBlock>);

/// Counts of the accesses that it is given, in the order of the table.
#[derive(Debug)]
pub struct AccessCounter {
    launches: BTreeMap<KernelId, Launch>,
    storages: Vec<Storage>,
    allocations: Vec<DeviceAllocation>,
    /// The launch whose rows come.
    current: Option<(KernelId, LiveBlocks)>,
    /// Rows of one request.
    request: Vec<MemoryAccess>,
    counts: BTreeMap<AccessCountKey, AccessSummary>,
    done: Vec<AccessSummary>,
}

impl AccessCounter {
    /// With the memory that lives in a capture.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn new(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let launches = reader.read_rows::<Launch>()?;
        Ok(Self {
            launches: launches.into_iter().map(|launch| (launch.kernel_id, launch)).collect(),
            storages: reader.read_rows()?,
            allocations: reader.read_rows()?,
            current: None,
            request: Vec::new(),
            counts: BTreeMap::new(),
            done: Vec::new(),
        })
    }

    /// Adds a row. Rows of one sequence number are one request.
    pub fn add(&mut self, row: MemoryAccess) {
        let request = |row: &MemoryAccess| (row.kernel_id, row.sequence);
        if self.request.last().is_some_and(|last| request(last) != request(&row)) {
            self.end_request();
        }
        self.request.push(row);
    }

    /// The counts of all rows, in the order of the table.
    pub fn finish(mut self) -> Vec<AccessSummary> {
        self.end_request();
        self.end_launch();
        sort(&mut self.done);
        self.done
    }

    fn end_request(&mut self) {
        let request = std::mem::take(&mut self.request);
        let Some(first) = request.first() else { return };
        self.begin_launch(first.kernel_id);
        let Some((_, blocks)) = &self.current else { return };
        let is_global = matches!(first.space, Space::Global | Space::GlobalAsync);
        let mut lanes: Vec<(u8, u64, u64)> = request
            .iter()
            .flat_map(|row| row.lanes().map(|(lane, at)| (lane, at.0, u64::from(row.access_bytes))))
            .collect();
        lanes.sort_unstable();
        let mut by_block = BTreeMap::<Option<AddressBlock>, Vec<(u64, u64)>>::new();
        let mut lowest = None;
        for &(_, address, bytes) in &lanes {
            let block = blocks.find(address).filter(|_| is_global);
            lowest.get_or_insert(block);
            by_block.entry(block).or_default().push((address, address.saturating_add(bytes)));
        }
        for (block, ranges) in by_block {
            let key = (first.function_id, first.pc, first.kind, first.space, block);
            let row = self.counts.entry(key).or_insert_with(|| empty(first.kernel_id, &key));
            add(row, ranges, lowest == Some(block));
        }
    }

    fn begin_launch(&mut self, kernel_id: KernelId) {
        if self.current.as_ref().is_some_and(|(current, _)| *current == kernel_id) {
            return;
        }
        self.end_launch();
        let launch = self.launches.get(&kernel_id);
        self.current =
            launch.map(|launch| (kernel_id, LiveBlocks::new(launch, &self.storages, &self.allocations)));
    }

    fn end_launch(&mut self) {
        self.done.extend(std::mem::take(&mut self.counts).into_values());
    }
}

/// Rows in the order of the table, which sorts words as texts.
pub(crate) fn sort(rows: &mut [AccessSummary]) {
    rows.sort_by_key(|row| {
        (row.kernel_id, row.function_id, row.pc, row.kind.word(), row.space.word(), row.address)
    });
}

fn empty(kernel_id: KernelId, &(function_id, pc, kind, space, block): &AccessCountKey) -> AccessSummary {
    AccessSummary {
        kernel_id,
        function_id,
        pc,
        kind,
        space,
        block_address: block.map(|(low, _)| Address(low)),
        address: Address(u64::MAX),
        ..AccessSummary::default()
    }
}

/// Adds the lanes of one request in one block: first byte, and past the last.
fn add(row: &mut AccessSummary, mut ranges: Vec<(u64, u64)>, is_lowest: bool) {
    ranges.sort_unstable();
    let sectors: BTreeSet<u64> = ranges
        .iter()
        .flat_map(|&(low, high)| {
            low / SECTOR_BYTES..=high.max(low.saturating_add(1)).saturating_sub(1) / SECTOR_BYTES
        })
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

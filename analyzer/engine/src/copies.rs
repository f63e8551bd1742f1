//! Memcpys and memsets between launches that read or write device memory, with the object at their address and time.

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::HashMap;
use datafusion::error::Result;

use super::index::{TensorIndex, column, wrong};
use super::life::{LiveSet, MemoryLife, MemoryLives};
use crate::memory::pieces::MemoryObject;
use stallmap_schema::word::StorageOrigin;

/// One end of a memcpy, or a memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    /// Ordinal of the first launch after it.
    pub ordinal: u64,
    /// Time of its call, nanoseconds since the Unix epoch.
    pub begin_ns: i64,
    /// Its first byte.
    pub address: u64,
    /// Their number.
    pub bytes: u64,
    /// True if it writes there.
    pub is_write: bool,
    /// The object that is allocated at its address at that time.
    pub owner: Option<MemoryObject>,
}

/// The memcpys and memsets of a capture, by run.
#[derive(Debug, Default)]
pub struct CaptureCopies {
    by_run: HashMap<usize, Vec<CopyEnd>>,
}

/// Columns of `launch` that are read.
pub const LAUNCH: [&str; 2] = ["kernel_id", "run_id"];
/// Columns of `memcpy`.
pub const MEMCPY: [&str; 9] = [
    "run_id",
    "source",
    "destination",
    "size_bytes",
    "ordinal",
    "begin_ns",
    "row_bytes",
    "source_pitch",
    "destination_pitch",
];
/// Maximum of rows of a copy that count one by one. Those of others count with their gaps.
const MAX_ROWS: u64 = 1 << 16;
/// Columns of `memset`.
pub const MEMSET: [&str; 5] = ["run_id", "address", "size_bytes", "ordinal", "begin_ns"];
/// Columns of `storage`.
pub const STORAGE: [&str; 6] = ["run_id", "address", "size_bytes", "alloc_ns", "free_ns", "origin"];
/// Columns of `device_allocation`.
pub const ALLOCATION: [&str; 5] = ["run_id", "address", "size_bytes", "alloc_ns", "free_ns"];

/// The rows of these tables.
#[derive(Debug)]
pub struct CopyTables {
    /// Launches.
    pub launch: RecordBatch,
    /// Memcpys.
    pub memcpy: RecordBatch,
    /// Memsets.
    pub memset: RecordBatch,
    /// Storages.
    pub storage: RecordBatch,
    /// Allocations of the driver.
    pub allocation: RecordBatch,
}

impl CaptureCopies {
    /// From the rows of the tables.
    pub fn new(tables: &CopyTables, index: &TensorIndex) -> Result<Self> {
        let launch = &tables.launch;
        let (kernels, runs) =
            (column::<UInt64Type>(launch, "kernel_id")?, column::<UInt32Type>(launch, "run_id")?);
        let known = kernels.values().iter().zip(runs.values());
        let runs: HashMap<u32, usize> = known
            .filter_map(|(kernel_id, run_id)| Some((*run_id, index.launches.get(kernel_id)?.run)))
            .collect();
        let mut copies = Self::default();
        copies.add(&tables.memcpy, "source", Some("source_pitch"), false, &runs)?;
        copies.add(&tables.memcpy, "destination", Some("destination_pitch"), true, &runs)?;
        copies.add(&tables.memset, "address", None, true, &runs)?;
        let storages = ObjectOwners::new(&tables.storage, &runs, MemoryObject::Storage)?;
        let allocations = ObjectOwners::new(&tables.allocation, &runs, MemoryObject::Allocation)?;
        for (run, copies) in &mut copies.by_run {
            copies.sort_by_key(|copy| copy.begin_ns);
            allocations.assign(*run, copies);
            storages.assign(*run, copies);
            copies.sort_by_key(|copy| copy.ordinal);
        }
        Ok(copies)
    }

    fn add(
        &mut self,
        table: &RecordBatch,
        address: &str,
        pitch: Option<&str>,
        is_write: bool,
        runs: &HashMap<u32, usize>,
    ) -> Result<()> {
        let run_ids = column::<UInt32Type>(table, "run_id")?;
        let addresses = column::<UInt64Type>(table, address)?;
        let sizes = column::<UInt64Type>(table, "size_bytes")?;
        let ordinals = column::<UInt64Type>(table, "ordinal")?;
        let begins = column::<Int64Type>(table, "begin_ns")?;
        let rows = match pitch {
            Some(pitch) => {
                Some((column::<UInt64Type>(table, "row_bytes")?, column::<UInt64Type>(table, pitch)?))
            }
            None => None,
        };
        for row in 0..table.num_rows() {
            let Some(&run) = runs.get(&run_ids.value(row)) else { continue };
            let rows = rows.filter(|(bytes, _)| bytes.is_valid(row));
            let rows = rows.map(|(bytes, pitch)| (bytes.value(row), pitch.value(row)));
            for (start, bytes) in row_spans(sizes.value(row), rows) {
                self.by_run.entry(run).or_default().push(CopyEnd {
                    ordinal: ordinals.value(row),
                    begin_ns: begins.value(row),
                    address: addresses.value(row).saturating_add(start),
                    bytes,
                    is_write,
                    owner: None,
                });
            }
        }
        Ok(())
    }

    /// The runs that have copies.
    pub fn runs(&self) -> impl Iterator<Item = usize> {
        self.by_run.keys().copied()
    }

    /// Copies of a run before a launch that were not returned before.
    pub fn before(&self, run: usize, ordinal: u64, done: &mut HashMap<usize, usize>) -> &[CopyEnd] {
        let copies = self.by_run.get(&run).map(Vec::as_slice).unwrap_or_default();
        let done = done.entry(run).or_default();
        let start = *done;
        *done = copies.partition_point(|copy| copy.ordinal <= ordinal).max(start);
        copies.get(start..*done).unwrap_or_default()
    }
}

/// The start and bytes of each row of a copy of some bytes, by the bytes and pitch of rows.
fn row_spans(bytes: u64, rows: Option<(u64, u64)>) -> impl Iterator<Item = (u64, u64)> {
    let (row_bytes, pitch) = rows.filter(|(row_bytes, _)| *row_bytes > 0).unwrap_or((bytes.max(1), bytes));
    let count = bytes / row_bytes;
    let span = count.saturating_sub(1).saturating_mul(pitch).saturating_add(row_bytes);
    let (count, row_bytes) = if count > MAX_ROWS { (1, span) } else { (count, row_bytes) };
    (0..count).map(move |row| (row * pitch, row_bytes))
}

/// Objects of one kind with the times of their allocation and free.
struct ObjectOwners {
    /// Per run, its objects, and their positions in the table.
    by_run: HashMap<usize, (MemoryLives, Vec<u32>)>,
    object: fn(u32) -> MemoryObject,
}

impl ObjectOwners {
    fn new(table: &RecordBatch, runs: &HashMap<u32, usize>, object: fn(u32) -> MemoryObject) -> Result<Self> {
        let (run_ids, lows) =
            (column::<UInt32Type>(table, "run_id")?, column::<UInt64Type>(table, "address")?);
        let sizes = column::<UInt64Type>(table, "size_bytes")?;
        let (allocs, frees) =
            (column::<Int64Type>(table, "alloc_ns")?, column::<Int64Type>(table, "free_ns")?);
        let is_older = are_older(table)?;
        let mut lives = HashMap::<usize, (Vec<MemoryLife>, Vec<u32>)>::new();
        for (row, position) in (0..table.num_rows()).zip(0..) {
            let Some(&run) = runs.get(&run_ids.value(row)) else { continue };
            let life = MemoryLife {
                low: lows.value(row),
                high: lows.value(row).saturating_add(sizes.value(row)),
                begin_ordinal: if is_older.get(row) == Some(&true) { 0 } else { time(allocs.value(row)) },
                dead: if frees.is_valid(row) { time(frees.value(row)) } else { u64::MAX },
            };
            let (run, positions) = lives.entry(run).or_default();
            run.push(life);
            positions.push(position);
        }
        let by_run =
            lives.into_iter().map(|(run, (lives, rows))| (run, (MemoryLives::new(lives), rows))).collect();
        Ok(Self { by_run, object })
    }

    /// Names the owners of a run's copies, which are in the order of their times.
    fn assign(&self, run: usize, copies: &mut [CopyEnd]) {
        let Some((lives, rows)) = self.by_run.get(&run) else { return };
        let mut live = LiveSet::default();
        for copy in copies {
            live.move_to(lives, time(copy.begin_ns));
            let found = live.find(copy.address).ok().and_then(|piece| rows.get(piece.life as usize));
            copy.owner = found.map(|&row| (self.object)(row)).or(copy.owner);
        }
    }
}

/// True for each storage whose allocation was not recorded: its time is that of its first use.
fn are_older(table: &RecordBatch) -> Result<Vec<bool>> {
    let Some(origins) = table.column_by_name("origin") else { return Ok(Vec::new()) };
    let origins = cast(origins, &DataType::Utf8)?;
    let origins = origins.as_string_opt::<i32>().ok_or_else(|| wrong("origin"))?;
    Ok(origins.iter().map(|origin| origin == Some(StorageOrigin::Tensor.word())).collect())
}

/// A time as [`MemoryLives`] counts it.
fn time(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_copy_leave_gaps() {
        let spans = |bytes, rows| row_spans(bytes, rows).collect::<Vec<_>>();
        assert_eq!(spans(100, None), [(0, 100)]);
        assert_eq!(spans(0, None), []);
        assert_eq!(spans(24, Some((8, 32))), [(0, 8), (32, 8), (64, 8)]);
        assert_eq!(spans(1 << 20, Some((8, 32))), [(0, ((1 << 17) - 1) * 32 + 8)]);
    }
}

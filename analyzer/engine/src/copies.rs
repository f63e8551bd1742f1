//! Memcpys and memsets between launches that read or write device memory.

use arrow::array::RecordBatch;
use arrow::datatypes::{UInt32Type, UInt64Type};
use datafusion::common::HashMap;
use datafusion::error::Result;

use super::index::{TensorIndex, column};

/// One end of a memcpy, or a memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    /// Ordinal of the first launch after it.
    pub(super) ordinal: u64,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
}

/// The memcpys and memsets of a capture, by run.
#[derive(Debug, Default)]
pub(super) struct Copies {
    by_run: HashMap<usize, Vec<Copy>>,
}

/// Source tables of memcpys, with their columns.
pub(super) const LAUNCH: [&str; 2] = ["kernel_id", "run_id"];
pub(super) const MEMCPY: [&str; 5] = ["run_id", "source", "destination", "size_bytes", "ordinal"];
pub(super) const MEMSET: [&str; 4] = ["run_id", "address", "size_bytes", "ordinal"];

impl Copies {
    /// From the tables of those names.
    pub(super) fn new(
        launch: &RecordBatch,
        memcpy: &RecordBatch,
        memset: &RecordBatch,
        index: &TensorIndex,
    ) -> Result<Self> {
        let (kernels, runs) =
            (column::<UInt64Type>(launch, "kernel_id")?, column::<UInt32Type>(launch, "run_id")?);
        let known = kernels.values().iter().zip(runs.values());
        let runs: HashMap<u32, usize> = known
            .filter_map(|(kernel_id, run_id)| Some((*run_id, index.launches.get(kernel_id)?.run)))
            .collect();
        let mut copies = Self::default();
        copies.add(memcpy, "source", false, &runs)?;
        copies.add(memcpy, "destination", true, &runs)?;
        copies.add(memset, "address", true, &runs)?;
        copies.by_run.values_mut().for_each(|copies| copies.sort_by_key(|copy| copy.ordinal));
        Ok(copies)
    }

    fn add(
        &mut self,
        table: &RecordBatch,
        address: &str,
        is_write: bool,
        runs: &HashMap<u32, usize>,
    ) -> Result<()> {
        let run_ids = column::<UInt32Type>(table, "run_id")?;
        let addresses = column::<UInt64Type>(table, address)?;
        let sizes = column::<UInt64Type>(table, "size_bytes")?;
        let ordinals = column::<UInt64Type>(table, "ordinal")?;
        for row in 0..table.num_rows() {
            let Some(&run) = runs.get(&run_ids.value(row)) else { continue };
            let (ordinal, address, bytes) = (ordinals.value(row), addresses.value(row), sizes.value(row));
            self.by_run.entry(run).or_default().push(Copy { ordinal, address, bytes, is_write });
        }
        Ok(())
    }

    /// Copies of a run before a launch that were not returned before.
    pub(super) fn before(&self, run: usize, ordinal: u64, done: &mut HashMap<usize, usize>) -> &[Copy] {
        let copies = self.by_run.get(&run).map(Vec::as_slice).unwrap_or_default();
        let done = done.entry(run).or_default();
        let start = *done;
        *done = copies.partition_point(|copy| copy.ordinal <= ordinal).max(start);
        copies.get(start..*done).unwrap_or_default()
    }
}

//! Lookup index of the resolver, built once from a capture's tables.

use std::cmp::Reverse;

use arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use datafusion::common::HashMap;
use datafusion::error::Result;
pub use stallmap_tables::column::{column, wrong};

use super::life::{MemoryLife, MemoryLives};
use super::parameters;
use super::view::TensorView;

/// Source tables of the index, complete, with the columns that [`SOURCES`] names or more.
#[derive(Debug)]
pub struct IndexTables {
    /// Launches.
    pub launch: RecordBatch,
    /// Launches as runs saw them.
    pub launch_run: RecordBatch,
    /// Ops.
    pub op: RecordBatch,
    /// Tensors of ops.
    pub op_tensor: RecordBatch,
    /// Storages.
    pub storage: RecordBatch,
    /// Tensors.
    pub tensor: RecordBatch,
    /// Allocations of the driver.
    pub device_allocation: RecordBatch,
    /// Parameters of launches, with the columns [`parameters::COLUMNS`]. Only launches outside ops need them.
    pub launch_parameter: Option<RecordBatch>,
}

/// The tables and columns that the index reads, in the order of [`IndexTables`].
pub const SOURCES: [(&str, &[&str]); 7] = [
    ("launch", &["kernel_id", "run_id", "ordinal", "op_id", "capture_ordinal"]),
    ("launch_run", &["kernel_id", "run_id", "begin_ns"]),
    ("op", &["op_id", "parent_op_id", "begin_ns", "end_ns"]),
    ("op_tensor", &["op_id", "tensor_id"]),
    ("storage", &["storage_id", "run_id", "address", "size_bytes", "alloc_ordinal", "free_ordinal"]),
    ("tensor", &["tensor_id", "storage_id", "op_id", "address", "element_bytes", "sizes", "strides"]),
    (
        "device_allocation",
        &["allocation_id", "run_id", "address", "size_bytes", "alloc_ordinal", "free_ordinal"],
    ),
];

/// A launch, for the resolver.
#[derive(Clone, Copy, Debug)]
pub struct ResolverLaunch {
    /// Position in [`TensorIndex::runs`].
    pub run: usize,
    /// Its position in the run.
    pub ordinal: u64,
    /// The op that launched it, as its position in the index.
    pub op: Option<u32>,
    /// The time at which the targets of its addresses are allocated. For a node of a graph that of its capture, because
    /// for the framework the memory of the graph is free when the capture ends.
    pub alive_at: u64,
    /// Views created until then exist: the start of the launch call, or, for a node of a graph, the end of the op that
    /// captured it. The largest number if unknown.
    pub views_until_ns: i64,
}

impl ResolverLaunch {
    /// True for a node of a graph.
    pub fn is_captured(&self) -> bool {
        self.alive_at != self.ordinal
    }
}

/// Lifetimes of one run: positions in [`MemoryLives`] are those in the id columns.
#[derive(Debug, Default)]
pub struct RunLives {
    /// Storages.
    pub storages: MemoryLives,
    /// Per storage of the run, the position in [`TensorIndex::storage_ids`].
    pub storage_rows: Vec<u32>,
    /// Allocations of the driver.
    pub allocations: MemoryLives,
    /// Per allocation of the run, the position in [`TensorIndex::allocation_ids`].
    pub allocation_rows: Vec<u32>,
}

/// A tensor in the index.
#[derive(Debug)]
pub struct IndexedView {
    /// Its geometry.
    pub view: TensorView,
    /// The tensor.
    pub tensor_id: u64,
    /// Its storage, as a position in [`TensorIndex::storage_ids`].
    pub storage: u32,
    /// Start of the op that created it. The smallest number if unknown.
    pub born_ns: i64,
}

/// Launches, ops, lifetimes and views of a capture.
#[derive(Debug, Default)]
pub struct TensorIndex {
    /// By kernel_id.
    pub launches: HashMap<u64, ResolverLaunch>,
    /// Lifetimes by run.
    pub runs: Vec<RunLives>,
    /// The storage_id of each storage.
    pub storage_ids: Vec<u64>,
    /// The allocation_id of each allocation.
    pub allocation_ids: Vec<u64>,
    /// By storage, the preferred one first if ops do not decide.
    pub views: Vec<IndexedView>,
    /// Start of the views of each storage, and the end.
    pub storage_views: Vec<u32>,
    /// The op around each op.
    pub op_parents: Vec<Option<u32>>,
    /// Start of the views of each op in `op_views`, and the end.
    pub op_view_starts: Vec<u32>,
    /// Views of ops, as positions in the index.
    pub op_views: Vec<u32>,
    /// By launch outside any op: the words of its parameters, sorted. Views that begin there are those that it was given.
    pub given: HashMap<u64, Vec<u64>>,
}

impl TensorIndex {
    /// Builds the index.
    pub fn build(sources: &IndexTables) -> Result<Self> {
        let mut index = Self::default();
        let mut runs = HashMap::new();
        let ops = index.add_ops(&sources.op)?;
        index.add_launches(sources, &mut runs, &ops)?;
        index.storage_ids = ids(&sources.storage, "storage_id")?;
        index.allocation_ids = ids(&sources.device_allocation, "allocation_id")?;
        index.add_lives(sources, &runs)?;
        let tensors = index.add_views(sources, &ops)?;
        index.add_op_views(&sources.op_tensor, &ops, &tensors)?;
        if let Some(launch_parameter) = &sources.launch_parameter {
            index.add_given(launch_parameter)?;
        }
        Ok(index)
    }

    fn add_given(&mut self, launch_parameter: &RecordBatch) -> Result<()> {
        let launches = &self.launches;
        let is_alone = |kernel_id: u64| launches.get(&kernel_id).is_some_and(|launch| launch.op.is_none());
        for (kernel_id, mut words) in parameters::words(launch_parameter, is_alone)? {
            words.sort_unstable();
            words.dedup();
            self.given.insert(kernel_id, words);
        }
        Ok(())
    }

    fn add_ops(&mut self, op: &RecordBatch) -> Result<HashMap<u64, u32>> {
        let ids = ids(op, "op_id")?;
        let parents = column::<UInt64Type>(op, "parent_op_id")?;
        let ops: HashMap<u64, u32> = ids.iter().copied().zip(0..).collect();
        self.op_parents = parents.iter().map(|parent| ops.get(&parent?).copied()).collect();
        Ok(ops)
    }

    fn add_launches(
        &mut self,
        sources: &IndexTables,
        runs: &mut HashMap<u32, usize>,
        ops: &HashMap<u64, u32>,
    ) -> Result<()> {
        let seen = &sources.launch_run;
        let (kernels, run_ids) = (ids(seen, "kernel_id")?, column::<UInt32Type>(seen, "run_id")?);
        let begins = column::<Int64Type>(seen, "begin_ns")?;
        let begins: HashMap<(u64, u32), i64> =
            (0..seen.num_rows()).map(|row| ((kernels[row], run_ids.value(row)), begins.value(row))).collect();
        let launch = &sources.launch;
        let (kernels, ordinals) = (ids(launch, "kernel_id")?, ids(launch, "ordinal")?);
        let run_ids = column::<UInt32Type>(launch, "run_id")?;
        let op_ids = column::<UInt64Type>(launch, "op_id")?;
        let captures = column::<UInt64Type>(launch, "capture_ordinal")?;
        let op_ends = column::<Int64Type>(&sources.op, "end_ns")?;
        let op_end = |op: u32| op_ends.is_valid(op as usize).then(|| op_ends.value(op as usize));
        for (row, (&kernel, &ordinal)) in kernels.iter().zip(&ordinals).enumerate() {
            let run_id = run_ids.value(row);
            let next = runs.len();
            let run = *runs.entry(run_id).or_insert(next);
            let op = op_ids.is_valid(row).then(|| ops.get(&op_ids.value(row)).copied()).flatten();
            let begin_ns = begins.get(&(kernel, run_id)).copied().unwrap_or(i64::MAX);
            let capture_ordinal = captures.is_valid(row).then(|| captures.value(row));
            let capture_end = capture_ordinal.and(op).and_then(op_end);
            self.launches.insert(
                kernel,
                ResolverLaunch {
                    run,
                    ordinal,
                    op,
                    alive_at: capture_ordinal.unwrap_or(ordinal),
                    views_until_ns: capture_end.map_or(begin_ns, |end_ns| end_ns.min(begin_ns)),
                },
            );
        }
        Ok(())
    }

    fn add_lives(&mut self, sources: &IndexTables, runs: &HashMap<u32, usize>) -> Result<()> {
        self.runs.resize_with(runs.len(), RunLives::default);
        for ((lives, rows), run) in lives(&sources.storage, runs)?.into_iter().zip(&mut self.runs) {
            (run.storages, run.storage_rows) = (MemoryLives::new(lives), rows);
        }
        for ((lives, rows), run) in lives(&sources.device_allocation, runs)?.into_iter().zip(&mut self.runs) {
            (run.allocations, run.allocation_rows) = (MemoryLives::new(lives), rows);
        }
        Ok(())
    }

    /// Adds the views. Returns the position of each tensor.
    fn add_views(&mut self, sources: &IndexTables, ops: &HashMap<u64, u32>) -> Result<HashMap<u64, u32>> {
        let op_begins = column::<Int64Type>(&sources.op, "begin_ns")?;
        let storages: HashMap<u64, u32> = self.storage_ids.iter().copied().zip(0..).collect();
        let tensor = &sources.tensor;
        let (tensor_ids, addresses) = (ids(tensor, "tensor_id")?, ids(tensor, "address")?);
        let storage_ids = ids(tensor, "storage_id")?;
        let element_bytes = column::<UInt32Type>(tensor, "element_bytes")?;
        let op_ids = column::<UInt64Type>(tensor, "op_id")?;
        for row in 0..tensor.num_rows() {
            let Some(&storage) = storages.get(&storage_ids[row]) else { continue };
            let (sizes, strides) = (numbers(tensor, "sizes", row)?, numbers(tensor, "strides", row)?);
            let element = element_bytes.value(row).into();
            let Some(view) = TensorView::new(addresses[row], element, sizes.values(), strides.values())
            else {
                continue;
            };
            let op = op_ids.is_valid(row).then(|| ops.get(&op_ids.value(row))).flatten();
            let born_ns = op.map_or(i64::MIN, |&op| op_begins.value(op as usize));
            self.views.push(IndexedView { view, tensor_id: tensor_ids[row], storage, born_ns });
        }
        self.views.sort_by_key(|IndexedView { view, tensor_id, storage, .. }| {
            (*storage, view.bytes, view.high - view.low, Reverse(*tensor_id))
        });
        let owners = self.views.iter().map(|view| view.storage);
        self.storage_views = starts(self.storage_ids.len(), owners);
        Ok(self.views.iter().map(|view| view.tensor_id).zip(0..).collect())
    }

    fn add_op_views(
        &mut self,
        op_tensor: &RecordBatch,
        ops: &HashMap<u64, u32>,
        tensors: &HashMap<u64, u32>,
    ) -> Result<()> {
        let (op_ids, tensor_ids) = (ids(op_tensor, "op_id")?, ids(op_tensor, "tensor_id")?);
        let mut pairs: Vec<(u32, u32)> = op_ids
            .iter()
            .zip(&tensor_ids)
            .filter_map(|(op, tensor)| Some((*ops.get(op)?, *tensors.get(tensor)?)))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        self.op_view_starts = starts(self.op_parents.len(), pairs.iter().map(|&(op, _)| op));
        self.op_views = pairs.into_iter().map(|(_, view)| view).collect();
        Ok(())
    }
}

/// Start of the items of each owner in a list sorted by owner, and the end.
fn starts(owners: usize, sorted: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut starts = vec![0; owners + 1];
    for owner in sorted {
        starts[owner as usize + 1] += 1;
    }
    for owner in 0..owners {
        starts[owner + 1] += starts[owner];
    }
    starts
}

/// The lifetimes of a table by run, each with its row.
fn lives(table: &RecordBatch, runs: &HashMap<u32, usize>) -> Result<Vec<(Vec<MemoryLife>, Vec<u32>)>> {
    let (lows, sizes, begin_ordinal) =
        (ids(table, "address")?, ids(table, "size_bytes")?, ids(table, "alloc_ordinal")?);
    let dead = column::<UInt64Type>(table, "free_ordinal")?;
    let run_ids = column::<UInt32Type>(table, "run_id")?;
    let mut lives = vec![(Vec::new(), Vec::new()); runs.len()];
    for (row, position) in (0..table.num_rows()).zip(0..) {
        let Some(&run) = runs.get(&run_ids.value(row)) else { continue };
        let dead = if dead.is_valid(row) { dead.value(row) } else { u64::MAX };
        let high = lows[row].saturating_add(sizes[row]);
        lives[run].0.push(MemoryLife { low: lows[row], high, begin_ordinal: begin_ordinal[row], dead });
        lives[run].1.push(position);
    }
    Ok(lives)
}

fn ids(batch: &RecordBatch, name: &str) -> Result<Vec<u64>> {
    Ok(column::<UInt64Type>(batch, name)?.values().to_vec())
}

fn numbers(batch: &RecordBatch, name: &str, row: usize) -> Result<PrimitiveArray<Int64Type>> {
    let list = batch.column_by_name(name).and_then(|array| array.as_list_opt::<i32>());
    let values = list.map(|list| list.value(row)).ok_or_else(|| wrong(name))?;
    values.as_primitive_opt::<Int64Type>().cloned().ok_or_else(|| wrong(name))
}

//! A capture whose program runs many times, one after the other: the size of a real recording, with the shape of one.
//!
//! Every run does the work of the first again, at later ordinals and times, with new launches, ops, storages and tensors.
//! Code and Python stacks are the same. What earlier runs never free, they free at their end. Bundles, replays,
//! counters and losses are those of the first run. The same numbers give the same capture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{AllocationId, KernelId, OpId, RunId, StorageId, TensorId};
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::{
    GraphLaunch, Launch, LaunchParameter, LaunchRun, LaunchTexture, TensorMap,
};
use stallmap_schema::tables::memory::{AccessSummary, DeviceAllocation, Memcpy, MemoryAccess, Memset};
use stallmap_schema::tables::replay::{Ablation, Counter, ObjectRedirect, Replay};
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_write::rewrite::{CaptureRewrite, TableFate, change_rows, rewrite};
use stallmap_write::{CaptureForm, CaptureWriter};

/// The shape of the repetition.
#[derive(Clone, Copy, Debug)]
pub struct RepeatShape {
    /// Runs of the program's work.
    pub all: u64,
    /// The first runs that have rows of accesses. Launches of later ones refer to those of the first.
    pub with_accesses: u64,
}

/// Tables with rows for each run of the work.
const REPEATED: [&str; 17] = [
    GpuActivity::TABLE.name,
    GraphLaunch::TABLE.name,
    Launch::TABLE.name,
    LaunchParameter::TABLE.name,
    LaunchRun::TABLE.name,
    TensorMap::TABLE.name,
    LaunchTexture::TABLE.name,
    AccessSummary::TABLE.name,
    DeviceAllocation::TABLE.name,
    Memcpy::TABLE.name,
    MemoryAccess::TABLE.name,
    Memset::TABLE.name,
    PcSample::TABLE.name,
    Op::TABLE.name,
    OpTensor::TABLE.name,
    Storage::TABLE.name,
    Tensor::TABLE.name,
];

/// Writes the capture.
///
/// # Errors
///
/// A table that cannot be read or written.
pub fn write(reader: &CaptureReader, output: &Path, times: RepeatShape) -> Result<(), CaptureError> {
    let mut repeated = RepeatedRun { reader, times, sizes: RunSizes::from_capture(reader)? };
    rewrite(reader, output, CaptureForm::File, &mut repeated).map(drop)
}

/// The numbers that one run of the work takes.
struct RunSizes {
    launches: u64,
    ops: u64,
    storages: u64,
    tensors: u64,
    allocations: u64,
    graph_launches: u32,
    /// Nanoseconds.
    time: i64,
    /// Ordinals by run of the capture.
    ordinals: BTreeMap<RunId, u64>,
    /// Rows of the timeline by run of the capture.
    activities: BTreeMap<RunId, u64>,
    /// Launches of the work with the same key, from which `occurrence` counts. Threads do not share keys here.
    alike: BTreeMap<KernelId, u32>,
    /// Runs of the capture that replay launches: they replay those of the first run of the work.
    replaying: BTreeSet<RunId>,
    /// Launches with rows of accesses.
    accessing: BTreeSet<KernelId>,
}

impl RunSizes {
    fn from_capture(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let launches = rows::<Launch>(reader)?;
        let ops: BTreeMap<OpId, String> =
            rows::<Op>(reader)?.into_iter().map(|op| (op.op_id, op.name)).collect();
        let runs = rows::<Run>(reader)?;
        let time = |run: &Run| run.ended_ns.map_or(0, |ended| ended - run.started_ns);
        let mut replaying: BTreeSet<RunId> =
            rows::<Replay>(reader)?.into_iter().map(|row| row.run_id).collect();
        replaying.extend(rows::<Counter>(reader)?.into_iter().map(|row| row.run_id));
        replaying.extend(rows::<Ablation>(reader)?.into_iter().map(|row| row.run_id));
        replaying.extend(rows::<ObjectRedirect>(reader)?.into_iter().map(|row| row.run_id));
        let (mut ordinals, mut activities) = (BTreeMap::new(), BTreeMap::new());
        for row in rows::<LaunchRun>(reader)? {
            let count: &mut u64 = ordinals.entry(row.run_id).or_default();
            *count = (*count).max(row.ordinal + 1);
        }
        for row in &launches {
            let count = ordinals.entry(row.run_id).or_default();
            *count = (*count).max(row.capture_ordinal.map_or(0, |ordinal| ordinal + 1));
        }
        for row in rows::<GpuActivity>(reader)? {
            *activities.entry(row.run_id).or_default() += 1;
        }
        let mut accessing = BTreeSet::new();
        for batch in reader.read_columns(MemoryAccess::TABLE.name, &["kernel_id"])? {
            let batch = batch?;
            let ids = batch.columns().iter().flat_map(|ids| {
                (0..batch.num_rows())
                    .filter_map(|row| stallmap_schema::cell::ColumnCell::read(ids.as_ref(), row))
            });
            accessing.extend(ids.map(KernelId));
        }
        Ok(Self {
            launches: after(launches.iter().map(|row| row.kernel_id.0)),
            ops: after(ops.keys().map(|op| op.0)),
            storages: after(rows::<Storage>(reader)?.iter().map(|row| row.storage_id.0)),
            tensors: after(rows::<Tensor>(reader)?.iter().map(|row| row.tensor_id.0)),
            allocations: after(rows::<DeviceAllocation>(reader)?.iter().map(|row| row.allocation_id.0)),
            graph_launches: launches
                .iter()
                .filter_map(|row| row.graph_launch)
                .max()
                .map_or(0, |last| last + 1),
            time: runs.iter().map(time).max().unwrap_or(0) + 1,
            ordinals,
            activities,
            alike: alike(&launches, &ops),
            replaying,
            accessing,
        })
    }
}

/// The rows of a table. None if the capture's writer did not know it.
fn rows<R: TableRow>(reader: &CaptureReader) -> Result<Vec<R>, CaptureError> {
    let is_there = reader.tables().iter().any(|table| table.name == R::TABLE.name);
    if is_there { reader.read_rows::<R>() } else { Ok(Vec::new()) }
}

/// The number after the largest of some.
fn after(ids: impl Iterator<Item = u64>) -> u64 {
    ids.max().map_or(0, |last| last + 1)
}

/// For each launch, how many of the launches have its key.
fn alike(launches: &[Launch], ops: &BTreeMap<OpId, String>) -> BTreeMap<KernelId, u32> {
    let key = |row: &Launch| {
        let shape = [row.grid_x, row.grid_y, row.grid_z, row.block_x, row.block_y, row.block_z];
        let op = row.op_id.and_then(|op| ops.get(&op)).map(String::as_str);
        (row.pystates_hash, op, row.function_id, shape)
    };
    let mut counts = BTreeMap::new();
    for row in launches {
        *counts.entry(key(row)).or_insert(0) += 1;
    }
    launches.iter().map(|row| (row.kernel_id, counts.get(&key(row)).copied().unwrap_or_default())).collect()
}

/// The n-th run of the work, from 0.
#[derive(Clone, Copy)]
struct NthRun<'a> {
    n: u64,
    is_last: bool,
    sizes: &'a RunSizes,
}

impl NthRun<'_> {
    fn kernel(self, id: &mut KernelId) {
        id.0 += self.n * self.sizes.launches;
    }

    fn op(self, id: &mut Option<OpId>) {
        if let Some(id) = id {
            id.0 += self.n * self.sizes.ops;
        }
    }

    fn storage(self, id: &mut StorageId) {
        id.0 += self.n * self.sizes.storages;
    }

    fn tensor(self, id: &mut TensorId) {
        id.0 += self.n * self.sizes.tensors;
    }

    fn ordinals(self, run: RunId) -> u64 {
        self.sizes.ordinals.get(&run).copied().unwrap_or_default()
    }

    fn ordinal(self, run: RunId, ordinal: &mut u64) {
        *ordinal += self.n * self.ordinals(run);
    }

    fn time(self, ns: &mut i64) {
        *ns += i64::try_from(self.n).unwrap_or_default() * self.sizes.time;
    }

    fn graph_launch(self, launch: &mut u32) {
        *launch += u32::try_from(self.n).unwrap_or_default() * self.sizes.graph_launches;
    }

    /// The life of a block of memory: the ordinals and times of its allocation and its free.
    fn life(self, run: RunId, begin: OrdinalTime, end: (Option<u64>, Option<i64>)) -> AllocationLife {
        let (mut ordinal, mut ns) = begin;
        self.ordinal(run, &mut ordinal);
        self.time(&mut ns);
        let last = if self.is_last {
            None
        } else {
            Some(((self.n + 1) * self.ordinals(run), ns + self.sizes.time - 1))
        };
        let mut free_ordinal = end.0;
        if let Some(ordinal) = &mut free_ordinal {
            self.ordinal(run, ordinal);
        }
        let mut free_ns = end.1;
        if let Some(ns) = &mut free_ns {
            self.time(ns);
        }
        let free = (free_ordinal.or(last.map(|last| last.0)), free_ns.or(last.map(|last| last.1)));
        ((ordinal, ns), free)
    }
}

/// An ordinal of launches, and a time in nanoseconds.
type OrdinalTime = (u64, i64);
/// An allocation, and its free.
type AllocationLife = (OrdinalTime, (Option<u64>, Option<i64>));

struct RepeatedRun<'a> {
    reader: &'a CaptureReader,
    times: RepeatShape,
    sizes: RunSizes,
}

impl RepeatedRun<'_> {
    fn nths(&self, times: u64) -> impl Iterator<Item = NthRun<'_>> {
        let last = self.times.all.saturating_sub(1);
        (0..times).map(move |n| NthRun { n, is_last: n == last, sizes: &self.sizes })
    }

    /// Appends the rows of a table that is sorted by ids of the work.
    fn by_id<R: TableRow + Clone>(
        &self,
        writer: &mut CaptureWriter,
        times: u64,
        change: impl Fn(NthRun<'_>, &mut R),
    ) -> Result<(), CaptureError> {
        let rows = rows::<R>(self.reader)?;
        for nth in self.nths(times) {
            let changed = |mut row: R| {
                change(nth, &mut row);
                row
            };
            writer.append_rows(rows.iter().cloned().map(changed))?;
        }
        Ok(())
    }

    /// Appends the rows of a table that is sorted by runs of the capture first.
    fn by_run<R: TableRow + Clone>(
        &self,
        writer: &mut CaptureWriter,
        run: impl Fn(&R) -> RunId,
        change: impl Fn(NthRun<'_>, &mut R),
    ) -> Result<(), CaptureError> {
        let mut runs = BTreeMap::<RunId, Vec<R>>::new();
        for row in rows::<R>(self.reader)? {
            runs.entry(run(&row)).or_default().push(row);
        }
        for (run, rows) in runs {
            for nth in self.nths(if self.sizes.replaying.contains(&run) { 1 } else { self.times.all }) {
                let changed = |mut row: R| {
                    change(nth, &mut row);
                    row
                };
                writer.append_rows(rows.iter().cloned().map(changed))?;
            }
        }
        Ok(())
    }

    /// Appends the samples: those of replays once.
    fn samples(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        let rows = rows::<PcSample>(self.reader)?;
        for nth in self.nths(self.times.all) {
            let is_repeated = |row: &&PcSample| nth.n == 0 || !self.sizes.replaying.contains(&row.run_id);
            let changed = |mut row: PcSample| {
                nth.kernel(&mut row.kernel_id);
                row
            };
            writer.append_rows(rows.iter().filter(is_repeated).cloned().map(changed))?;
        }
        Ok(())
    }

    fn launches(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        self.by_id(writer, self.times.all, |nth, row: &mut Launch| {
            let alike = self.sizes.alike.get(&row.kernel_id).copied().unwrap_or_default();
            row.occurrence += alike * u32::try_from(nth.n).unwrap_or_default();
            if nth.n >= self.times.with_accesses && self.sizes.accessing.contains(&row.kernel_id) {
                row.accesses_of = Some(row.kernel_id);
            } else if let Some(model) = &mut row.accesses_of
                && nth.n < self.times.with_accesses
            {
                nth.kernel(model);
            }
            nth.kernel(&mut row.kernel_id);
            nth.ordinal(row.run_id, &mut row.ordinal);
            if let Some(ordinal) = &mut row.capture_ordinal {
                nth.ordinal(row.run_id, ordinal);
            }
            if let Some(launch) = &mut row.graph_launch {
                nth.graph_launch(launch);
            }
            nth.op(&mut row.op_id);
        })?;
        self.by_run(
            writer,
            |row: &LaunchRun| row.run_id,
            |nth, row| {
                if nth.n >= self.times.with_accesses && self.sizes.accessing.contains(&row.kernel_id) {
                    for count in
                        [&mut row.request_count, &mut row.lane_access_count, &mut row.lost_request_count]
                    {
                        *count = count.map(|_| 0);
                    }
                }
                nth.kernel(&mut row.kernel_id);
                nth.ordinal(row.run_id, &mut row.ordinal);
                nth.time(&mut row.begin_ns);
                if let Some(ns) = &mut row.end_ns {
                    nth.time(ns);
                }
            },
        )?;
        self.by_id(writer, self.times.all, |nth, row: &mut LaunchParameter| nth.kernel(&mut row.kernel_id))?;
        self.by_id(writer, self.times.all, |nth, row: &mut TensorMap| nth.kernel(&mut row.kernel_id))?;
        self.by_id(writer, self.times.all, |nth, row: &mut LaunchTexture| nth.kernel(&mut row.kernel_id))?;
        self.by_run(
            writer,
            |row: &GraphLaunch| row.run_id,
            |nth, row| {
                nth.graph_launch(&mut row.graph_launch);
                nth.ordinal(row.run_id, &mut row.ordinal);
                nth.time(&mut row.begin_ns);
                if let Some(ns) = &mut row.end_ns {
                    nth.time(ns);
                }
                nth.op(&mut row.op_id);
            },
        )
    }

    fn memory(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        let with_accesses = self.times.with_accesses;
        self.by_id(writer, with_accesses, |nth, row: &mut MemoryAccess| nth.kernel(&mut row.kernel_id))?;
        self.by_id(writer, with_accesses, |nth, row: &mut AccessSummary| nth.kernel(&mut row.kernel_id))?;
        self.by_id(writer, self.times.all, |nth, row: &mut DeviceAllocation| {
            let AllocationId(id) = &mut row.allocation_id;
            *id += nth.n * self.sizes.allocations;
            let (begin, end) = ((row.alloc_ordinal, row.alloc_ns), (row.free_ordinal, row.free_ns));
            ((row.alloc_ordinal, row.alloc_ns), (row.free_ordinal, row.free_ns)) =
                nth.life(row.run_id, begin, end);
        })?;
        self.by_id(writer, self.times.all, |nth, row: &mut Storage| {
            nth.storage(&mut row.storage_id);
            nth.op(&mut row.op_id);
            let (begin, end) = ((row.alloc_ordinal, row.alloc_ns), (row.free_ordinal, row.free_ns));
            ((row.alloc_ordinal, row.alloc_ns), (row.free_ordinal, row.free_ns)) =
                nth.life(row.run_id, begin, end);
        })?;
        let copy = |nth: NthRun<'_>, row: &mut Memcpy| {
            nth.ordinal(row.run_id, &mut row.ordinal);
            nth.time(&mut row.begin_ns);
            nth.op(&mut row.op_id);
        };
        self.by_run(writer, |row: &Memcpy| row.run_id, copy)?;
        let fill = |nth: NthRun<'_>, row: &mut Memset| {
            nth.ordinal(row.run_id, &mut row.ordinal);
            nth.time(&mut row.begin_ns);
            nth.op(&mut row.op_id);
        };
        self.by_run(writer, |row: &Memset| row.run_id, fill)
    }

    fn ops(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        self.by_id(writer, self.times.all, |nth, row: &mut Op| {
            let mut id = Some(row.op_id);
            nth.op(&mut id);
            row.op_id = id.unwrap_or_default();
            nth.op(&mut row.parent_op_id);
            nth.op(&mut row.forward_op_id);
            nth.time(&mut row.begin_ns);
            if let Some(ns) = &mut row.end_ns {
                nth.time(ns);
            }
        })?;
        self.by_id(writer, self.times.all, |nth, row: &mut OpTensor| {
            let mut id = Some(row.op_id);
            nth.op(&mut id);
            row.op_id = id.unwrap_or_default();
            nth.tensor(&mut row.tensor_id);
        })?;
        self.by_id(writer, self.times.all, |nth, row: &mut Tensor| {
            nth.tensor(&mut row.tensor_id);
            nth.storage(&mut row.storage_id);
            if let Some(id) = &mut row.base_tensor_id {
                nth.tensor(id);
            }
            nth.op(&mut row.op_id);
        })
    }

    fn timeline(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        self.by_run(
            writer,
            |row: &GpuActivity| row.run_id,
            |nth, row| {
                row.activity_id +=
                    nth.n * self.sizes.activities.get(&row.run_id).copied().unwrap_or_default();
                if let Some(id) = &mut row.kernel_id {
                    nth.kernel(id);
                }
                nth.time(&mut row.begin_ns);
                if let Some(ns) = &mut row.end_ns {
                    nth.time(ns);
                }
            },
        )
    }
}

impl CaptureRewrite for RepeatedRun<'_> {
    fn fate(&self, table: &str) -> TableFate {
        match table {
            name if REPEATED.contains(&name) => TableFate::Emptied,
            name if name == Run::TABLE.name => TableFate::Changed,
            _ => TableFate::Copied,
        }
    }

    fn change(
        &mut self,
        _: &'static TableDef,
        batch: &arrow::array::RecordBatch,
    ) -> Result<arrow::array::RecordBatch, String> {
        let last = NthRun { n: self.times.all.saturating_sub(1), is_last: true, sizes: &self.sizes };
        change_rows::<Run>(batch, |row| row.ended_ns.iter_mut().for_each(|ns| last.time(ns)))
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn add(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        self.launches(writer)?;
        self.samples(writer)?;
        self.memory(writer)?;
        self.ops(writer)?;
        self.timeline(writer)
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("the work of the program was repeated {} times", self.times.all)]
    }
}

//! Launches, ops and ranges from the tables of a capture.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use arrow::array::{Array as _, ArrowPrimitiveType, AsArray as _, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::error::Result;
use stallmap_schema::word::{ActivityKind, CopyKind, OpKind, Phase, SynchronizationKind};
use stallmap_tables::column::{column, wrong};

use super::ranges::StepRanges;
use super::sequence::SequenceLaunch;

/// Columns that are read, by table.
pub(crate) const SOURCES: [(&str, &[&str]); 6] = [
    ("launch", &["kernel_id", "run_id", "ordinal", "function_id", "device_id", "op_id", "pystates_hash"]),
    ("launch_run", &["run_id", "kernel_id", "thread_id", "begin_ns", "end_ns"]),
    (
        "op",
        &[
            "op_id",
            "run_id",
            "kind",
            "name",
            "begin_ns",
            "end_ns",
            "phase",
            "step",
            "module_path",
            "forward_op_id",
            "parent_op_id",
        ],
    ),
    (
        "gpu_activity",
        &[
            "run_id",
            "kernel_id",
            "begin_ns",
            "end_ns",
            "kind",
            "size_bytes",
            "copy_kind",
            "synchronization",
            "call_begin_ns",
        ],
    ),
    ("python_state", &["pystates_hash", "frame_id"]),
    ("python_frame", &["frame_id", "file", "function"]),
];

/// The host reads no more bytes at once for a number.
const MAX_NUMBER: u64 = 64;

/// Rows of [`SOURCES`].
pub(crate) type PhaseSources = [RecordBatch; 6];

/// Functions whose launches are trials of a tuner: the end of their file's path, and a part of their name.
const TUNERS: [(&str, &str); 5] = [
    ("triton/runtime/autotuner.py", "bench"),
    ("torch/_inductor/runtime/benchmarking.py", ""),
    ("torch/_inductor/autotune_process.py", ""),
    ("torch/_inductor/select_algorithm.py", "bench"),
    ("torch/_inductor/runtime/triton_heuristics.py", "bench"),
];

/// Equality of two launches: the same kernel on the same device in the same module. A model that is spread over devices, or
/// copied to them, runs equal kernels on each in one step.
pub(crate) type LaunchKey = (u64, i32, Option<String>);

/// One process.
#[derive(Default)]
pub(crate) struct SequenceProcess {
    /// Its launches by ordinal.
    pub(crate) launches: BTreeMap<u64, (LaunchKey, SequenceLaunch)>,
    /// Its ranges around steps.
    pub(crate) ranges: StepRanges,
}

/// A copy, a fill, or a wait of the host, between launches.
struct SequenceCopy {
    /// Begin of its call.
    call_ns: i64,
    /// True if the host reads a number.
    is_number: bool,
    is_wait: bool,
}

impl SequenceProcess {
    /// Marks the launches behind copies, which are in order. A number that is read, to log it or to decide, marks none,
    /// and neither does the wait for it.
    fn mark(&mut self, copies: &[SequenceCopy]) {
        let mut rest = copies;
        for (_, launch) in self.launches.values_mut() {
            let Some(begin) = launch.call_ns.or(launch.gpu_ns.map(|(begin, _)| begin)) else { continue };
            let (before, behind) = rest.split_at(rest.partition_point(|copy| copy.call_ns < begin));
            let is_read = before.iter().any(|copy| copy.is_number);
            launch.is_behind_copy =
                before.iter().any(|copy| if copy.is_wait { !is_read } else { !copy.is_number });
            rest = behind;
        }
    }
}

struct SequenceOp {
    is_optimizer: bool,
    /// True inside of a tuner's trials.
    is_trial: bool,
    steps: u32,
    module: Option<String>,
}

/// The processes of a capture, by the run that defines their launches.
pub(crate) fn processes(sources: &PhaseSources) -> Result<BTreeMap<u32, SequenceProcess>> {
    let [launch, launch_run, op, activity, state, frame] = sources;
    let (ops, mut processes) = ops(op)?;
    let (calls, times, trials) = (calls(launch_run)?, times(activity)?, trials(state, frame)?);
    let kernels = column::<UInt64Type>(launch, "kernel_id")?;
    let runs = column::<UInt32Type>(launch, "run_id")?;
    let ordinals = column::<UInt64Type>(launch, "ordinal")?;
    let functions = column::<UInt64Type>(launch, "function_id")?;
    let devices = column::<Int32Type>(launch, "device_id")?;
    for row in 0..launch.num_rows() {
        let (kernel_id, run) = (kernels.value(row), runs.value(row));
        let op = optional::<UInt64Type>(launch, "op_id", row)?.and_then(|op| ops.get(&op));
        let stack = optional::<UInt64Type>(launch, "pystates_hash", row)?;
        let call = calls.get(&(run, kernel_id));
        let known = SequenceLaunch {
            kernel_id,
            gpu_ns: times.get(&kernel_id).map(|(_, time)| *time),
            call_ns: call.map(|call| call.begin_ns),
            has_call: call.is_some_and(|call| call.has_end),
            is_first: call.is_none_or(|call| call.is_first),
            is_behind_copy: false,
            is_optimizer: op.is_some_and(|op| op.is_optimizer),
            optimizer_steps: op.map(|op| op.steps),
            is_trial: op.is_some_and(|op| op.is_trial) || stack.is_some_and(|stack| trials.contains(&stack)),
        };
        let key = (functions.value(row), devices.value(row), op.and_then(|op| op.module.clone()));
        processes.entry(run).or_default().launches.insert(ordinals.value(row), (key, known));
    }
    for (run, copies) in copies(activity)? {
        if let Some(process) = processes.get_mut(&run) {
            process.mark(&copies);
        }
    }
    Ok(processes)
}

/// All ops, and the ranges around steps of each process.
fn ops(batch: &RecordBatch) -> Result<(HashMap<u64, SequenceOp>, BTreeMap<u32, SequenceProcess>)> {
    let ids = column::<UInt64Type>(batch, "op_id")?;
    let runs = column::<UInt32Type>(batch, "run_id")?;
    let begins = column::<Int64Type>(batch, "begin_ns")?;
    let ends = column::<Int64Type>(batch, "end_ns")?;
    let steps = column::<UInt32Type>(batch, "step")?;
    let forward = column::<UInt64Type>(batch, "forward_op_id")?;
    let parents = column::<UInt64Type>(batch, "parent_op_id")?;
    let (kinds, names) = (texts(batch, "kind")?, texts(batch, "name")?);
    let (phases, modules) = (texts(batch, "phase")?, texts(batch, "module_path")?);
    let module = |row: usize| modules.is_valid(row).then(|| modules.value(row).to_owned());
    let (mut ops, mut processes) = (HashMap::new(), BTreeMap::<u32, SequenceProcess>::new());
    for row in 0..batch.num_rows() {
        let is_optimizer = phases.is_valid(row) && phases.value(row) == Phase::Optimizer.word();
        // Traces of PyTorch 1.8 have ranges as ops.
        let can_be_range = kinds.is_valid(row)
            && [OpKind::Region, OpKind::Torch].iter().any(|kind| kinds.value(row) == kind.word());
        if can_be_range && !is_optimizer && names.is_valid(row) && ends.is_valid(row) {
            let span = (begins.value(row), ends.value(row));
            processes.entry(runs.value(row)).or_default().ranges.add(names.value(row), span);
        }
        // Ops are in the order of their identifiers: those that enclose others come first.
        let is_trial = kinds.is_valid(row) && kinds.value(row) == OpKind::Tuning.word()
            || parents.is_valid(row)
                && ops.get(&parents.value(row)).is_some_and(|op: &SequenceOp| op.is_trial);
        let steps = steps.value(row);
        ops.insert(ids.value(row), SequenceOp { is_optimizer, is_trial, steps, module: module(row) });
    }
    for row in (0..batch.num_rows()).filter(|row| forward.is_valid(*row)) {
        // In backward, the module is that whose gradient it is.
        let module = ops.get(&forward.value(row)).and_then(|op: &SequenceOp| op.module.clone());
        if let Some(op) = ops.get_mut(&ids.value(row)).filter(|op| op.module.is_none()) {
            op.module = module;
        }
    }
    Ok((ops, processes))
}

struct SequenceCall {
    begin_ns: i64,
    has_end: bool,
    is_first: bool,
}

/// Calls by run and launch.
fn calls(batch: &RecordBatch) -> Result<HashMap<(u32, u64), SequenceCall>> {
    let runs = column::<UInt32Type>(batch, "run_id")?;
    let kernels = column::<UInt64Type>(batch, "kernel_id")?;
    let threads = column::<UInt32Type>(batch, "thread_id")?;
    let begins = column::<Int64Type>(batch, "begin_ns")?;
    let ends = column::<Int64Type>(batch, "end_ns")?;
    let mut calls = HashMap::with_capacity(batch.num_rows());
    let mut before = None;
    for row in 0..batch.num_rows() {
        let begin_ns = begins.value(row);
        // All kernels of a graph launch have the times of one call.
        let call =
            ends.is_valid(row).then(|| (runs.value(row), threads.value(row), begin_ns, ends.value(row)));
        let is_first = call.is_none() || call != before;
        before = call;
        calls.insert(
            (runs.value(row), kernels.value(row)),
            SequenceCall { begin_ns, has_end: ends.is_valid(row), is_first },
        );
    }
    Ok(calls)
}

/// The run, begin and end of kernels.
type KernelTimes = HashMap<u64, (u32, (i64, i64))>;

/// Begin and end of kernels, of the first run with a timeline that has them.
fn times(batch: &RecordBatch) -> Result<KernelTimes> {
    let runs = column::<UInt32Type>(batch, "run_id")?;
    let kernels = column::<UInt64Type>(batch, "kernel_id")?;
    let begins = column::<Int64Type>(batch, "begin_ns")?;
    let ends = column::<Int64Type>(batch, "end_ns")?;
    let mut times = KernelTimes::new();
    for row in (0..batch.num_rows()).filter(|row| kernels.is_valid(*row) && ends.is_valid(*row)) {
        let (run, time) = (runs.value(row), (begins.value(row), ends.value(row)));
        let (known, (begin, end)) = times.entry(kernels.value(row)).or_insert((run, time));
        if *known == run {
            (*begin, *end) = ((*begin).min(time.0), (*end).max(time.1));
        }
    }
    Ok(times)
}

/// Copies, fills and waits of the host by run, in order of their calls.
fn copies(batch: &RecordBatch) -> Result<BTreeMap<u32, Vec<SequenceCopy>>> {
    let runs = column::<UInt32Type>(batch, "run_id")?;
    let begins = column::<Int64Type>(batch, "begin_ns")?;
    let [kinds, copy_kinds, waits] =
        [texts(batch, "kind")?, texts(batch, "copy_kind")?, texts(batch, "synchronization")?];
    let is = |values: &StringArray, row: usize, word: &str| values.is_valid(row) && values.value(row) == word;
    let mut copies = BTreeMap::<u32, Vec<SequenceCopy>>::new();
    for row in 0..batch.num_rows() {
        let is_kernel = is(&kinds, row, ActivityKind::Kernel.word());
        if is_kernel || is(&waits, row, SynchronizationKind::StreamWaitEvent.word()) {
            continue;
        }
        let size = optional::<UInt64Type>(batch, "size_bytes", row)?;
        let is_read = is(&copy_kinds, row, CopyKind::DeviceToHost.word());
        copies.entry(runs.value(row)).or_default().push(SequenceCopy {
            call_ns: optional::<Int64Type>(batch, "call_begin_ns", row)?.unwrap_or(begins.value(row)),
            is_number: is_read && size.is_some_and(|size| size <= MAX_NUMBER),
            is_wait: is(&kinds, row, ActivityKind::Synchronization.word()),
        });
    }
    for copies in copies.values_mut() {
        copies.sort_by_key(|copy| copy.call_ns);
    }
    Ok(copies)
}

/// Stacks that lead through a tuner's trials.
fn trials(state: &RecordBatch, frame: &RecordBatch) -> Result<HashSet<u64>> {
    let ids = column::<UInt64Type>(frame, "frame_id")?;
    let (files, functions) = (texts(frame, "file")?, texts(frame, "function")?);
    let is_tuner = |row: &usize| {
        files.is_valid(*row)
            && functions.is_valid(*row)
            && TUNERS
                .iter()
                .any(|(file, name)| files.value(*row).ends_with(file) && functions.value(*row).contains(name))
    };
    let frames: BTreeSet<u64> = (0..frame.num_rows()).filter(is_tuner).map(|row| ids.value(row)).collect();
    if frames.is_empty() {
        return Ok(HashSet::new());
    }
    let stacks = column::<UInt64Type>(state, "pystates_hash")?;
    let frame_ids = column::<UInt64Type>(state, "frame_id")?;
    let rows = (0..state.num_rows()).filter(|row| frames.contains(&frame_ids.value(*row)));
    Ok(rows.map(|row| stacks.value(row)).collect())
}

/// A number of a row, if it is there.
pub(crate) fn optional<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
    row: usize,
) -> Result<Option<T::Native>> {
    let values = column::<T>(batch, name)?;
    Ok(values.is_valid(row).then(|| values.value(row)))
}

/// A column of texts or words.
pub(crate) fn texts(batch: &RecordBatch, name: &str) -> Result<StringArray> {
    let values = batch.column_by_name(name).ok_or_else(|| wrong(name))?;
    let values = cast(values, &DataType::Utf8)?;
    values.as_string_opt::<i32>().cloned().ok_or_else(|| wrong(name))
}

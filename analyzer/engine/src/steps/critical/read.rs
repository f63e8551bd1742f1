//! The program of a capture's timelines, from its tables.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::error::Result;
use stallmap_schema::word::{ActivityKind, CollectiveKind, CopyKind, SynchronizationKind};
use stallmap_tables::column::column;

use super::model::{CriticalModel, CriticalWork, PathItem};
use super::threads::{CallSpan, ThreadSources};
use crate::steps::read::{optional, texts};

/// Columns that are read, by table.
pub(crate) const SOURCES: [(&str, &[&str]); 6] = [
    ("launch", &["kernel_id", "function_id"]),
    ("launch_run", &["run_id", "kernel_id", "thread_id", "begin_ns", "end_ns"]),
    ("op", &["op_id", "run_id", "kind", "name", "thread_id", "begin_ns", "end_ns"]),
    (
        "gpu_activity",
        &[
            "run_id",
            "activity_id",
            "kind",
            "kernel_id",
            "device_id",
            "stream_id",
            "begin_ns",
            "end_ns",
            "copy_kind",
            "synchronization",
            "op_id",
            "call_begin_ns",
            "call_end_ns",
        ],
    ),
    ("launch_collective", &["kernel_id", "match_id"]),
    ("function", &["function_id", "name"]),
];

/// Rows of [`SOURCES`].
pub(crate) type CriticalSources = [RecordBatch; 6];

/// The program, and its runs by index.
pub(crate) struct ReadProgram {
    pub(crate) model: CriticalModel,
    pub(crate) runs: Vec<u32>,
}

/// Reads the program: runs, work, then the threads that launched it.
pub(crate) fn program(sources: &CriticalSources) -> Result<ReadProgram> {
    let [launch, launch_run, op, activity, collective, function] = sources;
    let runs = runs(activity)?;
    let index = |run: u32| runs.binary_search(&run).ok();
    let functions = functions(launch, function)?;
    let mut threads = ThreadSources::from_tables(launch_run, op, &runs)?;
    let mut works = Vec::new();
    let run_ids = column::<UInt32Type>(activity, "run_id")?;
    let ids = column::<UInt64Type>(activity, "activity_id")?;
    let (begins, ends) =
        (column::<Int64Type>(activity, "begin_ns")?, column::<Int64Type>(activity, "end_ns")?);
    let (kinds, copies) = (texts(activity, "kind")?, texts(activity, "copy_kind")?);
    let waits = texts(activity, "synchronization")?;
    for row in (0..activity.num_rows()).filter(|row| ends.is_valid(*row)) {
        let Some(run) = index(run_ids.value(row)) else { continue };
        let time = (begins.value(row), ends.value(row).max(begins.value(row)));
        let kernel_id = optional::<UInt64Type>(activity, "kernel_id", row)?;
        let copy = copies.is_valid(row).then(|| copies.value(row).to_owned());
        let item = if kinds.value(row) == ActivityKind::Kernel.word() {
            // A kernel of a launch that is not known has a number that no function has.
            let (function, is_collective) =
                kernel_id.and_then(|id| functions.get(&id)).copied().unwrap_or((0, false));
            let item = if is_collective { PathItem::Collective } else { PathItem::Kernel };
            item(function)
        } else if kinds.value(row) == ActivityKind::Copy.word() {
            PathItem::Copy(copy.unwrap_or_else(|| CopyKind::Other.word().to_owned()))
        } else if kinds.value(row) == ActivityKind::Fill.word() {
            PathItem::Fill
        } else {
            if waits.is_valid(row) && waits.value(row) != SynchronizationKind::StreamWaitEvent.word() {
                threads.add_wait(run, time);
            }
            continue;
        };
        let op = optional::<UInt64Type>(activity, "op_id", row)?;
        let call = optional::<Int64Type>(activity, "call_begin_ns", row)?;
        let call = call.zip(optional::<Int64Type>(activity, "call_end_ns", row)?);
        let call = match kernel_id {
            Some(kernel) => threads.call_of_kernel(run, kernel),
            None => call.map(|time| CallSpan { thread: threads.thread_of(run, op), time }),
        };
        let device = optional::<Int32Type>(activity, "device_id", row)?;
        let stream = device.zip(optional::<UInt32Type>(activity, "stream_id", row)?);
        let work = CriticalWork {
            run,
            activity_id: ids.value(row),
            kernel_id,
            item,
            stream,
            time,
            call: None,
            match_id: None,
        };
        works.push((work, call));
    }
    works.sort_by_key(|(work, _)| (work.time, work.run, work.activity_id));
    let (mut works, calls): (Vec<CriticalWork>, Vec<Option<CallSpan>>) = works.into_iter().unzip();
    match_collectives(&mut works, collective)?;
    Ok(ReadProgram { model: threads.model(works, &calls), runs })
}

/// The runs with a timeline.
fn runs(activity: &RecordBatch) -> Result<Vec<u32>> {
    let mut runs = column::<UInt32Type>(activity, "run_id")?.values().to_vec();
    runs.sort_unstable();
    runs.dedup();
    Ok(runs)
}

/// The function of each launch, and whether it is a collective.
fn functions(launch: &RecordBatch, function: &RecordBatch) -> Result<HashMap<u64, (u64, bool)>> {
    let ids = column::<UInt64Type>(function, "function_id")?;
    let names = texts(function, "name")?;
    let is_collective =
        |row: &usize| names.is_valid(*row) && CollectiveKind::from_kernel(names.value(*row)).is_some();
    let collectives: HashSet<u64> =
        (0..function.num_rows()).filter(is_collective).map(|row| ids.value(row)).collect();
    let kernels = column::<UInt64Type>(launch, "kernel_id")?;
    let functions = column::<UInt64Type>(launch, "function_id")?;
    let row = |row: usize| {
        let function = functions.value(row);
        (kernels.value(row), (function, collectives.contains(&function)))
    };
    Ok((0..launch.num_rows()).map(row).collect())
}

/// Gives collectives the number that the launches of all their ranks have. Recordings have no numbers: there, the n-th
/// launches of a kernel are one where all ranks have as many.
fn match_collectives(works: &mut [CriticalWork], collective: &RecordBatch) -> Result<()> {
    let kernels = column::<UInt64Type>(collective, "kernel_id")?;
    let numbers = column::<UInt64Type>(collective, "match_id")?;
    let known: HashMap<u64, Option<u64>> = (0..collective.num_rows())
        .map(|row| (kernels.value(row), numbers.is_valid(row).then(|| numbers.value(row))))
        .collect();
    for work in works.iter_mut() {
        let Some(number) = work.kernel_id.and_then(|kernel| known.get(&kernel)) else { continue };
        work.match_id = *number;
        if let PathItem::Kernel(function) = work.item {
            work.item = PathItem::Collective(function);
        }
    }
    if !known.is_empty() {
        return Ok(());
    }
    let mut launches: BTreeMap<u64, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (index, work) in works.iter().enumerate() {
        if let PathItem::Collective(function) = work.item {
            launches.entry(function).or_default().entry(work.run).or_default().push(index);
        }
    }
    let mut next = 0;
    for ranks in launches.into_values().filter(|ranks| ranks.len() > 1) {
        let count = ranks.values().next().map_or(0, Vec::len);
        if ranks.values().any(|launches| launches.len() != count) {
            continue;
        }
        for (number, index) in ranks.values().flat_map(|launches| (next..).zip(launches)) {
            if let Some(work) = works.get_mut(*index) {
                work.match_id = Some(number);
            }
        }
        next += count as u64;
    }
    Ok(())
}

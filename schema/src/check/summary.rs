//! Check of accesses that were counted on the GPU, and of launches that refer to another's.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt8Type, UInt32Type, UInt64Type};

use crate::capture::reader::CaptureReader;
use crate::check::{CaptureRule, ViolationList};
use crate::table::TableRow;
use crate::tables::launch::{Launch, LaunchRun};
use crate::tables::loss::Loss;
use crate::tables::memory::{AccessSummary, MemoryAccess};
use crate::word::LossKind;

const COLUMNS: [&str; 6] = ["kernel_id", "function_id", "pc", "kind", "space", "sequence"];

/// One instruction of one launch, and the texts of kind and space.
type InstructionKey = (u64, u64, u32, String, String);

pub(super) fn check(reader: &CaptureReader, found: &mut ViolationList) {
    check_models(reader, found);
    let counted = counted(reader, found);
    if counted.is_empty() {
        return;
    }
    check_runs(reader, &counted, found);
    for (instruction, rows) in rows(reader, &counted) {
        let most = counted.get(&instruction).copied().unwrap_or(0);
        if rows > most {
            let (kernel, function, pc, kind, space) = instruction;
            found.add(CaptureRule::AccessCount, || {
                format!(
                    "launch {kernel} {kind} {space} at {function}+{pc}: rows hold {rows} requests, but its summary {most}"
                )
            });
        }
    }
}

/// Warp requests of each instruction. One to several blocks of memory counts once.
fn counted(reader: &CaptureReader, found: &mut ViolationList) -> BTreeMap<InstructionKey, u64> {
    let mut counted = BTreeMap::new();
    let mut count = |row: AccessSummary| {
        let (kind, space) = (row.kind.word().to_owned(), row.space.word().to_owned());
        let identity = (row.kernel_id.0, row.function_id.0, row.pc.0, kind, space);
        let Some(own) = row.request_count.checked_sub(row.shared_request_count) else {
            found.add(CaptureRule::AccessCount, || {
                format!("launch {} at pc {}: more shared requests than requests", identity.0, identity.2)
            });
            return;
        };
        let sum: &mut u64 = counted.entry(identity).or_default();
        *sum = sum.saturating_add(own);
    };
    match reader.for_each_row(usize::MAX, &mut count) {
        // A capture of an earlier release has no such table.
        Err(_) if reader.table_entry(AccessSummary::TABLE.name).is_err() => {}
        Err(error) => found.unreadable(&error),
        Ok(()) => {}
    }
    counted
}

/// Compares the requests of each counted launch with those that its run recorded and lost. Counts that are themselves
/// lost may be missing.
fn check_runs(reader: &CaptureReader, counted: &BTreeMap<InstructionKey, u64>, found: &mut ViolationList) {
    let mut sums = BTreeMap::<u64, u64>::new();
    for ((kernel, ..), requests) in counted {
        let sum = sums.entry(*kernel).or_default();
        *sum = sum.saturating_add(*requests);
    }
    let mut seen = BTreeMap::<u64, u64>::new();
    let add = |run: LaunchRun| {
        if let Some(requests) = run.request_count {
            let sum = seen.entry(run.kernel_id.0).or_default();
            let lost = run.lost_request_count.unwrap_or(0);
            *sum = sum.saturating_add(requests).saturating_add(lost);
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, add) {
        found.unreadable(&error);
    }
    let mut uncounted = BTreeMap::<u64, u64>::new();
    let add = |loss: Loss| {
        if let (LossKind::Access, Some(kernel)) = (loss.kind, loss.kernel_id) {
            let sum = uncounted.entry(kernel.0).or_default();
            *sum = sum.saturating_add(loss.lost_count);
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, add) {
        found.unreadable(&error);
    }
    for (kernel, requests) in sums {
        let run = seen.get(&kernel).copied().unwrap_or(0);
        // Counts of code that is not known are losses.
        let lost = uncounted.get(&kernel).copied().unwrap_or(0);
        if requests > run || run - requests > lost {
            found.add(CaptureRule::AccessCount, || {
                format!("launch {kernel}: its summary counts {requests} requests, but its runs {run}")
            });
        }
    }
}

/// Requests of the rows of counted launches, by instruction.
fn rows(reader: &CaptureReader, counted: &BTreeMap<InstructionKey, u64>) -> BTreeMap<InstructionKey, u64> {
    let (mut rows, mut last) = (BTreeMap::new(), None);
    let is_counted = |kernel: u64| {
        let first = (kernel, 0, 0, String::new(), String::new());
        counted.range(first..).next().is_some_and(|((of, ..), _)| *of == kernel)
    };
    let batches = reader.read_columns(MemoryAccess::TABLE.name, &COLUMNS).into_iter().flatten();
    for batch in batches.map_while(Result::ok) {
        add(&batch, is_counted, &mut rows, &mut last);
    }
    rows
}

/// Adds up a batch. `last` is the (launch, sequence) of the row before: rows of one request stand together.
fn add(
    batch: &RecordBatch,
    is_counted: impl Fn(u64) -> bool,
    rows: &mut BTreeMap<InstructionKey, u64>,
    last: &mut Option<(u64, u64)>,
) -> Option<()> {
    let [kernel, function, pc, kind, space, sequence] = COLUMNS.map(|name| batch.column_by_name(name));
    let kernel = kernel?.as_primitive_opt::<UInt64Type>()?;
    let function = function?.as_primitive_opt::<UInt64Type>()?;
    let pc = pc?.as_primitive_opt::<UInt32Type>()?;
    let sequence = sequence?.as_primitive_opt::<UInt64Type>()?;
    for row in (0..batch.num_rows()).filter(|&row| is_counted(kernel.value(row))) {
        let identity = (kernel.value(row), sequence.value(row));
        if last.replace(identity) == Some(identity) {
            continue;
        }
        let (kind, space) = (word(kind?, row)?, word(space?, row)?);
        *rows.entry((identity.0, function.value(row), pc.value(row), kind, space)).or_default() += 1;
    }
    Some(())
}

fn word(array: &dyn Array, row: usize) -> Option<String> {
    let array = array.as_dictionary_opt::<UInt8Type>()?;
    let words = array.values().as_string_opt::<i32>()?;
    Some(words.value(array.key(row)?).to_owned())
}

/// Launches that others refer to are earlier ones of the same kind, with accesses of their own.
fn check_models(reader: &CaptureReader, found: &mut ViolationList) {
    let mut launches = BTreeMap::new();
    if let Err(error) = reader.for_each_row(usize::MAX, |launch: Launch| {
        launches.insert(launch.kernel_id.0, (kind(&launch), launch.accesses_of));
    }) {
        found.unreadable(&error);
    }
    for (kernel, (kind, model)) in &launches {
        // A launch that does not exist breaks another rule.
        let Some((model, known)) = model.and_then(|model| Some((model.0, launches.get(&model.0)?))) else {
            continue;
        };
        let mut wrong = |what: &str| {
            found.add(CaptureRule::Model, || {
                format!("launch {kernel} has the accesses of launch {model}, {what}")
            });
        };
        if model >= *kernel {
            wrong("which is not earlier");
        }
        if known.0 != *kind {
            wrong("which has another function, grid or block");
        }
        if known.1.is_some() {
            wrong("which has those of another");
        }
    }
}

fn kind(launch: &Launch) -> (u64, [u32; 6]) {
    let Launch { grid_x, grid_y, grid_z, block_x, block_y, block_z, .. } = *launch;
    (launch.function_id.0, [grid_x, grid_y, grid_z, block_x, block_y, block_z])
}

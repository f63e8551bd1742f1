//! The tables `access_summary` and `access_histogram`, and what counts imply: requests that are not in rows, and launches
//! that refer to others.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::{AccessCount, ShapeCount};
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc};
use stallmap_schema::tables::memory::{AccessHistogram, AccessSummary};
use stallmap_schema::word::{AccessKind, LanePattern, LossKind, Space};

use crate::code::CodeMap;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// The key of a row, in the table's order.
type SummaryKey = (KernelId, FunctionId, Pc, AccessKind, Space, Option<Address>);

/// The rows of a run. Its launches know from then on how many of their requests are not in rows.
pub(crate) fn take(run: &mut RunState, code: &CodeMap, losses: &mut LossTotals) -> Vec<AccessSummary> {
    let run_id = run.run_id();
    let mut rows: BTreeMap<SummaryKey, AccessSummary> = BTreeMap::new();
    let mut totals: BTreeMap<KernelId, u64> = BTreeMap::new();
    for count in std::mem::take(&mut run.rows.access_counts) {
        let total = totals.entry(count.kernel_id).or_default();
        *total = total.saturating_add(count.request_count.saturating_sub(count.shared_request_count));
        match row(&count, run.bases.ordinal(count.kernel_id), code) {
            Ok(row) => add(&mut rows, key(&row), row, merge),
            Err(reason) => {
                losses.add_at(run_id, LossKind::Access, reason, count.request_count, Some(count.kernel_id));
            }
        }
    }
    let is_whole = run.clean_end;
    for row in &mut run.rows.launch_runs {
        let (Some(records), None) = (row.request_count, row.lost_request_count) else { continue };
        match totals.get(&row.kernel_id) {
            Some(total) => row.lost_request_count = Some(total.saturating_sub(records)),
            None if is_whole && records == 0 => row.lost_request_count = Some(0),
            None => {
                let reason = "counts of requests were not read before the process ended";
                losses.add_at(run_id, LossKind::Access, reason, 1, Some(row.kernel_id));
            }
        }
    }
    run.counted.request_count = totals.values().sum();
    let mut rows: Vec<AccessSummary> = rows.into_values().collect();
    run.counted.lane_access_count = rows.iter().map(|row| row.lane_count).sum();
    rows.sort_by_key(|row| {
        (row.kernel_id, row.function_id, row.pc, row.kind.word(), row.space.word(), row.address)
    });
    rows
}

/// The key of a row of `access_histogram`, in the table's order.
type ShapeKey = (KernelId, FunctionId, Pc, &'static str, &'static str, u8, LanePattern, bool, u32);

/// The rows of `access_histogram` of a run.
pub(crate) fn take_shapes(
    run: &mut RunState,
    code: &CodeMap,
    losses: &mut LossTotals,
) -> Vec<AccessHistogram> {
    let run_id = run.run_id();
    let mut rows: BTreeMap<ShapeKey, AccessHistogram> = BTreeMap::new();
    for count in std::mem::take(&mut run.rows.shape_counts) {
        match shape(&count, run.bases.ordinal(count.kernel_id), code) {
            Ok(row) => add(&mut rows, shape_key(&row), row, merge_shapes),
            Err(reason) => {
                losses.add_at(run_id, LossKind::Access, reason, count.request_count, Some(count.kernel_id));
            }
        }
    }
    rows.into_values().collect()
}

/// Launches refer to launches whose accesses are in the capture, or to none.
pub(crate) fn settle_models(run: &mut RunState, losses: &mut LossTotals) {
    let recorded = run.rows.launch_runs.iter().filter(|row| row.recorded);
    let recorded: BTreeSet<KernelId> = recorded.map(|row| row.kernel_id).collect();
    let run_id = run.run_id();
    let mut referring = BTreeSet::new();
    for launch in &mut run.rows.launches {
        if launch.accesses_of.is_some_and(|model| !recorded.contains(&model)) {
            launch.accesses_of = None;
            let reason = "the launch that stands for it was not recorded";
            losses.add_at(run_id, LossKind::Launch, reason, 1, Some(launch.kernel_id));
        }
        referring.extend(launch.accesses_of.map(|_| launch.kernel_id));
    }
    // They have no requests of their own, and lost none.
    for row in run.rows.launch_runs.iter_mut().filter(|row| referring.contains(&row.kernel_id)) {
        (row.request_count, row.lane_access_count, row.lost_request_count) = (Some(0), Some(0), Some(0));
    }
}

/// Kind and space of counted requests, and their instruction.
fn place(
    (flags, space): (u8, u8),
    pc_address: Address,
    ordinal: u64,
    code: &CodeMap,
) -> Result<(AccessKind, Space, FunctionId, Pc), &'static str> {
    let (kind, space) = stallmap_write::requests::kind(flags)
        .zip(stallmap_write::requests::space(space))
        .ok_or("counts of a kind that is not known")?;
    let place = code.find(pc_address.0, ordinal);
    let (function_id, pc) = place.ok_or("code of the instruction is not known")?;
    Ok((kind, space, function_id, pc))
}

fn shape(count: &ShapeCount, ordinal: u64, code: &CodeMap) -> Result<AccessHistogram, &'static str> {
    let (kind, space, function_id, pc) = place((count.flags, count.space), count.pc_address, ordinal, code)?;
    Ok(AccessHistogram {
        kernel_id: count.kernel_id,
        function_id,
        pc,
        kind,
        space,
        access_bytes: count.access_bytes,
        class: count.class,
        is_misaligned: count.is_misaligned,
        sectors: count.sectors,
        request_count: count.request_count,
        lane_count: count.lane_count,
        line_count: count.line_count,
        unique_bytes: count.unique_bytes,
        ideal_sectors: count.ideal_sectors,
    })
}

fn shape_key(row: &AccessHistogram) -> ShapeKey {
    let (kind, space) = (row.kind.word(), row.space.word());
    let (bytes, class, is_misaligned) = (row.access_bytes, row.class, row.is_misaligned);
    (row.kernel_id, row.function_id, row.pc, kind, space, bytes, class, is_misaligned, row.sectors)
}

fn merge_shapes(sum: &mut AccessHistogram, row: &AccessHistogram) {
    add_counts([
        (&mut sum.request_count, row.request_count),
        (&mut sum.lane_count, row.lane_count),
        (&mut sum.line_count, row.line_count),
        (&mut sum.unique_bytes, row.unique_bytes),
        (&mut sum.ideal_sectors, row.ideal_sectors),
    ]);
}

/// Adds a row, to another one of the same key where their flags differ only.
fn add<K: Ord, R>(rows: &mut BTreeMap<K, R>, key: K, row: R, merge: impl FnOnce(&mut R, &R)) {
    match rows.entry(key) {
        Entry::Vacant(vacant) => drop(vacant.insert(row)),
        Entry::Occupied(sum) => merge(sum.into_mut(), &row),
    }
}

fn add_counts<const COUNT: usize>(sums: [(&mut u64, u64); COUNT]) {
    for (sum, part) in sums {
        *sum = sum.saturating_add(part);
    }
}

fn row(count: &AccessCount, ordinal: u64, code: &CodeMap) -> Result<AccessSummary, &'static str> {
    let (kind, space, function_id, pc) = place((count.flags, count.space), count.pc_address, ordinal, code)?;
    Ok(AccessSummary {
        kernel_id: count.kernel_id,
        function_id,
        pc,
        kind,
        space,
        block_address: count.block_address,
        address: count.address,
        span_bytes: count.span_bytes,
        request_count: count.request_count,
        shared_request_count: count.shared_request_count,
        lane_count: count.lane_count,
        sectors: count.sectors,
        unique_bytes: count.unique_bytes,
        ideal_sectors: count.ideal_sectors,
    })
}

fn key(row: &AccessSummary) -> SummaryKey {
    (row.kernel_id, row.function_id, row.pc, row.kind, row.space, row.block_address)
}

fn merge(sum: &mut AccessSummary, row: &AccessSummary) {
    let end = |row: &AccessSummary| row.address.0.saturating_add(row.span_bytes);
    let last = end(sum).max(end(row));
    sum.address = sum.address.min(row.address);
    sum.span_bytes = last - sum.address.0;
    add_counts([
        (&mut sum.request_count, row.request_count),
        (&mut sum.shared_request_count, row.shared_request_count),
        (&mut sum.lane_count, row.lane_count),
        (&mut sum.sectors, row.sectors),
        (&mut sum.unique_bytes, row.unique_bytes),
        (&mut sum.ideal_sectors, row.ideal_sectors),
    ]);
}

//! Ops, storages and tensors, completed by later ends and names, without references that a crash left open.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::{OpId, StorageId, TensorId};
use stallmap_schema::tables::tensor::{Op, OpMetric, OpRange, OpTensor, Storage, Tensor};
use stallmap_schema::word::LossKind;

use crate::lives;
use crate::loss::LossTotals;
use crate::rows::once;
use crate::runs::RunState;

/// Completes a run's ops, storages and tensors, and closes references to rows that are not there.
pub(crate) fn complete(run: &mut RunState, losses: &mut LossTotals) {
    let run_id = run.run_id();
    let rows = &mut run.rows;
    let events = std::mem::take(&mut rows.storage_events);
    rows.storages.extend(lives::storages(run_id, events, losses));
    let events = std::mem::take(&mut rows.allocation_events);
    rows.allocations.extend(lives::allocations(run_id, events, losses));
    end_ops(run);
    name_tensors(run);
    let rows = &mut run.rows;
    rows.storages = once(std::mem::take(&mut rows.storages), |row| row.storage_id);
    rows.ops = once(std::mem::take(&mut rows.ops), |row| row.op_id);
    rows.tensors = once(std::mem::take(&mut rows.tensors), |row| row.tensor_id);
    rows.allocations = once(std::mem::take(&mut rows.allocations), |row| row.allocation_id);
    close_references(run, losses);
}

fn end_ops(run: &mut RunState) {
    let ends: BTreeMap<OpId, i64> = run.rows.op_ends.iter().map(|end| (end.op_id, end.end_ns)).collect();
    for op in &mut run.rows.ops {
        op.end_ns = op.end_ns.or(ends.get(&op.op_id).copied());
    }
}

fn name_tensors(run: &mut RunState) {
    let mut names = BTreeMap::new();
    for name in std::mem::take(&mut run.rows.tensor_names) {
        names.insert(name.tensor_id, name);
    }
    for tensor in &mut run.rows.tensors {
        if let Some(name) = names.remove(&tensor.tensor_id) {
            tensor.name = name.name;
            tensor.role = Some(name.role);
        }
    }
}

fn close_references(run: &mut RunState, losses: &mut LossTotals) {
    let run_id = run.run_id();
    let rows = &mut run.rows;
    let ops: BTreeSet<OpId> = rows.ops.iter().map(|op| op.op_id).collect();
    let storages: BTreeSet<StorageId> = rows.storages.iter().map(|row| row.storage_id).collect();
    let before = rows.tensors.len();
    rows.tensors.retain(|tensor| storages.contains(&tensor.storage_id));
    let lost = (before - rows.tensors.len()) as u64;
    losses.add(run_id, LossKind::Tensor, "its storage was not recorded", lost);
    let tensors: BTreeSet<TensorId> = rows.tensors.iter().map(|tensor| tensor.tensor_id).collect();

    let known = |op: &mut Option<OpId>| *op = op.filter(|op| ops.contains(op));
    rows.ops.iter_mut().for_each(|op: &mut Op| {
        known(&mut op.parent_op_id);
        known(&mut op.forward_op_id);
    });
    rows.storages.iter_mut().for_each(|row: &mut Storage| known(&mut row.op_id));
    rows.launches.iter_mut().for_each(|row| known(&mut row.op_id));
    rows.allocations.iter_mut().for_each(|row| known(&mut row.op_id));
    rows.copies.iter_mut().for_each(|row| known(&mut row.op_id));
    rows.fills.iter_mut().for_each(|row| known(&mut row.op_id));
    rows.tensors.iter_mut().for_each(|row: &mut Tensor| {
        known(&mut row.op_id);
        row.base_tensor_id = row.base_tensor_id.filter(|base| tensors.contains(base));
    });

    let before = rows.op_ranges.len() + rows.op_metrics.len();
    rows.op_ranges.retain(|row: &OpRange| ops.contains(&row.op_id));
    rows.op_metrics.retain(|row: &OpMetric| ops.contains(&row.op_id));
    let lost = (before - rows.op_ranges.len() - rows.op_metrics.len()) as u64;
    losses.add(run_id, LossKind::Op, "its region was not recorded", lost);
    rows.op_ranges = once(std::mem::take(&mut rows.op_ranges), |row| row.op_id);
    rows.op_metrics.sort_by(|a, b| (a.op_id, &a.name).cmp(&(b.op_id, &b.name)));
    rows.op_metrics.dedup_by(|newer, row| (newer.op_id, &newer.name) == (row.op_id, &row.name));

    let before = rows.op_tensors.len();
    rows.op_tensors.retain(|row| ops.contains(&row.op_id) && tensors.contains(&row.tensor_id));
    let lost = (before - rows.op_tensors.len()) as u64;
    losses.add(run_id, LossKind::Tensor, "its op or tensor was not recorded", lost);
    // Enum values are sorted as text, not in the order of their declaration.
    let key = |row: &OpTensor| (row.op_id, row.direction.word(), row.position, row.element);
    rows.op_tensors = once(std::mem::take(&mut rows.op_tensors), key);
}

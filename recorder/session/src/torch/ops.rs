//! Ops or regions: their rows, with the tensors that take part in them.

use stallmap_schema::capture::recording::OpEnd;
use stallmap_schema::id::{Address, OpId, RunId, TensorId};
use stallmap_schema::tables::tensor::{Op, OpTensor};

use super::message::{OpBeginning, OpEnding, SeenTensor};
use super::recorded::{EventMoment, RecordedRow};
use super::storages::{LiveStorages, TensorSight};

/// An op that runs, with its tensors in the order in which Python named them.
#[derive(Debug)]
pub struct RunningOp {
    /// The op.
    pub op_id: OpId,
    begin: EventMoment,
    tensors: Vec<Option<TensorId>>,
    storages: Vec<Address>,
}

/// Begins an op on a thread.
pub fn begin(
    op_id: OpId,
    thread_id: u32,
    message: &OpBeginning,
    now: EventMoment,
    storages: &mut LiveStorages,
    rows: &mut Vec<RecordedRow>,
) -> RunningOp {
    rows.push(RecordedRow::Op(Op {
        op_id,
        run_id: RunId(0),
        kind: message.kind,
        name: message.name.to_owned(),
        parent_op_id: now.op_id,
        thread_id,
        begin_ns: now.time_ns,
        end_ns: None,
        phase: message.phase,
        step: message.step,
        sequence_number: message.sequence_number,
        autograd_node: message.autograd_node.map(str::to_owned),
        forward_op_id: message.forward_op_id,
        module_path: message.module_path.map(str::to_owned),
        pystates_hash: message.pystates_hash,
    }));
    let begin = EventMoment { op_id: Some(op_id), ..now };
    let mut running = RunningOp { op_id, begin, tensors: Vec::new(), storages: Vec::new() };
    for seen in &message.tensors {
        take_part(&mut running, seen, TensorSight::Argument, now, storages, rows);
    }
    running
}

/// Ends an op on its thread.
pub fn end(
    mut running: RunningOp,
    message: &OpEnding,
    now: EventMoment,
    storages: &mut LiveStorages,
    rows: &mut Vec<RecordedRow>,
) {
    for seen in &message.tensors {
        let is_fresh = !running.storages.contains(&seen.storage_address);
        let sight = TensorSight::Result { begin: running.begin, is_fresh };
        take_part(&mut running, seen, sight, now, storages, rows);
    }
    rows.push(RecordedRow::OpEnd(OpEnd { op_id: running.op_id, end_ns: now.time_ns }));
}

fn take_part(
    running: &mut RunningOp,
    seen: &SeenTensor,
    sight: TensorSight,
    now: EventMoment,
    storages: &mut LiveStorages,
    rows: &mut Vec<RecordedRow>,
) {
    let base = seen.base.and_then(|index| running.tensors.get(index).copied().flatten());
    let tensor_id = storages.tensor(seen, base, sight, now, rows);
    running.tensors.push(tensor_id);
    running.storages.push(seen.storage_address);
    if let (Some(tensor_id), Some(direction)) = (tensor_id, seen.direction) {
        rows.push(RecordedRow::OpTensor(OpTensor {
            op_id: running.op_id,
            direction,
            position: seen.position,
            element: seen.element,
            tensor_id,
            argument: seen.argument.map(str::to_owned),
        }));
    }
}

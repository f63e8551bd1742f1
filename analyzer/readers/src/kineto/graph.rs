//! Graph pairs: a trace in which a graph was captured names the ops of a trace in which it is launched.
//!
//! During the capture each launch call has no kernel of its own. The n-th of them is the n-th kernel of a launch of the
//! graph. Where the numbers or the names differ, nothing is attributed.

use std::collections::BTreeMap;

use stallmap_schema::word::LossKind;

use crate::model::{TraceKernel, TraceModel, UnmatchedCall};
use crate::name;

/// Threads of the other trace have larger numbers.
const THREADS: u64 = 1 << 32;

/// True if one of the launches of a trace has as many kernels as the other trace has launch calls without a kernel.
pub(crate) fn is_pair(capture: &TraceModel, execution: &TraceModel) -> bool {
    launches(execution).values().any(|kernels| kernels.len() == capture.pending.len() && kernels.len() > 1)
}

/// Gives the kernels of graph launches the ops of the capture.
pub(crate) fn join(capture: TraceModel, mut trace: TraceModel) -> TraceModel {
    let TraceModel { pending, ops, frames, stacks, .. } = capture;
    let (op_offset, frame_offset, stack_offset) = (trace.ops.len(), trace.frames.len(), trace.stacks.len());
    let (mut joined, mut others) = (0_u64, 0_u64);
    for kernels in launches(&trace).into_values() {
        let is_same = kernels.len() == pending.len()
            && kernels
                .iter()
                .zip(&pending)
                .all(|(place, call)| trace.kernels.get(*place).is_some_and(|kernel| is_same(kernel, call)));
        if !is_same {
            others += kernels.len() as u64;
            continue;
        }
        for (place, call) in kernels.into_iter().zip(&pending) {
            let Some(kernel) = trace.kernels.get_mut(place) else { continue };
            kernel.op = call.op.map(|op| op + op_offset);
            // The stack of the graph's launch call is that of all its kernels.
            kernel.stack = None;
            kernel.grid = kernel.grid.or(call.grid);
            kernel.block = kernel.block.or(call.block);
            joined += 1;
        }
    }
    for op in ops {
        let mut op = op.moved(op_offset, stack_offset);
        op.call.thread = op.call.thread.saturating_add(THREADS);
        trace.ops.push(op);
    }
    trace.frames.extend(frames);
    let moved = |stack: Vec<usize>| stack.into_iter().map(|frame| frame + frame_offset).collect();
    trace.stacks.extend(stacks.into_iter().map(moved));
    // Calls of CUDA have no names: then only the numbers agree.
    let way = if pending.iter().any(|call| call.name.is_some()) { "by order and name" } else { "by order" };
    let rate = format!("{joined} of {} kernels of graphs, {way}", joined + others);
    trace.facts.insert("joined.graph".to_owned(), rate);
    let reason = "kernels of graphs whose launches the capture does not have";
    trace.losses.add_many(LossKind::Source, reason, others, None);
    trace
}

/// The kernels of each launch of a graph, by begin: they share the correlation of its call.
fn launches(trace: &TraceModel) -> BTreeMap<u64, Vec<usize>> {
    let mut found: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, kernel) in trace.kernels.iter().enumerate() {
        found.entry(kernel.correlation.unwrap_or(0)).or_default().push(place);
    }
    found.retain(|correlation, kernels| *correlation > 0 && kernels.len() > 1);
    for kernels in found.values_mut() {
        kernels.sort_by_key(|place| trace.kernels.get(*place).map(|kernel| kernel.time_ns));
    }
    found
}

/// True if nothing that both sides have differs.
fn is_same(kernel: &TraceKernel, call: &UnmatchedCall) -> bool {
    let is_named = call.name.as_ref().is_none_or(|other| name::kernel(other) == name::kernel(&kernel.name));
    is_named && call.grid.zip(kernel.grid).is_none_or(|(a, b)| a == b)
}

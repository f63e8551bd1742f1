//! Graph pairs: a trace in which a graph was captured names the ops of a trace in which it is launched.
//!
//! During the capture each launch call has no kernel of its own. The n-th of them is the n-th kernel of a launch of the
//! graph. Where the numbers or the names differ, nothing is attributed. Traces of several ranks are no pair, although
//! their correlations can be equal.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::word::LossKind;

use crate::model::{TraceKernel, TraceModel, UnmatchedCall};
use crate::name;

/// Threads of the other trace have larger numbers.
const THREADS: u64 = 1 << 32;

/// The fact that names how many kernels have the ops of a capture.
const JOINED: &str = "joined.graph";

/// True for two files of the same process, if one of the launches of a trace has the kernels of the launch calls without a
/// kernel of the other trace.
pub(crate) fn is_pair(capture: &TraceModel, execution: &TraceModel) -> bool {
    let is_joined = |trace: &TraceModel| trace.facts.contains_key(JOINED);
    identities(capture) == identities(execution)
        && !is_joined(capture)
        && !is_joined(execution)
        && launches(execution).values().any(|kernels| are_same(execution, kernels, &capture.pending))
}

/// Numbers and ranks of processes, with their clocks: a recording of several files has several.
fn identities(trace: &TraceModel) -> BTreeSet<(u32, Option<u32>, usize)> {
    trace.processes.iter().map(|process| (process.number, process.rank, process.clock)).collect()
}

/// Gives the kernels of graph launches the ops of the capture.
pub(crate) fn join(capture: TraceModel, mut trace: TraceModel) -> TraceModel {
    let TraceModel { pending, ops, frames, stacks, .. } = capture;
    let (op_offset, frame_offset, stack_offset) = (trace.ops.len(), trace.frames.len(), trace.stacks.len());
    let (mut joined, mut others) = (0_u64, 0_u64);
    for kernels in launches(&trace).into_values() {
        if !are_same(&trace, &kernels, &pending) {
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
    trace.facts.insert(JOINED.to_owned(), rate);
    let reason = "kernels of graphs whose launches the capture does not have";
    trace.losses.add_many(LossKind::Source, reason, others, None);
    trace
}

/// The kernels of each launch of a graph, by begin: they share the correlation of its call, which counts in a process.
fn launches(trace: &TraceModel) -> BTreeMap<(usize, u64), Vec<usize>> {
    let mut found: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
    for (place, kernel) in trace.kernels.iter().enumerate() {
        found.entry((kernel.process, kernel.correlation.unwrap_or(0))).or_default().push(place);
    }
    found.retain(|(_, correlation), kernels| *correlation > 0 && kernels.len() > 1);
    for kernels in found.values_mut() {
        kernels.sort_by_key(|place| trace.kernels.get(*place).map(|kernel| kernel.time_ns));
    }
    found
}

/// True if the kernels of a launch are those of the calls, in order.
fn are_same(trace: &TraceModel, kernels: &[usize], calls: &[UnmatchedCall]) -> bool {
    let is_own = |(place, call): (&usize, &UnmatchedCall)| {
        trace.kernels.get(*place).is_some_and(|kernel| is_same(kernel, call))
    };
    kernels.len() == calls.len() && kernels.iter().zip(calls).all(is_own)
}

/// True if nothing that both sides have differs.
fn is_same(kernel: &TraceKernel, call: &UnmatchedCall) -> bool {
    let is_named = call.name.as_ref().is_none_or(|other| name::kernel(other) == name::kernel(&kernel.name));
    is_named && call.grid.zip(kernel.grid).is_none_or(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use stallmap_schema::word::Instrument;

    use super::*;
    use crate::model::{TraceCall, TraceProcess};

    /// A trace of a rank with kernels of correlations, and calls of names without a kernel.
    fn trace(rank: u32, kernels: &[u64], calls: &[&str]) -> TraceModel {
        let process = TraceProcess { rank: Some(rank), ..TraceProcess::with_number(7, Instrument::Timeline) };
        let kernel = |(time_ns, correlation): (i64, &u64)| TraceKernel {
            name: "k".into(),
            time_ns: Some((time_ns, time_ns + 1)),
            correlation: Some(*correlation),
            ..TraceKernel::default()
        };
        let call = |name: &&str| UnmatchedCall {
            call: TraceCall { thread: 1, begin_ns: 0, end_ns: 1 },
            name: Some((*name).into()),
            grid: None,
            block: None,
            op: None,
        };
        TraceModel {
            processes: vec![process],
            kernels: (0..).zip(kernels).map(kernel).collect(),
            pending: calls.iter().map(call).collect(),
            ..TraceModel::default()
        }
    }

    #[test]
    fn a_pair_is_of_one_process_and_of_equal_kernels() {
        let run = || trace(0, &[1, 2, 2], &[]);
        assert!(is_pair(&trace(0, &[], &["k", "k"]), &run()));
        assert!(!is_pair(&trace(0, &[], &["k", "x"]), &run()));
        assert!(!is_pair(&trace(1, &[], &["k", "k"]), &run()));
        let joined = join(trace(0, &[], &["k", "k"]), run());
        assert_eq!(joined.facts[JOINED], "2 of 2 kernels of graphs, by order and name");
        assert!(!is_pair(&trace(0, &[], &["k", "k"]), &joined));
    }

    #[test]
    fn correlations_of_several_ranks_are_no_launch() {
        let mut ranks = trace(0, &[1, 2], &[]);
        ranks.append_file(trace(1, &[1, 2], &["k", "k"]));
        assert!(launches(&ranks).is_empty());
        assert!(!is_pair(&ranks, &trace(2, &[3, 3], &[])));
    }
}

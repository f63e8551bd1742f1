//! Ops joined by their spans: the ops around them, and the kernels that they launch.

use std::cmp::Reverse;
use std::collections::HashMap;

use stallmap_schema::word::Phase;

use crate::trace::forward::{ForwardLink, ForwardThreads};
use crate::trace::model::{TraceCall, TraceModel, TraceOp};
use crate::trace::nest::{ThreadSpan, enclosing, parents};

/// The span of a call.
pub fn span(call: TraceCall) -> ThreadSpan {
    ThreadSpan { thread: call.thread, begin_ns: call.begin_ns, end_ns: call.end_ns }
}

/// The begin of a call. One that begins where an op ends, and outlasts it, is not within it.
pub fn begin(call: TraceCall) -> ThreadSpan {
    ThreadSpan { end_ns: call.end_ns.min(call.begin_ns.saturating_add(1)), ..span(call) }
}

/// Gives ops their parents, phases and forward ops, and kernels, copies and fills the op around their call.
///
/// An `External id` of a kernel is not used: in old traces it is the correlation id, and in new ones it names the same op.
pub fn join_ops(trace: &mut TraceModel) {
    join_linked_ops(trace, &[]);
}

/// The same with arrows from forward ops to gradients.
pub fn join_linked_ops(trace: &mut TraceModel, links: &[ForwardLink]) {
    sort_ops(&mut trace.ops);
    let threads = ForwardThreads::find(&trace.ops, links);
    let mut nodes = ForwardNodes::default();
    for (place, parent) in parents(&trace.ops).into_iter().enumerate() {
        let outer = parent.get().and_then(|parent| trace.ops.get(parent));
        let (outer_phase, outer_forward) = (outer.map(|op| op.phase), outer.and_then(TraceOp::forward));
        let Some(op) = trace.ops.get_mut(place) else { continue };
        let is_gradient = op.phase == Phase::Backward;
        op.parent = parent;
        // Whatever runs inside of backward or of the optimizer belongs to it.
        let is_part = |phase: &Phase| matches!(phase, Phase::Backward | Phase::Optimizer);
        op.phase = outer_phase.filter(is_part).unwrap_or(op.phase);
        if op.phase == Phase::Backward {
            let own = if is_gradient { nodes.of(op, threads.of(op)) } else { None };
            if let Some(found) = own.or(outer_forward) {
                op.details_mut().forward = Some(found).into();
            }
        } else if op.phase == Phase::Forward {
            nodes.add(op, place);
        }
    }
    let kernels = trace.kernels.iter_mut().map(|kernel| (kernel.call, &mut kernel.op));
    let works = trace.works.iter_mut().map(|work| (work.call, &mut work.op));
    let called = kernels.chain(works).filter_map(|(call, op)| Some((call?, op)));
    let (points, slots): (Vec<ThreadSpan>, Vec<&mut Option<usize>>) =
        called.map(|(call, op)| (begin(call), op)).unzip();
    for (slot, op) in slots.into_iter().zip(enclosing(&trace.ops, &points)) {
        *slot = op.get();
    }
}

/// Forward ops that made a node of autograd, by its number, which counts in a thread.
#[derive(Default)]
struct ForwardNodes {
    of_process: HashMap<(usize, i64), usize>,
    of_thread: HashMap<(u64, i64), usize>,
}

impl ForwardNodes {
    /// Ops that make no node of autograd have the number of the next one: the last op of a number made it.
    fn add(&mut self, op: &TraceOp, place: usize) {
        if let Some(sequence) = op.sequence() {
            self.of_process.insert((op.process, sequence), place);
            self.of_thread.insert((op.call.thread, sequence), place);
        }
    }

    /// The forward op of a gradient. A thread that is known has all numbers of the gradient.
    fn of(&self, op: &TraceOp, thread: Option<u64>) -> Option<usize> {
        let sequence = op.sequence()?;
        match thread {
            Some(thread) => self.of_thread.get(&(thread, sequence)).copied(),
            None => self.of_process.get(&(op.process, sequence)).copied(),
        }
    }
}

/// Sorts ops by time, the outer one first: their numbers first, since those take less memory than a second list of ops.
fn sort_ops(ops: &mut [TraceOp]) {
    let mut order: Vec<u32> = (0..).take(ops.len()).collect();
    let from = |row: u32| usize::try_from(row).unwrap_or(usize::MAX);
    // PyTorch numbers calls at their begin: of equal spans the outer one has the smaller number.
    order.sort_by_key(|row| {
        let op = ops.get(from(*row))?;
        Some((op.call.begin_ns, Reverse(op.call.end_ns), op.call.thread, op.record()))
    });
    for start in 0..ops.len() {
        let mut place = start;
        // Each cycle of moves ends where it began. Rows that are done are their own source.
        while let Some(source) = order.get_mut(place) {
            let next = from(std::mem::replace(source, u32::try_from(place).unwrap_or(u32::MAX)));
            if next == start || next == place || next >= ops.len() {
                break;
            }
            ops.swap(place, next);
            place = next;
        }
    }
}

/// The begin of the name of a range around a step, as PyTorch's profiler writes it.
const STEP: &str = "ProfilerStep#";
/// A part of that name, as XLA's profiler writes it.
const NUMBERED_STEP: &str = "#step_num=";

fn is_step(name: &str) -> bool {
    name.starts_with(STEP) || name.contains(NUMBERED_STEP)
}

/// Gives ops the number of steps that ended before them. Returns the number of steps.
pub fn join_steps(trace: &mut TraceModel) -> usize {
    let mut ends_of = step_ends(&trace.ops);
    let mut steps = 0;
    for process in 0..trace.processes.len() {
        let Some(ends) = ends_of.get_mut(&process) else { continue };
        ends.sort_unstable();
        steps += ends.len();
        for op in trace.ops.iter_mut().filter(|op| op.process == process) {
            let ended = ends.partition_point(|end| *end <= op.call.begin_ns);
            op.step = u32::try_from(ended.min(ends.len() - 1)).unwrap_or(u32::MAX);
        }
    }
    steps
}

/// The ends of the steps of each process. Several threads may have a range around one step.
fn step_ends(ops: &[TraceOp]) -> HashMap<usize, Vec<i64>> {
    let mut steps: Vec<&TraceOp> = ops.iter().filter(|op| is_step(&op.name)).collect();
    steps.sort_by_key(|op| op.call.begin_ns);
    let mut ended: HashMap<(usize, &str), i64> = HashMap::new();
    let mut ends_of: HashMap<usize, Vec<i64>> = HashMap::new();
    for op in steps {
        let before = ended.insert((op.process, &op.name), op.call.end_ns);
        if before.is_none_or(|end| end <= op.call.begin_ns) {
            ends_of.entry(op.process).or_default().push(op.call.end_ns);
        }
    }
    ends_of
}

/// The part of a step that an op belongs to, by its name.
pub fn phase(name: &str) -> Phase {
    if name.starts_with("autograd::engine::evaluate_function") {
        Phase::Backward
    } else if name.starts_with("Optimizer.step") {
        Phase::Optimizer
    } else {
        Phase::Forward
    }
}

/// The part of a step that a range of the program belongs to: its name says so for the optimizer only.
pub fn phase_of_range(name: &str) -> Phase {
    Some(phase(name)).filter(|phase| *phase == Phase::Optimizer).unwrap_or(Phase::Other)
}

/// Adds the base to all times.
pub fn shift(trace: &mut TraceModel, base_ns: i64) {
    shift_processes(trace, base_ns, |_| true);
}

/// Adds a number to the times of some processes.
pub(crate) fn shift_processes(trace: &mut TraceModel, base_ns: i64, is_shifted: impl Fn(usize) -> bool) {
    let add = |time: &mut i64| *time = time.saturating_add(base_ns);
    let call = |call: &mut TraceCall| {
        add(&mut call.begin_ns);
        add(&mut call.end_ns);
    };
    for kernel in trace.kernels.iter_mut().filter(|kernel| is_shifted(kernel.process)) {
        kernel.call.iter_mut().for_each(call);
        kernel.time_ns.iter_mut().for_each(|(begin, end)| {
            add(begin);
            add(end);
        });
        kernel.begin_ns.iter_mut().for_each(add);
    }
    for work in trace.works.iter_mut().filter(|work| is_shifted(work.process)) {
        add(&mut work.begin_ns);
        work.end_ns.iter_mut().for_each(add);
        work.call.iter_mut().for_each(call);
    }
    trace.ops.iter_mut().filter(|op| is_shifted(op.process)).for_each(|op| call(&mut op.call));
    for storage in trace.storages.iter_mut().filter(|storage| is_shifted(storage.process)) {
        storage.alloc_ns.iter_mut().chain(&mut storage.free_ns).for_each(add);
    }
    for segment in trace.segments.iter_mut().filter(|segment| is_shifted(segment.process)) {
        segment.alloc_ns.iter_mut().chain(&mut segment.free_ns).for_each(add);
    }
    for failure in trace.failures.iter_mut().filter(|failure| is_shifted(failure.process)) {
        add(&mut failure.time_ns);
    }
}

#[cfg(test)]
mod tests {
    use stallmap_schema::word::{Instrument, OpKind};

    use super::*;
    use crate::model::{OpDetails, TraceProcess};

    fn op(process: usize, (begin_ns, end_ns): (i64, i64), name: &str, sequence: Option<i64>) -> TraceOp {
        let call = TraceCall { thread: process as u64, begin_ns, end_ns };
        let phase = if name.ends_with("Backward0") { Phase::Backward } else { Phase::Forward };
        let details = OpDetails { sequence, ..OpDetails::default() };
        TraceOp { process, phase, ..TraceOp::for_call(call, OpKind::Torch, name) }.with_details(details)
    }

    fn of_two_processes(ops: Vec<TraceOp>) -> TraceModel {
        let processes = [1, 2].map(|number| TraceProcess::with_number(number, Instrument::Timeline));
        TraceModel { ops, processes: processes.into(), ..TraceModel::default() }
    }

    #[test]
    fn a_gradient_and_what_it_calls_have_the_op_that_made_its_node() {
        let mut trace = of_two_processes(vec![
            // A comparison makes no node. Its number is that of the next op.
            op(0, (0, 5), "aten::gt", Some(7)),
            op(0, (10, 20), "aten::mm", Some(7)),
            op(1, (11, 21), "aten::mul", Some(7)),
            op(0, (30, 40), "MmBackward0", Some(7)),
            op(0, (31, 39), "aten::mm", None),
            // Computed again in backward: a number of another thread.
            op(0, (32, 38), "aten::gt", Some(7)),
            op(1, (41, 50), "MulBackward0", Some(7)),
        ]);
        join_ops(&mut trace);
        let forward: Vec<Option<usize>> = trace.ops.iter().map(TraceOp::forward).collect();
        assert_eq!(forward, [None, None, None, Some(1), Some(1), Some(1), Some(2)]);
    }

    /// An op of a thread. Its forward op is of the thread that PyTorch gives a number.
    fn of_thread(thread: u64, span: (i64, i64), sequence: i64, forward_thread: u32) -> TraceOp {
        let name = if forward_thread == 0 { "aten::mm" } else { "MmBackward0" };
        let mut op = op(0, span, name, Some(sequence));
        op.call.thread = thread;
        op.details_mut().forward_thread = std::num::NonZeroU32::new(forward_thread);
        op
    }

    #[test]
    fn arrows_name_the_threads_of_equal_numbers() {
        let ops = || {
            vec![
                of_thread(11, (0, 5), 0, 0),
                of_thread(12, (10, 15), 0, 0),
                of_thread(99, (20, 25), 0, 2),
                of_thread(99, (30, 35), 0, 1),
            ]
        };
        let link = |forward, begin_ns| ForwardLink { forward, backward: 99, begin_ns };
        let mut trace = of_two_processes(ops());
        join_linked_ops(&mut trace, &[link(12, 20), link(11, 30)]);
        let forward = |trace: &TraceModel| trace.ops.iter().map(TraceOp::forward).collect::<Vec<_>>();
        assert_eq!(forward(&trace), [None, None, Some(1), Some(0)]);
    }

    #[test]
    fn a_thread_that_has_all_numbers_of_a_gradient_is_its_own() {
        let mut trace = of_two_processes(vec![
            of_thread(1, (0, 5), 5, 0),
            of_thread(1, (10, 15), 6, 0),
            of_thread(99, (20, 90), 6, 1),
            // A checkpoint computes again on the thread of the gradients, with numbers of that thread.
            of_thread(99, (30, 35), 5, 0),
            of_thread(99, (40, 45), 5, 2),
            of_thread(99, (100, 105), 5, 1),
        ]);
        join_ops(&mut trace);
        let forward: Vec<Option<usize>> = trace.ops.iter().map(TraceOp::forward).collect();
        assert_eq!(forward, [None, None, Some(1), Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn a_step_that_two_threads_name_is_one() {
        let step = |thread: u64, begin_ns: i64, name: &str| TraceOp {
            call: TraceCall { thread, begin_ns, end_ns: begin_ns + 9 },
            ..op(0, (0, 0), name, None)
        };
        let mut trace = of_two_processes(vec![
            step(1, 0, "ProfilerStep#0"),
            step(2, 1, "ProfilerStep#0"),
            step(1, 10, "ProfilerStep#1"),
            // The numbers of another cycle begin again.
            step(1, 20, "ProfilerStep#0"),
        ]);
        assert_eq!(join_steps(&mut trace), 3);
        assert_eq!(trace.ops.iter().map(|op| op.step).collect::<Vec<_>>(), [0, 0, 1, 2]);
    }

    #[test]
    fn of_equal_spans_the_call_that_began_first_is_the_outer_one() {
        let numbered = |name: &str, record| {
            let mut op = op(0, (10, 20), name, None);
            op.details_mut().record = Some(record);
            op
        };
        let ops = vec![numbered("aten::addmm", 8), numbered("aten::linear", 7)];
        let mut trace = of_two_processes(ops);
        join_ops(&mut trace);
        let found: Vec<_> = trace.ops.iter().map(|op| (&*op.name, op.parent.get())).collect();
        assert_eq!(found, [("aten::linear", None), ("aten::addmm", Some(0))]);
    }

    #[test]
    fn ops_are_sorted_as_a_stable_sort_does() {
        let mut state = 7_u64;
        let mut random = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((state >> 33) % most).unwrap()
        };
        let mut ops: Vec<TraceOp> = Vec::new();
        for number in 0..1000 {
            let begin_ns = random(50);
            let call = TraceCall { thread: 1, begin_ns, end_ns: begin_ns + random(5) };
            ops.push(TraceOp::for_call(call, OpKind::Region, number.to_string()));
        }
        let names = |ops: &[TraceOp]| ops.iter().map(|op| op.name.to_string()).collect::<Vec<_>>();
        let mut calls: Vec<(TraceCall, String)> = ops.iter().map(|op| op.call).zip(names(&ops)).collect();
        calls.sort_by_key(|(call, _)| (call.begin_ns, Reverse(call.end_ns)));
        sort_ops(&mut ops);
        assert_eq!(names(&ops), calls.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
    }

    #[test]
    fn a_call_that_begins_as_an_op_ends_is_of_the_op_around_both() {
        let ops = [span_of(0, 40), span_of(10, 20), span_of(25, 25)];
        let of = |begin_ns, end_ns| {
            let call = TraceCall { thread: 1, begin_ns, end_ns };
            enclosing(&ops, &[begin(call)]).first().and_then(|op| op.get())
        };
        assert_eq!((of(20, 25), of(19, 22), of(20, 20), of(25, 25)), (Some(0), Some(1), Some(1), Some(2)));
    }

    fn span_of(begin_ns: i64, end_ns: i64) -> ThreadSpan {
        ThreadSpan { thread: 1, begin_ns, end_ns }
    }
}

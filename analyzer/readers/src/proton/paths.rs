//! Call paths as ops and Python stacks, and their kernels as launches.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use stallmap_schema::word::{Instrument, LossKind, OpKind};

use super::cycles::{KernelScopes, ScopeCycles};
use super::{ProtonReader, ScopeNode};
use crate::model::{
    RegionNumber, TraceCall, TraceCounter, TraceFrame, TraceKernel, TraceModel, TraceOp, TraceProcess,
};

/// Most launches of a profile that are rows.
pub(super) const MAX_LAUNCHES: u64 = 2_000_000;
/// The metric of times, by ncu's name: the duration of one launch.
const TIME: &str = "gpu__time_duration.sum";

/// A place in the tree: the innermost scope, and the Python stack.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct ScopeContext {
    pub(crate) op: Option<usize>,
    pub(crate) stack: Option<usize>,
}

/// The trace while paths are walked.
#[derive(Default)]
pub(crate) struct TracePaths {
    pub(crate) trace: TraceModel,
    frames: HashMap<TraceFrame, usize>,
    stacks: HashMap<Vec<usize>, usize>,
    /// Places below others in call stacks, by their names.
    known: HashMap<(ScopeContext, String), ScopeContext>,
    /// Most launches of a call path that are rows.
    most_launches: u64,
}

/// The trace of a tree.
pub(super) fn trace(reading: ProtonReader) -> TraceModel {
    let ProtonReader { nodes, devices, losses, .. } = reading;
    let trace = TraceModel { tool: "proton", devices, losses, ..TraceModel::default() };
    let mut paths = TracePaths { most_launches: most_launches(&nodes), ..TracePaths::for_trace(trace) };
    let is_path = above_kernels(&nodes);
    let scopes = KernelScopes::from_nodes(&nodes);
    let mut contexts: Vec<ScopeContext> = Vec::with_capacity(nodes.len());
    for (place, (node, is_path)) in nodes.iter().zip(is_path).enumerate() {
        let outer = node.parent.and_then(|parent| contexts.get(parent)).copied().unwrap_or_default();
        let numbers = scopes.for_kernel(place);
        let is_inner = scopes.is_inside(place);
        if node.launches().is_some() || (!is_inner && !numbers.is_empty()) {
            // A frame that was not profiled down to its kernels has their launches.
            let context = if frame(&node.name).is_some() { paths.enter(&node.name, outer) } else { outer };
            paths.launch(node, context, numbers);
        }
        let is_root = node.parent.is_none() && (&*node.name == "ROOT" || node.name.is_empty());
        let is_scope = is_path || (node.launches().is_none() && numbers.is_empty());
        let context = if !is_root && !is_inner && is_scope { paths.enter(&node.name, outer) } else { outer };
        if node.launches().is_none() && !is_inner {
            paths.count(node, context.op.filter(|op| Some(*op) != outer.op));
        }
        contexts.push(context);
    }
    let reason = "cycles of scopes outside of kernels";
    paths.trace.losses.add_many(LossKind::Source, reason, scopes.lost, None);
    let reason = "scopes inside of kernels whose names take more than 256 MiB";
    paths.trace.losses.add_many(LossKind::Source, reason, scopes.unnamed, None);
    paths.finish()
}

/// For each node, true if a node below it is a kernel.
fn above_kernels(nodes: &[ScopeNode]) -> Vec<bool> {
    let mut found: Vec<bool> = nodes.iter().map(|_| false).collect();
    for (place, node) in nodes.iter().enumerate().rev() {
        let is_one = node.launches().is_some() || found.get(place).copied().unwrap_or_default();
        if let Some(slot) = node.parent.and_then(|parent| found.get_mut(parent)) {
            *slot |= is_one;
        }
    }
    found
}

/// The most launches of one call path with which all paths together have few enough. Each has at least one.
fn most_launches(nodes: &[ScopeNode]) -> u64 {
    let mut counts: Vec<u64> = nodes.iter().filter_map(ScopeNode::launches).map(|(count, _)| count).collect();
    counts.sort_unstable();
    let (mut left, mut paths) = (MAX_LAUNCHES, counts.len() as u64);
    // Paths with few launches leave the rest of their share to those with many.
    for count in counts {
        if count > left / paths {
            return (left / paths).max(1);
        }
        left -= count;
        paths -= 1;
    }
    MAX_LAUNCHES
}

impl TracePaths {
    /// Paths of a trace that has no stacks yet.
    pub(crate) fn for_trace(trace: TraceModel) -> Self {
        Self { trace, ..Self::default() }
    }

    /// The context below a scope or a frame.
    fn enter(&mut self, name: &str, outer: ScopeContext) -> ScopeContext {
        if let Some(frame) = frame(name) {
            return ScopeContext { stack: Some(self.stack(frame, outer.stack)), ..outer };
        }
        let call = TraceCall { thread: 0, begin_ns: 0, end_ns: 0 };
        let op = TraceOp::for_call(call, OpKind::Region, name);
        self.trace.ops.push(TraceOp { parent: outer.op.into(), stack: outer.stack.into(), ..op });
        ScopeContext { op: Some(self.trace.ops.len() - 1), ..outer }
    }

    /// The context of a launch in a Chrome trace, whose call stack ends with its kernel. A scope is one op:
    /// it begins with its first launch and ends with its last one.
    pub(crate) fn within(
        &mut self,
        call_stack: &[String],
        kernel: &str,
        time_ns: Option<(i64, i64)>,
    ) -> ScopeContext {
        let names = call_stack.strip_prefix(&["ROOT".to_owned()]).unwrap_or(call_stack);
        let names = names.strip_suffix(&[kernel.to_owned()]).unwrap_or(names);
        let mut context = ScopeContext::default();
        for name in names {
            let place = (context, name.clone());
            let known = self.known.get(&place).copied();
            context = known.unwrap_or_else(|| self.enter(name, context));
            if known.is_none() {
                self.known.insert(place, context);
            }
            let op = context.op.and_then(|op| self.trace.ops.get_mut(op));
            if let Some((op, (begin, end))) = op.zip(time_ns) {
                let is_first = (op.call.begin_ns, op.call.end_ns) == (0, 0);
                op.call.begin_ns = if is_first { begin } else { op.call.begin_ns.min(begin) };
                op.call.end_ns = op.call.end_ns.max(end);
            }
        }
        context
    }

    /// The stack of a frame and its callers.
    fn stack(&mut self, frame: TraceFrame, outer: Option<usize>) -> usize {
        let next = self.trace.frames.len();
        let place = *self.frames.entry(frame.clone()).or_insert(next);
        if place == next {
            self.trace.frames.push(frame);
        }
        let callers = outer.and_then(|outer| self.trace.stacks.get(outer));
        let path: Vec<usize> = std::iter::once(place).chain(callers.into_iter().flatten().copied()).collect();
        let next = self.trace.stacks.len();
        let stack = *self.stacks.entry(path.clone()).or_insert(next);
        if stack == next {
            self.trace.stacks.push(path);
        }
        stack
    }

    /// Adds the launches of a kernel. Shares of a sum differ by one nanosecond, and add up to it. Of a long run only some
    /// are rows.
    ///
    /// A kernel with cycles alone is one launch without a time: the profile has neither the number nor times.
    fn launch(&mut self, node: &ScopeNode, outer: ScopeContext, cycles: &[ScopeCycles]) {
        let measured = node.launches();
        let (count, time_ns) = measured.unwrap_or((1, 0));
        if measured.is_none() {
            let reason = "launches of kernels with cycles of scopes alone: one row has their sum";
            self.trace.losses.add(LossKind::Source, reason, Some(&node.name));
        }
        let rows = count.min(self.most_launches);
        let reason = "launches of call paths that have too many: others have the mean of all";
        self.trace.losses.add_many(LossKind::Source, reason, count - rows, Some(&node.name));
        if count > 1 {
            let reason = "times of single launches: each has the mean of its call path";
            self.trace.losses.add_many(LossKind::Source, reason, rows, None);
        }
        let longer = time_ns % count;
        let metric: Rc<str> = TIME.into();
        for number in 0..rows {
            let kernel = self.trace.kernels.len();
            self.trace.kernels.push(kernel_of(node, outer));
            let share = time_ns / count + u64::from(number < longer);
            let times = measured.map(|_| (metric.clone(), share as f64, "nanosecond")).into_iter();
            let others = node
                .metrics
                .iter()
                .map(|(metric, value)| (metric.clone(), value / count as f64, unit(metric)));
            let cycles =
                cycles.iter().map(|scope| (scope.metric.clone(), scope.cycles / count as f64, "cycle"));
            let others = others.chain(cycles);
            self.trace.counters.extend(times.chain(others).map(|(metric, value, unit)| TraceCounter {
                kernel,
                metric,
                value: Some(value),
                unit: unit.to_owned(),
            }));
        }
    }

    /// Numbers of a path without launches: those of a scope are its own, others are counted. The root lists names of
    /// metrics with the value 0.
    fn count(&mut self, node: &ScopeNode, op: Option<usize>) {
        if let Some(op) = op {
            let numbers = node.metrics.iter().map(|(name, value)| RegionNumber {
                op,
                name: name.clone(),
                value: *value,
                unit: Some(unit(name)).filter(|unit| !unit.is_empty()),
            });
            self.trace.region_numbers.extend(numbers);
        }
        let times = node.time_ns.filter(|time| *time != 0).map(|_| "time (ns)");
        let counts = node.count.filter(|count| *count != 0).map(|_| "count");
        let others = node.metrics.iter().filter(|(_, value)| op.is_none() && *value != 0.0);
        let others = others.map(|(metric, _)| &**metric);
        for metric in times.into_iter().chain(counts).chain(others) {
            self.trace.losses.add(
                LossKind::Source,
                "metrics of call paths without both launches and time",
                Some(metric),
            );
        }
    }

    fn finish(mut self) -> TraceModel {
        self.trace.facts = BTreeMap::from([(
            "proton.times".to_owned(),
            "sums of call paths, shared out evenly among their launches".to_owned(),
        )]);
        self.trace.processes.push(TraceProcess::with_number(0, Instrument::Counters));
        let losses = &mut self.trace.losses;
        losses.lacks("times of launches, scopes and the run, written as 0");
        losses.lacks("grids and blocks, written as 0");
        losses.lacks("memory and L2 size of GPUs, written as 0");
        for part in ["streams", "stall samples per instruction", "memory accesses", "ops and tensors"] {
            losses.lacks(part);
        }
        self.trace
    }
}

fn kernel_of(node: &ScopeNode, outer: ScopeContext) -> TraceKernel {
    TraceKernel {
        process: 0,
        name: frame(&node.name).map_or_else(|| node.name.clone(), |frame| frame.function.into()),
        device: node.device.unwrap_or(-1),
        stream: 0,
        time_ns: None,
        grid: None,
        block: None,
        registers: None,
        shared_bytes: None,
        correlation: None,
        call: None,
        op: outer.op,
        stack: outer.stack,
        ..TraceKernel::default()
    }
}

fn unit(metric: &str) -> &'static str {
    if metric == "bytes" { "byte" } else { "" }
}

/// A frame from `file:line@function`, or `file:function@line` as in older profiles. Names of C++ have two colons.
fn frame(name: &str) -> Option<TraceFrame> {
    let (place, last) = name.rsplit_once('@')?;
    let (file, middle) = place.rsplit_once(':')?;
    let (line, function) =
        middle.parse().map(|line| (line, last)).or_else(|_| last.parse().map(|line| (line, middle))).ok()?;
    let is_frame = !file.is_empty() && !file.ends_with(':') && !function.is_empty();
    is_frame.then(|| TraceFrame { file: file.to_owned(), function: function.to_owned(), line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(count: i64, time_ns: i64) -> ScopeNode {
        ScopeNode { count: Some(count), time_ns: Some(time_ns), ..ScopeNode::default() }
    }

    #[test]
    fn a_long_run_keeps_some_launches_of_each_kernel() {
        let nodes = vec![kernel(1_500_000, 3_000_000), kernel(600_000, 600_000), kernel(100, 1000)];
        let most = most_launches(&nodes);
        assert_eq!(most, 1_399_900);
        let trace = trace(ProtonReader { nodes, ..ProtonReader::default() });
        assert_eq!(trace.kernels.len() as u64, MAX_LAUNCHES);
        let lost = trace.losses.rows().find(|(_, reason, ..)| reason.contains("too many"));
        assert_eq!(lost.map(|(_, _, count, _)| count), Some(1_500_000 - most));
        assert_eq!((most_launches(&[kernel(1, 1)]), most_launches(&[])), (MAX_LAUNCHES, MAX_LAUNCHES));
    }

    #[test]
    fn names_are_frames() {
        for name in ["/home/a/test.py:foo@17", "/home/a/test.py:17@foo"] {
            let parsed = frame(name).unwrap();
            assert_eq!(
                (parsed.file.as_str(), parsed.function.as_str(), parsed.line),
                ("/home/a/test.py", "foo", 17)
            );
        }
        for name in ["aten::conv2d@3", "scope", "a:b", ":f@1", "f.py:@1", "f.py:g@x"] {
            assert_eq!(frame(name), None, "{name}");
        }
    }
}

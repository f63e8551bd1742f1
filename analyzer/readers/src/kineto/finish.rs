//! The end of a trace: everything that needs all events.

use std::collections::HashSet;

use stallmap_schema::word::{ActivityKind, Instrument, LossKind};

use super::KinetoReader;
use super::category::host_wait;
use crate::join::{begin, join_linked_ops, join_steps, shift, span};
use crate::model::{TraceActivity, TraceKernel, TraceModel, TraceOp, TraceProcess, UnmatchedCall};
use crate::nest::{ThreadSpan, enclosing};
use crate::proton::paths::TracePaths;

impl KinetoReader {
    /// The trace with everything that needs all events: calls, enclosing ops, stacks, lifetimes, and the base of times.
    pub(super) fn finish(mut self) -> TraceModel {
        self.trace.tool = "kineto";
        self.name_processes();
        self.join_calls();
        self.add_waits();
        self.end_ops();
        let regions = self.functions.idle_regions(&self.trace);
        self.trace.ops.extend(regions);
        join_linked_ops(&mut self.trace, &std::mem::take(&mut self.arrows).links());
        let steps = join_steps(&mut self.trace);
        self.join_pending();
        let built_in = self.functions.built_in;
        self.modules.join(&mut self.trace);
        let unread_stacks = self.join_stacks();
        std::mem::take(&mut self.memory).join(&mut self.trace);
        shift(&mut self.trace, self.base_ns);
        self.join_call_stacks();
        let losses = &mut self.trace.losses;
        losses.add_many(LossKind::Source, "built-in functions in Python stacks", built_in, None);
        let reason = "Python stacks of ops as their arguments, next to events of functions";
        losses.add_many(LossKind::Source, reason, unread_stacks, None);
        if steps == 0 {
            losses.lacks("optimizer steps");
        }
        self.count_losses();
        self.trace
    }

    /// Gives ops their Python stacks: those of functions, else those that they have as arguments. Returns the number of the
    /// latter that are left out.
    fn join_stacks(&mut self) -> u64 {
        let (functions, written) = (std::mem::take(&mut self.functions), std::mem::take(&mut self.written));
        let has_functions = !functions.is_empty();
        if has_functions {
            functions.join(&mut self.trace);
        }
        written.join(&mut self.trace, has_functions)
    }

    /// The processes of the host. A trace without one is of one process. Of several, the rank is that of the only one that
    /// calls CUDA: loaders of data have ops, too.
    fn name_processes(&mut self) {
        let processes: Vec<_> = self.owners.processes().collect();
        let only = if processes.len() <= 1 { Some(0) } else { self.owners.only_caller() };
        let process = |(place, (group, number, rank)): (usize, (&str, u32, Option<u32>))| TraceProcess {
            program: if group.is_empty() { String::new() } else { format!("kineto {group}") },
            rank: self.rank.filter(|_| only == Some(place)).or(rank),
            world_size: self.world_size,
            cuda_version: self.cuda_version,
            ..TraceProcess::with_number(number, Instrument::Timeline)
        };
        self.trace.processes = processes.into_iter().enumerate().map(process).collect();
        if self.owners.is_empty() {
            self.trace.processes.push(TraceProcess {
                rank: self.rank,
                world_size: self.world_size,
                cuda_version: self.cuda_version,
                ..TraceProcess::with_number(0, Instrument::Timeline)
            });
        }
    }

    /// Gives work its process and its call. Kernels from before the trace have none.
    fn join_calls(&mut self) {
        let owners = &mut self.owners;
        let mut find = |group: usize, correlation: Option<u64>, begin_ns: i64| {
            let correlation = correlation.and_then(|number| i64::try_from(number).ok());
            match correlation.and_then(|number| owners.find(group, number, begin_ns)) {
                Some((process, call, name)) => (process, Some(call), Some(name)),
                None => (owners.first_of(group), None, None),
            }
        };
        for (kernel, group) in self.trace.kernels.iter_mut().zip(&self.kernel_groups) {
            let begin_ns = kernel.begin_ns.unwrap_or(i64::MAX);
            (kernel.process, kernel.call, kernel.call_name) = find(*group, kernel.correlation, begin_ns);
        }
        for (work, group) in self.trace.works.iter_mut().zip(&self.work_groups) {
            (work.process, work.call, work.call_name) = find(*group, work.correlation, work.begin_ns);
        }
    }

    /// Adds waits of which the trace has the call only. Where the profiler recorded the wait itself, that counts.
    fn add_waits(&mut self) {
        let waits = self.trace.works.iter().filter(|work| work.kind == ActivityKind::Synchronization);
        let known: HashSet<(usize, Option<u64>)> =
            waits.map(|wait| (wait.process, wait.correlation)).collect();
        for (process, correlation, kind, call) in std::mem::take(&mut self.waits) {
            let correlation = correlation.and_then(|number| u64::try_from(number).ok());
            if correlation.is_some() && known.contains(&(process, correlation)) {
                continue;
            }
            self.trace.works.push(TraceActivity::for_wait(process, kind, call, correlation));
        }
    }

    /// Gives ops without an end that of the op around them, else that of the trace.
    fn end_ops(&mut self) {
        let unended = std::mem::take(&mut self.unended);
        if unended.is_empty() {
            return;
        }
        let trace = &mut self.trace;
        let kernels = trace.kernels.iter().filter_map(|kernel| Some(kernel.time_ns?.1));
        let works = trace.works.iter().filter_map(|work| work.end_ns);
        let ops = trace.ops.iter().map(|op| op.call.end_ns);
        let last = kernels.chain(works).chain(ops).max().unwrap_or(i64::MIN);
        let points: Vec<ThreadSpan> =
            unended.iter().filter_map(|place| Some(begin(trace.ops.get(*place)?.call))).collect();
        let is_ended = |op: &&TraceOp| op.call.end_ns > op.call.begin_ns;
        let ended: Vec<ThreadSpan> = trace.ops.iter().filter(is_ended).map(|op| span(op.call)).collect();
        for (place, outer) in unended.iter().zip(enclosing(&ended, &points)) {
            let outer = outer.get().and_then(|outer| ended.get(outer));
            if let Some(op) = trace.ops.get_mut(*place) {
                op.call.end_ns = outer.map_or(last, |outer| outer.end_ns).max(op.call.begin_ns);
            }
        }
        let reason = "ops without a length, which end with the op around them or with the trace";
        trace.losses.add_many(LossKind::Source, reason, unended.len() as u64, None);
    }

    /// Gives the kernels of a trace of Proton their scopes and Python stacks, where nothing else has some.
    fn join_call_stacks(&mut self) {
        let call_stacks = std::mem::take(&mut self.call_stacks);
        if !self.trace.ops.is_empty() || !self.trace.stacks.is_empty() {
            let reason = "call stacks of kernels, next to ops or Python stacks";
            self.trace.losses.add_many(LossKind::Source, reason, call_stacks.len() as u64, None);
            return;
        }
        let mut paths = TracePaths::for_trace(std::mem::take(&mut self.trace));
        for (place, call_stack) in call_stacks {
            let Some((name, time_ns)) =
                paths.trace.kernels.get(place).map(|kernel| (kernel.name.clone(), kernel.time_ns))
            else {
                continue;
            };
            let context = paths.within(&call_stack, &name, time_ns);
            if let Some(kernel) = paths.trace.kernels.get_mut(place) {
                (kernel.op, kernel.stack) = (context.op, context.stack);
            }
        }
        self.trace = paths.trace;
    }

    /// Keeps the launch calls without a kernel, each with the op around it.
    fn join_pending(&mut self) {
        let mut calls = self.owners.take_idle();
        self.left.calls = calls.iter().filter(|call| host_wait(&call.name).is_none()).count() as u64;
        calls.retain(|call| call.kernel.is_some());
        calls.sort_by_key(|call| call.call.begin_ns);
        let points: Vec<ThreadSpan> = calls.iter().map(|call| begin(call.call)).collect();
        let calls = calls.into_iter().zip(enclosing(&self.trace.ops, &points));
        let pending = calls.filter_map(|(call, op)| {
            let kernel = call.kernel?;
            let (name, grid, block) = (kernel.name.clone(), kernel.grid, kernel.block);
            Some(UnmatchedCall { call: call.call, name, grid, block, op: op.get() })
        });
        self.trace.pending = pending.collect();
    }

    fn count_losses(&mut self) {
        let losses = &mut self.trace.losses;
        let kernels = &self.trace.kernels;
        let without =
            |is: &dyn Fn(&TraceKernel) -> bool| kernels.iter().filter(|kernel| is(kernel)).count() as u64;
        let uncalled = without(&|kernel| kernel.call.is_none());
        let reason = if uncalled < kernels.len() as u64 || self.has_launch || self.left.calls > 0 {
            "kernels without a launch call in the trace: launched before it began"
        } else {
            "kernels without a launch call: the trace has no calls"
        };
        losses.add_many(LossKind::Source, reason, uncalled, None);
        let shapeless = without(&|kernel| kernel.grid.is_none() || kernel.block.is_none());
        losses.add_many(LossKind::Source, "kernels without grid and block, written as 0", shapeless, None);
        let unmeasured = without(&|kernel| kernel.time_ns.is_none());
        losses.add_many(LossKind::Source, "kernels without a duration", unmeasured, None);
        self.left.name(losses);
        for part in ["stall samples", "memory accesses", "machine code", "tensors with addresses"] {
            losses.lacks(part);
        }
        losses.lacks("clocks and L2 size of GPUs, written as 0");
    }
}

//! Launches of CUDA graphs: one call, one read of samples, rows for every kernel node.

use stallmap_schema::id::{KernelId, RunId};
use stallmap_schema::tables::launch::{GraphLaunch, Launch};
use stallmap_schema::word::{LossKind, Match};
use stallmap_sys::cuda::DriverHandle;

use super::buffer::PcRecord;
use super::launch::{LaunchSampling, blocks, lose_samples, lose_unread};
use super::period::ContextBounds;
use super::reading::{CallSamples, SamplingFailure};
use super::rows::{self, CallTimes, LaunchSamples, RanKernel};
use super::split::{self, LaunchedNode, NodeShare, NodeShares, SplitCounts};
use super::{SamplingInstrument, lock, samples, watch};
use stallmap_session::context::{self, OpContext};
use stallmap_session::gpu::graphs::{ExecNode, LaunchedGraph};
use stallmap_session::session;

/// A launch of a graph whose call is running.
pub(super) struct PendingGraph {
    launch: LaunchedGraph,
    /// Each node that is launched, by its place in the graph, and whether it is selected.
    launched: Vec<(usize, bool)>,
    first_ordinal: u64,
    stream: DriverHandle,
    context: Option<OpContext>,
    begin_ns: i64,
    /// Nodes that were counted as lost when the launch began.
    lost: u64,
    /// `None` where no node is sampled.
    pub(super) sampling: Option<LaunchSampling>,
}

/// The samples of a graph's nodes, in the order of the launched ones.
struct NodeSamples<'a> {
    reading: &'a CallSamples,
    shares: Vec<NodeShare>,
    /// Samples of each that are in no row.
    lost: Vec<u64>,
}

impl PendingGraph {
    /// Kernels that the launch runs.
    fn kernel_count(&self) -> u64 {
        self.launched.len() as u64
    }

    /// Kernels that are not counted as lost yet.
    pub(super) fn uncounted(&self) -> u64 {
        self.kernel_count().saturating_sub(self.lost)
    }

    /// The nodes that are launched: ordinal, node, and whether it is selected.
    fn nodes(&self) -> impl Iterator<Item = (u64, &ExecNode, bool)> {
        let nodes =
            self.launched.iter().filter_map(|&(at, selected)| Some((self.launch.nodes.get(at)?, selected)));
        (self.first_ordinal..).zip(nodes).map(|(ordinal, (node, selected))| (ordinal, node, selected))
    }
}

impl SamplingInstrument {
    /// A launch of an executable graph begins; `None`, and counted, where the graph was not seen.
    pub(super) fn graph_begins(
        &self,
        exec: DriverHandle,
        stream: DriverHandle,
        context: DriverHandle,
    ) -> Option<PendingGraph> {
        let Some(launch) = self.graphs.launch_begins(exec) else {
            session::lose(LossKind::Launch, "launched by a CUDA graph that was not seen", 1, None);
            return None;
        };
        let enabled = launch.nodes.iter().enumerate().filter(|(_, node)| node.is_enabled);
        let launched: Vec<(usize, bool)> = enabled.map(|(at, node)| (at, self.is_selected(node))).collect();
        let mut pending = PendingGraph {
            first_ordinal: session::take_ordinals(launched.len() as u64),
            launch,
            launched,
            stream,
            context: context::current(),
            begin_ns: session::now_ns(),
            lost: 0,
            sampling: None,
        };
        self.sample_graph(&mut pending, context);
        Some(pending)
    }

    /// True if the selection takes a node. A node that it leaves out is counted.
    fn is_selected(&self, node: &ExecNode) -> bool {
        let decision = self.selector.decide(&node.name);
        if let Err(reason) = decision {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        decision.is_ok()
    }

    /// Starts sampling where any node is selected.
    fn sample_graph(&self, pending: &mut PendingGraph, context: DriverHandle) {
        let selected = pending.launched.iter().filter(|(_, selected)| *selected).count() as u64;
        pending.lost = pending.kernel_count() - selected;
        if selected == 0 {
            return;
        }
        let kernels = pending.kernel_count();
        let cycles = |machine: ContextBounds| machine.graph_cycles(kernels);
        match self.begin_sampling(context, ("a CUDA graph", watch::patience(None)), cycles) {
            Ok(Some(sampling)) => {
                pending.begin_ns = sampling.begin_ns;
                pending.sampling = Some(sampling);
            }
            Ok(None) => {}
            Err(reason) => {
                pending.lost += selected;
                session::lose(LossKind::Launch, reason, selected, None);
            }
        }
    }

    /// All kernels of the graph have run.
    pub(super) fn graph_launched(&self, pending: &PendingGraph, correlation_id: u64, end_ns: i64) {
        let mut reading = pending.sampling.as_ref().map(|sampling| {
            let reading = sampling.sampler.read(&self.api, correlation_id);
            sampling.sampler.leave(&self.api, reading.failure);
            reading
        });
        let unread = reading.as_ref().and_then(CallSamples::unread);
        if let Some(code) = unread {
            lose_unread(pending.uncounted(), code);
        }
        let records = reading.as_mut().map(|reading| std::mem::take(&mut reading.records));
        let sampled =
            pending.sampling.as_ref().zip(reading.as_ref()).zip(records).filter(|_| unread.is_none());
        let nodes = sampled
            .map(|((sampling, reading), records)| self.divide(pending, sampling, reading, records, end_ns));
        let times = CallTimes {
            thread_id: session::thread_id(),
            stream_id: lock(&self.book).stream(pending.stream),
            // Samples name their node's launch by its ordinal.
            correlation_id: self.is_timeline.then_some(correlation_id),
            begin_ns: pending.begin_ns,
            end_ns,
        };
        session::emit(graph_row(pending, &times));
        let device_id = self.device();
        for (index, (ordinal, node, selected)) in pending.nodes().enumerate() {
            let nodes = nodes.as_ref().filter(|_| selected);
            self.node_launched(
                pending,
                (ordinal, node, selected),
                device_id,
                &times,
                nodes.map(|nodes| (nodes, index)),
            );
        }
    }

    /// Divides the samples of a graph launch among its nodes.
    fn divide<'a>(
        &self,
        pending: &PendingGraph,
        sampling: &LaunchSampling,
        reading: &'a CallSamples,
        records: Vec<PcRecord>,
        end_ns: i64,
    ) -> NodeSamples<'a> {
        let weight = |node: &ExecNode| blocks(node.shape).saturating_mul(threads(node.shape));
        let targets: Vec<LaunchedNode<'_>> = pending
            .nodes()
            .map(|(_, node, _)| LaunchedNode { name: &node.name, weight: weight(node) })
            .collect();
        let collected = reading.reasons.count_all(&records);
        let taken = collected + reading.dropped;
        let NodeShares { nodes: shares, others } = split::assign(records, &targets);
        let (foreign, others) = self.split_foreign(others);
        // The first node stands for the graph, until finalizing gives them to the launches that they are of.
        reading.reasons.emit(&foreign, Some(pending.first_ordinal));
        let others = reading.reasons.count_all(&others);
        let unselected = shares.iter().zip(&pending.launched).filter(|(_, (_, selected))| !selected);
        let unselected = unselected.map(|(share, _)| reading.reasons.count_all(&share.records)).sum();
        for (reason, count) in
            [("node of the samples is not known", others), ("launch was not selected", unselected)]
        {
            if count > 0 {
                session::lose(LossKind::Sample, reason, count, None);
            }
        }
        let counts: Vec<u64> = shares.iter().map(|share| reading.reasons.count_all(&share.records)).collect();
        let mut lost = SplitCounts::new(&counts).split(reading.dropped);
        let mut missing = 0;
        if reading.failure == Some(SamplingFailure::Full) {
            missing = sampling.estimate(u64::MAX, end_ns).saturating_sub(taken);
            let weights: Vec<u64> = targets.iter().map(|target| target.weight).collect();
            let parts = SplitCounts::new(&weights).split(missing);
            for ((ordinal, ..), (lost, part)) in pending.nodes().zip(lost.iter_mut().zip(parts)) {
                *lost += part;
                lose_samples(ordinal, part);
            }
        }
        lock(&self.period).learn(sampling.machine, taken + missing, sampling.exponent);
        NodeSamples { reading, shares, lost }
    }

    /// Separates records of kernels, which are no nodes: CUPTI still held them from launches before.
    fn split_foreign(&self, records: Vec<PcRecord>) -> (Vec<PcRecord>, Vec<PcRecord>) {
        let functions = lock(&self.functions);
        records.into_iter().partition(|record| functions.is_kernel(record.cubin_crc, &record.function))
    }

    /// Writes the rows of one node.
    fn node_launched(
        &self,
        pending: &PendingGraph,
        (ordinal, node, is_selected): (u64, &ExecNode, bool),
        device_id: i32,
        times: &CallTimes,
        sampled: Option<(&NodeSamples<'_>, usize)>,
    ) {
        let share = sampled.and_then(|(nodes, index)| nodes.shares.get(index));
        let records = share.map_or(&[][..], |share| &share.records);
        let ran = RanKernel {
            ordinal,
            kernel_id: KernelId(ordinal),
            name: &node.name,
            shape: node.shape,
            shared_bytes: node.shared_bytes,
            context: node.captured.map_or(pending.context, |captured| captured.context),
        };
        let crcs = samples::crcs(records, &node.name);
        let function = self.function(&ran, node.function, &crcs);
        let launch = function.map(|(function_id, _is_certain)| Launch {
            graph_id: Some(pending.launch.graph_id),
            graph_launch: Some(pending.launch.graph_launch),
            graph_node: Some(node.index),
            capture_ordinal: node.captured.map(|captured| captured.ordinal),
            accesses_of: None,
            ..rows::launch(&ran, function_id, device_id)
        });
        let sampled = sampled.zip(share).zip(pending.sampling.as_ref());
        let sampled = sampled.map(|(((nodes, index), share), sampling)| {
            nodes.reading.reasons.emit(&share.records, Some(ordinal));
            LaunchSamples {
                collected: nodes.reading.reasons.count_all(&share.records),
                lost: nodes.lost.get(index).copied().unwrap_or(0),
                period_cycles: self.period_cycles(sampling),
                is_split: share.is_split.then_some(true),
            }
        });
        let is_recorded = sampled.is_some() || (self.is_timeline && is_selected);
        self.emit(launch, rows::launch_run(&ran, Match::Reference, times, is_recorded, sampled));
    }
}

fn graph_row(pending: &PendingGraph, times: &CallTimes) -> GraphLaunch {
    GraphLaunch {
        run_id: RunId(0),
        graph_id: pending.launch.graph_id,
        graph_launch: pending.launch.graph_launch,
        ordinal: pending.first_ordinal,
        kernel_count: u32::try_from(pending.launched.len()).unwrap_or(u32::MAX),
        thread_id: times.thread_id,
        stream_id: times.stream_id,
        begin_ns: times.begin_ns,
        end_ns: Some(times.end_ns),
        op_id: pending.context.and_then(|context| context.op_id),
        pystates_hash: pending.context.and_then(|context| context.pystates_hash),
    }
}

/// The threads of a block.
fn threads([.., x, y, z]: [u32; 6]) -> u64 {
    u64::from(x).saturating_mul(y.into()).saturating_mul(z.into())
}

#[cfg(test)]
impl PendingGraph {
    /// A launch of so many nodes, some of which were counted as lost when it began.
    pub(super) fn of_nodes(count: usize, lost: u64) -> Self {
        Self {
            launch: LaunchedGraph { graph_id: 0, graph_launch: 0, nodes: std::sync::Arc::default() },
            launched: (0..count).map(|place| (place, true)).collect(),
            first_ordinal: 0,
            stream: DriverHandle::NULL,
            context: None,
            begin_ns: 0,
            lost,
            sampling: None,
        }
    }
}

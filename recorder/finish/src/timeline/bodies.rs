//! Launches of kernels in the bodies of conditional graph nodes.
//!
//! CUPTI's records of them have the number of their node and none of the call. Launches of an executable graph run one
//! after the other, so the times of the graph's other kernels, and of the calls, show which launch a record belongs to.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::RawActivity;
use stallmap_schema::id::KernelId;
use stallmap_schema::word::ActivityKind;

use crate::runs::RunState;

/// The number of the call that no call has.
const NO_CALL: u64 = 0;

/// Gives the records of bodies the launches that they belong to, by the record's index. Returns the launches of these nodes,
/// which may not have run.
pub(super) fn assign(
    run: &RunState,
    records: &[RawActivity],
    launches: &mut [Option<KernelId>],
) -> BTreeSet<KernelId> {
    let is_body = |record: &RawActivity| {
        record.kind == ActivityKind::Kernel
            && record.correlation_id == NO_CALL
            && record.graph_node_id.is_some()
    };
    if !records.iter().any(is_body) {
        return BTreeSet::new();
    }
    let graphs = RunGraphs::from_run(run, records, launches);
    let mut bodies = BTreeSet::new();
    for (record, launch) in records.iter().zip(launches).filter(|(record, _)| is_body(record)) {
        *launch = graphs.launch_of(record);
        bodies.extend(record.graph_node_id.and_then(|number| graphs.nodes.get(&number).copied()));
    }
    bodies.into_iter().flat_map(|(graph, node)| graphs.launches_of(graph, node)).collect()
}

/// The launches of each executable graph.
struct RunGraphs {
    /// By graph, in the order of the calls.
    launches: BTreeMap<u64, Vec<NodeTimes>>,
    /// Graph and node of each of CUPTI's numbers.
    nodes: BTreeMap<u64, (u64, u32)>,
}

/// A launch of a graph.
#[derive(Default)]
struct NodeTimes {
    /// Begin of the call.
    call_ns: i64,
    /// The launch of each node.
    kernels: BTreeMap<u32, KernelId>,
    /// Begin and end of nodes whose records have the number of the call.
    known: BTreeMap<u32, (i64, i64)>,
}

impl NodeTimes {
    /// The time at which the nodes before one had ended.
    fn before(&self, node: u32) -> Option<i64> {
        self.known.range(..node).map(|(_, &(_, end_ns))| end_ns).max()
    }

    /// The time at which the nodes after one began.
    fn after(&self, node: u32) -> Option<i64> {
        self.known.range(node..).map(|(_, &(begin_ns, _))| begin_ns).min()
    }
}

impl RunGraphs {
    fn from_run(run: &RunState, records: &[RawActivity], launches: &[Option<KernelId>]) -> Self {
        let times = launches.iter().zip(records);
        let times: BTreeMap<KernelId, (i64, i64)> = times
            .filter_map(|(launch, record)| Some(((*launch)?, (record.begin_ns, record.end_ns?))))
            .collect();
        let recorded = run.rows.launch_runs.iter().filter(|row| row.recorded);
        let calls: BTreeMap<KernelId, i64> = recorded.map(|row| (row.kernel_id, row.begin_ns)).collect();
        let mut graphs: BTreeMap<(u64, u32), NodeTimes> = BTreeMap::new();
        for launch in &run.rows.launches {
            let node = launch.graph_id.zip(launch.graph_launch).zip(launch.graph_node);
            if let Some((((graph, number), node), &call_ns)) = node.zip(calls.get(&launch.kernel_id)) {
                let graph = graphs.entry((graph, number)).or_default();
                graph.call_ns = call_ns;
                graph.kernels.insert(node, launch.kernel_id);
                graph.known.extend(times.get(&launch.kernel_id).map(|&times| (node, times)));
            }
        }
        let mut launches: BTreeMap<u64, Vec<NodeTimes>> = BTreeMap::new();
        for ((graph, _), times) in graphs {
            launches.entry(graph).or_default().push(times);
        }
        let numbers = run.rows.graph_node_numbers.iter();
        let nodes = numbers.map(|row| (row.graph_node_id, (row.graph_id, row.graph_node))).collect();
        Self { launches, nodes }
    }

    fn launches_of(&self, graph: u64, node: u32) -> impl Iterator<Item = KernelId> {
        let launches = self.launches.get(&graph).into_iter().flatten();
        launches.filter_map(move |launch| launch.kernels.get(&node).copied())
    }

    /// The launch of a record: the first one whose later nodes had not begun, or, of a node with none behind it, the last
    /// one whose earlier nodes had ended.
    fn launch_of(&self, record: &RawActivity) -> Option<KernelId> {
        let &(graph, node) = self.nodes.get(&record.graph_node_id?)?;
        let launches = self.launches.get(&graph)?;
        let begin_ns = record.begin_ns;
        let called = launches.get(..launches.partition_point(|launch| launch.call_ns <= begin_ns))?;
        let has_later = called.last()?.after(node).is_some();
        let index = if has_later {
            called.partition_point(|launch| launch.after(node).is_some_and(|time| time < begin_ns))
        } else {
            let begun = |launch: &NodeTimes| launch.before(node).is_none_or(|time| time <= begin_ns);
            called.partition_point(begun).checked_sub(1)?
        };
        called.get(index)?.kernels.get(&node).copied()
    }
}

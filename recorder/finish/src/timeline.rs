//! The timeline of a run: its activity records, in order, each kernel with its launch.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::RawActivity;
use stallmap_schema::id::{FunctionId, KernelId, RunId};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::word::{ActivityKind, Instrument, LossKind};

use crate::loss::LossTotals;
use crate::runs::RunState;

mod bodies;

/// Turns the records of a run into rows of `gpu_activity`, whose launches are the run's own. Launches get the streams of
/// their kernels.
pub(crate) fn settle(run: &mut RunState, losses: &mut LossTotals) {
    if run.row.instrument != Instrument::Timeline && run.rows.raw_activities.is_empty() {
        return;
    }
    let mut records = std::mem::take(&mut run.rows.raw_activities);
    // CUPTI leaves the times of work that never ended unset.
    let before = records.len();
    records.retain(|record| record.begin_ns < i64::MAX && record.end_ns != Some(i64::MAX));
    let lost = (before - records.len()) as u64;
    losses.add(run.run_id(), LossKind::Activity, "CUPTI gave no time", lost);
    records.sort_by_key(|record| (record.begin_ns, record.end_ns, record.correlation_id));
    let names = std::mem::take(&mut run.rows.activity_names);
    let names: BTreeMap<u64, String> = names.into_iter().map(|name| (name.name_id, name.name)).collect();
    let mut streams: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut ran_on: BTreeMap<KernelId, u32> = BTreeMap::new();
    let mut launches = LaunchCalls::from_run(run).assign(&records, &names);
    let in_bodies = bodies::assign(run, &records, &mut launches);
    for ((activity_id, record), kernel_id) in (0..).zip(records).zip(launches) {
        let next = u32::try_from(streams.len()).unwrap_or(u32::MAX);
        let stream_id = record
            .stream_number
            .map(|stream| *streams.entry((record.context_number, stream)).or_insert(next));
        if let Some((kernel_id, stream_id)) = kernel_id.zip(stream_id) {
            ran_on.insert(kernel_id, stream_id);
        }
        let is_nameless = kernel_id.is_none() && record.kind == ActivityKind::Kernel;
        let kernel_name = record.name_id.filter(|_| is_nameless).and_then(|name| names.get(&name).cloned());
        run.rows.activities.push(GpuActivity {
            kernel_id,
            kernel_name,
            stream_id,
            ..row(run.row.run_id, activity_id, &record)
        });
    }
    run.activity_count = run.rows.activities.len() as u64;
    let recorded = run.rows.launch_runs.iter().filter(|launch| launch.recorded);
    let timeless = recorded.map(|launch| launch.kernel_id);
    let timeless = timeless.filter(|id| !ran_on.contains_key(id) && !in_bodies.contains(id)).count();
    losses.add(run.run_id(), LossKind::Activity, "times of the launch are missing", timeless as u64);
    let known = u32::try_from(streams.len()).unwrap_or(u32::MAX);
    for launch in &mut run.rows.launch_runs {
        let own = || known.saturating_add(launch.stream_id);
        launch.stream_id = ran_on.get(&launch.kernel_id).copied().unwrap_or_else(own);
    }
}

/// The row of a record, without its launch and stream.
fn row(run_id: RunId, activity_id: u64, record: &RawActivity) -> GpuActivity {
    GpuActivity {
        run_id,
        activity_id,
        kind: record.kind,
        device_id: record.device_id,
        begin_ns: record.begin_ns,
        end_ns: record.end_ns,
        size_bytes: record.size_bytes,
        copy_kind: record.copy_kind,
        peer_device_id: record.peer_device_id,
        synchronization: record.synchronization,
        correlation_id: Some(record.correlation_id),
        copy_memory: record.copy_memory.clone(),
        ..GpuActivity::default()
    }
}

/// A recorded launch of a call.
struct CallLaunch {
    kernel_id: KernelId,
    /// Its node, where a graph launched it.
    node: Option<u32>,
    function_id: Option<FunctionId>,
    has_time: bool,
}

/// The recorded launches of each call, and the numbers of graph nodes.
struct LaunchCalls {
    /// By CUPTI's correlation id, in the order of their ordinals.
    launches: BTreeMap<u64, Vec<CallLaunch>>,
    /// The node of each of CUPTI's numbers.
    nodes: BTreeMap<u64, u32>,
    /// Mangled names of functions, where they are known.
    names: BTreeMap<FunctionId, String>,
}

impl LaunchCalls {
    fn from_run(run: &RunState) -> Self {
        let names = run.rows.code_ranges.iter().map(|range| (range.function_id, range.name.clone()));
        let rows: BTreeMap<KernelId, &Launch> =
            run.rows.launches.iter().map(|launch| (launch.kernel_id, launch)).collect();
        let mut launches: BTreeMap<u64, Vec<CallLaunch>> = BTreeMap::new();
        for row in run.rows.launch_runs.iter().filter(|row| row.recorded) {
            let Some(correlation) = row.correlation_id else { continue };
            let launch = rows.get(&row.kernel_id);
            launches.entry(correlation).or_default().push(CallLaunch {
                kernel_id: row.kernel_id,
                node: launch.and_then(|launch| launch.graph_node),
                function_id: launch.map(|launch| launch.function_id),
                has_time: false,
            });
        }
        let numbers = run.rows.graph_node_numbers.iter();
        let nodes = numbers.map(|number| (number.graph_node_id, number.graph_node)).collect();
        Self { launches, nodes, names: names.collect() }
    }

    /// The launch of each kernel's record, by the record's index.
    ///
    /// A node has CUPTI's number. Without a number, a name decides that only one launch and one record of the call are
    /// left with. A node that a conditional one repeats has several records.
    fn assign(&mut self, records: &[RawActivity], names: &BTreeMap<u64, String>) -> Vec<Option<KernelId>> {
        let mut found: Vec<Option<KernelId>> = records.iter().map(|record| self.exact(record)).collect();
        let mut left: BTreeMap<(u64, &str), Vec<usize>> = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            let name = record.name_id.and_then(|name| names.get(&name)).map(String::as_str);
            let is_left = found.get(index) == Some(&None) && record.graph_node_id.is_some();
            if let Some(name) = name.filter(|_| is_left) {
                left.entry((record.correlation_id, name)).or_default().push(index);
            }
        }
        for ((correlation, name), indexes) in left {
            let launches = self.launches.get(&correlation).map_or(&[][..], Vec::as_slice);
            let is_named = |id: FunctionId| self.names.get(&id).is_some_and(|own| own == name);
            let mut same = launches.iter().filter(|launch| {
                !launch.has_time && launch.node.is_some() && launch.function_id.is_some_and(is_named)
            });
            if let ([index], Some(only), None) = (&indexes[..], same.next(), same.next())
                && let Some(slot) = found.get_mut(*index)
            {
                *slot = Some(only.kernel_id);
            }
        }
        found
    }

    fn exact(&mut self, record: &RawActivity) -> Option<KernelId> {
        if record.kind != ActivityKind::Kernel {
            return None;
        }
        let node = match record.graph_node_id {
            None => None,
            Some(number) => Some(self.nodes.get(&number).copied()?),
        };
        let launches = self.launches.get_mut(&record.correlation_id)?;
        let launch = launches.iter_mut().find(|launch| launch.node == node)?;
        launch.has_time = true;
        Some(launch.kernel_id)
    }
}

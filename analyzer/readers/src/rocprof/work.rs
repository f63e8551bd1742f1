//! Work of a profile as rows, once all names and GPUs are known.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use stallmap_schema::word::{ActivityKind, CopyKind, Instrument, LossKind};

use super::record::RocprofRecord;
use super::{KernelCounters, RocprofProcess, RocprofReader};
use crate::join::join_ops;
use crate::kineto::category::host_wait;
use crate::model::{TraceActivity, TraceCall, TraceCounter, TraceKernel, TraceModel, TraceProcess};
use crate::trace::copy::peer;

impl RocprofReader {
    pub(super) fn finish(self) -> TraceModel {
        let mut trace = self.trace;
        trace.tool = "rocprofv3";
        for (place, process) in self.processes.into_iter().enumerate() {
            trace.processes.push(TraceProcess::with_number(process.number, Instrument::Timeline));
            ProcessWork::add(place, process, &mut trace);
        }
        join_ops(&mut trace);
        let without = trace.kernels.iter().filter(|kernel| kernel.call.is_none()).count() as u64;
        let losses = &mut trace.losses;
        losses.add_many(LossKind::Source, "kernels without a launch call in the profile", without, None);
        losses.lacks("the time of day: times are those of the system's own clock");
        losses.lacks("clocks, memory and L2 size of GPUs, written as 0");
        for part in ["ops, tensors and Python stacks", "memory accesses", "machine code", "stall samples"] {
            losses.lacks(part);
        }
        trace
    }
}

/// The work of one process, while it becomes rows.
struct ProcessWork<'a> {
    place: usize,
    process: RocprofProcess,
    trace: &'a mut TraceModel,
    /// Calls by correlation, with the names of their functions.
    calls: HashMap<i64, (TraceCall, Option<Rc<str>>)>,
    launching: HashSet<i64>,
    /// False if all work is on stream 0: then queues are the lanes.
    has_streams: bool,
}

impl<'a> ProcessWork<'a> {
    fn add(place: usize, mut process: RocprofProcess, trace: &'a mut TraceModel) {
        let dispatches = std::mem::take(&mut process.dispatches);
        let copies = std::mem::take(&mut process.copies);
        let collections = std::mem::take(&mut process.collections);
        let counted = collections.iter().map(|collection| &collection.record);
        let mut records = dispatches.iter().chain(&copies).chain(counted);
        let has_streams = records.any(|record| record.stream.is_some_and(|stream| stream > 0));
        let (calls, launching) = (HashMap::new(), HashSet::new());
        let mut work = Self { place, process, trace, calls, launching, has_streams };
        work.calls();
        work.kernels(&dispatches, collections);
        for record in &copies {
            work.copy(record);
        }
        let idle = work.calls.len().saturating_sub(work.launching.len()) as u64;
        let reason = "calls of the runtime and the driver that launch nothing";
        work.trace.losses.add_many(LossKind::Source, reason, idle, None);
    }

    /// Waits are rows of their own.
    fn calls(&mut self) {
        for call in std::mem::take(&mut self.process.calls) {
            let name = self.process.operation(call.kind, call.operation);
            let number = call.correlation.and_then(|number| u64::try_from(number).ok());
            if let Some(kind) = name.as_deref().and_then(host_wait) {
                self.trace.works.push(TraceActivity::for_wait(self.place, kind, call.call, number));
            } else if let Some(correlation) = call.correlation {
                self.calls.insert(correlation, (call.call, name));
            } else {
                let reason = "calls of the runtime and the driver without a correlation";
                self.trace.losses.add(LossKind::Source, reason, name.as_deref());
            }
        }
    }

    /// The call of a piece of work, and its name.
    fn call(&mut self, record: &RocprofRecord) -> Option<(TraceCall, Option<Rc<str>>)> {
        let correlation = record.correlation?;
        let found = self.calls.get(&correlation)?.clone();
        self.launching.insert(correlation);
        Some(found)
    }

    /// Adds kernels and their counters. A profile of counters only has its kernels nowhere else.
    fn kernels(&mut self, dispatches: &[RocprofRecord], collections: Vec<KernelCounters>) {
        let mut known: HashMap<(bool, i64), usize> = HashMap::new();
        for record in dispatches {
            known.extend(record.identity().map(|identity| (identity, self.trace.kernels.len())));
            self.kernel(record);
        }
        for KernelCounters { record, values } in collections {
            let identity = record.identity();
            let place = identity.and_then(|identity| known.get(&identity)).copied();
            let kernel = place.unwrap_or(self.trace.kernels.len());
            if place.is_none() {
                known.extend(identity.map(|identity| (identity, kernel)));
                self.kernel(&record);
            }
            for (handle, value) in values {
                let metric = self.process.counters.get(&handle).cloned();
                let metric = metric.unwrap_or_else(|| format!("counter {handle}").into());
                let value = Some(value).filter(|value| value.is_finite());
                self.trace.counters.push(TraceCounter { kernel, metric, value, unit: String::new() });
            }
        }
    }

    fn kernel(&mut self, record: &RocprofRecord) {
        let (call, call_name) = self.call(record).map_or((None, None), |(call, name)| (Some(call), name));
        let symbol = record.kernel.and_then(|number| self.process.symbols.get(&number));
        if symbol.is_none() {
            self.trace.losses.add(LossKind::Source, "kernels without a symbol", None);
        }
        let time_ns = record.time_ns();
        if time_ns.is_none() {
            self.trace.losses.add(LossKind::Source, "kernels without begin or end", None);
        }
        let kernel = TraceKernel {
            process: self.place,
            name: symbol.map_or_else(|| "(unknown kernel)".into(), |symbol| symbol.name.clone()),
            device: self.process.ordinal(record.agents[0]).unwrap_or(-1),
            stream: self.stream(record).unwrap_or(0),
            time_ns,
            grid: record.blocks(),
            block: record.workgroup,
            registers: symbol.and_then(|symbol| symbol.registers),
            correlation: record.correlation.and_then(|number| u64::try_from(number).ok()),
            call,
            call_name,
            ..TraceKernel::default()
        };
        self.trace.kernels.push(kernel);
    }

    fn copy(&mut self, record: &RocprofRecord) {
        let Some((begin_ns, end_ns)) = record.time_ns() else { return };
        let (call, call_name) = self.call(record).map_or((None, None), |(call, name)| (Some(call), name));
        let sides = record.agents.map(|agent| self.process.ordinal(agent));
        let device = sides.into_iter().flatten().next();
        let work = TraceActivity {
            process: self.place,
            kind: ActivityKind::Copy,
            device,
            stream: self.stream(record),
            begin_ns,
            end_ns: Some(end_ns),
            bytes: record.bytes.and_then(|bytes| u64::try_from(bytes).ok()),
            copy: Some(direction(record.operation)),
            peer: peer(device, sides),
            wait: None,
            correlation: record.correlation.and_then(|number| u64::try_from(number).ok()),
            call,
            call_name,
            memory: None,
            op: None,
        };
        self.trace.works.push(work);
    }

    fn stream(&self, record: &RocprofRecord) -> Option<u64> {
        let queue = record.queue.filter(|_| !self.has_streams);
        queue.or(record.stream).and_then(|stream| u64::try_from(stream).ok())
    }
}

impl RocprofProcess {
    fn ordinal(&self, handle: Option<i64>) -> Option<i32> {
        self.ordinals.get(&handle?).copied()
    }

    /// The name of a call. Records without a kind are of the runtime.
    fn operation(&self, kind: Option<i64>, operation: Option<i64>) -> Option<Rc<str>> {
        let is_hip = |kind: &&super::RecordKind| kind.name.starts_with("HIP");
        let own = kind.and_then(|kind| self.kinds.get(usize::try_from(kind).ok()?)).filter(is_hip);
        let kind = own.or_else(|| self.kinds.iter().find(is_hip))?;
        kind.operations.get(usize::try_from(operation?).ok()?).cloned()
    }
}

/// The tool's numbers of copies.
fn direction(operation: Option<i64>) -> CopyKind {
    match operation {
        Some(2) => CopyKind::HostToDevice,
        Some(3) => CopyKind::DeviceToHost,
        Some(4) => CopyKind::DeviceToDevice,
        _ => CopyKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::formats::json::JsonStream;

    /// The trace of processes, each with its members.
    fn trace(processes: &[String]) -> TraceModel {
        let text = format!(r#"{{"rocprofiler-sdk-tool":[{}]}}"#, processes.join(","));
        super::super::read(&mut JsonStream::new(text.as_bytes(), Path::new("x.json"))).unwrap()
    }

    /// A process with a name of its kernel, and dispatches as (dispatch, correlation, queue).
    fn process(number: u32, kernel: &str, dispatches: &[(u32, u32, u32)], more: &str) -> String {
        let record = |(dispatch, correlation, queue): &(u32, u32, u32)| {
            let begin = 100 * dispatch;
            format!(
                r#"{{"start_timestamp":{begin},"end_timestamp":{},"correlation_id":{{"internal":{correlation}}},
                "dispatch_info":{{"dispatch_id":{dispatch},"kernel_id":1,"agent_id":{{"handle":21}},
                "queue_id":{{"handle":{queue}}}}},"stream_id":{{"handle":0}}}}"#,
                begin + 150
            )
        };
        let records: Vec<String> = dispatches.iter().map(record).collect();
        format!(
            r#"{{"metadata":{{"pid":{number}}},"agents":[{{"id":{{"handle":20}},"type":2}},{{"id":{{"handle":21}},"type":2}}],
            "kernel_symbols":[{{"kernel_id":1,"formatted_kernel_name":"{kernel}"}}],
            "strings":{{"buffer_records":[{{"kind":"HIP_RUNTIME_API",
            "operations":["hipMalloc","hipGraphLaunch","hipDeviceSynchronize"]}}]}},
            "buffer_records":{{"kernel_dispatch":[{}]{more}}}}}"#,
            records.join(",")
        )
    }

    fn lost(trace: &TraceModel, part: &str) -> u64 {
        trace
            .losses
            .rows()
            .filter(|(_, reason, ..)| reason.contains(part))
            .map(|(_, _, count, _)| count)
            .sum()
    }

    #[test]
    fn counters_are_those_of_a_dispatch_and_not_of_its_call() {
        let counted = |dispatch: u32| {
            format!(
                r#"{{"dispatch_data":{{"correlation_id":{{"internal":3}},"dispatch_info":{{"dispatch_id":{dispatch}}}}},
                "records":[{{"counter_id":{{"handle":7}},"value":{dispatch}0}}]}}"#
            )
        };
        let counted: Vec<String> = (1..4).map(counted).collect();
        let counters = format!(
            r#"}},"counters":[{{"id":{{"handle":7}},"name":"SQ_WAVES"}}],"callback_records":{{"counter_collection":[{}]"#,
            counted.join(",")
        );
        let found = trace(&[process(1, "k", &[(1, 3, 1), (2, 3, 1), (3, 3, 1)], &counters)]);
        let values: Vec<_> =
            found.counters.iter().map(|counter| (counter.kernel, counter.value, &*counter.metric)).collect();
        assert_eq!(
            values,
            [(0, Some(10.0), "SQ_WAVES"), (1, Some(20.0), "SQ_WAVES"), (2, Some(30.0), "SQ_WAVES")]
        );
        assert_eq!(found.kernels.len(), 3);
    }

    #[test]
    fn numbers_are_those_of_a_process() {
        let found = trace(&[process(1, "a", &[(1, 1, 1)], ""), process(2, "b", &[(1, 1, 1)], "")]);
        let kernels: Vec<_> =
            found.kernels.iter().map(|kernel| (kernel.process, &*kernel.name, kernel.device)).collect();
        assert_eq!(kernels, [(0, "a", 1), (1, "b", 1)]);
    }

    #[test]
    fn queues_are_lanes_without_streams() {
        let found = trace(&[process(1, "k", &[(1, 1, 1), (2, 2, 2)], "")]);
        assert_eq!(found.kernels.iter().map(|kernel| kernel.stream).collect::<Vec<_>>(), [1, 2]);
        let copy = r#","memory_copy":[{"start_timestamp":1,"end_timestamp":2,"stream_id":{"handle":5}}]"#;
        let found = trace(&[process(1, "k", &[(1, 1, 1), (2, 2, 2)], copy)]);
        assert_eq!(found.kernels.iter().map(|kernel| kernel.stream).collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn calls_have_names_waits_are_work_and_other_calls_are_counted() {
        let call = |operation: u32, correlation: u32| {
            format!(
                r#"{{"kind":0,"operation":{operation},"thread_id":9,"start_timestamp":1,"end_timestamp":2,
                "correlation_id":{{"internal":{correlation}}}}}"#
            )
        };
        let calls: Vec<String> = [(0, 1), (1, 2), (2, 3)].map(|(name, number)| call(name, number)).into();
        let more = format!(
            r#","hip_api":[{},{{}}],"memory_copy":[{{}},{{"operation":4,"start_timestamp":1,"end_timestamp":2,
            "dst_agent_id":{{"handle":21}},"src_agent_id":{{"handle":20}}}}]"#,
            calls.join(",")
        );
        let found = trace(&[process(1, "k", &[(1, 2, 1)], &more)]);
        assert_eq!(found.kernels[0].call_name.as_deref(), Some("hipGraphLaunch"));
        let kinds: Vec<_> = found.works.iter().map(|work| (work.kind, work.device, work.peer)).collect();
        let (wait, copy) = (ActivityKind::Synchronization, ActivityKind::Copy);
        assert_eq!(kinds, [(wait, None, None), (copy, Some(1), Some(0))]);
        let counts =
            ["launch nothing", "calls without begin", "copies without"].map(|part| lost(&found, part));
        assert_eq!(counts, [1, 1, 1]);
    }

    #[test]
    fn empty_records_are_counted_and_not_rows() {
        let dispatches = r#"{"start_timestamp":9,"end_timestamp":1},{},3"#;
        let process = format!(r#"{{"buffer_records":{{"kernel_dispatch":[{dispatches}]}},"agents":{{}}}}"#);
        let found = trace(&["7".to_owned(), process]);
        assert_eq!((found.kernels.len(), lost(&found, "dispatches without")), (1, 2));
    }
}

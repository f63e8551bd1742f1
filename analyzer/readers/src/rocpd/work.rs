//! Rows of one process: calls, markers, kernels, copies and counters.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use stallmap_schema::word::{ActivityKind, CopyKind, LossKind, OpKind};

use super::{RocpdProcess, RocpdReader};
use crate::error::ReadResult;
use crate::kineto::category::host_wait;
use crate::model::{TraceActivity, TraceCall, TraceCounter, TraceKernel, TraceOp};
use crate::trace::copy::peer;

impl RocpdReader<'_> {
    /// True if any work of a process is on a stream with a number.
    pub(super) fn has_streams(&self, process: &RocpdProcess) -> ReadResult<bool> {
        let mut has_streams = false;
        for table in ["kernel_dispatch", "memory_copy"] {
            self.rows(table, &process.suffix, &["stream_id", "track_id"], |row| {
                let stream = row.number(0).or(process.track(row.integer(1)).stream);
                has_streams |= stream.is_some_and(|stream: u64| stream > 0);
            })?;
        }
        Ok(has_streams)
    }

    /// Calls of libraries by their stack, waits, and markers of the program.
    pub(super) fn regions(&mut self, process: &mut RocpdProcess) -> ReadResult<()> {
        let suffix = process.suffix.clone();
        let mut trace = std::mem::take(&mut self.trace);
        let columns = ["start", "end", "tid", "name_id", "event_id", "track_id"];
        let result = self.rows("region", &suffix, &columns, |row| {
            let [begin, end, thread] = [0, 1, 2].map(|column| row.integer(column));
            let thread = thread.or(process.track(row.integer(5)).thread);
            let (Some(begin_ns), Some(end_ns), Some(thread)) = (begin, end, thread) else {
                trace.losses.add(LossKind::Source, "regions without begin, end or thread", None);
                return;
            };
            let call = TraceCall { thread: thread.unsigned_abs(), begin_ns, end_ns: end_ns.max(begin_ns) };
            let name = process.text(row.integer(3));
            let event = row.integer(4).and_then(|id| process.events.get(&id)).copied().unwrap_or_default();
            if process.category(event.category).starts_with("MARKER") {
                let message = row.integer(4).and_then(|id| process.messages.get(&id));
                if message.is_none() {
                    trace.losses.add(LossKind::Source, "markers without a text", Some(&name));
                }
                let name = message.cloned().unwrap_or(name);
                let op = TraceOp::for_call(call, OpKind::Region, name);
                trace.ops.push(TraceOp { process: process.place, ..op });
                return;
            }
            if let Some(kind) = host_wait(&name) {
                trace.works.push(TraceActivity::for_wait(process.place, kind, call, event.stack));
                return;
            }
            let Some(stack) = event.stack else {
                let reason = "calls of the runtime and the driver without a correlation";
                trace.losses.add(LossKind::Source, reason, Some(&name));
                return;
            };
            // Calls nest: the outermost one launches.
            let known = process.calls.entry(stack).or_insert_with(|| (call, Rc::clone(&name)));
            if call.begin_ns < known.0.begin_ns {
                *known = (call, name);
            }
        });
        self.trace = trace;
        result.map(drop)
    }

    pub(super) fn kernels(&mut self, process: &mut RocpdProcess) -> ReadResult<()> {
        let suffix = process.suffix.clone();
        let mut trace = std::mem::take(&mut self.trace);
        let columns = [
            "start",
            "end",
            "agent_id",
            "stream_id",
            "kernel_id",
            "event_id",
            "workgroup_size_x",
            "workgroup_size_y",
            "workgroup_size_z",
            "grid_size_x",
            "grid_size_y",
            "grid_size_z",
            "track_id",
            "queue_id",
        ];
        let result = self.rows("kernel_dispatch", &suffix, &columns, |row| {
            let time_ns = row.integer(0).zip(row.integer(1)).filter(|(begin, end)| begin <= end);
            if time_ns.is_none() {
                trace.losses.add(LossKind::Source, "kernels without begin or end", None);
            }
            let lane = process.track(row.integer(12));
            let block = row.extent(6);
            // The tool counts the work-items of all blocks.
            let blocks = |([x, y, z], [width, height, depth]): ([u32; 3], [u32; 3])| {
                [x.div_ceil(width), y.div_ceil(height), z.div_ceil(depth)]
            };
            let stack = process.stack(row.integer(5));
            let (call, call_name) = process.call(stack);
            let symbol = row.integer(4).and_then(|id| process.symbols.get(&id));
            process.kernels.extend(row.integer(5).map(|event| (event, trace.kernels.len())));
            trace.kernels.push(TraceKernel {
                process: process.place,
                name: symbol.map_or_else(|| "(unknown kernel)".into(), |symbol| Rc::clone(&symbol.name)),
                device: process.ordinal(row.integer(2).or(lane.agent)).unwrap_or(-1),
                stream: process.lane(row.number(3), row.number(13), lane).unwrap_or(0),
                time_ns,
                grid: row.extent(9).zip(block).map(blocks),
                block,
                registers: symbol.and_then(|symbol| symbol.registers),
                correlation: stack,
                call,
                call_name,
                ..TraceKernel::default()
            });
        });
        self.trace = trace;
        result.map(drop)
    }

    pub(super) fn copies(&mut self, process: &mut RocpdProcess) -> ReadResult<()> {
        let mut trace = std::mem::take(&mut self.trace);
        let suffix = process.suffix.clone();
        let columns = [
            "start",
            "end",
            "dst_agent_id",
            "src_agent_id",
            "stream_id",
            "size",
            "event_id",
            "track_id",
            "queue_id",
        ];
        let result = self.rows("memory_copy", &suffix, &columns, |row| {
            let time = row.integer(0).zip(row.integer(1)).filter(|(begin, end)| begin <= end);
            let Some((begin_ns, end_ns)) = time else {
                trace.losses.add(LossKind::Source, "copies without begin or end", None);
                return;
            };
            let (to, from) = (process.ordinal(row.integer(2)), process.ordinal(row.integer(3)));
            let (stack, device) = (process.stack(row.integer(6)), to.or(from));
            let (call, call_name) = process.call(stack);
            trace.works.push(TraceActivity {
                process: process.place,
                kind: ActivityKind::Copy,
                device,
                stream: process.lane(row.number(4), row.number(8), process.track(row.integer(7))),
                begin_ns,
                end_ns: Some(end_ns),
                bytes: row.number(5),
                copy: Some(match (from, to) {
                    (None, Some(_)) => CopyKind::HostToDevice,
                    (Some(_), None) => CopyKind::DeviceToHost,
                    (Some(_), Some(_)) => CopyKind::DeviceToDevice,
                    (None, None) => CopyKind::Other,
                }),
                peer: peer(device, [to, from]),
                wait: None,
                correlation: stack,
                call,
                call_name,
                memory: None,
                op: None,
            });
        });
        self.trace = trace;
        result.map(drop)
    }

    /// Counters of kernels: a counter has a value for each part of the GPU.
    pub(super) fn counters(&mut self, process: &RocpdProcess) -> ReadResult<()> {
        let mut names: HashMap<i64, (Rc<str>, String)> = HashMap::new();
        self.rows("info_pmc", &process.suffix, &["id", "name", "units"], |row| {
            if let Some((id, name)) = row.integer(0).zip(row.text(1)) {
                names.insert(id, (name.into(), row.text(2).unwrap_or_default().to_owned()));
            }
        })?;
        let (mut sums, mut others) = (BTreeMap::<(usize, i64), f64>::new(), 0);
        self.rows("pmc_event", &process.suffix, &["event_id", "pmc_id", "value"], |row| {
            let kernel = row.integer(0).and_then(|event| process.kernels.get(&event)).copied();
            match kernel.zip(row.integer(1)) {
                Some(key) => *sums.entry(key).or_default() += row.real(2).unwrap_or(0.0),
                None => others += 1,
            }
        })?;
        for ((kernel, counter), value) in sums {
            let (metric, unit) = names
                .get(&counter)
                .cloned()
                .unwrap_or_else(|| (format!("counter {counter}").into(), String::new()));
            let value = Some(value).filter(|value| value.is_finite());
            self.trace.counters.push(TraceCounter { kernel, metric, value, unit });
        }
        self.trace.losses.add_many(LossKind::Source, "counters that are not of a kernel", others, None);
        Ok(())
    }

    /// Counts what no table holds.
    pub(super) fn left(&mut self, process: &RocpdProcess) -> ReadResult<()> {
        for (table, kind, reason) in [
            ("sample", LossKind::Sample, "samples in time"),
            ("memory_allocate", LossKind::Source, "allocations of the driver"),
            ("arg", LossKind::Source, "arguments of calls"),
        ] {
            let mut count = 0;
            self.rows(table, &process.suffix, &["id"], |_| count += 1)?;
            self.trace.losses.add_many(kind, reason, count, None);
        }
        let idle = process.calls.len().saturating_sub(process.launching.len()) as u64;
        let reason = "calls of the runtime and the driver that launch nothing";
        self.trace.losses.add_many(LossKind::Source, reason, idle, None);
        Ok(())
    }
}

//! Reports of Nsight Systems, exported to SQLite. Tables and columns are found by name: any may be missing.

mod database;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use rusqlite::Row;
use stallmap_console::exit::{Failure, IO, Outcome};
use stallmap_schema::word::{
    ActivityKind, CopyKind, Instrument, LossKind, OpKind, Phase, SynchronizationKind,
};

use self::database::Database;
use crate::input::Input;
use crate::kineto::{join_ops, shift};
use crate::model::{Call, Device, Kernel, Op, Process, Trace, Work};

/// Ranges of NVTX that begin and end on one thread, and those that may end on another.
const RANGES: [i64; 2] = [59, 60];

/// A report while it is read. Times are relative to the begin of the session.
struct Reading {
    database: Database,
    trace: Trace,
    texts: HashMap<i64, Rc<str>>,
    /// Processes by their number in the system.
    processes: BTreeMap<u32, usize>,
    /// Launch calls by process and correlation id: a correlation id alone is not unique.
    calls: HashMap<(u32, i64), Call>,
}

/// Reads a report.
pub(crate) fn read(input: &Input) -> Outcome<Trace> {
    let mut reading = Reading {
        database: Database::open(&input.path)?,
        trace: Trace { tool: "nsys", ..Trace::default() },
        texts: HashMap::new(),
        processes: BTreeMap::new(),
        calls: HashMap::new(),
    };
    reading.names()?;
    reading.calls()?;
    reading.kernels()?;
    reading.works()?;
    reading.ranges()?;
    reading.devices()?;
    if reading.trace.kernels.is_empty() && reading.trace.works.is_empty() && reading.trace.ops.is_empty() {
        let message = format!("`{}` has no tables of CUDA and NVTX", input.path.display());
        return Err(Failure::message(IO, message).hint("export it with `nsys export -t sqlite`".to_owned()));
    }
    reading.finish()
}

/// Process of a global thread or process.
fn process_number(global: i64) -> u32 {
    u32::try_from((global >> 24) & 0x00ff_ffff).unwrap_or(0)
}

/// A column as a small number.
fn small(row: &Row<'_>, column: usize) -> Option<u32> {
    integer(row, column).and_then(|value| u32::try_from(value).ok())
}

fn integer(row: &Row<'_>, column: usize) -> Option<i64> {
    row.get::<_, Option<i64>>(column).ok().flatten()
}

impl Reading {
    fn names(&mut self) -> Outcome<()> {
        let texts = &mut self.texts;
        self.database.rows("StringIds", &["id", "value"], |row| {
            if let (Some(id), Ok(text)) = (integer(row, 0), row.get::<_, String>(1)) {
                texts.insert(id, text.into());
            }
        })?;
        let facts = &mut self.trace.facts;
        let known = ["EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"];
        self.database.rows("META_DATA_EXPORT", &["name", "value"], |row| {
            if let (Ok(name), Ok(value)) = (row.get::<_, String>(0), row.get::<_, String>(1))
                && known.contains(&name.as_str())
            {
                facts.insert(format!("nsys.{}", name.to_lowercase()), value);
            }
        })?;
        // Environment variables are in the same table: only one setting is read.
        let losses = &mut self.trace.losses;
        self.database.rows("META_DATA_CAPTURE", &["name", "value"], |row| {
            let name = row.get::<_, String>(0).unwrap_or_default();
            let value = row.get::<_, String>(1).unwrap_or_default();
            if name == "CUDA_GRAPH_TRACE_OPTIONS:MODE" && value.eq_ignore_ascii_case("graph") {
                losses.add(LossKind::Source, "kernels inside of CUDA graphs: traced as whole graphs", None);
            }
        })?;
        Ok(())
    }

    fn calls(&mut self) -> Outcome<()> {
        let calls = &mut self.calls;
        let columns = ["start", "end", "globalTid", "correlationId"];
        self.database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, |row| {
            let [begin, end, thread, correlation] = [0, 1, 2, 3].map(|column| integer(row, column));
            if let (Some(begin_ns), Some(thread), Some(correlation)) = (begin, thread, correlation) {
                let end_ns = end.unwrap_or(begin_ns).max(begin_ns);
                let call = Call { thread: thread.unsigned_abs(), begin_ns, end_ns };
                calls.insert((process_number(thread), correlation), call);
            }
        })?;
        Ok(())
    }

    /// The place of a process.
    fn process(processes: &mut BTreeMap<u32, usize>, number: u32) -> usize {
        let next = processes.len();
        *processes.entry(number).or_insert(next)
    }

    fn kernels(&mut self) -> Outcome<()> {
        let Self { database, trace, texts, processes, calls } = self;
        let columns = [
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "demangledName",
            "shortName",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "registersPerThread",
            "staticSharedMemory",
            "dynamicSharedMemory",
        ];
        let mut unread = 0;
        let is_there = database.rows("CUPTI_ACTIVITY_KIND_KERNEL", &columns, |row| {
            let number = process_number(integer(row, 5).unwrap_or(0));
            let correlation = integer(row, 4);
            let (Some(begin), Some(end)) = (integer(row, 0), integer(row, 1)) else {
                unread += 1;
                return;
            };
            let name = [6, 7].iter().find_map(|column| texts.get(&integer(row, *column)?)).cloned();
            let extent = |first: usize| {
                let sizes =
                    [first, first + 1, first + 2].map(|column| small(row, column).filter(|size| *size > 0));
                sizes.iter().all(Option::is_some).then(|| sizes.map(Option::unwrap_or_default))
            };
            trace.kernels.push(Kernel {
                process: Self::process(processes, number),
                name: name.unwrap_or_else(|| "(unknown kernel)".into()),
                device: integer(row, 2).and_then(|device| i32::try_from(device).ok()).unwrap_or(-1),
                stream: integer(row, 3).and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0),
                time_ns: Some((begin, end.max(begin))),
                grid: extent(8),
                block: extent(11),
                registers: small(row, 14),
                shared_bytes: small(row, 15).zip(small(row, 16)),
                correlation: correlation.and_then(|number| u64::try_from(number).ok()),
                call: correlation.and_then(|correlation| calls.get(&(number, correlation))).copied(),
                op: None,
                stack: None,
            });
        })?;
        if !is_there {
            trace.losses.lacks("kernels");
        }
        trace.losses.add_many(LossKind::Source, "kernels without begin or end", unread, None);
        let without = trace.kernels.iter().filter(|kernel| kernel.call.is_none()).count() as u64;
        trace.losses.add_many(
            LossKind::Source,
            "kernels without a launch call in the report: launched before its window",
            without,
            None,
        );
        Ok(())
    }

    fn works(&mut self) -> Outcome<()> {
        let Self { database, trace, processes, .. } = self;
        let tables = [
            ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", ActivityKind::Copy),
            ("CUPTI_ACTIVITY_KIND_MEMSET", "memKind", ActivityKind::Fill),
            ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "syncType", ActivityKind::Synchronization),
        ];
        for (table, detail, kind) in tables {
            let columns =
                ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", detail];
            database.rows(table, &columns, |row| {
                let Some(begin_ns) = integer(row, 0) else {
                    trace.losses.add(LossKind::Source, "copies, fills and waits without begin", None);
                    return;
                };
                let is_wait = kind == ActivityKind::Synchronization;
                trace.works.push(Work {
                    process: Self::process(processes, process_number(integer(row, 5).unwrap_or(0))),
                    kind,
                    device: integer(row, 2)
                        .and_then(|device| i32::try_from(device).ok())
                        .filter(|device| *device >= 0),
                    stream: integer(row, 3).and_then(|stream| u64::try_from(stream).ok()),
                    begin_ns,
                    end_ns: integer(row, 1).filter(|end| *end >= begin_ns),
                    bytes: integer(row, 6).and_then(|bytes| u64::try_from(bytes).ok()),
                    copy: (kind == ActivityKind::Copy).then(|| direction(integer(row, 7))),
                    wait: is_wait.then(|| wait(integer(row, 7))),
                    correlation: integer(row, 4).and_then(|number| u64::try_from(number).ok()),
                });
            })?;
        }
        Ok(())
    }

    fn ranges(&mut self) -> Outcome<()> {
        let Self { database, trace, texts, processes, .. } = self;
        let columns = ["start", "end", "eventType", "globalTid", "text", "textId", "endGlobalTid"];
        database.rows("NVTX_EVENTS", &columns, |row| {
            let kind = integer(row, 2).unwrap_or(0);
            if !RANGES.contains(&kind) {
                let kind = kind.to_string();
                trace.losses.add(LossKind::Source, "NVTX events that are not ranges", Some(&kind));
                return;
            }
            let (Some(begin_ns), Some(end_ns), Some(thread)) =
                (integer(row, 0), integer(row, 1), integer(row, 3))
            else {
                trace.losses.add(LossKind::Source, "NVTX ranges without begin, end or thread", None);
                return;
            };
            let named = integer(row, 5).and_then(|id| texts.get(&id)).map(ToString::to_string);
            let name = row.get::<_, Option<String>>(4).ok().flatten().or(named);
            trace.ops.push(Op {
                process: Self::process(processes, process_number(thread)),
                call: Call { thread: thread.unsigned_abs(), begin_ns, end_ns: end_ns.max(begin_ns) },
                kind: OpKind::Region,
                name: name.unwrap_or_else(|| "(unnamed range)".to_owned()),
                parent: None,
                phase: Phase::Other,
                sequence: None,
                forward: None,
                stack: None,
                record: None,
            });
        })?;
        Ok(())
    }

    fn devices(&mut self) -> Outcome<()> {
        let trace = &mut self.trace;
        let columns = ["cuDevice", "id", "name", "computeMajor", "computeMinor", "smCount", "totalMemory"];
        let value = |row: &Row<'_>, column| integer(row, column).and_then(|value| i32::try_from(value).ok());
        let is_there = self.database.rows("TARGET_INFO_GPU", &columns, |row| {
            trace.devices.push(Device {
                ordinal: value(row, 0).or(value(row, 1)).unwrap_or(0),
                name: row.get::<_, String>(2).unwrap_or_default(),
                compute: (value(row, 3).unwrap_or(0), value(row, 4).unwrap_or(0)),
                multiprocessors: value(row, 5).unwrap_or(0),
                memory_bytes: integer(row, 6).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
                clocks_khz: (0, 0),
            });
        })?;
        if !is_there {
            trace.losses.lacks("GPUs");
        }
        Ok(())
    }

    fn finish(mut self) -> Outcome<Trace> {
        let mut numbers: Vec<(usize, u32)> =
            self.processes.iter().map(|(number, place)| (*place, *number)).collect();
        numbers.sort_unstable();
        self.trace.processes.extend(numbers.into_iter().map(|(_, number)| Process {
            number,
            program: String::new(),
            instrument: Instrument::Timeline,
            rank: None,
            world_size: None,
            cuda_version: None,
        }));
        join_ops(&mut self.trace);
        let mut base_ns = None;
        self.database.rows("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], |row| {
            base_ns = base_ns.or(integer(row, 0));
        })?;
        shift(&mut self.trace, base_ns.unwrap_or(0));
        let losses = &mut self.trace.losses;
        if base_ns.is_none() {
            losses.lacks("the time of day: times begin with the session");
        }
        for part in
            ["stall samples", "memory accesses", "machine code", "tensors and allocations", "Python stacks"]
        {
            losses.lacks(part);
        }
        losses.lacks("clocks and L2 size of GPUs, written as 0");
        Ok(self.trace)
    }
}

/// CUPTI's kinds of copies.
fn direction(kind: Option<i64>) -> CopyKind {
    match kind {
        Some(1 | 3 | 11) => CopyKind::HostToDevice,
        Some(2 | 4 | 12) => CopyKind::DeviceToHost,
        Some(5..=8 | 10 | 13) => CopyKind::DeviceToDevice,
        _ => CopyKind::Other,
    }
}

/// CUPTI's kinds of waits.
fn wait(kind: Option<i64>) -> SynchronizationKind {
    match kind {
        Some(1) => SynchronizationKind::Event,
        Some(2) => SynchronizationKind::StreamWaitEvent,
        Some(3) => SynchronizationKind::Stream,
        Some(4) => SynchronizationKind::Context,
        _ => SynchronizationKind::Other,
    }
}

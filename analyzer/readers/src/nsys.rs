//! Reports of Nsight Systems, exported to SQLite or to a folder of Parquet files. Tables and columns are found by name: any may be missing.

pub(crate) mod cell;
pub(crate) mod database;
pub(crate) mod export;
pub(crate) mod folder;
mod gpus;
mod range;
#[cfg(test)]
mod tests;
mod unread;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::{FileForm, ImportInput};
use stallmap_schema::word::{ActivityKind, CopyKind, Instrument, LossKind, SynchronizationKind};

use self::cell::SqlRow;
use self::database::OpenDatabase;
use self::folder::TableFolder;
use crate::join::{join_ops, join_steps, shift};
use crate::kineto::category::host_wait;
use crate::model::{TraceActivity, TraceCall, TraceKernel, TraceModel, TraceOp, TraceProcess};
use crate::trace::copy::peer;

/// Ranges of NVTX that begin and end on one thread, and those that may end on another.
const RANGES: [i64; 2] = [59, 60];
/// The columns of kernels.
const KERNEL_COLUMNS: [&str; 21] = [
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
    "clusterX",
    "clusterY",
    "clusterZ",
    "mangledName",
];
/// The loss of kernels and graphs with times in the wrong order.
const REVERSED: &str = "kernels that end before they begin, written without a length";
/// Most rows of one table that are read.
const MAX_ROWS: u64 = 200_000_000;
/// Most names of ranges that equal ones share.
const MAX_SHARED_NAMES: usize = 1 << 20;

/// The tables of a report.
pub(crate) enum ReportTables {
    Database(OpenDatabase),
    Folder(TableFolder),
}

impl ReportTables {
    /// Visits the rows of a table. Columns that it lacks are null. False if there is no such table.
    pub(crate) fn rows(&self, base: &str, columns: &[&str], visit: impl FnMut(&SqlRow)) -> ReadResult<bool> {
        match self {
            Self::Database(database) => database.rows(base, columns, visit),
            Self::Folder(folder) => folder.rows(base, columns, visit),
        }
    }

    /// The names of all tables, in order.
    fn names(&self) -> ReadResult<Vec<String>> {
        match self {
            Self::Database(database) => database.tables(""),
            Self::Folder(folder) => folder.names(),
        }
    }

    /// The number of rows of a table. None for a damaged one.
    fn count(&self, table: &str) -> Option<u64> {
        match self {
            Self::Database(database) => database.count(table),
            Self::Folder(folder) => folder.count(table),
        }
    }
}

/// A report while it is read. Times are relative to the begin of the session.
struct NsysReader {
    tables: ReportTables,
    trace: TraceModel,
    texts: HashMap<i64, Rc<str>>,
    /// Processes by their number in the system.
    processes: BTreeMap<u32, usize>,
    calls: ReportCalls,
}

/// Reads a report.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let tables = match input.form {
        FileForm::Folder => ReportTables::Folder(TableFolder::open(&input.path)),
        _ => ReportTables::Database(OpenDatabase::open(&input.path)?),
    };
    report(tables, &input.path)
}

/// Reads the tables of a report, or of the other tools that write such. Tables count up to a damage.
pub(crate) fn report(tables: ReportTables, path: &Path) -> ReadResult<TraceModel> {
    let (damage, failure): (_, fn(&Path, &str) -> ReadError) = match &tables {
        ReportTables::Database(database) => {
            (database.damage(), |path, cause| database::failure(path, &cause))
        }
        ReportTables::Folder(folder) => (folder.damage(), folder::failure),
    };
    let result = undamaged(tables, path);
    let damage = damage.take();
    let Some(first) = damage.first() else { return result };
    let mut trace = result.map_err(|_| failure(path, first))?;
    let reason = "tables whose rows behind a damage are not read";
    trace.losses.add_many(LossKind::Source, reason, damage.len() as u64, Some(first));
    Ok(trace)
}

/// Reads the tables without their damaged rows.
fn undamaged(tables: ReportTables, path: &Path) -> ReadResult<TraceModel> {
    let mut reading = NsysReader {
        tables,
        trace: TraceModel { tool: "nsys", ..TraceModel::default() },
        texts: HashMap::new(),
        processes: BTreeMap::new(),
        calls: ReportCalls::default(),
    };
    if let ReportTables::Database(database) = &reading.tables
        && let Some(trace) = crate::rocpd::read(database, path)?
    {
        return Ok(trace);
    }
    if let Some(trace) = crate::kineto::tables::read(&reading.tables, path)? {
        return Ok(trace);
    }
    reading.names()?;
    reading.calls()?;
    reading.kernels()?;
    let graphs = reading.graphs()?;
    reading.works()?;
    let idle = reading.calls.idle();
    reading.trace.losses.add_many(LossKind::Source, unread::IDLE_CALLS, idle, None);
    // Ranges take the most memory.
    reading.calls = ReportCalls::default();
    reading.ranges()?;
    reading.devices()?;
    if reading.trace.works.is_empty() && reading.trace.ops.is_empty() {
        if reading.trace.kernels.is_empty() {
            return Err(reading.empty(path)?);
        }
        if reading.trace.kernels.len() == graphs {
            return Err(of_graphs(path));
        }
    }
    reading.finish()
}

/// A call of the runtime.
struct ReportCall {
    call: TraceCall,
    name: Option<Rc<str>>,
    /// True if a piece of work is its.
    has_work: Cell<bool>,
}

/// Process of a global thread or process.
fn process_number(global: i64) -> u32 {
    u32::try_from((global >> 24) & 0x00ff_ffff).unwrap_or(0)
}

/// Launch calls by process and correlation id: a correlation id alone is not unique.
#[derive(Default)]
struct ReportCalls {
    calls: HashMap<(u32, i64), ReportCall>,
    /// The process of all calls. None of several.
    only: Option<u32>,
}

impl ReportCalls {
    fn add(&mut self, process: u32, correlation: i64, call: ReportCall) {
        let is_first = self.calls.is_empty();
        self.only = self.only.filter(|only| *only == process).or(is_first.then_some(process));
        self.calls.entry((process, correlation)).or_insert(call);
    }

    /// The process of a piece of work, and its call. The first releases do not name the process.
    fn find(&self, global: Option<i64>, correlation: Option<i64>) -> (u32, Option<&ReportCall>) {
        let process = global.filter(|global| *global != 0).map(process_number).or(self.only).unwrap_or(0);
        let call = correlation.and_then(|correlation| self.calls.get(&(process, correlation)));
        call.inspect(|call| call.has_work.set(true));
        (process, call)
    }

    /// The number of calls without work that are no waits either.
    fn idle(&self) -> u64 {
        let is_wait = |call: &ReportCall| call.name.as_deref().and_then(host_wait).is_some();
        self.calls.values().filter(|call| !call.has_work.get() && !is_wait(call)).count() as u64
    }

    /// The calls that wait for the GPU, with their process, in order.
    fn waits(&self) -> Vec<(u32, SynchronizationKind, TraceCall, Option<u64>)> {
        let mut waits: Vec<_> = self
            .calls
            .iter()
            .filter_map(|((process, correlation), call)| {
                let kind = host_wait(call.name.as_deref()?)?;
                Some((*process, kind, call.call, u64::try_from(*correlation).ok()))
            })
            .collect();
        waits.sort_by_key(|(process, _, call, correlation)| (call.begin_ns, *process, *correlation));
        waits
    }
}

impl NsysReader {
    fn names(&mut self) -> ReadResult<()> {
        let texts = &mut self.texts;
        self.tables.rows("StringIds", &["id", "value"], |row| {
            if let (Some(id), Some(text)) = (row.integer(0), row.text(1)) {
                texts.insert(id, text.into());
            }
        })?;
        let facts = &mut self.trace.facts;
        // Environment variables are in a table like this one: only two settings are read.
        let known = ["EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"];
        self.tables.rows("META_DATA_EXPORT", &["name", "value"], |row| {
            if let (Some(name), Some(value)) = (row.text(0), row.text(1))
                && known.contains(&name)
            {
                facts.insert(format!("nsys.{}", name.to_lowercase()), value.to_owned());
            }
        })?;
        Ok(())
    }

    fn calls(&mut self) -> ReadResult<()> {
        let Self { tables, texts, calls, .. } = self;
        let mut names: HashMap<i64, Option<Rc<str>>> = HashMap::new();
        let columns = ["start", "end", "globalTid", "correlationId", "nameId"];
        let mut visit = |row: &SqlRow| {
            let [begin, end, thread, correlation] = [0, 1, 2, 3].map(|column| row.integer(column));
            if let (Some(begin_ns), Some(thread), Some(correlation)) = (begin, thread, correlation) {
                let end_ns = end.unwrap_or(begin_ns).max(begin_ns);
                let call = TraceCall { thread: thread.unsigned_abs(), begin_ns, end_ns };
                let text = |id: i64| texts.get(&id).map(|name| plain(name).into());
                let name = row.integer(4).and_then(|id| names.entry(id).or_insert_with(|| text(id)).clone());
                calls.add(
                    process_number(thread),
                    correlation,
                    ReportCall { call, name, has_work: Cell::new(false) },
                );
            }
        };
        tables.rows("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, &mut visit)?;
        tables.rows("CUPTI_ACTIVITY_KIND_DRIVER", &columns, &mut visit)?;
        Ok(())
    }

    /// The place of a process.
    fn process(processes: &mut BTreeMap<u32, usize>, number: u32) -> usize {
        let next = processes.len();
        *processes.entry(number).or_insert(next)
    }

    fn kernels(&mut self) -> ReadResult<()> {
        let Self { tables, trace, texts, processes, calls } = self;
        let (mut unread, mut reversed, mut unnamed) = (0, 0, 0);
        let is_there = tables.rows("CUPTI_ACTIVITY_KIND_KERNEL", &KERNEL_COLUMNS, |row| {
            let correlation = row.integer(4);
            let (number, call) = calls.find(row.integer(5), correlation);
            let (Some(begin), Some(end)) = (row.integer(0), row.integer(1)) else {
                unread += 1;
                return;
            };
            reversed += u64::from(end < begin);
            let name = [6, 7, 20].iter().find_map(|column| texts.get(&row.integer(*column)?)).cloned();
            unnamed += u64::from(name.is_none());
            trace.kernels.push(TraceKernel {
                process: Self::process(processes, number),
                name: name.unwrap_or_else(|| "(unknown kernel)".into()),
                device: row.number(2).unwrap_or(-1),
                stream: row.number(3).unwrap_or(0),
                time_ns: Some((begin, end.max(begin))),
                grid: row.extent(8),
                block: row.extent(11),
                cluster: row.extent(17).filter(|blocks| *blocks != [1; 3]),
                registers: row.number::<u32>(14),
                shared_bytes: row.number::<u32>(15).zip(row.number::<u32>(16)),
                correlation: correlation.and_then(|number| u64::try_from(number).ok()),
                call: call.map(|call| call.call),
                call_name: call.and_then(|call| call.name.clone()),
                op: None,
                ..TraceKernel::default()
            });
        })?;
        if !is_there {
            trace.losses.lacks("kernels");
        }
        let mut lose = |reason: &str, count| trace.losses.add_many(LossKind::Source, reason, count, None);
        lose("kernels without begin or end", unread);
        lose(REVERSED, reversed);
        lose("kernels without a name in the report", unnamed);
        let without = trace.kernels.iter().filter(|kernel| kernel.call.is_none()).count() as u64;
        let reason = if calls.calls.is_empty() {
            "kernels without a launch call: the report has no calls"
        } else {
            "kernels without a launch call in the report: launched before its window"
        };
        trace.losses.add_many(LossKind::Source, reason, without, None);
        Ok(())
    }

    /// Launches of CUDA graphs that were traced as a whole: each is one piece of work, and takes the place of its kernels.
    /// Returns their number.
    fn graphs(&mut self) -> ReadResult<usize> {
        let Self { tables, trace, processes, calls, .. } = self;
        let columns = ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId"];
        let (mut count, mut reversed) = (0, 0);
        tables.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", &columns, |row| {
            let (Some(begin), Some(end)) = (row.integer(0), row.integer(1)) else { return };
            let correlation = row.integer(4);
            let (number, call) = calls.find(row.integer(5), correlation);
            count += 1;
            reversed += u64::from(end < begin);
            trace.kernels.push(TraceKernel {
                process: Self::process(processes, number),
                name: format!("CUDA graph {}", row.integer(6).unwrap_or(0)).into(),
                device: row.number(2).unwrap_or(-1),
                stream: row.number(3).unwrap_or(0),
                time_ns: Some((begin, end.max(begin))),
                correlation: correlation.and_then(|number| u64::try_from(number).ok()),
                call: call.map(|call| call.call),
                call_name: call.and_then(|call| call.name.clone()),
                ..TraceKernel::default()
            });
        })?;
        let reason =
            "kernels of CUDA graphs, of which a launch is one row: record with `--cuda-graph-trace=node`";
        trace.losses.add_many(LossKind::Source, reason, count, None);
        trace.losses.add_many(LossKind::Source, REVERSED, reversed, None);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn works(&mut self) -> ReadResult<()> {
        let Self { tables, trace, processes, calls, .. } = self;
        let kinds = [
            ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", ActivityKind::Copy),
            ("CUPTI_ACTIVITY_KIND_MEMSET", "memKind", ActivityKind::Fill),
            ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "syncType", ActivityKind::Synchronization),
        ];
        for (table, detail, kind) in kinds {
            let columns = [
                "start",
                "end",
                "deviceId",
                "streamId",
                "correlationId",
                "globalPid",
                "bytes",
                detail,
                "srcKind",
                "dstKind",
                "srcDeviceId",
                "dstDeviceId",
            ];
            let is_there = tables.rows(table, &columns, |row| {
                let Some(begin_ns) = row.integer(0) else {
                    trace.losses.add(LossKind::Source, "copies, fills and waits without begin", None);
                    return;
                };
                let is_wait = kind == ActivityKind::Synchronization;
                let (number, call) = calls.find(row.integer(5), row.integer(4));
                trace.works.push(TraceActivity {
                    process: Self::process(processes, number),
                    kind,
                    device: row.number(2).filter(|device| *device >= 0),
                    stream: row.number(3),
                    begin_ns,
                    end_ns: row.integer(1).filter(|end| *end >= begin_ns),
                    bytes: row.number(6),
                    copy: (kind == ActivityKind::Copy).then(|| direction(row.integer(7))),
                    peer: peer(row.number(2), [row.number(11), row.number(10)]),
                    wait: is_wait.then(|| wait(row.integer(7))),
                    correlation: row.number(4),
                    call: call.map(|call| call.call),
                    call_name: call.and_then(|call| call.name.clone()),
                    memory: memory(row.integer(8), row.integer(9)),
                    op: None,
                });
            })?;
            if !is_there && kind == ActivityKind::Synchronization {
                for (number, kind, call, correlation) in calls.waits() {
                    let process = Self::process(processes, number);
                    trace.works.push(TraceActivity::for_wait(process, kind, call, correlation));
                }
            }
        }
        Ok(())
    }

    fn ranges(&mut self) -> ReadResult<()> {
        let Self { tables, trace, texts, processes, .. } = self;
        let mut names: HashSet<Rc<str>> = HashSet::new();
        tables.rows("NVTX_EVENTS", &range::COLUMNS, |row| {
            let kind = row.integer(2).unwrap_or(0);
            if !RANGES.contains(&kind) {
                let kind = kind.to_string();
                trace.losses.add(LossKind::Source, "NVTX events that are not ranges", Some(&kind));
                return;
            }
            let (Some(begin_ns), Some(end_ns), Some(thread)) =
                (row.integer(0), row.integer(1), row.integer(3))
            else {
                trace.losses.add(LossKind::Source, "NVTX ranges without begin, end or thread", None);
                return;
            };
            let shared = row.integer(5).and_then(|id| texts.get(&id)).map(|name| &**name);
            let name = row.text(4).or(shared).unwrap_or("(unnamed range)");
            let call = TraceCall { thread: thread.unsigned_abs(), begin_ns, end_ns: end_ns.max(begin_ns) };
            range::count(row, &mut trace.losses);
            let mut op = range::op(call, name);
            // Millions of ranges have few names.
            if let Some(known) = names.get(&op.name) {
                op.name = Rc::clone(known);
            } else if names.len() < MAX_SHARED_NAMES {
                names.insert(Rc::clone(&op.name));
            }
            trace.ops.push(TraceOp { process: Self::process(processes, process_number(thread)), ..op });
        })?;
        Ok(())
    }

    /// The failure of a report without kernels, copies and ranges: says which file it is.
    fn empty(&self, path: &Path) -> ReadResult<ReadError> {
        let has = |begin: &str| match &self.tables {
            ReportTables::Database(database) => database.has(begin),
            ReportTables::Folder(_) => Ok(false),
        };
        let (what, hint) = if holds_spaces(path) {
            ("is a folder with traces of XLA's profiler", "give the `.xplane.pb` in it")
        } else if has("rocpd_kernelapi")? || has("rocpd_api_ops")? {
            (
                "is a trace of rocmProfileData (RPD), which is not imported",
                "record with `rocprofv3 --kernel-trace --hip-trace`",
            )
        } else if has("rocpd_")? {
            (
                "is a database of rocprofv3 (rocpd) without kernels",
                "trace them with `rocprofv3 --kernel-trace`",
            )
        } else if has("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")? {
            (
                "is a database of nvprof",
                "record with `nsys profile -t cuda,nvtx`, and export it with `nsys export`",
            )
        } else if has("META_DATA_EXPORT")? || has("StringIds")? {
            (
                "is a report of Nsight Systems without CUDA and NVTX",
                "record with `nsys profile -t cuda,nvtx`, and export it again",
            )
        } else {
            ("has no tables of CUDA and NVTX", "export a report with `nsys export -t sqlite`")
        };
        Ok(ReadError::message(format!("`{}` {what}", path.display())).hint(hint.to_owned()))
    }

    fn finish(mut self) -> ReadResult<TraceModel> {
        let mut numbers: Vec<(usize, u32)> =
            self.processes.iter().map(|(number, place)| (*place, *number)).collect();
        numbers.sort_unstable();
        self.trace.processes.extend(
            numbers.into_iter().map(|(_, number)| TraceProcess::with_number(number, Instrument::Timeline)),
        );
        join_ops(&mut self.trace);
        join_steps(&mut self.trace);
        let mut base_ns = None;
        self.tables.rows("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], |row| {
            base_ns = base_ns.or(row.integer(0));
        })?;
        shift(&mut self.trace, base_ns.unwrap_or(0));
        let losses = &mut self.trace.losses;
        if base_ns.is_none() {
            losses.lacks("the time of day: times begin with the session");
        }
        for part in ["stall samples", "memory accesses", "machine code", "Python stacks"] {
            losses.lacks(part);
        }
        unread::count(&self.tables, losses)?;
        Ok(self.trace)
    }
}

/// The failure of a report that has launches of graphs and nothing else.
fn of_graphs(path: &Path) -> ReadError {
    let message =
        format!("`{}` has launches of CUDA graphs, traced as a whole, and no kernels", path.display());
    ReadError::message(message).hint("record again with `nsys profile --cuda-graph-trace=node`".to_owned())
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

/// Names of CUPTI's kinds of memory.
const MEMORY: [&str; 7] =
    ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];

/// True for a folder that XLA's profiler wrote.
fn holds_spaces(path: &Path) -> bool {
    let is_space = |name: &str| name.ends_with(".xplane.pb");
    let mut files = std::fs::read_dir(path).into_iter().flatten().flatten();
    files.any(|file| file.file_name().to_str().is_some_and(is_space))
}

/// The memory of both sides of a copy.
fn memory(source: Option<i64>, target: Option<i64>) -> Option<Rc<str>> {
    let name = |kind: Option<i64>| MEMORY.get(usize::try_from(kind?).ok()?);
    Some(format!("{} -> {}", name(source)?, name(target)?).into())
}

/// The name of a call without its version, as in `cudaLaunchKernel_v7000`.
fn plain(name: &str) -> &str {
    let (plain, version) = name.rsplit_once("_v").unwrap_or((name, ""));
    if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) { plain } else { name }
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

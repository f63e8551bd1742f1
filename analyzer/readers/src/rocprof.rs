//! Profiles of rocprofv3 in JSON: kernels and copies of AMD's GPUs, with the launch calls where they were traced.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::{ActivityKind, CopyKind, Instrument, LossKind};

use crate::join::join_ops;
use crate::model::{
    TraceActivity, TraceCall, TraceCounter, TraceDevice, TraceKernel, TraceModel, TraceProcess,
};

/// Most kernels and copies of a profile.
const MAX_RECORDS: usize = 50_000_000;
/// The tool's number of agents that are GPUs.
const GPU: i64 = 2;

/// A kernel's code, by the number that dispatches have.
struct KernelSymbol {
    name: Rc<str>,
    registers: Option<u32>,
}

/// A record of any kind: a dispatch, a copy or a call.
#[derive(Default)]
struct RocprofRecord {
    operation: Option<i64>,
    thread: Option<i64>,
    correlation: Option<i64>,
    begin_ns: Option<i64>,
    end_ns: Option<i64>,
    bytes: Option<i64>,
    stream: Option<i64>,
    agents: [Option<i64>; 2],
    kernel: Option<i64>,
    workgroup: Option<[u32; 3]>,
    /// Work-items, not blocks.
    items: Option<[u32; 3]>,
}

/// A profile while it is read. The parts that name kernels and GPUs may stand behind their uses.
#[derive(Default)]
struct RocprofReader {
    trace: TraceModel,
    numbers: Vec<u32>,
    symbols: HashMap<i64, KernelSymbol>,
    /// GPUs by handle.
    ordinals: HashMap<i64, i32>,
    dispatches: Vec<(usize, RocprofRecord)>,
    copies: Vec<(usize, RocprofRecord)>,
    /// Calls by process and correlation.
    calls: HashMap<(usize, i64), TraceCall>,
    /// Names of counters by handle.
    counters: HashMap<i64, Rc<str>>,
    collections: Vec<KernelCounters>,
}

/// A kernel with the values of its counters, by handle.
struct KernelCounters {
    process: usize,
    record: RocprofRecord,
    values: BTreeMap<i64, f64>,
}

/// Reads a profile.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut reading = RocprofReader::default();
    json.document(|json| {
        json.object(|json, key| match key {
            "rocprofiler-sdk-tool" => json.array(|json| reading.process(json)),
            _ => reading.unknown(json, key),
        })
    })?;
    if reading.dispatches.is_empty() && reading.copies.is_empty() && reading.collections.is_empty() {
        return Err(ReadError::message(format!("`{}` has no kernels and no copies", json.path().display()))
            .hint("trace them with `rocprofv3 --kernel-trace --output-format json`".to_owned()));
    }
    Ok(reading.finish())
}

impl RocprofReader {
    fn unknown(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        self.trace.losses.add(LossKind::Source, "keys of the imported file that are not read", Some(key));
        json.skip()
    }

    /// One process. Its environment and command are not read.
    fn process(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let place = self.numbers.len();
        self.numbers.push(0);
        json.object(|json, key| match key {
            "metadata" => json.object(|json, key| {
                if key != "pid" {
                    return json.skip();
                }
                let number = json.integer()?.and_then(|number| u32::try_from(number).ok());
                self.numbers.last_mut().into_iter().for_each(|slot| *slot = number.unwrap_or(0));
                Ok(())
            }),
            "agents" => json.array(|json| self.agent(json)),
            "kernel_symbols" => json.array(|json| self.symbol(json)),
            "buffer_records" => json.object(|json, kind| self.records(json, kind, place)),
            "callback_records" => json.object(|json, kind| match kind {
                "counter_collection" => json.records(|json| self.collection(json, place)),
                _ => self.lost(json, kind),
            }),
            "counters" => json.array(|json| self.counter(json)),
            "strings" | "code_objects" | "host_functions" | "summary" => json.skip(),
            _ => self.unknown(json, key),
        })
    }

    fn agent(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let (mut handle, mut kind) = (None, None);
        let mut device = TraceDevice::default();
        let mut architecture = String::new();
        json.object(|json, key| {
            match key {
                "id" => handle = member(json, "handle")?,
                "type" => kind = json.integer()?,
                "product_name" => device.name = json.scalar()?.unwrap_or_default(),
                "name" => architecture = json.scalar()?.unwrap_or_default(),
                "cu_count" => device.multiprocessors = small(json.integer()?),
                _ => json.skip()?,
            }
            Ok(())
        })?;
        if let (Some(handle), Some(GPU)) = (handle, kind) {
            // GPUs are numbered in the order of the list, as HIP does without a mask of devices.
            let next = i32::try_from(self.ordinals.len()).unwrap_or(i32::MAX);
            device.ordinal = *self.ordinals.entry(handle).or_insert(next);
            if device.name.is_empty() {
                device.name = architecture;
            }
            self.trace.devices.push(device);
        }
        Ok(())
    }

    fn symbol(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let (mut number, mut registers) = (None, None);
        let (mut formatted, mut mangled) = (String::new(), String::new());
        json.object(|json, key| {
            match key {
                "kernel_id" => number = json.integer()?,
                "formatted_kernel_name" => formatted = json.scalar()?.unwrap_or_default(),
                "kernel_name" => mangled = json.scalar()?.unwrap_or_default(),
                "arch_vgpr_count" => registers = json.integer()?.and_then(|count| u32::try_from(count).ok()),
                _ => json.skip()?,
            }
            Ok(())
        })?;
        let name = if formatted.is_empty() { mangled } else { formatted };
        self.symbols.extend(number.map(|number| (number, KernelSymbol { name: name.into(), registers })));
        Ok(())
    }

    /// The name of a counter.
    fn counter(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let (mut handle, mut name) = (None, None);
        json.object(|json, key| {
            match key {
                "id" => handle = member(json, "handle")?,
                "name" => name = json.scalar()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        self.counters.extend(handle.zip(name).map(|(handle, name)| (handle, name.into())));
        Ok(())
    }

    /// A kernel that ran alone, with its counters.
    fn collection(&mut self, json: &mut JsonStream<impl Read>, process: usize) -> ReadResult<()> {
        self.check_bound()?;
        let mut collection =
            KernelCounters { process, record: RocprofRecord::default(), values: BTreeMap::new() };
        json.object(|json, key| match key {
            "dispatch_data" => json.object(|json, key| collection.record.field(json, key)),
            "records" => json.array(|json| {
                let (mut handle, mut value) = (None, None);
                json.object(|json, key| {
                    match key {
                        "counter_id" => handle = member(json, "handle")?,
                        "value" => value = json.scalar()?.and_then(|text| text.parse::<f64>().ok()),
                        _ => json.skip()?,
                    }
                    Ok(())
                })?;
                // A counter has a value for each part of the GPU.
                if let Some((handle, value)) = handle.zip(value) {
                    *collection.values.entry(handle).or_default() += value;
                }
                Ok(())
            }),
            _ => json.skip(),
        })?;
        self.collections.push(collection);
        Ok(())
    }

    fn check_bound(&self) -> ReadResult<()> {
        let records = self.dispatches.len() + self.copies.len() + self.calls.len() + self.collections.len();
        if records < MAX_RECORDS {
            return Ok(());
        }
        let message = format!("the profile has more than {MAX_RECORDS} records");
        Err(ReadError::message(message).hint("profile fewer steps".to_owned()))
    }

    /// Records of one kind.
    fn records(&mut self, json: &mut JsonStream<impl Read>, kind: &str, process: usize) -> ReadResult<()> {
        if !matches!(kind, "kernel_dispatch" | "memory_copy" | "hip_api" | "hip_runtime_api") {
            return self.lost(json, kind);
        }
        json.records(|json| {
            let record = RocprofRecord::read(json)?;
            self.check_bound()?;
            match kind {
                "kernel_dispatch" => self.dispatches.push((process, record)),
                "memory_copy" => self.copies.push((process, record)),
                _ => self.calls.extend(record.call().map(|(number, call)| ((process, number), call))),
            }
            Ok(())
        })
    }

    /// Counts records that are not read.
    fn lost(&mut self, json: &mut JsonStream<impl Read>, kind: &str) -> ReadResult<()> {
        let mut count = 0;
        json.array(|json| {
            count += 1;
            json.skip()
        })?;
        let (loss, reason) = if kind.starts_with("pc_sample") {
            (LossKind::Sample, "samples of instructions of AMD's GPUs")
        } else {
            (LossKind::Source, "records of other kinds")
        };
        self.trace.losses.add_many(loss, reason, count, Some(kind));
        Ok(())
    }

    fn finish(mut self) -> TraceModel {
        for (process, record) in std::mem::take(&mut self.dispatches) {
            self.kernel(process, &record);
        }
        self.collect();
        for (process, record) in std::mem::take(&mut self.copies) {
            self.copy(process, &record);
        }
        let mut trace = self.trace;
        trace.tool = "rocprofv3";
        trace.processes = self
            .numbers
            .into_iter()
            .map(|number| TraceProcess::with_number(number, Instrument::Timeline))
            .collect();
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

    fn kernel(&mut self, process: usize, record: &RocprofRecord) {
        let symbol = record.kernel.and_then(|number| self.symbols.get(&number));
        if symbol.is_none() {
            self.trace.losses.add(LossKind::Source, "kernels without a symbol", None);
        }
        let time_ns = record.time_ns();
        if time_ns.is_none() {
            self.trace.losses.add(LossKind::Source, "kernels without begin or end", None);
        }
        self.trace.kernels.push(TraceKernel {
            process,
            name: symbol.map_or_else(|| "(unknown kernel)".into(), |symbol| symbol.name.clone()),
            device: self.ordinal(record.agents[0]).unwrap_or(-1),
            stream: record.stream.and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0),
            time_ns,
            grid: record.blocks(),
            block: record.workgroup,
            registers: symbol.and_then(|symbol| symbol.registers),
            correlation: record.correlation.and_then(|number| u64::try_from(number).ok()),
            call: record.correlation.and_then(|number| self.calls.get(&(process, number))).copied(),
            ..TraceKernel::default()
        });
    }

    /// Gives kernels their counters. A profile of counters only has its kernels nowhere else.
    fn collect(&mut self) {
        let known = self.trace.kernels.iter().enumerate();
        let known: HashMap<(usize, u64), usize> = known
            .filter_map(|(place, kernel)| Some(((kernel.process, kernel.correlation?), place)))
            .collect();
        for KernelCounters { process, record, values } in std::mem::take(&mut self.collections) {
            let correlation = record.correlation.and_then(|number| u64::try_from(number).ok());
            let place = correlation.and_then(|number| known.get(&(process, number))).copied();
            let kernel = place.unwrap_or(self.trace.kernels.len());
            if place.is_none() {
                self.kernel(process, &record);
            }
            for (handle, value) in values {
                let metric = self.counters.get(&handle).cloned();
                let metric = metric.unwrap_or_else(|| format!("counter {handle}").into());
                let value = Some(value).filter(|value| value.is_finite());
                self.trace.counters.push(TraceCounter { kernel, metric, value, unit: String::new() });
            }
        }
    }

    fn copy(&mut self, process: usize, record: &RocprofRecord) {
        let Some((begin_ns, end_ns)) = record.time_ns() else {
            self.trace.losses.add(LossKind::Source, "copies without begin or end", None);
            return;
        };
        let [destination, source] = record.agents;
        self.trace.works.push(TraceActivity {
            process,
            kind: ActivityKind::Copy,
            device: self.ordinal(destination).or_else(|| self.ordinal(source)),
            stream: record.stream.and_then(|stream| u64::try_from(stream).ok()),
            begin_ns,
            end_ns: Some(end_ns),
            bytes: record.bytes.and_then(|bytes| u64::try_from(bytes).ok()),
            copy: Some(direction(record.operation)),
            peer: None,
            wait: None,
            correlation: record.correlation.and_then(|number| u64::try_from(number).ok()),
            call: record.correlation.and_then(|number| self.calls.get(&(process, number))).copied(),
            call_name: None,
            memory: None,
            op: None,
        });
    }

    fn ordinal(&self, handle: Option<i64>) -> Option<i32> {
        self.ordinals.get(&handle?).copied()
    }
}

impl RocprofRecord {
    fn read(json: &mut JsonStream<impl Read>) -> ReadResult<Self> {
        let mut record = Self::default();
        json.object(|json, key| record.field(json, key))?;
        Ok(record)
    }

    fn field(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "operation" => self.operation = json.integer()?,
            "thread_id" => self.thread = json.integer()?,
            "correlation_id" => self.correlation = member(json, "internal")?,
            "start_timestamp" => self.begin_ns = json.integer()?,
            "end_timestamp" => self.end_ns = json.integer()?,
            "bytes" => self.bytes = json.integer()?,
            "stream_id" => self.stream = member(json, "handle")?,
            "agent_id" | "dst_agent_id" => self.agents[0] = member(json, "handle")?,
            "src_agent_id" => self.agents[1] = member(json, "handle")?,
            "kernel_id" => self.kernel = json.integer()?,
            "workgroup_size" => self.workgroup = extent(json)?,
            "grid_size" => self.items = extent(json)?,
            "dispatch_info" => json.object(|json, key| self.field(json, key))?,
            _ => json.skip()?,
        }
        Ok(())
    }

    fn time_ns(&self) -> Option<(i64, i64)> {
        self.begin_ns.zip(self.end_ns).filter(|(begin, end)| begin <= end)
    }

    /// Blocks: the tool counts the work-items of all of them.
    fn blocks(&self) -> Option<[u32; 3]> {
        let ([x, y, z], [width, height, depth]) = self.items.zip(self.workgroup)?;
        Some([x.div_ceil(width), y.div_ceil(height), z.div_ceil(depth)])
    }

    fn call(&self) -> Option<(i64, TraceCall)> {
        let (begin_ns, end_ns) = self.time_ns()?;
        Some((self.correlation?, TraceCall { thread: self.thread?.unsigned_abs(), begin_ns, end_ns }))
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

fn small(value: Option<i64>) -> i32 {
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0)
}

/// An integer in an object.
fn member(json: &mut JsonStream<impl Read>, name: &str) -> ReadResult<Option<i64>> {
    let mut found = None;
    json.object(|json, key| {
        if key != name {
            return json.skip();
        }
        found = json.integer()?;
        Ok(())
    })?;
    Ok(found)
}

/// The sizes x, y and z of an object. None if one is not positive.
fn extent(json: &mut JsonStream<impl Read>) -> ReadResult<Option<[u32; 3]>> {
    let mut sizes = BTreeMap::new();
    json.object(|json, key| {
        let size = json.integer()?.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        sizes.extend(size.map(|size| (key.to_owned(), size)));
        Ok(())
    })?;
    let size = |name: &str| sizes.get(name).copied();
    Ok(size("x").zip(size("y")).zip(size("z")).map(|((x, y), z)| [x, y, z]))
}

//! Profiles of rocprofv3 in JSON: kernels and copies of AMD's GPUs, with the launch calls where they were traced.

mod record;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::LossKind;

use self::record::{RocprofCall, RocprofRecord, member};
use crate::model::{TraceDevice, TraceModel};

/// Most records of a profile.
const MAX_RECORDS: usize = 1 << 24;
/// The loss of records that are no dispatch.
const EMPTY: &str = "dispatches without a kernel and a time";
/// The tool's number of agents that are GPUs.
const GPU: i64 = 2;

/// A kernel's code, by the number that dispatches have.
struct KernelSymbol {
    name: Rc<str>,
    registers: Option<u32>,
}

/// A kind of records, with the names of its operations.
#[derive(Default)]
struct RecordKind {
    name: String,
    operations: Vec<Rc<str>>,
}

/// A profile while it is read.
#[derive(Default)]
struct RocprofReader {
    trace: TraceModel,
    processes: Vec<RocprofProcess>,
    /// The process that is read.
    current: RocprofProcess,
    records: usize,
}

/// A process. Its numbers are its own, and the parts that name kernels and GPUs may stand behind their uses.
#[derive(Default)]
struct RocprofProcess {
    number: u32,
    symbols: HashMap<i64, KernelSymbol>,
    /// GPUs by handle.
    ordinals: HashMap<i64, i32>,
    /// Names of counters by handle.
    counters: HashMap<i64, Rc<str>>,
    kinds: Vec<RecordKind>,
    dispatches: Vec<RocprofRecord>,
    copies: Vec<RocprofRecord>,
    calls: Vec<RocprofCall>,
    collections: Vec<KernelCounters>,
}

/// A kernel with the values of its counters, by handle.
#[derive(Default)]
struct KernelCounters {
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
    if reading.processes.iter().all(RocprofProcess::is_empty) {
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

    /// One process, up to damage. Its environment and command are not read.
    fn process(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let result = json.object(|json, key| self.member(json, key));
        self.processes.push(std::mem::take(&mut self.current));
        result
    }

    fn member(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "metadata" => {
                let number = member(json, "pid")?.and_then(|number| u32::try_from(number).ok());
                self.current.number = number.unwrap_or(0);
                Ok(())
            }
            "agents" => json.array(|json| self.agent(json)),
            "kernel_symbols" => json.array(|json| self.symbol(json)),
            "buffer_records" => json.object(|json, kind| self.records(json, kind)),
            "callback_records" => json.object(|json, kind| match kind {
                "counter_collection" => json.records(|json| self.collection(json)),
                _ => self.lost(json, kind),
            }),
            "counters" => json.array(|json| self.counter(json)),
            "strings" => json.object(|json, key| match key {
                "buffer_records" => json.array(|json| self.kind(json)),
                _ => json.skip(),
            }),
            "code_objects" | "host_functions" | "summary" => json.skip(),
            _ => self.unknown(json, key),
        }
    }

    /// A kind of records: its place in the list is its number.
    fn kind(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        self.count()?;
        let mut kind = RecordKind::default();
        json.object(|json, key| match key {
            "kind" => json.scalar().map(|name| kind.name = name.unwrap_or_default()),
            "operations" => json.array(|json| {
                self.count()?;
                kind.operations.push(json.scalar()?.unwrap_or_default().into());
                Ok(())
            }),
            _ => json.skip(),
        })?;
        self.current.kinds.push(kind);
        Ok(())
    }

    fn agent(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        self.count()?;
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
            let next = i32::try_from(self.current.ordinals.len()).unwrap_or(i32::MAX);
            device.ordinal = *self.current.ordinals.entry(handle).or_insert(next);
            if device.name.is_empty() {
                device.name = architecture;
            }
            self.trace.devices.push(device);
        }
        Ok(())
    }

    fn symbol(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        self.count()?;
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
        self.current
            .symbols
            .extend(number.map(|number| (number, KernelSymbol { name: name.into(), registers })));
        Ok(())
    }

    /// The name of a counter.
    fn counter(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        self.count()?;
        let (mut handle, mut name) = (None, None);
        json.object(|json, key| {
            match key {
                "id" => handle = member(json, "handle")?,
                "name" => name = json.scalar()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        self.current.counters.extend(handle.zip(name).map(|(handle, name)| (handle, name.into())));
        Ok(())
    }

    /// A kernel that ran alone, with its counters.
    fn collection(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        self.count()?;
        let mut collection = KernelCounters::default();
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
        if collection.record.is_empty() {
            self.trace.losses.add(LossKind::Source, EMPTY, None);
        } else {
            self.current.collections.push(collection);
        }
        Ok(())
    }

    /// Counts a record, up to the bound.
    fn count(&mut self) -> ReadResult<()> {
        self.records += 1;
        if self.records <= MAX_RECORDS {
            return Ok(());
        }
        let message = format!("the profile has more than {MAX_RECORDS} records");
        Err(ReadError::message(message).hint("profile fewer steps".to_owned()))
    }

    /// Records of one kind.
    fn records(&mut self, json: &mut JsonStream<impl Read>, kind: &str) -> ReadResult<()> {
        if !matches!(kind, "kernel_dispatch" | "memory_copy" | "hip_api" | "hip_runtime_api") {
            return self.lost(json, kind);
        }
        json.records(|json| {
            let record = RocprofRecord::read(json)?;
            self.count()?;
            self.keep(kind, record);
            Ok(())
        })
    }

    fn keep(&mut self, kind: &str, record: RocprofRecord) {
        let losses = &mut self.trace.losses;
        match kind {
            "kernel_dispatch" if record.is_empty() => losses.add(LossKind::Source, EMPTY, None),
            "kernel_dispatch" => self.current.dispatches.push(record),
            "memory_copy" if record.time_ns().is_none() => {
                losses.add(LossKind::Source, "copies without begin or end", None);
            }
            "memory_copy" => self.current.copies.push(record),
            _ => match record.call() {
                Some(call) => self.current.calls.push(call),
                None => losses.add(LossKind::Source, "calls without begin, end or thread", None),
            },
        }
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
}

impl RocprofProcess {
    fn is_empty(&self) -> bool {
        self.dispatches.is_empty() && self.copies.is_empty() && self.collections.is_empty()
    }
}

fn small(value: Option<i64>) -> i32 {
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0)
}

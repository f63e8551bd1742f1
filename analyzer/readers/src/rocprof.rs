//! Profiles of rocprofv3 in JSON: kernels and copies of AMD's GPUs, with the launch calls where they were traced.

mod record;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::LossKind;

use self::record::{RocprofRecord, member};
use crate::model::{TraceCall, TraceDevice, TraceModel};

/// Most kernels and copies of a profile.
const MAX_RECORDS: usize = 50_000_000;
/// The tool's number of agents that are GPUs.
const GPU: i64 = 2;

/// A kernel's code, by the number that dispatches have.
struct KernelSymbol {
    name: Rc<str>,
    registers: Option<u32>,
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
}

fn small(value: Option<i64>) -> i32 {
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0)
}

//! Reports of Nsight Compute (`.ncu-rep`): kernels with their counters, samples per instruction, cubins and source files.
//!
//! A report is four bytes and then messages of protocol buffers, each behind its length: one that names the version, then
//! blocks. [`block`] has their form.

mod block;
mod code;
mod metric;
mod unit;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::proto::{ProtoReader, ProtoValue};
use stallmap_schema::word::{Instrument, LossKind};

use self::block::{BlockHeader, MessageStream};
use self::code::{ReportCubin, SampledAddresses};
use self::metric::{MetricValue, ReportMetric};
use crate::model::{TraceCounter, TraceDevice, TraceKernel, TraceModel, TraceProcess};
use crate::ncu;

/// Most kernels of a report.
const MAX_KERNELS: usize = 10_000_000;
/// Most processes of a report.
const MAX_PROCESSES: usize = 10_000;
/// Most metrics and values of instructions of a report.
const MAX_VALUES: usize = 200_000_000;
/// Most texts of a report.
const MAX_TEXTS: usize = 1 << 24;

/// A report while it is read.
#[derive(Default)]
struct NcuReportReader {
    trace: TraceModel,
    texts: Vec<Rc<str>>,
    /// Cubins by the report's number.
    codes: HashMap<u64, ReportCubin>,
    sampled: Vec<SampledAddresses>,
    values: usize,
}

/// Reads a report.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    parse(BufReader::new(input.open()?)).map_err(|reason| {
        let message =
            format!("`{}` is not a complete report of Nsight Compute: {reason}", input.path.display());
        ReadError::message(message)
            .hint("ncu may not have finished it: open it with `ncu --import`".to_owned())
    })
}

/// A report, up to the first damage.
fn parse(reader: impl Read) -> Result<TraceModel, String> {
    let stream = MessageStream::from_reader(reader)?;
    let mut reading = NcuReportReader::default();
    let result = reading.blocks(stream);
    if reading.trace.kernels.is_empty() {
        return Err(result.err().unwrap_or_else(|| "it has no kernels".to_owned()));
    }
    if let Err(reason) = result {
        reading.trace.losses.add(LossKind::Source, "the report behind damage", Some(&reason));
    }
    Ok(reading.finish())
}

impl NcuReportReader {
    fn blocks(&mut self, mut stream: MessageStream<impl Read>) -> Result<(), String> {
        // The version. All versions have the same messages.
        stream.next()?;
        while let Some(header) = stream.next()? {
            let header = BlockHeader::read(header.message())?;
            let mut left = header.payload_bytes;
            let process = self.block(&header)?;
            for _ in 0..header.sources {
                let source = stream.part(&mut left)?;
                self.source(source.message())?;
            }
            for _ in 0..header.results {
                let result = stream.part(&mut left)?;
                let counters = self.trace.counters.len();
                if let Err(reason) = self.result(result.message(), process) {
                    // Counters of a kernel that is not there would be those of the next one.
                    self.trace.counters.truncate(counters);
                    return Err(reason);
                }
            }
            let reason = "results of ranges, command lists and graphs";
            self.trace.losses.add_many(LossKind::Source, reason, header.others, None);
            stream.skip(left)?;
        }
        Ok(())
    }

    /// Reads the header of a block. Returns the place of its process.
    fn block(&mut self, header: &BlockHeader<'_>) -> Result<usize, String> {
        for text in header.strings.into_iter().flatten() {
            if let (1, ProtoValue::Message(text)) = text? {
                if self.texts.len() >= MAX_TEXTS {
                    return Err(format!("it has more than {MAX_TEXTS} texts"));
                }
                self.texts.push(text.text().into());
            }
        }
        let mut number = None;
        for field in header.session.into_iter().flatten() {
            match field? {
                (1, ProtoValue::Number(process)) => number = Some(process),
                (6, ProtoValue::Message(device)) => self.device(device)?,
                _ => {}
            }
        }
        let mut program = None;
        for field in header.process.into_iter().flatten() {
            match field? {
                (1, ProtoValue::Number(process)) => number = Some(process),
                (3, ProtoValue::Message(name)) => program = Some(name.text()),
                _ => {}
            }
        }
        if header.results == 0 {
            return Ok(0);
        }
        let number = number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let processes = &mut self.trace.processes;
        let known = processes.iter().position(|process| process.number == number);
        if known.is_none() && processes.len() >= MAX_PROCESSES {
            return Err(format!("it has more than {MAX_PROCESSES} processes"));
        }
        Ok(known.unwrap_or_else(|| {
            let program = program.unwrap_or_default();
            processes
                .push(TraceProcess { program, ..TraceProcess::with_number(number, Instrument::Counters) });
            processes.len() - 1
        }))
    }

    fn device(&mut self, message: ProtoReader<'_>) -> Result<(), String> {
        let mut device = TraceDevice::default();
        let small = |value: u64| i32::try_from(value).unwrap_or(0);
        for field in message {
            match field? {
                (1, ProtoValue::Number(ordinal)) => device.ordinal = small(ordinal),
                (2, ProtoValue::Message(name)) => device.name = name.text(),
                (3, ProtoValue::Message(attribute)) => {
                    let name = attribute.message(1)?.map(ProtoReader::text).unwrap_or_default();
                    let value = attribute.message(2)?.map(MetricValue::read).transpose()?.flatten();
                    let Some(value) = value.and_then(MetricValue::integer) else { continue };
                    match name.strip_prefix("device__attribute_").unwrap_or_default() {
                        "compute_capability_major" => device.compute.0 = small(value),
                        "compute_capability_minor" => device.compute.1 = small(value),
                        "multiprocessor_count" => device.multiprocessors = small(value),
                        "total_memory" => device.memory_bytes = value,
                        "l2_cache_size" => device.l2_bytes = value,
                        "clock_rate" => device.clocks_khz.0 = small(value),
                        "memory_clock_rate" => device.clocks_khz.1 = small(value),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        self.trace.devices.push(device);
        Ok(())
    }

    /// A cubin with its functions and source files.
    fn source(&mut self, message: ProtoReader<'_>) -> Result<(), String> {
        let reference = message.number(1)?.unwrap_or(0);
        let mut code = ReportCubin::default();
        for field in message {
            match field? {
                (4, ProtoValue::Message(binary)) => code.cubin = binary.bytes.to_vec(),
                (8, ProtoValue::Message(files)) => {
                    for file in files {
                        let (1, ProtoValue::Message(file)) = file? else { continue };
                        let name = file.message(1)?.map(ProtoReader::text).unwrap_or_default();
                        if let Some(text) = file.message(2)? {
                            self.trace.sources.insert(name, text.text());
                        }
                    }
                }
                (9, ProtoValue::Message(relocations)) => code.add_functions(relocations)?,
                _ => {}
            }
        }
        // Several kernels of a module: only the first of their sources has the cubin.
        let known = self.codes.entry(reference).or_default();
        known.add(code);
        Ok(())
    }

    /// A kernel.
    fn result(&mut self, message: ProtoReader<'_>, process: usize) -> Result<(), String> {
        let place = self.trace.kernels.len();
        if place >= MAX_KERNELS {
            return Err(format!("it has more than {MAX_KERNELS} kernels"));
        }
        let mut kernel = TraceKernel { process, device: -1, ..TraceKernel::default() };
        let mut sampled = SampledAddresses::for_kernel(place);
        for field in message {
            match field? {
                (5, ProtoValue::Message(name)) => kernel.name = name.text().into(),
                (10, ProtoValue::Message(sizes)) => kernel.grid = sizes.extent()?,
                (11, ProtoValue::Message(sizes)) => kernel.block = sizes.extent()?,
                (13, ProtoValue::Message(metric)) => self.metric(metric, &mut kernel, &mut sampled)?,
                (15, ProtoValue::Message(source)) => sampled.reference = source.number(1)?,
                (23, ProtoValue::Number(stream)) => kernel.stream = stream,
                (19, _) => self.leave("results of rules"),
                (21, _) => self.leave("NVTX ranges of kernels"),
                (28 | 32, _) => self.leave("call stacks of kernels"),
                _ => {}
            }
        }
        self.trace.kernels.push(kernel);
        self.sampled.push(sampled);
        Ok(())
    }

    fn leave(&mut self, reason: &str) {
        self.trace.losses.add(LossKind::Source, reason, None);
    }

    fn metric(
        &mut self,
        message: ProtoReader<'_>,
        kernel: &mut TraceKernel,
        sampled: &mut SampledAddresses,
    ) -> Result<(), String> {
        let metric = ReportMetric::read(message)?;
        self.values = self.values.saturating_add(1 + metric.instances.len());
        if self.values > MAX_VALUES {
            return Err(format!("it has more than {MAX_VALUES} values"));
        }
        let Some(name) = self.texts.get(metric.name).cloned() else {
            return Err(format!(
                "byte {}: a metric names text {}, of {}",
                message.at,
                metric.name,
                self.texts.len()
            ));
        };
        let losses = &mut self.trace.losses;
        if !sampled.take(&name, &metric)? && metric.instances.len() > 1 {
            losses.add(LossKind::Source, "metrics per instruction, address or time", Some(&name));
        }
        match (metric.value, metric.value.and_then(MetricValue::number)) {
            (_, Some(value)) => {
                ncu::describe(kernel, &name, value);
                let unit = unit::from_name(&name);
                let counter = TraceCounter { kernel: sampled.kernel, metric: name, value: Some(value), unit };
                self.trace.counters.push(counter);
            }
            (Some(_), None) => losses.add(LossKind::Source, "metrics whose value is a text", Some(&name)),
            (None, None) => {}
        }
        Ok(())
    }

    fn finish(mut self) -> TraceModel {
        self.trace.tool = "ncu";
        code::place(&mut self.trace, &mut self.codes, self.sampled);
        ncu::lose_durations(&mut self.trace);
        for part in ["times of launches", "ops, tensors and Python stacks", "memory accesses"] {
            self.trace.losses.lacks(part);
        }
        if self.trace.samples.is_empty() {
            self.trace.losses.lacks("stall samples per instruction");
        }
        self.trace
    }
}

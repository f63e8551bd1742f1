//! Operator Profiler's profile.json 1.0: kernels with times and counters, by op. And its manifest: the same without
//! counters, before they are measured.

pub(crate) mod correlation;
pub(crate) mod layers;

use std::collections::BTreeMap;
use std::io::Read;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::{Instrument, LossKind, OpKind, Phase};

use crate::model::{TraceCall, TraceCounter, TraceKernel, TraceModel, TraceOp, TraceProcess};

/// Most kernels of a file.
const MAX_KERNELS: usize = 10_000_000;
/// Byte counters have no unit in the file: ncu scales each value by itself, and the tool drops the scale.
const UNKNOWN_UNIT: &str = "unknown";

/// A profile while it is read.
#[derive(Default)]
struct OperatorReader {
    trace: TraceModel,
    /// Kernels that the tool left out.
    initial: u64,
    /// The ops of a manifest, by layer and name: there a kernel names both.
    owners: BTreeMap<(Option<usize>, String), usize>,
    /// The layers of a manifest, by name.
    layers: BTreeMap<String, usize>,
}

/// Reads a profile.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut reading = OperatorReader::default();
    json.document(|json| json.object(|json, key| reading.member(json, key)))?;
    if reading.trace.kernels.is_empty() {
        return Err(ReadError::message(format!("`{}` has no kernels", json.path().display()))
            .hint("stallmap reads Operator Profiler's profile.json and manifest".to_owned()));
    }
    Ok(reading.finish())
}

impl OperatorReader {
    fn member(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "schema_version" => self.fact("operator_profiler.schema_version", json),
            "capture_metadata" => json.object(|json, key| match key {
                "torch_version" | "device_name" | "compile_mode" => {
                    self.fact(&format!("operator_profiler.{key}"), json)
                }
                _ => json.skip(),
            }),
            "operators" => json.records(|json| self.operator(json)),
            "unattributed_kernels" | "kernels" => json.records(|json| self.kernel(json, None)),
            "warnings" => json.array(|json| {
                let text = json.scalar()?.unwrap_or_default();
                self.initial += u64::from(text.contains("initialization kernel"));
                Ok(())
            }),
            _ => json.skip(),
        }
    }

    fn fact(&mut self, name: &str, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let fact = json.scalar()?;
        self.trace.facts.extend(fact.map(|fact| (name.to_owned(), fact)));
        Ok(())
    }

    /// An op with its kernels.
    fn operator(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let place = named_op(&mut self.trace, "(unnamed op)".to_owned(), None);
        let mut name = None;
        json.object(|json, key| match key {
            "operator_name" => json.scalar().map(|text| name = text),
            "kernels" => json.array(|json| self.kernel(json, Some(place))),
            _ => json.skip(),
        })?;
        if let (Some(op), Some(name)) = (self.trace.ops.get_mut(place), name) {
            op.name = name.into();
        }
        Ok(())
    }

    /// The op that a kernel of a manifest names, in its layer.
    fn owner(&mut self, layer: Option<usize>, name: String) -> usize {
        let trace = &mut self.trace;
        *self
            .owners
            .entry((layer, name))
            .or_insert_with_key(|(layer, name)| named_op(trace, name.clone(), *layer))
    }

    /// The region of a layer.
    fn layer(&mut self, name: String) -> usize {
        let trace = &mut self.trace;
        *self.layers.entry(name).or_insert_with_key(|name| {
            let place = named_op(trace, name.clone(), None);
            trace.ops.get_mut(place).into_iter().for_each(|op| op.kind = OpKind::Region);
            place
        })
    }

    fn kernel(&mut self, json: &mut JsonStream<impl Read>, op: Option<usize>) -> ReadResult<()> {
        let place = self.trace.kernels.len();
        if place >= MAX_KERNELS {
            return Err(ReadError::message(format!("the profile has more than {MAX_KERNELS} kernels")));
        }
        let (mut name, mut begin, mut end) = (None, None, None);
        let (mut device, mut stream, mut grid, mut block) = (None, None, None, None);
        let (mut owner, mut layer) = (None, None);
        json.object(|json, key| {
            match key {
                "kernel_name" => name = json.scalar()?,
                "start_ns" => begin = json.integer()?,
                "end_ns" => end = json.integer()?,
                "device_id" => device = json.integer()?,
                "stream_id" => stream = json.integer()?,
                "grid_dim" => grid = json.extent()?,
                "block_dim" => block = json.extent()?,
                "layer_partition" => layer = json.scalar()?,
                "metrics" => json.object(|json, key| match key {
                    "raw" => json.object(|json, metric| self.counter(json, place, metric)),
                    _ => json.skip(),
                })?,
                "attribution" => json.object(|json, key| match key {
                    // The innermost is first.
                    "source_operators" => {
                        json.array(|json| json.scalar().map(|op| owner = owner.take().or(op)))
                    }
                    _ => json.skip(),
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        let layer = layer.map(|name| self.layer(name));
        let op = op.or_else(|| owner.map(|name| self.owner(layer, name))).or(layer);
        self.trace.kernels.push(TraceKernel {
            process: 0,
            name: name.unwrap_or_else(|| "(unknown kernel)".to_owned()).into(),
            device: device.and_then(|device| i32::try_from(device).ok()).unwrap_or(-1),
            stream: stream.and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0),
            time_ns: begin.zip(end).filter(|(begin, end)| begin <= end),
            grid,
            block,
            registers: None,
            shared_bytes: None,
            correlation: None,
            call: None,
            op,
            ..TraceKernel::default()
        });
        Ok(())
    }

    fn counter(&mut self, json: &mut JsonStream<impl Read>, kernel: usize, metric: &str) -> ReadResult<()> {
        let value = json.scalar()?.and_then(|text| text.parse().ok()).filter(|value: &f64| value.is_finite());
        let unit = if metric.contains("bytes") || metric.contains("duration") || metric.contains("shared_mem")
        {
            UNKNOWN_UNIT
        } else if metric.contains("pct") {
            "percent"
        } else {
            ""
        };
        self.trace.counters.push(TraceCounter {
            kernel,
            metric: metric.into(),
            value,
            unit: unit.to_owned(),
        });
        Ok(())
    }

    fn finish(mut self) -> TraceModel {
        span_ops(&mut self.trace);
        self.trace.tool = "operator profiler";
        self.trace.processes.push(TraceProcess::with_number(0, Instrument::Timeline));
        let unknown = self.trace.counters.iter().filter(|counter| counter.unit == UNKNOWN_UNIT);
        let unknown: BTreeMap<&str, u64> = unknown.fold(BTreeMap::new(), |mut counts, counter| {
            *counts.entry(&*counter.metric).or_default() += 1;
            counts
        });
        let losses = &mut self.trace.losses;
        for (metric, count) in unknown {
            losses.add_many(
                LossKind::Source,
                "values without a unit: the tool drops ncu's scale",
                count,
                Some(metric),
            );
        }
        losses.add_many(
            LossKind::Source,
            "kernels that the tool took for initialization",
            self.initial,
            None,
        );
        if self.trace.counters.is_empty() {
            losses.lacks("hardware counters");
        }
        for part in ["launch calls", "stall samples", "memory accesses", "tensors", "Python stacks", "GPUs"] {
            losses.lacks(part);
        }
        self.trace
    }
}

/// Adds an op. Returns its place.
fn named_op(trace: &mut TraceModel, name: String, parent: Option<usize>) -> usize {
    let place = trace.ops.len();
    let call = TraceCall { thread: place as u64, begin_ns: 0, end_ns: 0 };
    trace.ops.push(TraceOp {
        parent: parent.into(),
        phase: Phase::Forward,
        ..TraceOp::for_call(call, OpKind::Torch, name)
    });
    place
}

/// Ops and their layers span the times of their kernels, because the files have no times of calls.
fn span_ops(trace: &mut TraceModel) {
    let mut extents: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    for kernel in &trace.kernels {
        let (Some(op), Some((begin, end))) = (kernel.op, kernel.time_ns) else { continue };
        for op in [Some(op), trace.ops.get(op).and_then(|op| op.parent.get())].into_iter().flatten() {
            let extent = extents.entry(op).or_insert((begin, end));
            *extent = (extent.0.min(begin), extent.1.max(end));
        }
    }
    for (place, (begin_ns, end_ns)) in extents {
        if let Some(op) = trace.ops.get_mut(place) {
            op.call = TraceCall { begin_ns, end_ns, ..op.call };
        }
    }
}

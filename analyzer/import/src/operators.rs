//! Operator Profiler's profile.json 1.0: kernels with times and counters, by op.

use std::collections::BTreeMap;
use std::io::Read;

use stallmap_console::exit::{Failure, IO, Outcome};
use stallmap_schema::word::{Instrument, LossKind, OpKind, Phase};

use crate::input::Input;
use crate::json::Json;
use crate::model::{Call, Counter, Kernel, Op, Process, Trace};

/// Most kernels of a file.
const MOST_KERNELS: usize = 10_000_000;
/// Byte counters have no unit in the file: ncu scales each value by itself, and the tool drops the scale.
const UNKNOWN_UNIT: &str = "unknown";

/// A profile while it is read.
#[derive(Default)]
struct Reading {
    trace: Trace,
    /// Kernels that the tool left out.
    initial: u64,
}

/// Reads a profile.
pub(crate) fn read(input: &Input) -> Outcome<Trace> {
    let mut reading = Reading::default();
    let mut json = Json::new(input.open_json()?, &input.path);
    json.object(|json, key| match key {
        "schema_version" => reading.fact("operator_profiler.schema_version", json),
        "capture_metadata" => json.object(|json, key| match key {
            "torch_version" | "device_name" | "compile_mode" => {
                reading.fact(&format!("operator_profiler.{key}"), json)
            }
            _ => json.skip(),
        }),
        "operators" => json.array(|json| reading.operator(json)),
        "unattributed_kernels" => json.array(|json| reading.kernel(json, None)),
        "warnings" => json.array(|json| {
            let text = json.scalar()?.unwrap_or_default();
            reading.initial += u64::from(text.contains("initialization kernel"));
            Ok(())
        }),
        _ => json.skip(),
    })?;
    if reading.trace.kernels.is_empty() {
        return Err(Failure::message(IO, format!("`{}` has no kernels", input.path.display()))
            .hint("stallmap reads Operator Profiler's profile.json".to_owned()));
    }
    Ok(reading.finish())
}

impl Reading {
    fn fact(&mut self, name: &str, json: &mut Json<impl Read>) -> Outcome<()> {
        let fact = json.scalar()?;
        self.trace.facts.extend(fact.map(|fact| (name.to_owned(), fact)));
        Ok(())
    }

    /// An op with its kernels. It spans their times, because the file has no times of calls.
    fn operator(&mut self, json: &mut Json<impl Read>) -> Outcome<()> {
        let place = self.trace.ops.len();
        self.trace.ops.push(Op {
            process: 0,
            call: Call { thread: place as u64, begin_ns: 0, end_ns: 0 },
            kind: OpKind::Torch,
            name: "(unnamed op)".to_owned(),
            parent: None,
            phase: Phase::Forward,
            sequence: None,
            forward: None,
            stack: None,
            record: None,
        });
        let first = self.trace.kernels.len();
        let mut name = None;
        json.object(|json, key| match key {
            "operator_name" => json.scalar().map(|text| name = text),
            "kernels" => json.array(|json| self.kernel(json, Some(place))),
            _ => json.skip(),
        })?;
        let times =
            self.trace.kernels.get(first..).unwrap_or_default().iter().filter_map(|kernel| kernel.time_ns);
        let extent = times.reduce(|(begin, end), (other, last)| (begin.min(other), end.max(last)));
        if let Some(op) = self.trace.ops.get_mut(place) {
            op.name = name.unwrap_or_else(|| op.name.clone());
            if let Some((begin_ns, end_ns)) = extent {
                op.call = Call { begin_ns, end_ns, ..op.call };
            }
        }
        Ok(())
    }

    fn kernel(&mut self, json: &mut Json<impl Read>, op: Option<usize>) -> Outcome<()> {
        let place = self.trace.kernels.len();
        if place >= MOST_KERNELS {
            return Err(Failure::message(IO, format!("the profile has more than {MOST_KERNELS} kernels")));
        }
        let (mut name, mut begin, mut end) = (None, None, None);
        let (mut device, mut stream, mut grid, mut block) = (None, None, None, None);
        json.object(|json, key| {
            match key {
                "kernel_name" => name = json.scalar()?,
                "start_ns" => begin = json.integer()?,
                "end_ns" => end = json.integer()?,
                "device_id" => device = json.integer()?,
                "stream_id" => stream = json.integer()?,
                "grid_dim" => grid = json.extent()?,
                "block_dim" => block = json.extent()?,
                "metrics" => json.object(|json, key| match key {
                    "raw" => json.object(|json, metric| self.counter(json, place, metric)),
                    _ => json.skip(),
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        self.trace.kernels.push(Kernel {
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
            ..Kernel::default()
        });
        Ok(())
    }

    fn counter(&mut self, json: &mut Json<impl Read>, kernel: usize, metric: &str) -> Outcome<()> {
        let value = json.scalar()?.and_then(|text| text.parse().ok()).filter(|value: &f64| value.is_finite());
        let unit = if metric.contains("bytes") || metric.contains("duration") || metric.contains("shared_mem")
        {
            UNKNOWN_UNIT
        } else if metric.contains("pct") {
            "percent"
        } else {
            ""
        };
        self.trace.counters.push(Counter { kernel, metric: metric.into(), value, unit: unit.to_owned() });
        Ok(())
    }

    fn finish(mut self) -> Trace {
        self.trace.tool = "operator profiler";
        self.trace.processes.push(Process::of(0, Instrument::Timeline));
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
        for part in ["launch calls", "stall samples", "memory accesses", "tensors", "Python stacks", "GPUs"] {
            losses.lacks(part);
        }
        self.trace
    }
}

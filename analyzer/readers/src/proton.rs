//! Profiles of Proton: a tree of call paths in Hatchet's format, as JSON or MessagePack, with sums of kernels per path.
//!
//! A path has a number of launches and the sum of their times. Each launch becomes a row with its share of the sum, in
//! whole nanoseconds: numbers, sums and means are those of the profile, and a loss counts the launches without an own time.

pub(crate) mod cycles;
pub(crate) mod paths;

use std::io::Read;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::json::JsonStream;
use crate::formats::msgpack;
use stallmap_schema::word::LossKind;

use crate::model::{TraceDevice, TraceLosses, TraceModel};

/// Most nodes of a tree. Each takes up to 300 bytes of memory.
const MAX_NODES: usize = 1 << 22;
/// Most bytes of a name.
const MAX_NAME_BYTES: usize = 64 << 10;
/// Levels of JSON. A node has two of them: its object, and the list of its children.
pub(crate) const MAX_LEVELS: u32 = 640;

/// A node of the tree: a scope, a Python frame, a kernel or a line of code.
#[derive(Debug, Default)]
struct ScopeNode {
    parent: Option<usize>,
    name: Rc<str>,
    /// Launches of a kernel.
    count: Option<i64>,
    /// The sum of their times.
    time_ns: Option<i64>,
    device: Option<i32>,
    /// Cycles of a scope inside of a kernel: of all its warps, and of one.
    cycles: Option<f64>,
    normalized_cycles: Option<f64>,
    /// Other metrics that are numbers.
    metrics: Vec<(Rc<str>, f64)>,
}

impl ScopeNode {
    /// Launches and the sum of their times, if the node is a kernel. Many that take less than a nanosecond each are none.
    fn launches(&self) -> Option<(u64, u64)> {
        let (count, time_ns) = self.count.zip(self.time_ns)?;
        let (count, time_ns) = (u64::try_from(count).ok()?, u64::try_from(time_ns).ok()?);
        (count > 0 && count <= time_ns.max(paths::MAX_LAUNCHES)).then_some((count, time_ns))
    }
}

/// A profile while it is read. A node stands behind its parent.
#[derive(Default)]
struct ProtonReader {
    nodes: Vec<ScopeNode>,
    devices: Vec<TraceDevice>,
    losses: TraceLosses,
}

/// Reads a profile in MessagePack.
pub(crate) fn read_packed(input: &ImportInput) -> ReadResult<TraceModel> {
    let text = msgpack::to_json(input)?;
    read(&mut JsonStream::nested(text.as_slice(), &input.path, MAX_LEVELS))
}

/// Reads a profile. A node has two levels of JSON.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut reading = ProtonReader::default();
    json.document(|json| reading.roots(json))?;
    let is_sampled = |node: &ScopeNode| node.metrics.iter().any(|(name, _)| &**name == "num_samples");
    let is_sampled = reading.nodes.iter().any(is_sampled);
    let trace = paths::trace(reading);
    if !trace.kernels.is_empty() {
        return Ok(trace);
    }
    let (what, hint) = if is_sampled {
        (
            "has samples of call paths, and no kernels with `count` and `time (ns)`",
            "profile without `mode=\"pcsampling\"`. `stallmap record` samples instructions",
        )
    } else {
        ("has no kernels", "stallmap reads Proton's profiles of the formats `hatchet` and `hatchet_msgpack`")
    };
    let message = format!("`{}` {what}", json.path().display());
    Err(ReadError::message(message).hint(hint.to_owned()))
}

impl ProtonReader {
    fn roots(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        if json.is_array()? { json.array(|json| self.node(json, None)) } else { self.node(json, None) }
    }

    /// Reads a node and those below it. The file's GPUs stand where a root does.
    fn node(&mut self, json: &mut JsonStream<impl Read>, parent: Option<usize>) -> ReadResult<()> {
        let place = self.nodes.len();
        if place >= MAX_NODES {
            let message = format!("the profile has more than {MAX_NODES} nodes");
            return Err(ReadError::message(message).hint("profile fewer steps".to_owned()));
        }
        self.nodes.push(ScopeNode { parent, ..ScopeNode::default() });
        json.object(|json, key| match key {
            "frame" => self.frame(json, place),
            "metrics" => json.object(|json, metric| self.metric(json, place, metric)),
            "children" => json.array(|json| self.node(json, Some(place))),
            "CUDA" | "HIP" if parent.is_none() => json.object(|json, ordinal| self.device(json, ordinal)),
            _ => self.unknown(json, key),
        })
    }

    fn unknown(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        self.losses.add(LossKind::Source, "keys of the imported file that are not read", Some(key));
        json.skip()
    }

    fn frame(&mut self, json: &mut JsonStream<impl Read>, place: usize) -> ReadResult<()> {
        json.object(|json, key| match key {
            "name" => {
                let mut name = json.scalar()?.unwrap_or_default();
                if name.len() > MAX_NAME_BYTES {
                    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
                    self.losses.add(LossKind::Source, "names longer than 64 KiB, cut there", None);
                }
                self.change(place, |node| node.name = name.into());
                Ok(())
            }
            "type" => json.skip(),
            _ => self.unknown(json, key),
        })
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut ScopeNode)) {
        if let Some(node) = self.nodes.get_mut(place) {
            change(node);
        }
    }

    fn metric(&mut self, json: &mut JsonStream<impl Read>, place: usize, metric: &str) -> ReadResult<()> {
        if json.is_array()? {
            self.losses.add(LossKind::Source, "metrics with several values", Some(metric));
            return json.skip();
        }
        match metric {
            "cycles" | "normalized_cycles" => {
                let value = json.scalar()?.and_then(|text| text.parse().ok());
                let value = value.filter(|value: &f64| value.is_finite());
                let is_sum = metric == "cycles";
                self.change(place, |node| {
                    *(if is_sum { &mut node.cycles } else { &mut node.normalized_cycles }) = value;
                });
            }
            "time (ns)" => {
                let time_ns = json.integer()?;
                self.change(place, |node| node.time_ns = time_ns);
            }
            "count" => {
                let count = json.integer()?;
                self.change(place, |node| node.count = count);
            }
            "device_id" => {
                let device = json.integer()?.and_then(|device| i32::try_from(device).ok());
                self.change(place, |node| node.device = device);
            }
            "device_type" => json.skip()?,
            "num_samples" => {
                let samples = json.integer()?.and_then(|samples| u64::try_from(samples).ok()).unwrap_or(0);
                self.losses.add_many(
                    LossKind::Sample,
                    "samples of source lines: the profile has no instructions",
                    samples,
                    None,
                );
            }
            // Parts of the samples that are counted above.
            _ if metric.starts_with("stalled_") || metric == "num_stalled_samples" => json.skip()?,
            _ => self.number(json, place, metric)?,
        }
        Ok(())
    }

    fn number(&mut self, json: &mut JsonStream<impl Read>, place: usize, metric: &str) -> ReadResult<()> {
        let value = json.scalar()?.and_then(|text| text.parse().ok()).filter(|value: &f64| value.is_finite());
        match value {
            Some(value) => self.change(place, |node| node.metrics.push((metric.into(), value))),
            None => self.losses.add(LossKind::Source, "metrics whose value is not a number", Some(metric)),
        }
        Ok(())
    }

    fn device(&mut self, json: &mut JsonStream<impl Read>, ordinal: &str) -> ReadResult<()> {
        let mut device = TraceDevice { ordinal: ordinal.parse().unwrap_or(-1), ..TraceDevice::default() };
        let small = |value: Option<i64>| value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0);
        json.object(|json, key| {
            match key {
                "arch" => {
                    let name = json.scalar()?.unwrap_or_default();
                    // The last digit of NVIDIA's architectures is the minor number. AMD's are names.
                    let arch: Option<i32> = name.parse().ok();
                    device.compute = arch.map_or((0, 0), |arch| (arch / 10, arch % 10));
                    device.name = if arch.is_some() { format!("sm_{name}") } else { name };
                }
                "num_sms" => device.multiprocessors = small(json.integer()?),
                "clock_rate" => device.clocks_khz.0 = small(json.integer()?),
                "memory_clock_rate" => device.clocks_khz.1 = small(json.integer()?),
                "bus_width" => json.skip()?,
                _ => self.unknown(json, key)?,
            }
            Ok(())
        })?;
        self.devices.push(device);
        Ok(())
    }
}

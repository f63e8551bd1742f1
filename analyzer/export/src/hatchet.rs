//! Hatchet's literal as Proton writes it: a tree of frames with exclusive metrics, then the devices.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

use crate::source::{ExportSource, FileFormat, json as document};
use crate::stack::{CallStack, StackSource};

/// Hatchet.
pub(crate) const FORMAT: FileFormat = FileFormat { queries: &[queries::STACKS, queries::DEVICES], write };

/// Metrics of captures with samples: viewers read those of the root.
const SAMPLES: [&str; 2] = ["num_samples", "num_stalled_samples"];
/// Metrics of times, and of launches with a time and without samples.
const TIME: &str = "time (ns)";
const COUNT: &str = "count";
/// The reason of warps that issue: they are samples, and do not stall.
const ISSUING: &str = "selected";

rows! {
    /// A GPU.
    struct HatchetDevice {
        id: i64 as "device_id",
        compute_major: i64,
        compute_minor: i64,
        multiprocessor_count: i64,
        sm_clock_khz: i64,
        memory_clock_khz: i64,
    }
}

/// A frame with its own metrics.
#[derive(Default)]
struct HatchetNode {
    metrics: BTreeMap<String, f64>,
    children: BTreeMap<String, HatchetNode>,
}

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let stacks = StackSource::read(source)?;
    let devices: Vec<HatchetDevice> = source.read(queries::DEVICES)?;
    let mut root = HatchetNode::default();
    // Viewers sum a metric only if the root has it.
    let reasons = stacks.rows.iter().filter_map(|stack| stack.stall_reason.as_deref());
    root.metrics.extend(reasons.map(|name| (reason(name), 0.0)));
    let is_counted = stacks.rows.iter().any(|stack| stack.launches > 0);
    let known = SAMPLES.map(|name| (name, stacks.has_samples)).into_iter();
    let known = known.chain([(TIME, true), (COUNT, is_counted)]).filter(|(_, is_known)| *is_known);
    root.metrics.extend(known.map(|(name, _)| (name.to_owned(), 0.0)));
    for stack in &stacks.rows {
        root.add(stack);
    }
    document(&json!([root.literal("ROOT"), { "CUDA": described(&devices) }]))
}

/// The metric of a stall reason.
fn reason(name: &str) -> String {
    format!("stalled_{name}")
}

impl HatchetNode {
    /// Adds the samples of a stack to the node of its object.
    fn add(&mut self, stack: &CallStack) {
        let mut node = self;
        let mut path = stack.kernel_path();
        path.extend(stack.object());
        for frame in path {
            let name = if frame.file.is_empty() || frame.name.starts_with(&frame.file) {
                frame.name
            } else {
                format!("{}:{}@{}", frame.file, frame.line, frame.name)
            };
            node = node.children.entry(name).or_default();
        }
        let mut add = |name: &str, value: f64| *node.metrics.entry(name.to_owned()).or_default() += value;
        if let Some(name) = &stack.stall_reason {
            add(SAMPLES[0], stack.samples);
            if name != ISSUING {
                add(SAMPLES[1], stack.samples);
            }
            add(&reason(name), stack.samples);
        }
        if let Some(time) = stack.time_ns {
            add(TIME, time);
        }
        if stack.launches > 0 {
            add(COUNT, stack.launches as f64);
        }
    }

    fn literal(&self, name: &str) -> Value {
        let children: Vec<Value> = self.children.iter().map(|(name, node)| node.literal(name)).collect();
        json!({ "frame": { "name": name, "type": "function" }, "metrics": self.metrics, "children": children })
    }
}

fn described(devices: &[HatchetDevice]) -> Map<String, Value> {
    let device = |device: &HatchetDevice| {
        let value = json!({
            "arch": format!("{}{}", device.compute_major, device.compute_minor),
            "clock_rate": device.sm_clock_khz,
            "memory_clock_rate": device.memory_clock_khz,
            "num_sms": device.multiprocessor_count,
        });
        (device.id.to_string(), value)
    };
    devices.iter().map(device).collect()
}

//! Hatchet's literal as Proton writes it: a tree of frames with exclusive metrics, then the devices.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

use crate::source::{ExportSource, FileFormat, json as document};
use crate::stack::CallStack;

/// Hatchet.
pub(crate) const FORMAT: FileFormat = FileFormat { queries: &[queries::STACKS, queries::DEVICES], write };

/// Metrics of every file: viewers read those of the root.
const METRICS: [&str; 3] = ["num_samples", "num_stalled_samples", "time (ns)"];
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
    let stacks: Vec<CallStack> = source.read(queries::STACKS)?;
    let devices: Vec<HatchetDevice> = source.read(queries::DEVICES)?;
    let mut root = HatchetNode::default();
    // Viewers sum a metric only if the root has it.
    for name in
        METRICS.map(str::to_owned).into_iter().chain(stacks.iter().map(|stack| reason(&stack.stall_reason)))
    {
        root.metrics.insert(name, 0.0);
    }
    for stack in &stacks {
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
        path.extend(stack.path().pop());
        for frame in path {
            let name = if frame.file.is_empty() || frame.name.starts_with(&frame.file) {
                frame.name
            } else {
                format!("{}:{}@{}", frame.file, frame.line, frame.name)
            };
            node = node.children.entry(name).or_default();
        }
        let mut add = |name: &str, value: f64| *node.metrics.entry(name.to_owned()).or_default() += value;
        add("num_samples", stack.samples);
        if stack.stall_reason != ISSUING {
            add("num_stalled_samples", stack.samples);
        }
        add(&reason(&stack.stall_reason), stack.samples);
        if let Some(time) = stack.time_ns {
            add("time (ns)", time);
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

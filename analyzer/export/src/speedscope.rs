//! speedscope's file format: several weights over one list of frames.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;

use crate::source::{ExportSource, FileFormat, json as document};
use crate::stack::{CallFrame, CallStack, StackSource};

/// speedscope.
pub(crate) const FORMAT: FileFormat = FileFormat { queries: &[queries::STACKS], write };

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let stacks = StackSource::read(source)?;
    let mut frames: BTreeMap<CallFrame, usize> = BTreeMap::new();
    let mut samples = Vec::new();
    let mut named = Vec::new();
    for stack in &stacks.rows {
        let path = stack.path().into_iter().map(|frame| {
            let next = frames.len();
            *frames.entry(frame.clone()).or_insert_with(|| {
                named.push(described(&frame));
                next
            })
        });
        samples.push(path.collect::<Vec<usize>>());
    }
    let weighed = |name: &str, unit: &str, weight: &dyn Fn(&CallStack) -> f64| {
        let weights: Vec<f64> = stacks.rows.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        json!({
            "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": total,
            "samples": samples, "weights": weights,
        })
    };
    let mut profiles = Vec::new();
    if stacks.has_samples {
        profiles.push(weighed("samples", "none", &|stack| stack.samples));
        profiles.push(weighed("memory samples", "none", &|stack| stack.memory_samples));
    }
    // Without a clock or a period in the capture, time is not known.
    if stacks.has_time {
        profiles.push(weighed("GPU time", "nanoseconds", &|stack| stack.time_ns.unwrap_or(0.0)));
    }
    document(&json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("stallmap ", env!("CARGO_PKG_VERSION")),
        "name": "stallmap",
        "activeProfileIndex": 0,
        "shared": { "frames": named },
        "profiles": profiles,
    }))
}

/// A frame without the parts that are not known.
fn described(frame: &CallFrame) -> Value {
    if frame.file.is_empty() {
        json!({ "name": frame.name })
    } else {
        json!({ "name": frame.name, "file": frame.file, "line": frame.line })
    }
}

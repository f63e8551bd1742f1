//! Readers of other tools' recordings: one module per format, each from a file to the same model.
//!
//! ```text
//! file ──> formats (JSON, packets, …) ──> kineto, nsys, snapshot, ncu, … ──> model (Trace)
//! ```
//!
//! A source fills the parts that it has data for. Everything else is null or empty, and a loss names it. A file is data
//! from elsewhere: it is read in bounds, and an error names the file and the position.

mod cutracer;
mod execution;
mod join;
mod kineto;
pub mod model;
pub mod name;
mod ncu;
mod nest;
mod nsys;
mod operators;
mod proton;
mod report;
mod rocprof;
mod snapshot;

use stallmap_console::exit::{Failure, Outcome, USAGE};

use stallmap_formats::input::{Form, Input};
use stallmap_formats::json::Json;

use model::Trace;

/// Reads a file. Its content decides the tool.
pub fn read(input: &Input) -> Outcome<Trace> {
    match input.form {
        Form::Json => read_json(input),
        Form::Sqlite | Form::Folder => nsys::read(input),
        Form::Pickle => snapshot::read(input),
        Form::MessagePack => proton::read(input),
        Form::Packets => kineto::packets::read(input),
        Form::Report => report::read(input),
        Form::Text => ncu::read(input),
    }
}

/// Reads JSON: its keys decide the tool.
fn read_json(input: &Input) -> Outcome<Trace> {
    let mut json = Json::new(input.open_json()?, &input.path);
    let known = [
        "traceEvents",
        "ph",
        "operators",
        "unattributed_kernels",
        "kernels",
        "frame",
        "children",
        "metrics",
        "nodes",
        "grid_launch_id",
        "kernel_launch_id",
        "kernel_checksum",
        "callstack_id",
        "rocprofiler-sdk-tool",
        "entries",
    ];
    match json.first_key(&known)?.as_deref() {
        Some("operators" | "unattributed_kernels" | "kernels") => operators::read(input),
        Some("frame" | "children" | "metrics") => proton::read(input),
        Some("nodes") => execution::read(input),
        Some("rocprofiler-sdk-tool") => rocprof::read(input),
        Some("grid_launch_id" | "kernel_launch_id" | "kernel_checksum" | "callstack_id") => {
            cutracer::read(input)
        }
        Some("entries") => operators::correlation::read(input),
        Some(_) => kineto::read(input),
        None => operators::layers::read(input)?.map_or_else(|| kineto::read(input), Ok),
    }
}

/// Joins recordings of the same run. Other pairs of files are an error of usage.
pub fn join(first: Trace, second: Trace) -> Outcome<Trace> {
    let tools = (first.tool, second.tool);
    match tools {
        ("kineto", "execution trace") => Some(execution::join(first, second)),
        ("execution trace", "kineto") => Some(execution::join(second, first)),
        ("kineto", "kineto") => kineto::graph::join(first, second),
        ("operator profiler", operators::correlation::TOOL) => {
            Some(operators::correlation::join(first, &second))
        }
        ("operator profiler", operators::layers::TOOL) => Some(operators::layers::join(first, second)),
        _ => None,
    }
    .ok_or_else(|| {
        Failure::message(USAGE, format!("these files of {} and {} are not joined", tools.0, tools.1))
            .hint("import each file by itself, and compare captures with `stallmap diff`".to_owned())
    })
}

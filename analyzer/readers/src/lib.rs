//! Readers of other tools' recordings: one module per format, each from a file to the same model.
//!
//! ```text
//! file ──> formats (JSON, packets, …) ──> kineto, nsys, snapshot, ncu, … ──> model (Trace)
//! ```
//!
//! A source fills the parts that it has data for. Everything else is null or empty, and a loss names it. A file is data
//! from elsewhere: it is read in bounds, and an error names the file and the position.

mod cutracer;
mod damage;
pub mod error;
mod execution;
pub mod formats;
mod kineto;
mod ncu;
mod nsys;
mod operators;
mod proton;
mod report;
mod rocpd;
mod rocprof;
mod snapshot;
pub mod trace;
mod xplane;

use crate::error::{ReadError, ReadResult};

use crate::formats::input::{FileForm, ImportInput};
use crate::formats::json::JsonStream;
use crate::trace::{join, model, name, nest, stacks};

use model::{TraceModel, TraceProcess};

/// Keys that decide the tool of a JSON file.
const KEYS: [&str; 15] = [
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

/// Reads a file. Its content decides the tool.
pub fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let mut trace = match input.form {
        FileForm::Json => read_json(input),
        FileForm::Sqlite | FileForm::Folder => nsys::read(input),
        FileForm::ArrowTables => kineto::tables::read_archive(input),
        FileForm::SystemsReport => nsys::export::read(input),
        FileForm::Pickle => snapshot::read(input),
        FileForm::MessagePack => proton::read_packed(input),
        FileForm::Packets => kineto::packets::read(input),
        FileForm::Space => xplane::read(input),
        FileForm::Report => report::read(input),
        FileForm::Text => ncu::read(input),
    }?;
    trace.keep_first_counters();
    Ok(trace)
}

/// Reads JSON: its keys decide the tool. What is not JSON in it is a loss.
fn read_json(input: &ImportInput) -> ReadResult<TraceModel> {
    let open = || Ok(JsonStream::nested(input.open()?, &input.path, proton::MAX_LEVELS));
    let key = open()?.first_key(&KEYS)?;
    if matches!(
        key.as_deref(),
        Some("grid_launch_id" | "kernel_launch_id" | "kernel_checksum" | "callstack_id")
    ) {
        return cutracer::read(input);
    }
    let mut json = open()?;
    let result = match key.as_deref() {
        Some("operators" | "unattributed_kernels" | "kernels") => operators::read(&mut json),
        Some("frame" | "children" | "metrics") => proton::read(&mut json),
        Some("nodes") => execution::read(&mut json),
        Some("rocprofiler-sdk-tool") => rocprof::read(&mut json),
        Some("entries") => operators::correlation::read(&mut json),
        Some(_) if proton::cycles::is_trace(input)? => proton::cycles::read_trace(&mut json),
        Some(_) => kineto::read(&mut json),
        None => {
            if let Some(layers) = operators::layers::read(&mut json)? {
                Ok(layers)
            } else {
                json = open()?;
                kineto::read(&mut json)
            }
        }
    };
    // Where nothing is left of a file, the place where it breaks is the reason.
    let mut trace = result.map_err(|failure| json.failure().unwrap_or(failure))?;
    damage::add_damage(&mut trace.losses, json.damage());
    Ok(trace)
}

/// Joins recordings of the processes of one program, such as ranks.
fn join_processes(mut first: TraceModel, second: TraceModel) -> ReadResult<TraceModel> {
    // A program may have the name of its host, whose numbers are its own.
    let is_one = |own: &TraceProcess, other: &TraceProcess| {
        (own.number, own.rank, &own.program) == (other.number, other.rank, &other.program)
    };
    let is_known = |process: &TraceProcess| first.processes.iter().any(|own| is_one(own, process));
    if second.processes.iter().any(is_known) {
        let message =
            "these traces are of one process, and none is the capture of a graph that the other launches";
        return Err(ReadError::usage(message).hint(
            "files of ranks without their ranks in them need names such as `rank0.json`. Import other files each by \
             itself, and compare captures with `stallmap diff`"
                .to_owned(),
        ));
    }
    first.append_file(second);
    Ok(first)
}

/// Joins recordings of the same run. Other pairs of files are an error of usage.
pub fn join(first: TraceModel, second: TraceModel) -> ReadResult<TraceModel> {
    let tools = (first.tool, second.tool);
    match tools {
        ("kineto", "execution trace") => Ok(execution::join(first, second)),
        ("execution trace", "kineto") => Ok(execution::join(second, first)),
        ("kineto", "kineto") => kineto::join(first, second),
        ("nsys", "nsys") | (xplane::TOOL, xplane::TOOL) => join_processes(first, second),
        ("operator profiler", operators::correlation::TOOL) => {
            Ok(operators::correlation::join(first, &second))
        }
        ("operator profiler", operators::layers::TOOL) => Ok(operators::layers::join(first, second)),
        _ => Err(ReadError::usage(format!("these files of {} and {} are not joined", tools.0, tools.1))
            .hint("import each file by itself, and compare captures with `stallmap diff`".to_owned())),
    }
}

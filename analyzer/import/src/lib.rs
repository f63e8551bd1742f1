//! `stallmap import`: recordings of other tools as captures.
//!
//! ```text
//! file ──> input (form, bounds, hash) ──> kineto, nsys, snapshot, ncu, … ──> model (Trace) ──> write ──> capture
//! ```
//!
//! A source fills the tables that it has data for. Everything else is null or empty, and a row of `loss` names it. A file
//! is data from elsewhere: it is read in bounds, and an error names the file and the position.

mod cutracer;
mod decimal;
mod execution;
mod input;
mod join;
mod json;
mod kineto;
mod model;
mod msgpack;
mod name;
mod ncu;
mod nest;
mod nsys;
mod operators;
mod pickle;
mod proton;
mod rocprof;
mod snapshot;
mod write;

use stallmap_console::args::import::Import;
use stallmap_console::exit::{Failure, IO, OK, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::progress::Progress;

use input::{Form, Input};
use json::Json;
use model::Trace;

/// Reads a file, and writes a capture.
pub fn run(args: &Import) -> Outcome {
    if args.output.symlink_metadata().is_ok() {
        return Err(Failure::message(IO, format!("`{}` exists", args.output.display()))
            .hint("choose another name or remove the file".to_owned()));
    }
    let [path, more @ ..] = args.files.as_slice() else {
        return Err(Failure::message(USAGE, "no file to import"));
    };
    let progress = Progress::start(format!("reading {}", path.display()));
    let input = Input::of(path)?;
    let mut trace = read(&input)?;
    let mut inputs = vec![input];
    for path in more {
        progress.say(format!("reading {}", path.display()));
        let input = Input::of(path)?;
        trace = join(trace, read(&input)?)?;
        inputs.push(input);
    }
    progress.say(format!("writing {}", args.output.display()));
    let rates = match &args.into {
        Some(capture) => Some(write::into(&trace, &inputs, capture, &args.output)?),
        None => write::write(&trace, &inputs, &args.output).map(|()| None)?,
    };
    drop(progress);
    summarize(&trace);
    if let Some(rates) = rates {
        output::note(format_args!("{rates}"));
    }
    output::note(format_args!("wrote {}", args.output.display()));
    Ok(OK)
}

fn read(input: &Input) -> Outcome<Trace> {
    match input.form {
        Form::Json => read_json(input),
        Form::Sqlite | Form::Folder => nsys::read(input),
        Form::Pickle => snapshot::read(input),
        Form::MessagePack => proton::read(input),
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
    ];
    match json.first_key(&known)?.as_deref() {
        Some("operators" | "unattributed_kernels" | "kernels") => operators::read(input),
        Some("frame" | "children" | "metrics") => proton::read(input),
        Some("nodes") => execution::read(input),
        Some("rocprofiler-sdk-tool") => rocprof::read(input),
        Some("grid_launch_id" | "kernel_launch_id" | "kernel_checksum" | "callstack_id") => {
            cutracer::read(input)
        }
        _ => kineto::read(input),
    }
}

/// Joins recordings of the same run.
fn join(first: Trace, second: Trace) -> Outcome<Trace> {
    let tools = (first.tool, second.tool);
    match tools {
        ("kineto", "execution trace") => Some(execution::join(first, second)),
        ("execution trace", "kineto") => Some(execution::join(second, first)),
        ("kineto", "kineto") => kineto::graph::join(first, second),
        _ => None,
    }
    .ok_or_else(|| {
        Failure::message(USAGE, format!("these files of {} and {} are not joined", tools.0, tools.1))
            .hint("import each file by itself, and compare captures with `stallmap diff`".to_owned())
    })
}

/// Says what was read, and what was not.
fn summarize(trace: &Trace) {
    let count = |count: usize| grouped(i128::try_from(count).unwrap_or(i128::MAX));
    output::note(format_args!(
        "read from {}: {} kernels, {} copies, fills and waits, {} ops, {} allocations, {} counters",
        trace.tool,
        count(trace.kernels.len()),
        count(trace.works.len()),
        count(trace.ops.len()),
        count(trace.storages.len()),
        count(trace.counters.len()),
    ));
    if !trace.accesses.is_empty() {
        output::note(format_args!("{} rows of memory accesses", count(trace.accesses.len())));
    }
    for (_, reason, number, detail) in trace.losses.rows() {
        let detail = detail.map(|detail| format!(" (such as {detail})")).unwrap_or_default();
        output::note(format_args!("left out: {reason}: {}{detail}", grouped(number.into())));
    }
}

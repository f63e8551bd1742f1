//! `stallmap import`: recordings of other tools as captures.
//!
//! ```text
//! file ──> readers (Trace) ──> join ──> write ──> capture
//! ```

mod bound;
mod ranks;
mod write;

use std::path::PathBuf;

use stallmap_console::args::import::ImportArgs;
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_readers::error::{ReadError, ReadResult};
use stallmap_readers::formats::input::ImportInput;
use stallmap_readers::trace::model::TraceModel;
use stallmap_readers::{join, read};

/// Reads a file, and writes a capture.
pub fn run(args: &ImportArgs) -> Outcome {
    if args.output.symlink_metadata().is_ok() {
        return Err(CommandFailure::message(IO, format!("`{}` exists", args.output.display()))
            .hint("choose another name or remove the file".to_owned()));
    }
    let [path, ..] = args.files.as_slice() else {
        return Err(CommandFailure::message(USAGE, "no file to import"));
    };
    let progress = ProgressSpinner::start("reading");
    let (mut trace, inputs) = read_all(&args.files, &progress).map_err(failure)?;
    if trace.processes.is_empty() {
        let message = format!("`{}` is of {}, and has no kernels and no ops", path.display(), trace.tool);
        return Err(
            CommandFailure::message(IO, message).hint("give the file that it belongs to first".to_owned())
        );
    }
    let alignment = ranks::join(&mut trace);
    bound::texts(&mut trace);
    bound::numbers(&mut trace);
    progress.say(format!("writing {}", args.output.display()));
    let rates = match &args.into {
        Some(capture) => Some(write::into(&trace, &inputs, capture, &args.output)?),
        None => write::write(&trace, &inputs, &args.output).map(|()| None)?,
    };
    drop(progress);
    summarize(&trace);
    alignment.iter().for_each(ranks::say);
    if let Some(rates) = rates {
        output::note(format_args!("{rates}"));
    }
    output::wrote(&args.output);
    Ok(OK)
}

/// Reads files of one recording, or of its ranks, as one.
fn read_all(paths: &[PathBuf], progress: &ProgressSpinner) -> ReadResult<(TraceModel, Vec<ImportInput>)> {
    let names: Vec<Option<u32>> = paths.iter().map(|path| ranks::rank_of_name(path)).collect();
    let ranks = ranks::distinct(&names);
    let mut trace = None;
    let mut inputs = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        progress.say(format!("reading {}", path.display()));
        let input = ImportInput::from_path(path)?;
        let read = ranks::with_rank(read(&input)?, ranks.get(index).copied());
        trace = Some(match trace {
            None => read,
            Some(trace) => join(trace, read)?,
        });
        inputs.push(input);
    }
    Ok((trace.unwrap_or_default(), inputs))
}

/// A command's failure for a recording that cannot be read.
fn failure(error: ReadError) -> CommandFailure {
    let code = if error.is_usage { USAGE } else { IO };
    CommandFailure::new(code, error.cause).hint(error.hint)
}

/// Says what was read, and what was not.
fn summarize(trace: &TraceModel) {
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
    if !trace.samples.is_empty() {
        let samples: u64 = trace.samples.iter().map(|sample| sample.samples).sum();
        output::note(format_args!(
            "{} samples of instructions, {} cubins",
            grouped(samples.into()),
            trace.cubins.len()
        ));
    }
    for (_, reason, number, detail) in trace.losses.rows() {
        let detail = detail.map(|detail| format!(" (such as {detail})")).unwrap_or_default();
        output::note(format_args!("left out: {reason}: {}{detail}", grouped(number.into())));
    }
}

//! `stallmap import`: recordings of other tools as captures.
//!
//! ```text
//! file ──> readers (Trace) ──> join ──> write ──> capture
//! ```

mod bound;
mod ranks;
mod write;

use stallmap_console::args::import::ImportArgs;
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_readers::formats::input::ImportInput;
use stallmap_readers::trace::model::TraceModel;
use stallmap_readers::{join, read};

/// Reads a file, and writes a capture.
pub fn run(args: &ImportArgs) -> Outcome {
    if args.output.symlink_metadata().is_ok() {
        return Err(CommandFailure::message(IO, format!("`{}` exists", args.output.display()))
            .hint("choose another name or remove the file".to_owned()));
    }
    let [path, more @ ..] = args.files.as_slice() else {
        return Err(CommandFailure::message(USAGE, "no file to import"));
    };
    let progress = ProgressSpinner::start(format!("reading {}", path.display()));
    let input = ImportInput::from_path(path)?;
    let names: Vec<Option<u32>> = args.files.iter().map(|path| ranks::rank_of_name(path)).collect();
    let ranks = ranks::distinct(&names);
    let mut trace = ranks::with_rank(read(&input)?, ranks.first().copied());
    let mut inputs = vec![input];
    for (place, path) in more.iter().enumerate() {
        progress.say(format!("reading {}", path.display()));
        let input = ImportInput::from_path(path)?;
        trace = join(trace, ranks::with_rank(read(&input)?, ranks.get(place + 1).copied()))?;
        inputs.push(input);
    }
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

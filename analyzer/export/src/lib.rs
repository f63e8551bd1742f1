//! `stallmap export`: files of other tools, from queries in `sql/queries/export`. Each format is a file here.
//!
//! ```text
//! queries ──> source (typed rows) ──> stack, timeline ──> one format ──> a file
//! ```
//!
//! A format only converts rows. Its numbers are those of its queries, and `--sql` prints them.

mod chrome;
mod firefox;
mod folded;
mod folder;
mod hatchet;
mod operators;
mod perfetto;
mod pickle;
mod pprof;
mod proto;
mod round;
mod sarif;
mod snapshot;
mod source;
mod speedscope;
mod stack;
mod tables;
mod tenprof;
mod timeline;

use stallmap_console::args::export::{Export, Form};
use stallmap_console::context::Context;
use stallmap_console::exit::Outcome;

/// Writes the files of a form.
pub fn run(context: &Context, args: &Export) -> Outcome {
    match &args.form {
        Form::Perfetto(file) => perfetto::FORMAT.run(context, file),
        Form::Kineto(file) => chrome::FORMAT.run(context, file),
        Form::Speedscope(file) => speedscope::FORMAT.run(context, file),
        Form::Pprof(file) => pprof::FORMAT.run(context, file),
        Form::Firefox(file) => firefox::FORMAT.run(context, file),
        Form::Hatchet(file) => hatchet::FORMAT.run(context, file),
        Form::MemorySnapshot(file) => snapshot::FORMAT.run(context, file),
        Form::OperatorProfiler(file) => operators::FORMAT.run(context, file),
        Form::Sarif(file) => sarif::FORMAT.run(context, file),
        Form::Parquet(folder) => tables::run(context, folder),
        Form::Tenprof(folder) => tenprof::run(context, folder),
        Form::Folded(args) => folded::run(context, args),
    }
}

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

use stallmap_console::args::export::{ExportArgs, ExportForm};
use stallmap_console::context::CommandContext;
use stallmap_console::exit::Outcome;

/// Writes the files of a form.
pub fn run(context: &CommandContext, args: &ExportArgs) -> Outcome {
    match &args.form {
        ExportForm::Perfetto(file) => perfetto::FORMAT.run(context, file),
        ExportForm::Kineto(file) => chrome::FORMAT.run(context, file),
        ExportForm::Speedscope(file) => speedscope::FORMAT.run(context, file),
        ExportForm::Pprof(file) => pprof::FORMAT.run(context, file),
        ExportForm::Firefox(file) => firefox::FORMAT.run(context, file),
        ExportForm::Hatchet(file) => hatchet::FORMAT.run(context, file),
        ExportForm::MemorySnapshot(file) => snapshot::FORMAT.run(context, file),
        ExportForm::OperatorProfiler(file) => operators::FORMAT.run(context, file),
        ExportForm::Sarif(file) => sarif::FORMAT.run(context, file),
        ExportForm::Parquet(folder) => tables::run(context, folder),
        ExportForm::Tenprof(folder) => tenprof::run(context, folder),
        ExportForm::Folded(args) => folded::run(context, args),
    }
}

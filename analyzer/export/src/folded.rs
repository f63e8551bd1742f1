//! Folded stacks: one call path per line with its samples, for flame graph programs.

use stallmap::library::queries::export as queries;
use stallmap_console::args::export::FoldedExport;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::output::file::save;
use stallmap_console::output::{self, print, print_data};
use stallmap_console::rows;

use crate::source::ExportSource;

rows! {
    /// A call path and its samples.
    struct FoldedStack {
        stack: Option<String>,
        samples: Option<i64>,
    }
}

/// Writes the stacks to a file or standard output, or prints their query.
pub(crate) fn run(context: &CommandContext, args: &FoldedExport) -> Outcome {
    if args.sql {
        return print(&queries::FOLDED.sql(&[])).map(|()| OK);
    }
    let stacks: Vec<FoldedStack> = ExportSource::open(context, &args.capture)?.read(queries::FOLDED)?;
    let counted = stacks.into_iter().filter_map(|row| Some(format!("{} {}\n", row.stack?, row.samples?)));
    let text: String = counted.collect();
    if text.is_empty() {
        return Err(crate::stack::empty());
    }
    let Some(path) = &args.output else {
        return print_data(text.as_bytes()).map(|()| OK);
    };
    save(path, text.as_bytes())?;
    output::wrote(path);
    Ok(OK)
}

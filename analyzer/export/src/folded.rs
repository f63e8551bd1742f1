//! Folded stacks: one call path per line with its samples, for flame graph programs.

use stallmap::library::queries::export as queries;
use stallmap_console::answer::fresh_rows as rows;
use stallmap_console::args::export::FoldedExport;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::output;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

rows! {
    /// A call path and its samples.
    struct FoldedStack {
        stack: Option<String>,
        samples: Option<i64>,
    }
}

/// Writes the stacks to standard output, or prints their query.
pub(crate) fn run(context: &CommandContext, args: &FoldedExport) -> Outcome {
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let sql = queries::FOLDED.sql(&[]);
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    let batches = {
        let _progress = ProgressSpinner::for_work(session.work(), "querying call paths");
        runtime()?.block_on(rows(&session, &sql))?
    };
    let stacks = FoldedStack::read(queries::FOLDED.name, &batches)?;
    let counted = stacks.into_iter().filter_map(|row| Some(format!("{} {}\n", row.stack?, row.samples?)));
    let text: String = counted.collect();
    if text.is_empty() {
        return Err(crate::stack::empty());
    }
    output::print_data(&text).map(|()| OK)
}

//! `stallmap source`: a kernel's code with its stalls, producers and tensors.

mod chain;
mod file;
mod fold;
mod group;
mod listing;
mod page;
mod terminal;
mod words;

use std::path::Path;

use stallmap::session::Session;

use self::file::SourceTexts;
use self::listing::KernelListing;
use self::terminal::TerminalPage;
use stallmap::library::queries::{CommandQuery, source as queries};
use stallmap_console::answer::{SectionAnswer, answers, for_program};
use stallmap_console::args::{SourceArgs, SourceSort};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, QUERY};
use stallmap_console::explain::explain;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::{self, written};
use stallmap_lists::filter::LaunchFilter;
use stallmap_lists::kernel;

pub use self::page::STYLE;

/// The queries of a kernel, in printing order.
const SECTIONS: [CommandQuery; 7] = [
    queries::KERNEL,
    queries::LINES,
    queries::INSTRUCTIONS,
    queries::REASONS,
    queries::PRODUCERS,
    queries::WAITS,
    queries::TENSORS,
];

/// The view that several of the queries read, each once.
const SHARED: &str = "producer_charge";

async fn asked(session: &Session, function: u64) -> Outcome<Vec<SectionAnswer>> {
    let parameters = [("$function", function)];
    if SECTIONS.iter().any(|section| session.remembered(&section.sql(&parameters)).is_none()) {
        session.keep(&[SHARED]).await.map_err(|error| explain(error, Some(session)))?;
    }
    answers(session, &SECTIONS, &parameters).await
}

/// Shows a kernel's code.
pub fn run(context: &CommandContext, args: &SourceArgs) -> Outcome {
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let filter = runtime.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    let Some(kernel) = runtime.block_on(kernel::choose(&session, filter.as_ref()))? else {
        let none = if filter.is_some() {
            "(the filter chooses no kernels)\n"
        } else {
            "(the capture has no kernels)\n"
        };
        return output::print(none).map(|()| OK);
    };
    let parameters = [("$function", kernel)];
    if args.sql {
        let texts: Vec<String> = SECTIONS.iter().map(|section| section.sql(&parameters)).collect();
        return output::print(&texts.join("\n")).map(|()| OK);
    }
    let answers = runtime.block_on(asked(&session, kernel))?;
    if let Some(format) = args.format().list().for_programs() {
        return for_program(&mut output::data(), &args.capture, &answers, format).map(|()| OK);
    }
    let listing = KernelListing::from_answers(&answers)?.ok_or_else(|| {
        CommandFailure::message(QUERY, format!("function {kernel:#x} is not in the capture"))
    })?;
    show(args, &listing)
}

/// As text, or as a page if a file is given.
fn show(args: &SourceArgs, listing: &KernelListing) -> Outcome {
    let files = SourceTexts::from_lines(&listing.lines, args.root.as_deref());
    let groups = group::groups(listing, args.sort);
    let top = usize::try_from(args.top).unwrap_or(usize::MAX);
    if let Some(path) = &args.html {
        let text = page::page(listing, &files, &groups, top, &args.capture);
        write_page(path, &text)?;
        output::wrote(path);
        if args.open {
            crate::open::shown(path);
        }
        return Ok(OK);
    }
    let mut out = output::stdout();
    let mut page = TerminalPage::new(&mut out, output::page(), listing, &files);
    let shown =
        page.heading().and_then(|()| if args.all { page.whole() } else { page.hottest(&groups, top) });
    written(shown.and_then(|()| page.finish()))?;
    Ok(OK)
}

/// A kernel as a part of a page with several.
pub struct KernelPart {
    /// Its name.
    pub name: String,
    /// Summary of the kernel, in one line.
    pub facts: String,
    /// Its code: the hottest locations, their producers, and the surrounding code.
    pub html: HtmlPage,
    /// The executed queries: title and text.
    pub queries: Vec<(String, String)>,
    /// Shown instructions, each a function and a pc, with their anchors.
    pub places: Vec<((u64, u64), String)>,
}

/// Size of a kernel's part.
#[derive(Clone, Copy, Debug)]
pub struct KernelPartSize {
    /// Hottest locations.
    pub places: usize,
    /// Rows of code.
    pub rows: usize,
}

/// A kernel as a part of a page. Its anchors begin with the prefix. None if the capture has no launch of it.
pub async fn part(
    session: &Session,
    function: u64,
    size: KernelPartSize,
    root: Option<&Path>,
    prefix: &str,
) -> Outcome<Option<KernelPart>> {
    let answers = asked(session, function).await?;
    let Some(listing) = KernelListing::from_answers(&answers)? else { return Ok(None) };
    let files = SourceTexts::from_lines(&listing.lines, root);
    let groups = group::groups(&listing, SourceSort::Samples);
    let (html, places) = page::part(&listing, &files, &groups, (size.places, size.rows), prefix);
    let queries =
        answers.iter().map(|answer| (answer.section.title().to_owned(), answer.sql.clone())).collect();
    let facts = format!("{}, {}", words::facts(&listing.kernel), words::code(&listing.kernel));
    let name = listing.kernel.name.clone();
    Ok(Some(KernelPart { name, facts, html, queries, places }))
}

/// Writes a page to a file.
pub fn write_page(path: &Path, text: &str) -> Outcome<()> {
    output::file::save(path, text.as_bytes())
}

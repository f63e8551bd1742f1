//! `stallmap diff --html`: a comparison as one page that opens offline, with the code of changed lines in each capture.

mod table;

use std::path::Path;

use stallmap::library::queries;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap_console::args::diff::DiffArgs;
use stallmap_console::args::named::NamedCapture;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{GATE, OK, Outcome};
use stallmap_console::output;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::shorten::printable;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;
use stallmap_lists::diff::{ShownComparison, shown};

use crate::report::page::block::PageSection;
use crate::report::page::document::{PageSubject, document};
use crate::source::{self, KernelPart, KernelPartSize, write_page};

/// Changed lines with code.
const LINES: usize = 3;
/// Kernels that are searched for those of changed lines.
const KERNELS: u64 = 2_000;
/// Size of each part of code.
const SIZE: KernelPartSize = KernelPartSize { places: 6, rows: 120 };

rows! {
    /// A kernel of a line.
    #[derive(Clone, Debug)]
    struct ReportLineKernel {
        line: String,
        function_id: u64,
    }
}

/// The code of a changed line in one capture.
struct ChangedLineCode {
    /// Its anchor.
    anchor: String,
    /// The row of the other capture that it belongs to.
    what: String,
    /// The capture and the line.
    title: String,
    part: KernelPart,
}

/// Compares, and writes the page.
pub fn run(context: &CommandContext, args: &DiffArgs) -> Outcome {
    let Some(path) = &args.html else { return Ok(OK) };
    let shown = shown(context, args)?;
    let code = code(context, &shown, args.root.as_deref())?;
    let files: Vec<String> =
        shown.captures.iter().map(|(name, path)| format!("{name}={}", file_name(path))).collect();
    let subject = PageSubject {
        title: format!("Comparison by {}", shown.metric),
        command: format!("stallmap diff {} --html", files.join(" ")),
        facts: files.join(" · "),
        program: files.join(", "),
    };
    let mut blocks = vec![verdict(&shown, &code)];
    blocks.extend(shown.parts.iter().skip(1).map(|part| table::part(part, &[])));
    blocks.extend(code_block(&code));
    blocks.push(table::facts(&shown));
    write_page(path, &document(&subject, &blocks))?;
    output::wrote(path);
    if args.open {
        crate::open::shown(path);
    }
    shown.failures.iter().for_each(output::note);
    Ok(if shown.failures.is_empty() { OK } else { GATE })
}

/// The name of a capture's file. The page does not show its folder.
fn file_name(path: &CaptureLocation) -> String {
    printable(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
}

/// The changes since another capture, as a section of a report.
pub(crate) fn since(
    context: &CommandContext,
    base: &CaptureLocation,
    capture: &CaptureLocation,
) -> Outcome<PageSection> {
    let named =
        |name: &str, path: &CaptureLocation| NamedCapture { name: Some(name.to_owned()), path: path.clone() };
    let shown =
        shown(context, &DiffArgs::for_captures(vec![named("baseline", base), named("current", capture)]))?;
    let mut block = verdict(&shown, &[]);
    block.id = "change";
    "Change since the baseline".clone_into(&mut block.title);
    Ok(block)
}

/// Sentences, gates, and the changes of lines.
fn verdict(shown: &ShownComparison, code: &[ChangedLineCode]) -> PageSection {
    let links: Vec<(&str, &str, &str)> =
        code.iter().map(|code| (code.what.as_str(), code.anchor.as_str(), code.title.as_str())).collect();
    let mut block = PageSection {
        id: "verdict",
        title: "Verdict".to_owned(),
        queries: shown.queries.clone(),
        ..PageSection::default()
    };
    for sentence in &shown.sentences {
        block.body.markup("<p class=\"sentence\">").text(sentence).markup("</p>\n");
    }
    table::gates(&mut block.body, &shown.gates);
    if let Some(part) = shown.parts.first() {
        let changes = table::part(part, &links);
        block.body.piece(&changes.body);
        block.queries.extend(changes.queries);
    }
    block
}

/// The hottest kernel of each changed line, in each capture that has the line.
fn code(
    context: &CommandContext,
    shown: &ShownComparison,
    root: Option<&Path>,
) -> Outcome<Vec<ChangedLineCode>> {
    let lines = shown.parts.first().map_or(&[][..], |part| part.rows.as_slice());
    let changed: Vec<_> = lines.iter().filter(|row| !row.is_noise).take(LINES).collect();
    let mut found = Vec::new();
    if changed.is_empty() {
        return Ok(found);
    }
    for (at, (name, path)) in shown.captures.iter().enumerate() {
        let session = context.open(&[(None, path.clone())])?;
        let kernels = runtime()?.block_on(kernels(&session))?;
        for (row, change) in changed.iter().enumerate() {
            let line = if at == 0 { change.was.as_ref().unwrap_or(&change.what) } else { &change.what };
            let is_other = at > 0 && change.capture != *name;
            let kernel = kernels.iter().find(|kernel| kernel.line == *line && !is_other);
            let Some(kernel) = kernel else { continue };
            let prefix = format!("c{at}-{row}-");
            let part = source::part(&session, kernel.function_id, SIZE, root, &prefix);
            if let Some(part) = runtime()?.block_on(part)? {
                let (anchor, title) = (format!("{prefix}code"), format!("{name}: {line}"));
                found.push(ChangedLineCode { anchor, what: change.what.clone(), title, part });
            }
        }
    }
    Ok(found)
}

async fn kernels(session: &Session) -> Outcome<Vec<ReportLineKernel>> {
    let query = queries::page::LINE_KERNELS;
    let rows = stallmap_console::answer::rows(session, &query.sql(&[("$top", KERNELS)])).await?;
    ReportLineKernel::read(query.name, &rows)
}

/// The code of changed lines, by line, the base first. None without any.
fn code_block(code: &[ChangedLineCode]) -> Option<PageSection> {
    let first = code.first()?;
    let mut block = PageSection {
        id: "code",
        title: "Code of changed lines".to_owned(),
        doc: vec!["The hottest kernel of each changed line, in each capture."],
        queries: first.part.queries.clone(),
        ..PageSection::default()
    };
    for code in code {
        details(&mut block.body, code);
    }
    Some(block)
}

fn details(html: &mut HtmlPage, code: &ChangedLineCode) {
    html.markup("<details class=\"code-of\" id=\"")
        .text(&code.anchor)
        .markup("\"><summary><h3 class=\"code\">");
    html.text(&code.title).markup("</h3> <span class=\"dim\">").text(&code.part.name).markup(": ");
    html.text(&code.part.facts).markup("</span></summary>\n").piece(&code.part.html).markup("</details>\n");
}

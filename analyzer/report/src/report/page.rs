//! `stallmap report --html`: the report as one page that opens from disk, without a network.
//!
//! ```text
//! sql/queries/report, sql/queries/page, sql/queries/tree, sql/queries/source ──> ask ──> a block a section ──> document
//! ```

mod ask;
pub(crate) mod block;
mod code;
pub(crate) mod document;
mod first;
mod forest;
mod heat;
mod held;
mod json;
mod life;
mod links;
mod numbers;
mod paths;
mod sql;
mod stalls;
mod table;
mod timeline;
mod warp;
mod warps;
mod waves;

use std::path::Path;

use stallmap::session::Session;

use self::ask::SessionAsker;
use self::block::PageSection;
use self::document::PageSubject;
use self::links::PageLinks;
use self::table::{AnchoredRows, TableLayout, table};
use self::warps::RequestPictures;
use stallmap::library::queries::{self, CommandQuery};
use stallmap_console::answer::SectionAnswer;
use stallmap_console::args::ReportArgs;
use stallmap_console::exit::Outcome;
use stallmap_console::output::shorten::printable;
use stallmap_lists::verdict::VerdictRows;

/// Default rows of a table. The rest is aggregated.
const DEFAULT_TOP: u32 = 100;
/// Default sentences about single waits, which repeat names of tensors and kernels.
const SENTENCES: u32 = 30;
/// Kernels with a bar of stalls.
const STALL_BARS: u64 = 24;
/// Stretches of launches in curves.
const BINS: u64 = 400;
/// GPUs with a sentence about their peak.
const PEAKS: u64 = 64;
/// Objects with a drawn lifetime.
const OBJECTS: u64 = 40;

/// The page of a capture.
pub(super) async fn page(
    args: &ReportArgs,
    session: &Session,
    (program, change): (String, Option<PageSection>),
    verdict: &VerdictRows,
) -> Outcome<String> {
    let mut blocks = blocks(&ahead(session, args).await?, args, verdict).await?;
    let place = blocks.len().min(1);
    blocks.splice(place..place, change);
    Ok(document::document(&subject(args, verdict, &program, "report"), &blocks))
}

/// The page of a capture with a box for SQL behind the verdict.
pub(crate) async fn served(
    args: &ReportArgs,
    session: &Session,
    program: &str,
    verdict: &VerdictRows,
) -> Outcome<document::ServedPage> {
    let mut blocks = blocks(&ahead(session, args).await?, args, verdict).await?;
    let place = blocks.len().min(1);
    blocks.insert(place, sql::block());
    Ok(document::served(&subject(args, verdict, program, "serve"), &blocks))
}

fn subject(args: &ReportArgs, verdict: &VerdictRows, program: &str, command: &str) -> PageSubject {
    let file = args.capture.file_name().unwrap_or(args.capture.as_os_str());
    let started = verdict.started().map(|started| format!("{} UTC", started.replace('T', " ")));
    let facts: Vec<String> = verdict.subject().into_iter().chain(started).collect();
    let capture = printable(&file.to_string_lossy());
    let format = if command == "serve" { "--http" } else { "--html" };
    PageSubject {
        command: format!("stallmap {command} {capture} {format}"),
        title: capture,
        facts: printable(&facts.join(" · ")),
        program: printable(program),
    }
}

/// Computes the views of the verdict and of the sections, all at the same time.
pub(super) async fn prepare(args: &ReportArgs, session: &Session) -> Outcome<()> {
    let all: Vec<_> = stallmap_lists::verdict::texts().into_iter().chain(texts(args)).collect();
    stallmap_console::answer::prepare(session, &all).await
}

/// The queries that read most views.
fn texts(args: &ReportArgs) -> Vec<(CommandQuery, String)> {
    let top = [("$top", args.top.unwrap_or(DEFAULT_TOP).into())];
    let costs = COSTS.iter().chain(REPLAYED).map(|(query, _)| *query);
    let others = [
        queries::report::FINDINGS,
        queries::report::MEMORY,
        queries::report::LOSSES,
        queries::report::COVERAGE,
    ];
    let own = costs.chain(others).map(|query| (query, query.sql(&top)));
    own.chain([(queries::tree::LAUNCHES, queries::tree::LAUNCHES.sql(&[]))]).collect()
}

/// An asker of a session, with the answers of the queries that depend on no other.
async fn ahead<'a>(session: &'a Session, args: &ReportArgs) -> Outcome<SessionAsker<'a>> {
    let mut asker = SessionAsker::for_session(session);
    let accessed = heat::sql_of_accessed(&asker).await?;
    let drawings = [
        (queries::page::STALLS, STALL_BARS),
        (queries::page::WARPS, warps::PICTURES),
        (queries::page::TIMELINE, timeline::STREAMS),
        (queries::page::MEMORY, BINS),
        (queries::page::OBJECTS, OBJECTS),
        (queries::top::PEAK, PEAKS),
        (queries::page::BLOCKS, waves::TIMED_LAUNCHES),
    ];
    let drawings = drawings.into_iter().chain(timeline::SPANS);
    let drawings = drawings.map(|(query, top)| (query, query.sql(&[("$top", top)])));
    let all = accessed.into_iter().chain(drawings).chain(texts(args));
    asker.ask_ahead(all.collect()).await?;
    Ok(asker)
}

/// The sections in reading order: verdict, call paths, findings, costs, drawings, then losses and coverage.
async fn blocks(
    asker: &SessionAsker<'_>,
    args: &ReportArgs,
    verdict: &VerdictRows,
) -> Outcome<Vec<PageSection>> {
    let top = [("$top", args.top.unwrap_or(DEFAULT_TOP).into())];
    let stalls = asker.ask(queries::page::STALLS, &[("$top", STALL_BARS)]).await?;
    let kernels = asker.ask(queries::report::KERNELS, &top).await?;
    let parts = code::parts(asker, &kernels, args.root.as_deref()).await?;
    let pictures = RequestPictures::from_session(asker).await?;
    let findings = asker.ask(queries::report::FINDINGS, &top).await?;
    let mut costs = Vec::new();
    for (query, layout) in COSTS {
        let answer = match layout.rows {
            AnchoredRows::Plain if query.name == kernels.section.name => kernels.clone(),
            AnchoredRows::Sentences => {
                asker.ask(*query, &[("$top", args.top.unwrap_or(SENTENCES).into())]).await?
            }
            _ => asker.ask(*query, &top).await?,
        };
        costs.push((answer, layout));
    }
    let mut links = PageLinks::default();
    stalls::add(&stalls, &mut links)?;
    code::add(&parts, &mut links);
    pictures.add(&mut links);
    for (answer, layout) in &costs {
        match layout.rows {
            AnchoredRows::Lines => links.add_lines(answer)?,
            AnchoredRows::Tensors => links.add_tensors(answer)?,
            _ => {}
        }
    }

    let mut blocks = vec![first::block(verdict, &findings, &pictures, &links)?];
    blocks.extend(paths::block(&asker.ask(queries::tree::LAUNCHES, &[]).await?)?);
    blocks.push(timeline::block(asker, &links).await?);
    blocks.push(list("findings", &findings, &FINDINGS, &links)?);
    for (answer, layout) in &costs {
        blocks.push(list(answer.section.name, answer, layout, &links)?);
    }
    blocks.extend(pictures.block(&links));
    blocks.extend(code::block(&parts, &links));
    blocks.push(stalls::block(&stalls, &links)?);
    blocks.extend(waves::block(asker).await?);
    blocks.extend(forest::block(asker).await?);
    blocks.extend(heat::block(asker, &links).await?);
    let memory = asker.ask(queries::page::MEMORY, &[("$top", BINS)]).await?;
    let objects = asker.ask(queries::page::OBJECTS, &[("$top", OBJECTS)]).await?;
    let held = asker.ask(queries::report::MEMORY, &top).await?;
    let peaks = asker.ask(queries::top::PEAK, &[("$top", PEAKS)]).await?;
    blocks.push(life::block(&memory, &objects, (&held, &peaks))?);
    for (query, layout) in REPLAYED {
        let answer = asker.ask(*query, &top).await?;
        if answer.count() > 0 {
            blocks.push(list(query.name, &answer, layout, &links)?);
        }
    }
    blocks.push(losses(&asker.ask(queries::report::LOSSES, &top).await?)?);
    blocks.push(coverage(&asker.ask(queries::report::COVERAGE, &top).await?)?);
    Ok(blocks)
}

/// Recommended changes, by saving.
const FINDINGS: TableLayout = TableLayout {
    caption: "Findings by saving",
    name: "sentence",
    below: &[("advice", "→"), ("finding", "kind")],
    bar: "saving_share",
    hidden: &[],
    is_long: true,
    rows: AnchoredRows::Findings,
};

/// Rankings by cost.
const COSTS: &[(CommandQuery, TableLayout)] = &[
    (
        queries::report::TENSORS,
        TableLayout {
            caption: "Tensors by stall cost",
            name: "tensor",
            below: &[
                ("type", "type"),
                ("op", "op"),
                ("born_at", "allocated at"),
                ("stalled_at", "waited at"),
            ],
            bar: "share",
            hidden: &[],
            is_long: true,
            rows: AnchoredRows::Tensors,
        },
    ),
    (
        queries::report::WHY,
        TableLayout {
            caption: "Why",
            name: "why",
            below: &[],
            bar: "memory_share",
            hidden: &[],
            is_long: true,
            rows: AnchoredRows::Sentences,
        },
    ),
    (
        queries::report::KERNELS,
        TableLayout {
            caption: "Kernels by samples",
            name: "kernel",
            below: &[],
            bar: "share",
            hidden: &[],
            is_long: true,
            rows: AnchoredRows::Plain,
        },
    ),
    (
        queries::report::LINES,
        TableLayout {
            caption: "Python lines by samples",
            name: "line",
            below: &[("forward_line", "gradient of")],
            bar: "share",
            hidden: &[],
            is_long: true,
            rows: AnchoredRows::Lines,
        },
    ),
    (
        queries::report::OPS,
        TableLayout {
            caption: "Operators by samples",
            name: "op",
            below: &[],
            bar: "share",
            hidden: &[],
            is_long: true,
            rows: AnchoredRows::Plain,
        },
    ),
];

/// Tables of replays.
const REPLAYED: &[(CommandQuery, TableLayout)] = &[
    (
        queries::report::COUNTERS,
        TableLayout {
            caption: "Hardware counters by kernel",
            name: "kernel",
            below: &[],
            bar: "",
            hidden: &[],
            is_long: true,
            rows: AnchoredRows::Plain,
        },
    ),
    (
        queries::report::REPLAYS,
        TableLayout {
            caption: "Outcomes of replays",
            name: "outcome",
            below: &[("reason", "because"), ("kernel", "kernel")],
            bar: "share",
            hidden: &[],
            is_long: false,
            rows: AnchoredRows::Plain,
        },
    ),
];

/// Coverage in full.
fn coverage(answer: &SectionAnswer) -> Outcome<PageSection> {
    let layout = TableLayout {
        caption: "Coverage",
        name: "known",
        below: &[("detail", "")],
        bar: "",
        hidden: &[],
        is_long: false,
        rows: AnchoredRows::Plain,
    };
    list("coverage", answer, &layout, &PageLinks::default())
}

/// Losses, or the statement that there are none.
fn losses(answer: &SectionAnswer) -> Outcome<PageSection> {
    let mut block = PageSection::for_answer("losses", answer);
    if answer.count() == 0 {
        "Losses".clone_into(&mut block.title);
        block.doc.clear();
        block.body.markup("<p class=\"good\">Nothing was lost.</p>\n");
        return Ok(block);
    }
    let layout = TableLayout {
        caption: "Losses",
        name: "reason",
        below: &[("detail", "such as")],
        bar: "",
        hidden: &[],
        is_long: false,
        rows: AnchoredRows::Plain,
    };
    block.body.markup("<div class=\"warning\">\n").piece(&table(
        &answer.rows,
        &layout,
        &PageLinks::default(),
    )?);
    block.body.markup("</div>\n");
    Ok(block)
}

/// A section that is a table.
fn list(
    id: &'static str,
    answer: &SectionAnswer,
    layout: &TableLayout,
    links: &PageLinks,
) -> Outcome<PageSection> {
    let mut block = PageSection::for_answer(id, answer);
    if answer.count() == 0 {
        block.body.markup("<p class=\"dim\">(nothing of this kind was recorded)</p>\n");
    } else {
        block.body = table(&answer.rows, layout, links)?;
    }
    Ok(block)
}

/// Writes the page.
pub(super) fn save(path: &Path, text: &str) -> Outcome<()> {
    crate::source::write_page(path, text)
}

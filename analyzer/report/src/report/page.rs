//! `stallmap report --html`: the report as one page that opens from disk, without a network.
//!
//! ```text
//! sql/queries/report, sql/queries/page, sql/queries/tree, sql/queries/source ──> ask ──> a block a section ──> document
//! ```

mod ask;
mod block;
mod code;
mod document;
mod first;
mod forest;
mod heat;
mod json;
mod life;
mod paths;
mod stalls;
mod table;

use std::path::Path;

use stallmap::session::Session;

use self::ask::Asker;
use self::block::Block;
use self::document::Subject;
use self::table::{Anchors, Layout, table};
use crate::verdict::Verdict;
use stallmap::library::queries::{self, Query};
use stallmap_console::answer::Answer;
use stallmap_console::args::Report;
use stallmap_console::exit::Outcome;
use stallmap_console::output::shorten::printable;

/// Default rows of a table. The rest is aggregated.
const DEFAULT_TOP: u32 = 100;
/// Kernels with a bar of stalls.
const STALL_BARS: u64 = 24;
/// Maximum of tensors with a heat map.
const HEAT_MAPS: u64 = 6;
/// Stretches of launches in curves.
const BINS: u64 = 400;
/// Objects with a drawn lifetime.
const OBJECTS: u64 = 40;

/// The page of a capture.
pub(super) async fn page(
    args: &Report,
    session: &Session,
    program: String,
    verdict: &Verdict,
) -> Outcome<String> {
    let asker = Asker::of(session);
    let mut blocks = blocks(&asker, args).await?;
    blocks.insert(0, first::block(verdict));
    let file = args.capture.file_name().unwrap_or(args.capture.as_os_str());
    let subject = Subject { capture: printable(&file.to_string_lossy()), program: printable(&program) };
    Ok(document::document(&subject, &blocks))
}

/// The sections in reading order: findings, call paths, costs, drawings, then losses and coverage.
async fn blocks(asker: &Asker<'_>, args: &Report) -> Outcome<Vec<Block>> {
    let top = [("$top", args.top.unwrap_or(DEFAULT_TOP).into())];
    let stalls = asker.ask(queries::page::STALLS, &[("$top", STALL_BARS)]).await?;
    let kernels = asker.ask(queries::report::KERNELS, &top).await?;
    let parts = code::parts(asker, &kernels, args.root.as_deref()).await?;
    let mut anchors = stalls::anchors(&stalls)?;
    anchors.extend(parts.iter().map(|(function, _)| stalls::code_anchor(*function)));

    let findings = asker.ask(queries::report::FINDINGS, &top).await?;
    let mut blocks = vec![list("findings", &findings, &FINDINGS, &anchors)?];
    blocks.extend(paths::block(&asker.ask(queries::tree::LAUNCHES, &[]).await?)?);
    for (query, layout) in COSTS {
        let answer = match query.name {
            "kernels" => &kernels,
            _ => &asker.ask(*query, &top).await?,
        };
        blocks.push(list(query.name, answer, layout, &anchors)?);
    }
    blocks.extend(forest::block(asker).await?);
    blocks.extend(heat::block(asker, HEAT_MAPS).await?);
    blocks.extend(code::block(&parts, &anchors));
    blocks.push(stalls::block(&stalls, &anchors)?);
    let memory = asker.ask(queries::page::MEMORY, &[("$top", BINS)]).await?;
    let objects = asker.ask(queries::page::OBJECTS, &[("$top", OBJECTS)]).await?;
    blocks.extend(life::block(&memory, &objects)?);
    for (query, layout) in REPLAYED {
        let answer = asker.ask(*query, &top).await?;
        if answer.count() > 0 {
            blocks.push(list(query.name, &answer, layout, &anchors)?);
        }
    }
    blocks.push(losses(&asker.ask(queries::report::LOSSES, &top).await?)?);
    blocks.push(coverage(&asker.ask(queries::report::COVERAGE, &top).await?)?);
    Ok(blocks)
}

/// Recommended changes, by saving.
const FINDINGS: Layout = Layout {
    caption: "Findings by saving",
    name: "sentence",
    below: &[("advice", "→"), ("finding", "kind")],
    bar: "saving_share",
    hidden: &[],
    is_long: true,
};

/// Rankings by cost.
const COSTS: &[(Query, Layout)] = &[
    (
        queries::report::TENSORS,
        Layout {
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
        },
    ),
    (
        queries::report::WHY,
        Layout { caption: "Why", name: "why", below: &[], bar: "memory_share", hidden: &[], is_long: true },
    ),
    (
        queries::report::KERNELS,
        Layout {
            caption: "Kernels by samples",
            name: "kernel",
            below: &[],
            bar: "share",
            hidden: &[],
            is_long: true,
        },
    ),
    (
        queries::report::LINES,
        Layout {
            caption: "Python lines by samples",
            name: "line",
            below: &[("forward_line", "gradient of")],
            bar: "share",
            hidden: &[],
            is_long: true,
        },
    ),
    (
        queries::report::OPS,
        Layout {
            caption: "Operators by samples",
            name: "op",
            below: &[],
            bar: "share",
            hidden: &[],
            is_long: true,
        },
    ),
];

/// Tables of replays.
const REPLAYED: &[(Query, Layout)] = &[
    (
        queries::report::COUNTERS,
        Layout {
            caption: "Hardware counters by kernel",
            name: "kernel",
            below: &[],
            bar: "",
            hidden: &[],
            is_long: true,
        },
    ),
    (
        queries::report::REPLAYS,
        Layout {
            caption: "Outcomes of replays",
            name: "outcome",
            below: &[("reason", "because"), ("kernel", "kernel")],
            bar: "share",
            hidden: &[],
            is_long: false,
        },
    ),
];

/// Coverage in full.
fn coverage(answer: &Answer) -> Outcome<Block> {
    let layout = Layout {
        caption: "Coverage",
        name: "known",
        below: &[("detail", "")],
        bar: "",
        hidden: &[],
        is_long: false,
    };
    list("coverage", answer, &layout, &Anchors::new())
}

/// Losses, or the statement that there are none.
fn losses(answer: &Answer) -> Outcome<Block> {
    let mut block = Block::of("losses", answer);
    if answer.count() == 0 {
        "Losses".clone_into(&mut block.title);
        block.doc.clear();
        block.body.markup("<p class=\"good\">Nothing was lost.</p>\n");
        return Ok(block);
    }
    let layout = Layout {
        caption: "Losses",
        name: "reason",
        below: &[("detail", "such as")],
        bar: "",
        hidden: &[],
        is_long: false,
    };
    block.body.markup("<div class=\"warning\">\n").piece(&table(&answer.rows, &layout, &Anchors::new())?);
    block.body.markup("</div>\n");
    Ok(block)
}

/// A section that is a table.
fn list(id: &'static str, answer: &Answer, layout: &Layout, anchors: &Anchors) -> Outcome<Block> {
    let mut block = Block::of(id, answer);
    if answer.count() == 0 {
        block.body.markup("<p class=\"dim\">(nothing of this kind was recorded)</p>\n");
    } else {
        block.body = table(&answer.rows, layout, anchors)?;
    }
    Ok(block)
}

/// Writes the page.
pub(super) fn save(path: &Path, text: &str) -> Outcome<()> {
    crate::source::write_page(path, text)
}

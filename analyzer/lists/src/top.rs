//! `stallmap top`: the costliest tensors, ops, lines, kernels, collectives or findings, and the rest as one row.

use std::path::Path;

use arrow::array::RecordBatch;

use crate::filter::LaunchFilter;
use crate::known::known;
use stallmap::library::queries::{CommandQuery, top as queries};
use stallmap_console::absent;
use stallmap_console::answer::{asked, nothing, write_rows};
use stallmap_console::args::top::{TopArgs, TopRanking, TopSort};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::NumberFormat;
use stallmap_console::output::{self, written};

/// GPUs whose peak is shown.
const MAX_PEAKS: u64 = 64;
/// Base of shares.
const ALL: &str = "all samples";
/// Columns for programs only.
const DETAILS: &[&str] = &["full_name", "label_source"];
/// Columns of findings for programs only.
const UNSHOWN: &[&str] = &[
    "saving_samples",
    "saving_low_ns",
    "saving_high_ns",
    "samples",
    "subject",
    "kernel",
    "line",
    "op",
    "tensor_id",
    "found_by",
    "query",
];

/// Prints the list, or its query.
pub fn run(context: &CommandContext, args: &TopArgs) -> Outcome {
    let section = section(args)?;
    let sql = section.sql(&[("$top", args.rows.into())]).replace("$sort", column(args.what, args.sort)?);
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let filter = runtime.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    let sql = filter.as_ref().map_or(sql.clone(), |filter| filter.sql(&sql));
    // Where no sample ranks tensors, their accesses do.
    let can_be_accesses = section == queries::TENSORS && args.sort.is_none() && filter.is_none();
    if args.sql && !can_be_accesses {
        return output::print(&sql).map(|()| OK);
    }
    let (known, rows) = {
        let _progress = ProgressSpinner::for_work(session.work(), format!("querying {}", section.name));
        (runtime.block_on(known(&session))?, runtime.block_on(asked(&session, section, &sql))?)
    };
    let (mut section, mut sql, mut rows) = (section, sql, rows);
    if can_be_accesses && !known.has_samples() && is_empty(&rows) {
        let other = queries::TOUCHED.sql(&[("$top", args.rows.into())]);
        let found = runtime.block_on(asked(&session, queries::TOUCHED, &other))?;
        if !is_empty(&found) {
            (section, sql, rows) = (queries::TOUCHED, other, found);
        }
    }
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    known.say(&args.capture, args.output.format())?;
    filter.iter().try_for_each(|filter| filter.say(args.output.format(), ALL))?;
    let is_empty = is_empty(&rows);
    let absence =
        if is_empty && filter.is_none() { runtime.block_on(absent::why(&session, &sql)) } else { None };
    if let Some(format) = args.output.format().for_programs() {
        return write_rows(&rows, format).map(|()| OK);
    }
    if args.what == TopRanking::Memory && !is_empty {
        let peaks = queries::PEAK.sql(&[("$top", MAX_PEAKS)]);
        peak(&runtime.block_on(asked(&session, queries::PEAK, &peaks))?)?;
    }
    show(args, section, &rows, absence.as_deref()).map(|()| OK)
}

fn is_empty(rows: &[RecordBatch]) -> bool {
    rows.iter().all(|batch| batch.num_rows() == 0)
}

fn section(args: &TopArgs) -> Outcome<CommandQuery> {
    Ok(match args.what {
        TopRanking::Tensors if args.ablated => queries::ABLATED,
        TopRanking::Tensors if args.traffic => queries::TRAFFIC,
        TopRanking::Tensors if args.shared => queries::SHARED,
        _ if args.ablated || args.traffic || args.shared => {
            return Err(CommandFailure::message(
                USAGE,
                "experiments, traffic and shared memory rank tensors only",
            )
            .hint("stallmap top tensors NAME.stallmap --traffic".to_owned()));
        }
        TopRanking::Tensors => queries::TENSORS,
        TopRanking::Ops => queries::OPS,
        TopRanking::Lines => queries::LINES,
        TopRanking::Kernels => queries::KERNELS,
        TopRanking::Collectives if args.filter.is_empty() => queries::COLLECTIVES,
        TopRanking::Collectives => {
            return Err(CommandFailure::message(USAGE, "collectives are of all launches")
                .hint("leave out `--kernel`, `--line` and `--op`".to_owned()));
        }
        TopRanking::Memory if args.filter.is_empty() => queries::MEMORY,
        TopRanking::Memory => {
            return Err(CommandFailure::message(USAGE, "memory is held by the whole program")
                .hint("leave out `--kernel`, `--line`, `--op` and `--phase`".to_owned()));
        }
        TopRanking::Findings => queries::FINDINGS,
    })
}

/// The view column of a metric.
fn column(what: TopRanking, sort: Option<TopSort>) -> Outcome<&'static str> {
    let wrong =
        |message: &str, hint: &str| Err(CommandFailure::message(USAGE, message).hint(hint.to_owned()));
    match (what, sort) {
        (TopRanking::Memory, None) => Ok("size_bytes"),
        (TopRanking::Memory, Some(_)) => wrong("memory is ranked by bytes", "leave out `--sort`"),
        (TopRanking::Collectives, None) => Ok("exposed_ns"),
        (TopRanking::Collectives, Some(TopSort::Launches)) => Ok("launches"),
        (TopRanking::Collectives, Some(TopSort::Samples | TopSort::MemorySamples)) => {
            wrong("samples of collectives are waits for other ranks", "sort them by time or launches")
        }
        (TopRanking::Findings, None | Some(TopSort::Saving)) => Ok("-CAST(finding_rank AS BIGINT)"),
        (TopRanking::Findings, Some(TopSort::Launches | TopSort::MemorySamples)) => {
            wrong("findings have neither launches nor memory stalls", "sort them by saving, samples or time")
        }
        (_, Some(TopSort::Saving)) => {
            wrong("only findings have a saving", "stallmap top findings ranks them")
        }
        (TopRanking::Tensors, Some(TopSort::Launches)) => {
            wrong("tensors have no launches", "sort them by samples, memory_samples or time")
        }
        // All of them share one total.
        (TopRanking::Tensors, Some(TopSort::MemorySamples)) => Ok("memory_share"),
        (_, None | Some(TopSort::Samples)) => Ok("samples"),
        (_, Some(TopSort::MemorySamples)) => Ok("memory_samples"),
        (_, Some(TopSort::Time)) => Ok("time_ns"),
        (_, Some(TopSort::Launches)) => Ok("launch_count"),
    }
}

fn show(args: &TopArgs, section: CommandQuery, rows: &[RecordBatch], absence: Option<&str>) -> Outcome<()> {
    let canvas = output::page();
    let mut heading = canvas.paint.text(TextRole::Heading, section.title()) + "\n";
    for line in section.doc() {
        let line = if args.filter.is_empty() { line.to_owned() } else { of_chosen(line) };
        heading += &(canvas.paint.text(TextRole::Dim, &line) + "\n");
    }
    let table = TextTable::from_batches(rows, NumberFormat::Report).map_err(arrow_failure)?.without_samples();
    let mut table = table.without(if output::is_wide() { &[] } else { DETAILS });
    if args.what == TopRanking::Memory {
        table = table.without_empty();
    }
    if table.rows() == 0 {
        return output::print(&(heading + &nothing(section, absence)));
    }
    if args.what == TopRanking::Findings {
        table = table.without(UNSHOWN).advice("sentence", "advice", canvas);
    }
    output::print(&heading)?;
    written(table.draw(&mut output::stdout(), canvas))?;
    output::print(&hint(&args.capture, section))
}

/// A line about a list, where a filter chooses the launches.
fn of_chosen(line: &str) -> String {
    line.replace("add up to all launches", "add up to the chosen launches")
        .replace("add up to the samples", "add up to the samples of the chosen launches")
}

/// The peaks of GPUs, above what holds them.
fn peak(rows: &[RecordBatch]) -> Outcome<()> {
    let canvas = output::page();
    output::print(&(canvas.paint.text(TextRole::Heading, queries::PEAK.title()) + "\n"))?;
    let table = TextTable::from_batches(rows, NumberFormat::Report).map_err(arrow_failure)?.without_empty();
    written(table.draw(&mut output::stdout(), canvas))?;
    output::print("\n")
}

fn hint(capture: &Path, section: CommandQuery) -> String {
    let capture = output::path(capture);
    let what = match section {
        queries::ABLATED => "tensors --ablated",
        queries::TRAFFIC => "tensors --traffic",
        queries::SHARED => "tensors --shared",
        queries::TOUCHED => "tensors",
        _ => section.name,
    };
    let text = format!("stallmap top {what} {capture} --sql   prints the query");
    format!("\n{}\n", output::page().paint.text(TextRole::Dim, &text))
}

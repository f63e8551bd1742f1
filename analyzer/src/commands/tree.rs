//! `stallmap tree`: what call paths cost, from either end, flat, or against another capture.
//!
//! ```text
//! sql/tree ──> read ──> path (names of the levels asked for) ──> forest ──> prune ──┐
//!                                                            └─> flat ──────────────┴─> row ──> draw, export
//! ```

mod cost;
mod draw;
mod export;
mod flat;
mod forest;
mod graph;
mod path;
mod prune;
mod read;
mod row;
#[cfg(test)]
mod tests;

use stallmap::location::Location;

pub(super) use self::graph::{GraphNode, graph};

use self::cost::Side;
use self::draw::Picture;
use self::forest::Forest;
use self::path::Launch;
use self::row::{Choice, Row};
use super::answer::rows;
use super::known::{Known, known};
use super::section::{self, Section};
use super::top::write_rows;
use super::{arrow_failure, open, runtime};
use crate::args::tree::{Metric, Tree, TreeSort};
use crate::exit::{Failure, OK, Outcome, QUERY};
use crate::output;
use crate::output::paint::Role;
use crate::output::progress::Progress;
use crate::output::shorten::printable;

/// The query in `sql/tree`.
const LAUNCHES: &str = "launches";

/// A capture's launches, and how much of it they know.
struct Asked {
    launches: Vec<Launch>,
    known: Known,
}

/// Prints the tree, or its query.
pub(super) fn run(args: &Tree) -> Outcome {
    if args.sql {
        // The capture is opened all the same: a wrong path is not answered with a query.
        open(&[(None, args.capture.clone())])?;
        return output::print(&launches_query()?.sql(&[])).map(|()| OK);
    }
    let after = ask(&args.capture)?;
    let before = args.diff.as_ref().map(ask).transpose()?;
    say(args, &after.known, before.as_ref().map(|before| &before.known))?;
    let asked = || [Some(&after), before.as_ref()].into_iter().flatten();
    let timeless = asked().flat_map(|asked| &asked.launches).filter(|launch| launch.lacks_time).count();
    if timeless > 0
        && args.metrics.iter().any(|&metric| matches!(metric, Metric::Time | Metric::TimePerLaunch))
    {
        output::note(format_args!(
            "warning: the time of {timeless} launches is not known, and counts as none"
        ));
    }
    let mut sides = Vec::new();
    sides.extend(before.map(|before| (Side::Before, before.launches)));
    sides.push((Side::After, after.launches));
    let paths = path::paths(&sides, &args.by, args.frame);
    let rows = choose(args, &paths);
    match args.format.for_programs() {
        Some(format) => {
            let batch = export::batch(&rows, &paths.steps, &args.metrics, args.diff.is_some());
            write_rows(&[batch.map_err(arrow_failure)?], format)?;
        }
        None => show(args, &rows, &paths.steps)?,
    }
    Ok(OK)
}

fn ask(capture: &Location) -> Outcome<Asked> {
    let session = {
        let _progress = Progress::start(format!("opening {}", capture.display()));
        open(&[(None, capture.clone())])?
    };
    let _progress = Progress::start(format!("asking {} for call paths", capture.display()));
    let runtime = runtime()?;
    let known = runtime.block_on(known(&session))?;
    let rows = runtime.block_on(rows(&session, &launches_query()?.sql(&[])))?;
    Ok(Asked { launches: read::launches(&rows)?, known })
}

/// The query whose rows trees are made of.
pub(super) fn launches_query() -> Outcome<Section> {
    let found = section::sections("tree", &[LAUNCHES]).into_iter().next();
    found.ok_or_else(|| Failure::message(QUERY, format!("sql/tree/{LAUNCHES}.sql is missing")))
}

/// The rows that the options choose.
fn choose(args: &Tree, paths: &path::Paths) -> Vec<Row> {
    let metric = args.metrics.first().copied().unwrap_or(Metric::Samples);
    let choice = Choice {
        include: args.include.as_ref(),
        exclude: args.exclude.as_ref(),
        threshold: args.threshold,
        depth: args.depth.map_or(usize::MAX, |depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        metric,
        sort: args.sort.unwrap_or(TreeSort::Metric(metric)),
        is_diff: args.diff.is_some(),
    };
    if args.flat {
        flat::rows(paths, &choice)
    } else {
        prune::rows(&Forest::of(paths, args.bottom_up), &paths.steps, &choice)
    }
}

/// Coverage of both captures, and what makes them hard to compare or their times incomplete.
fn say(args: &Tree, after: &Known, before: Option<&Known>) -> Outcome<()> {
    if let (Some(before), Some(path)) = (before, &args.diff) {
        before.say(path, args.format)?;
        let differ = |what: &str, one: &str, other: &str, so: &str| {
            let (one, other) = (printable(one), printable(other));
            output::note(format_args!("warning: {what}: {one} before, {other} after; {so}"));
        };
        if before.gpus != after.gpus {
            differ("different GPUs", &before.gpus, &after.gpus, "what they cost is not comparable");
        }
        let counts_samples =
            args.metrics.iter().any(|metric| matches!(metric, Metric::Samples | Metric::MemorySamples));
        if before.periods != after.periods && counts_samples {
            let so = "samples are not comparable, -m time is";
            differ("different sampling periods in cycles", &before.periods, &after.periods, so);
        }
    }
    after.say(&args.capture, args.format)?;
    Ok(())
}

fn show(args: &Tree, rows: &[Row], steps: &[path::Step]) -> Outcome<()> {
    let canvas = output::page();
    let levels = args.by.iter().filter_map(clap::ValueEnum::to_possible_value);
    let levels = levels.map(|level| level.get_name().to_owned()).collect::<Vec<_>>().join(", ");
    let (title, doc) = match (args.flat, args.bottom_up) {
        (true, _) => (
            "Names",
            "What paths through each name cost, and what those that end there do: self adds up to the whole.",
        ),
        (_, true) => ("Callers", "Below each name, who called it; children make up their parent."),
        _ => ("Call paths", "Below each name, what it called; children and self make up their parent."),
    };
    let change = if args.diff.is_some() { ", and how that changed" } else { "" };
    let heading = canvas.paint.text(Role::Heading, &format!("{title} by {levels}{change}"));
    let doc = canvas.paint.text(Role::Dim, doc);
    let picture = Picture {
        steps,
        metrics: &args.metrics,
        is_diff: args.diff.is_some(),
        header: if args.flat { "name" } else { "path" },
    };
    output::print(&format!("{heading}\n{doc}\n{}", draw::draw(rows, &picture, canvas)))
}

//! `stallmap tree`: cost of call paths, from either end, flat, or compared with another capture.
//!
//! ```text
//! sql/queries/tree ──> read, code ──> path (names of the levels asked for) ──> forest ──> prune ──┐
//!                                                            └─> flat ──────────────┴─> row ──> draw, export
//! with --diff: sql/queries/diff/tree_launches ──> read, …; row ──> judge: sql/queries/diff/tree_nodes ──> row
//! ```

mod chance;
mod code;
mod cost;
mod draw;
mod export;
mod flat;
mod forest;
mod graph;
mod judge;
mod path;
mod prune;
mod read;
mod row;
#[cfg(test)]
mod tests;

use stallmap::location::CaptureLocation;
use stallmap::session::Session;

pub use self::graph::{GraphNode, graph};

use self::cost::{CaptureSide, PairedCosts};
use self::draw::TreeDrawing;
use self::forest::PathForest;
use self::judge::JudgeQuery;
use self::path::PathLaunch;
use self::row::{RowChoice, TreeRow};
use crate::filter::LaunchFilter;
use crate::known::{CostCompleteness, known};
use stallmap::library::queries::{self, CommandQuery};
use stallmap_console::answer::asked;
use stallmap_console::answer::write_rows;
use stallmap_console::args::tree::{TreeArgs, TreeLevel, TreeMetric, TreeSort};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::shorten::printable;

/// Note on differences.
const NOISE: &str =
    "\nratio: after divided by before, with its 95 % CI from low to high. ~: not significant.";

/// A capture's launches, and the completeness of their costs.
struct TreeLaunches {
    session: Session,
    launches: Vec<PathLaunch>,
    known: CostCompleteness,
    filter: Option<LaunchFilter>,
}

/// Prints the tree, or its query.
pub fn run(context: &CommandContext, args: &TreeArgs) -> Outcome {
    if args.sql {
        return show_sql(context, args);
    }
    let TreeLaunches { session, launches, known, filter } = ask(context, args, &args.capture)?;
    let before = args.diff.as_ref().map(|other| ask(context, args, other)).transpose()?;
    let args = &measured(args, before.iter().flat_map(|before| &before.launches).chain(&launches));
    say(args, &known, before.as_ref().map(|before| &before.known))?;
    let filters = before.iter().filter_map(|before| before.filter.as_ref()).chain(&filter);
    filters.into_iter().try_for_each(|filter| filter.say(args.output.format(), "these"))?;
    let mut sides = Vec::new();
    sides.extend(before.map(|before| (CaptureSide::Before, before.launches)));
    sides.push((CaptureSide::After, launches));
    warn(args, &sides);
    let paths = path::paths(&sides, &args.by, args.frame());
    let mut rows = choose(args, &paths, &choice(args));
    if args.diff.is_some() {
        compare(args, &session, &paths, &mut rows)?;
    }
    match args.output.format().for_programs() {
        Some(format) => {
            let batch = export::batch(&rows, &paths.steps, &args.metrics, args.diff.is_some());
            write_rows(&[batch.map_err(arrow_failure)?], format)?;
        }
        None => show(args, &rows, &paths.steps)?,
    }
    Ok(OK)
}

/// The options with a metric: by default samples, or time where no launch has samples.
fn measured<'a>(args: &TreeArgs, mut launches: impl Iterator<Item = &'a PathLaunch>) -> TreeArgs {
    let mut args = args.clone();
    if args.metrics.is_empty() {
        let has_samples = launches.any(|launch| launch.cost.samples > 0.0);
        args.metrics.push(if has_samples { TreeMetric::Samples } else { TreeMetric::Time });
    }
    args
}

fn show_sql(context: &CommandContext, args: &TreeArgs) -> Outcome {
    // The capture is opened anyway, to report a wrong path.
    let session = context.open(&[(None, args.capture.clone())])?;
    let filter = runtime()?.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    let filtered = |query: CommandQuery| filtered(filter.as_ref(), query);
    let mut shown = if args.diff.is_none() {
        vec![filtered(queries::tree::LAUNCHES)]
    } else {
        vec![filtered(queries::diff::TREE_LAUNCHES), queries::diff::TREE_NODES.sql(&[])]
    };
    if args.by.contains(&TreeLevel::Layer) {
        shown.push(filtered(queries::tree::LAYERS));
    }
    if has_code(args) {
        shown.extend([queries::tree::CODE, queries::tree::INSTRUCTIONS].map(filtered));
    }
    output::print(&shown.join("\n")).map(|()| OK)
}

/// A query, restricted to the launches of a filter if there is one.
fn filtered(filter: Option<&LaunchFilter>, query: CommandQuery) -> String {
    let sql = query.sql(&[]);
    filter.map_or(sql.clone(), |filter| filter.sql(&sql))
}

fn ask(context: &CommandContext, args: &TreeArgs, capture: &CaptureLocation) -> Outcome<TreeLaunches> {
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", capture.display()));
        context.open(&[(None, capture.clone())])?
    };
    let _progress =
        ProgressSpinner::for_work(session.work(), format!("asking {} for call paths", capture.display()));
    let query = if args.diff.is_some() { queries::diff::TREE_LAUNCHES } else { queries::tree::LAUNCHES };
    let runtime = runtime()?;
    let known = runtime.block_on(known(&session))?;
    let filter = runtime.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    let answer = |query| runtime.block_on(asked(&session, query, &filtered(filter.as_ref(), query)));
    let mut launches = read::launches(&answer(query)?)?;
    if args.by.contains(&TreeLevel::Layer) {
        read::attach_layers(&mut launches, &answer(queries::tree::LAYERS)?)?;
    }
    if has_code(args) {
        code::attach(&mut launches, &answer(queries::tree::CODE)?, &answer(queries::tree::INSTRUCTIONS)?)?;
    }
    Ok(TreeLaunches { session, launches, known, filter })
}

/// True if paths go on below the kernel.
fn has_code(args: &TreeArgs) -> bool {
    let below = [TreeLevel::Function, TreeLevel::Line, TreeLevel::Instruction];
    args.by.iter().any(|level| below.contains(level))
}

/// Unknown times, and numbers and levels that no launch has.
fn warn(args: &TreeArgs, sides: &[(CaptureSide, Vec<PathLaunch>)]) {
    let launches = || sides.iter().flat_map(|(_, launches)| launches);
    let timeless = launches().filter(|launch| launch.lacks_time).count();
    let has_time =
        args.metrics.iter().any(|metric| matches!(metric, TreeMetric::Time | TreeMetric::TimePerLaunch));
    if timeless > 0 && has_time {
        output::note(format_args!(
            "warning: the time of {timeless} launches is not known, and counts as none"
        ));
    }
    let lacks = |metrics: [TreeMetric; 2], work: fn(&PathLaunch) -> f64| {
        args.metrics.iter().any(|metric| metrics.contains(metric))
            && launches().all(|launch| work(launch) <= 0.0)
    };
    for (what, is_missing) in [
        ("operations", lacks([TreeMetric::Flops, TreeMetric::FlopRate], |launch| launch.cost.flops.work)),
        ("bytes", lacks([TreeMetric::Bytes, TreeMetric::ByteRate], |launch| launch.cost.bytes.work)),
    ] {
        if is_missing {
            output::note(format_args!(
                "warning: no launch has {what}: a range of the program gives them, as stallmap.region(name, flops=, bytes=)"
            ));
        }
    }
    if args.by == [TreeLevel::Range] && launches().all(|launch| launch.ranges.is_empty()) {
        output::note("warning: no launch is in a range");
    }
}

/// Computes the significance of each row among all rows, shown or not.
fn compare(
    args: &TreeArgs,
    session: &Session,
    paths: &path::LaunchPaths,
    rows: &mut [TreeRow],
) -> Outcome<()> {
    let whole = RowChoice {
        include: None,
        exclude: None,
        threshold: 0.0,
        depth: usize::MAX,
        top: usize::MAX,
        ..choice(args)
    };
    let all = choose(args, paths, &whole);
    let family: Vec<PairedCosts> = all.iter().map(|row| row.total).collect();
    let question = JudgeQuery { family: &family, metrics: &args.metrics, spread: args.spread };
    let _progress = ProgressSpinner::for_work(session.work(), "comparing call paths");
    runtime()?.block_on(judge::judge(session, &queries::diff::TREE_NODES.sql(&[]), rows, question))
}

/// The rows that the options choose.
fn choose(args: &TreeArgs, paths: &path::LaunchPaths, choice: &RowChoice<'_>) -> Vec<TreeRow> {
    if args.flat {
        flat::rows(paths, choice)
    } else {
        prune::rows(&PathForest::from_paths(paths, args.bottom_up), &paths.steps, choice)
    }
}

/// The filter of the options.
fn choice(args: &TreeArgs) -> RowChoice<'_> {
    let metric = args.metrics.first().copied().unwrap_or(TreeMetric::Samples);
    RowChoice {
        include: args.include.as_ref(),
        exclude: args.exclude.as_ref(),
        threshold: args.threshold,
        depth: args.depth.map_or(usize::MAX, |depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        top: args.top.map_or(usize::MAX, |top| usize::try_from(top).unwrap_or(usize::MAX)),
        metric,
        sort: args.sort.unwrap_or(TreeSort::Metric(metric)),
        is_diff: args.diff.is_some(),
    }
}

/// Coverage of both captures, and warnings about comparability and missing times.
fn say(args: &TreeArgs, after: &CostCompleteness, before: Option<&CostCompleteness>) -> Outcome<()> {
    if let (Some(before), Some(path)) = (before, &args.diff) {
        before.say(path, args.output.format())?;
        let differ = |what: &str, one: &str, other: &str, so: &str| {
            let (one, other) = (printable(one), printable(other));
            output::note(format_args!("warning: {what}: {one} before, {other} after; {so}"));
        };
        if before.gpus != after.gpus {
            differ("different GPUs", &before.gpus, &after.gpus, "what they cost is not comparable");
        }
        let counts_samples = args
            .metrics
            .iter()
            .any(|metric| matches!(metric, TreeMetric::Samples | TreeMetric::MemorySamples));
        if before.periods != after.periods && counts_samples {
            let so = "samples are not comparable, -m time is";
            differ("different sampling periods in cycles", &before.periods, &after.periods, so);
        }
    }
    after.say(&args.capture, args.output.format())?;
    Ok(())
}

fn show(args: &TreeArgs, rows: &[TreeRow], steps: &[path::PathStep]) -> Outcome<()> {
    let canvas = output::page();
    let levels = args.by.iter().filter_map(clap::ValueEnum::to_possible_value);
    let levels = levels.map(|level| level.get_name().to_owned()).collect::<Vec<_>>().join(", ");
    let (title, doc) = match (args.flat, args.bottom_up) {
        (true, _) => ("Names", "Inclusive and exclusive cost of each name. self adds up to the total."),
        (_, true) => ("Callers", "Below each name, its callers. Children add up to their parent."),
        _ => ("Call paths", "Below each name, its callees. Children and self add up to their parent."),
    };
    let change = if args.diff.is_some() { ", with changes" } else { "" };
    let heading = canvas.paint.text(TextRole::Heading, &format!("{title} by {levels}{change}"));
    let noise = if args.diff.is_some() { NOISE } else { "" };
    let doc = canvas.paint.text(TextRole::Dim, &format!("{doc}{noise}"));
    let picture = TreeDrawing {
        steps,
        metrics: &args.metrics,
        is_diff: args.diff.is_some(),
        header: if args.flat { "name" } else { "path" },
    };
    output::print(&format!("{heading}\n{doc}\n{}", draw::draw(rows, &picture, canvas)))
}

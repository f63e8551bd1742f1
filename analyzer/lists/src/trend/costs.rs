//! `stallmap trend`: costs over time as a picture and rows, changes, and gates.

use stallmap_console::answer::{fresh_rows, write_rows};
use stallmap_console::args::trend::{TrendArgs, TrendMetric, TrendSubject};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{GATE, OK, Outcome};
use stallmap_console::output::number::{counted, grouped, ratio};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::{TableCanvas, TextTable};
use stallmap_console::output::{self, written};

use crate::trend::gate::judge;
use crate::trend::open::{open, say_skipped};
use crate::trend::picture::{line, picture};
use crate::trend::series::{self, TrendRow, TrendSeries, shown};

/// Characters of a row's picture.
const LINE_WIDTH: usize = 24;
/// Pictures of one command.
const MAX_PICTURES: usize = 3;

/// Prints the trends, and judges the conditions.
pub fn run(context: &CommandContext, args: &TrendArgs) -> Outcome {
    let sql = series::statement(args.subject(), args.metric());
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    let fleet = open(context, &args.places, &args.label)?;
    let runtime = runtime()?;
    let (total, rows) = {
        let _progress = ProgressSpinner::for_work(fleet.session.work(), "reading costs of all captures");
        let total = series::statement(TrendSubject::Total, args.metric());
        let ask = |sql: String| runtime.block_on(async { fresh_rows(&fleet.session, &sql).await });
        (ask(total)?, ask(sql)?)
    };
    if let Some(format) = args.format().for_programs() {
        write_rows(&rows, format)?;
    } else {
        let (total, all) = (series::all(&total)?, series::all(&rows)?);
        output::print(&text(args, &total, &all))?;
        show(args, &all)?;
    }
    let mut failures = Vec::new();
    for gate in &args.gates {
        let judged = runtime.block_on(judge(&fleet.session, args, gate))?;
        if judged.failure.is_none() && !judged.summary.is_empty() {
            output::note(format_args!("holds not: {}: {}", gate.text, judged.summary));
        }
        failures.extend(judged.failure);
    }
    failures.iter().for_each(output::note);
    say_skipped(fleet.found, &fleet.skipped);
    Ok(if failures.is_empty() { OK } else { GATE })
}

/// The pictures of all launches, and the changes.
fn text(args: &TrendArgs, total: &[TrendSeries], all: &[TrendSeries]) -> String {
    let canvas = output::page();
    let mut text = pictures(args.metric(), total, canvas);
    let mut changes: Vec<(&TrendSeries, &TrendRow)> =
        all.iter().flat_map(|series| series.changes().map(move |change| (series, change))).collect();
    let size = |change: &TrendRow| (change.later - change.expected.unwrap_or(0.0)).abs();
    changes.sort_by(|(_, one), (_, other)| size(other).total_cmp(&size(one)));
    text += &canvas.paint.text(TextRole::Heading, "Changes");
    text.push('\n');
    if changes.is_empty() {
        let is_tested = all.iter().flat_map(|series| &series.points).any(|point| point.low.is_some());
        text += if is_tested {
            "(no value is outside of what those before it let expect)\n"
        } else {
            "(too few captures: only a value after three others can be tested)\n"
        };
    }
    let most = args.rows();
    for (series, change) in changes.iter().take(most) {
        text += &sentence(args.metric(), series, change);
    }
    if changes.len() > most {
        text.extend(["and ", &grouped((changes.len() - most) as i128), " more\n"]);
    }
    text
}

/// A picture of each series of all launches.
pub(crate) fn pictures(metric: TrendMetric, total: &[TrendSeries], canvas: TableCanvas) -> String {
    let mut text = String::new();
    for series in total.iter().take(MAX_PICTURES) {
        let origin = series.origin();
        let title = format!(
            "{} of all launches in {}{}",
            title(metric),
            counted(series.points.len() as u64, "capture", "captures"),
            if origin.is_empty() { String::new() } else { format!(": {origin}") }
        );
        text += &(canvas.paint.text(TextRole::Heading, &title) + "\n");
        if series.points.iter().all(|point| point.value <= 0.0) {
            text.extend(["(no ", title_of_none(metric), ")\n\n"]);
            continue;
        }
        text += &picture(series, canvas.width.unwrap_or(100), |value| shown(metric, value));
        if let (Some(first), Some(last)) = (series.points.first(), series.points.last()) {
            text.extend(["from ", first.label(), " to ", last.label(), "\n\n"]);
        }
    }
    if total.len() > MAX_PICTURES {
        let more = grouped((total.len() - MAX_PICTURES) as i128);
        text.extend([
            "and ",
            &more,
            " series of other models, branches, programs, ranks or GPUs: --label chooses captures\n\n",
        ]);
    }
    text
}

/// A change in one line.
pub(crate) fn sentence(metric: TrendMetric, series: &TrendSeries, change: &TrendRow) -> String {
    let expected = change.expected.unwrap_or(0.0);
    let interval = match (change.low, change.high) {
        (Some(low), Some(high)) => {
            format!(", expected {} to {}", shown(metric, low.max(0.0)), shown(metric, high))
        }
        _ => String::new(),
    };
    format!(
        "{}: {} {} -> {}, {}{interval}\n",
        change.label(),
        series.name(),
        shown(metric, expected),
        shown(metric, change.later),
        change.change.map_or_else(|| "new".to_owned(), |change| ratio(1.0 + change)),
    )
}

/// The series as rows: those that changed first, then the costliest.
fn show(args: &TrendArgs, all: &[TrendSeries]) -> Outcome<()> {
    let mut rows: Vec<&TrendSeries> = all.iter().collect();
    rows.sort_by_key(|series| series.changes().next().is_none());
    let most = args.rows();
    let left = rows.len().saturating_sub(most);
    rows.truncate(most);
    let first = rows.first().map(|series| series.origin());
    let is_of_several = rows.iter().any(|series| Some(series.origin()) != first);
    let cells = |series: &TrendSeries| {
        let last = series.changes().last();
        let origin = if is_of_several { series.origin() } else { String::new() };
        [
            line(series, LINE_WIDTH),
            shown(args.metric(), series.last_value()),
            last.and_then(|change| change.change).map(|change| ratio(1.0 + change)).unwrap_or_default(),
            last.map(|change| change.label().to_owned()).unwrap_or_default(),
            series.points.len().to_string(),
            origin,
            series.name().to_owned(),
        ]
    };
    let table = TextTable::of_text(
        ["trend", title(args.metric()), "change", "since", "captures", "of", args.subject().kind()],
        rows.into_iter().map(cells).collect(),
    );
    let table = table.numbers(&[1, 2, 4]).whole(&[0]).without(if is_of_several { &[] } else { &["of"] });
    output::print("\n")?;
    written(table.draw(&mut output::stdout(), output::page()))?;
    if left > 0 {
        output::print(&format!("and {left} more: -n shows them\n"))?;
    }
    Ok(())
}

/// The noun of a number that no capture has.
pub(crate) const fn title_of_none(metric: TrendMetric) -> &'static str {
    match metric {
        TrendMetric::Time => "times",
        TrendMetric::Samples => "samples",
        TrendMetric::Memory => "samples of memory stalls",
        TrendMetric::Launches => "launches",
    }
}

const fn title(metric: TrendMetric) -> &'static str {
    match metric {
        TrendMetric::Time => "GPU time",
        TrendMetric::Samples => "samples",
        TrendMetric::Memory => "memory samples",
        TrendMetric::Launches => "launches",
    }
}

//! `stallmap top --over`: the costliest things of all captures together.

use stallmap_console::answer::{fresh_rows, write_rows};
use stallmap_console::args::top::{TopArgs, TopRanking, TopSort};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::number::counted;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::NumberFormat;
use stallmap_console::output::{self, written};

use crate::trend::open::{open, say_skipped};

/// Prints the ranking, or its query.
pub fn run(context: &CommandContext, args: &TopArgs) -> Outcome {
    let sql = match args.what {
        TopRanking::Findings => findings(args.rows, args.sort)?,
        what => costs(kind(what)?, args.rows, sort(args.sort)?),
    };
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    let fleet = open(context, &args.over, &[])?;
    let rows = {
        let _progress = ProgressSpinner::for_work(fleet.session.work(), "reading costs of all captures");
        runtime()?.block_on(fresh_rows(&fleet.session, &sql))?
    };
    if let Some(format) = args.output.format().for_programs() {
        write_rows(&rows, format)?;
    } else {
        let canvas = output::page();
        let captures = counted(fleet.read_count() as u64, "capture", "captures");
        output::print(&(canvas.paint.text(TextRole::Heading, &format!("Costs in {captures}")) + "\n"))?;
        let table = TextTable::from_batches(&rows, NumberFormat::Report).map_err(arrow_failure)?;
        written(table.draw(&mut output::stdout(), canvas))?;
    }
    say_skipped(fleet.found, &fleet.skipped);
    Ok(OK)
}

/// The costliest things of a kind, and all others as one row. All rows add up to the samples.
pub(crate) fn costs(kind: &str, top: u32, sort: &str) -> String {
    format!(
        "WITH placed AS (
  SELECT *, least({top} + 1, row_number() OVER (ORDER BY {sort} DESC NULLS LAST, samples DESC, name, series)) AS place
  FROM cost_total
  WHERE kind = '{kind}'
)
SELECT
  sum(samples) / nullif(sum(sum(samples)) OVER (), 0.0) AS share,
  sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share,
  sum(samples) AS samples,
  sum(time_ns) AS time_ns,
  sum(launch_count) AS launches,
  CASE WHEN place <= {top} THEN max(capture_count) END AS captures,
  CASE WHEN place <= {top} THEN max(name) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS {kind}
FROM placed
GROUP BY place
ORDER BY place;
"
    )
}

fn findings(top: u32, sort: Option<TopSort>) -> Outcome<String> {
    let sort = match sort {
        None | Some(TopSort::Saving) => "saving_samples",
        Some(TopSort::Samples) => "samples",
        Some(TopSort::Time) => "time_ns",
        Some(TopSort::MemorySamples | TopSort::Launches) => {
            return Err(CommandFailure::message(USAGE, "findings have neither launches nor memory stalls")
                .hint("sort them by saving, samples or time".to_owned()));
        }
    };
    Ok(format!(
        "SELECT saving_samples, samples, time_ns, capture_count AS captures, finding, line, op, kernel
FROM finding_total
ORDER BY {sort} DESC NULLS LAST, finding, line, op, kernel
LIMIT {top};
"
    ))
}

fn kind(what: TopRanking) -> Outcome<&'static str> {
    Ok(match what {
        TopRanking::Tensors => "tensor",
        TopRanking::Ops => "op",
        TopRanking::Lines => "line",
        TopRanking::Kernels => "kernel",
        TopRanking::Memory => {
            return Err(CommandFailure::message(USAGE, "memory is held within one program")
                .hint("stallmap top memory NAME.stallmap".to_owned()));
        }
        TopRanking::Collectives | TopRanking::Findings => {
            return Err(CommandFailure::message(USAGE, "collectives are ranked within one capture")
                .hint("stallmap top collectives NAME.stallmap".to_owned()));
        }
    })
}

fn sort(sort: Option<TopSort>) -> Outcome<&'static str> {
    Ok(match sort {
        None | Some(TopSort::Samples) => "samples",
        Some(TopSort::MemorySamples) => "memory_samples",
        Some(TopSort::Time) => "time_ns",
        Some(TopSort::Launches) => "launch_count",
        Some(TopSort::Saving) => {
            return Err(CommandFailure::message(USAGE, "only findings have a saving")
                .hint("stallmap top findings ranks them".to_owned()));
        }
    })
}

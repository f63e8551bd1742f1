//! `stallmap top --over`: the costliest things of all captures together.

use stallmap::session::Session;
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
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

use crate::trend::open::{open, say_skipped};

/// True in one row if a capture has times and no samples.
const BASIS: &str = "SELECT coalesce(bool_or(samples <= 0.0 AND time_ns > 0.0), false) AS is_by_time FROM trend_point WHERE kind = 'total'";

rows! {
    /// The measure of shares.
    #[derive(Clone, Debug)]
    struct CostBasis { is_by_time: bool }
}

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
        let is_by_time =
            args.what != TopRanking::Findings && runtime()?.block_on(is_by_time(&fleet.session))?;
        let basis = if is_by_time { ", shares of GPU time: not all captures have samples" } else { "" };
        let title = format!("Costs in {captures}{basis}");
        output::print(&(canvas.paint.text(TextRole::Heading, &title) + "\n"))?;
        let table = TextTable::from_batches(&rows, NumberFormat::Report).map_err(arrow_failure)?;
        written(table.draw(&mut output::stdout(), canvas))?;
    }
    say_skipped(fleet.found, &fleet.skipped);
    Ok(OK)
}

/// True if a capture has times and no samples. Costs of all captures compare by their times then.
async fn is_by_time(session: &Session) -> Outcome<bool> {
    let bases = CostBasis::read("basis", &fresh_rows(session, BASIS).await?)?;
    Ok(bases.iter().any(|basis| basis.is_by_time))
}

/// The costliest things of a kind, and all others as one row. All rows add up to the samples. The `cost` that may sort them
/// is samples, or time where a capture has no samples.
pub(crate) fn costs(kind: &str, top: u32, sort: &str) -> String {
    format!(
        "WITH basis AS (
  {BASIS}
), measured AS (
  SELECT t.*, CASE WHEN b.is_by_time THEN t.time_ns ELSE t.samples END AS cost
  FROM cost_total t
  CROSS JOIN basis b
  WHERE t.kind = '{kind}'
), placed AS (
  SELECT *, least({top} + 1, row_number() OVER (ORDER BY {sort} DESC NULLS LAST, samples DESC, name, series)) AS place
  FROM measured
)
SELECT
  sum(cost) / nullif(sum(sum(cost)) OVER (), 0.0) AS share,
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
        None | Some(TopSort::Saving) => {
            "is_wrong DESC, saving_low_ns + saving_high_ns DESC NULLS LAST, saving_samples"
        }
        Some(TopSort::Samples) => "samples",
        Some(TopSort::Time) => "time_ns",
        Some(TopSort::MemorySamples | TopSort::Launches) => {
            return Err(CommandFailure::message(USAGE, "findings have neither launches nor memory stalls")
                .hint("sort them by saving, samples or time".to_owned()));
        }
    };
    Ok(format!(
        "SELECT
  saving_low_ns, saving_high_ns, saving_samples, samples, time_ns, capture_count AS captures, finding, line, op, kernel
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
        None => "cost",
        Some(TopSort::Samples) => "samples",
        Some(TopSort::MemorySamples) => "memory_samples",
        Some(TopSort::Time) => "time_ns",
        Some(TopSort::Launches) => "launch_count",
        Some(TopSort::Saving) => {
            return Err(CommandFailure::message(USAGE, "only findings have a saving")
                .hint("stallmap top findings ranks them".to_owned()));
        }
    })
}

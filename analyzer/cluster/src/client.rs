//! `stallmap-cluster sql`: a statement for a scheduler, and its rows as an Arrow stream on standard output.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::ipc::writer::StreamWriter;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, future};
use prost::Message as _;
use stallmap::location::CaptureLocation;

use crate::calls;
use crate::error::{ClusterError, ClusterResult};
use crate::messages::{ClusterQuery, SkippedMessage};
use crate::output;
use crate::transport::{ClusterChannels, SecurityArgs};

/// `stallmap-cluster sql`
#[derive(Args, Debug)]
pub(crate) struct StatementArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: String,
    /// Folders, or captures, below the prefix of scheduler and executors
    #[arg(long, value_name = "FOLDER|NAME.stallmap", num_args = 1.., required = true)]
    over: Vec<PathBuf>,
    /// The statement. Its rows are written to standard output, as an Arrow stream
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    command: String,
    /// Samples that count as cost: auto, program or replays
    #[arg(long, value_name = "SAMPLES", default_value = "auto")]
    cost_from: String,
    /// Compute views although captures hold their rows
    #[arg(long)]
    recompute: bool,
    #[command(flatten)]
    security: SecurityArgs,
}

/// Asks, and writes the rows.
pub(crate) async fn run(args: StatementArgs) -> ClusterResult<()> {
    let channels = ClusterChannels::new(&args.security)?;
    let url = channels.url(&args.scheduler)?;
    let query = ClusterQuery {
        places: args.over.iter().map(address).collect(),
        sql: args.command,
        cost_from: args.cost_from,
        recomputes: args.recompute,
    };
    let messages = calls::rows(&channels, &url, &query).await?;
    let skipped = Arc::new(Mutex::new(Vec::new()));
    let last = Arc::clone(&skipped);
    let rows = messages.map_err(FlightError::from).try_filter(move |message| {
        let is_last = message.data_header.is_empty();
        if is_last {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = message.app_metadata.to_vec();
        }
        future::ready(!is_last)
    });
    write(FlightRecordBatchStream::new_from_flight_data(rows.boxed())).await?;
    let skipped = SkippedMessage::decode(skipped.lock().unwrap_or_else(PoisonError::into_inner).as_slice());
    report(
        &skipped.map_err(|error| ClusterError::message(format!("the scheduler's answer is cut: {error}")))?,
    );
    Ok(())
}

async fn write(mut rows: FlightRecordBatchStream) -> ClusterResult<()> {
    let wrong = |error: FlightError| match error {
        FlightError::Tonic(status) => ClusterError::from(*status),
        error => ClusterError::message(error.to_string()),
    };
    let first = rows.try_next().await.map_err(wrong)?;
    let Some(schema) = rows.schema().cloned() else {
        return Err(ClusterError::message("the scheduler's answer has no columns"));
    };
    let mut writer = StreamWriter::try_new(BufWriter::new(output::rows()), &schema)?;
    let mut next = first;
    while let Some(batch) = next {
        writer.write(&batch)?;
        next = rows.try_next().await.map_err(wrong)?;
    }
    let flushed = writer.into_inner()?.flush();
    flushed.map_err(|error| ClusterError::message(format!("rows cannot be written: {error}")))
}

/// Names and counts captures that were skipped, as `stallmap sql --over` does.
fn report(skipped: &SkippedMessage) {
    for (name, reason) in &skipped.reasons {
        let reason = reason.lines().collect::<Vec<_>>().join(" ");
        output::note(format_args!("warning: skipped `{}`: {reason}", name.escape_debug()));
    }
    let count = skipped.reasons.len();
    if count > 0 {
        let word = if skipped.found == 1 { "capture" } else { "captures" };
        output::note(format_args!(
            "{count} of {} {word} skipped: the rows are those of the rest",
            skipped.found
        ));
    }
}

/// A place as scheduler and executors open it: they have other working folders.
fn address(place: &PathBuf) -> String {
    let location = CaptureLocation::from(place.clone());
    if location.is_remote() {
        return location.address();
    }
    std::path::absolute(place).unwrap_or_else(|_| place.clone()).display().to_string()
}

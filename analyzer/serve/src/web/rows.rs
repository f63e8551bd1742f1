//! Rows of a statement: the first as JSON for the page's script, all as a file.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use serde_json::{Value, json};
use stallmap_console::absent;
use stallmap_console::args::RowFormat;
use stallmap_console::output::value::is_number;
use tokio::time::timeout;
use tonic::codegen::http::StatusCode;

use super::channel::WebChannel;
use super::hall::{ServedCapture, ServedCaptures};
use super::host::RequestEnd;
use super::reply::{LAST_CHUNK, WebReply, chunk};
use super::running::{ResultPart, RunningStatement};
use super::text;
use crate::failure::CodedFailure;
use crate::query::QueryFault;
use crate::work::{QueryTask, single};

/// Rows that a page shows.
const MAX_ROWS: usize = 500;
/// Bytes of the texts in them.
const MAX_BYTES: usize = 4 << 20;
/// Time to count the rows that are not shown.
const LONGEST_COUNT: Duration = Duration::from_secs(2);

/// The first rows of a statement, and the number of others.
pub(crate) async fn shown(
    hall: &ServedCaptures,
    capture: &Arc<ServedCapture>,
    text: &str,
    channel: &mut WebChannel,
    limit: &RequestEnd,
) -> Result<WebReply, QueryFault> {
    let begin = Instant::now();
    let sql = single(text)?;
    let mut running = RunningStatement::start(hall, capture, sql, None, (&mut *channel, limit)).await?;
    let fields = running.schema.fields().iter();
    let columns =
        fields.map(|field| json!({ "name": field.name(), "is_number": is_number(field.data_type()) }));
    let columns: Vec<Value> = columns.collect();
    let mut rows = PageRows::default();
    while !rows.is_full()
        && let Some(part) = running.next(channel, limit).await?
    {
        let fail =
            |error| CodedFailure::from_error(DataFusionError::from(error).into(), &capture.session, sql);
        rows.add(&part).map_err(fail)?;
    }
    let is_exact = !rows.is_full() || counted(&mut running, &mut rows.more, channel, limit).await?;
    drop(running);
    let is_empty = rows.values.is_empty() && rows.more == 0;
    let absence = if is_empty { absence(hall, capture, sql, channel, limit).await? } else { None };
    let duration_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let answer = json!({
        "columns": columns, "rows": rows.values, "more": rows.more, "is_exact": is_exact, "duration_ns": duration_ns,
        "absence": absence,
    });
    Ok(WebReply::json(StatusCode::OK, &answer))
}

/// Counts the other rows. False if that takes too long.
async fn counted(
    running: &mut RunningStatement,
    more: &mut usize,
    channel: &mut WebChannel,
    limit: &RequestEnd,
) -> Result<bool, QueryFault> {
    let counting = async {
        while let Some(part) = running.next(channel, limit).await? {
            if let ResultPart::Batch(batch) = part {
                *more += batch.num_rows();
            }
        }
        Ok::<(), QueryFault>(())
    };
    match timeout(LONGEST_COUNT.min(limit.left() / 2), counting).await {
        Ok(counted) => counted.map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Why a statement has no rows, if the capture causes it.
async fn absence(
    hall: &ServedCaptures,
    capture: &Arc<ServedCapture>,
    sql: &str,
    channel: &mut WebChannel,
    limit: &RequestEnd,
) -> Result<Option<String>, QueryFault> {
    let (own, sql) = (Arc::clone(capture), sql.to_owned());
    let mut asking = QueryTask::start(&hall.queries, async move { absent::why(&own.session, &sql).await });
    Ok(limit.work(channel, asking.result()).await??)
}

/// The rows that a page shows.
#[derive(Default)]
struct PageRows {
    values: Vec<Value>,
    bytes: usize,
    /// Rows that are not shown.
    more: usize,
}

impl PageRows {
    fn is_full(&self) -> bool {
        self.values.len() >= MAX_ROWS || self.bytes >= MAX_BYTES || self.more > 0
    }

    /// Adds the rows that fit, and counts the rest.
    fn add(&mut self, part: &ResultPart) -> Result<(), ArrowError> {
        let ResultPart::Batch(batch) = part else { return Ok(()) };
        let room = MAX_ROWS.saturating_sub(self.values.len()).min(batch.num_rows());
        let shown: RecordBatch = batch.slice(0, room);
        for row in text::rows(&shown)? {
            if self.is_full() {
                self.more += 1;
                continue;
            }
            self.bytes += row.to_string().len();
            self.values.push(row);
        }
        self.more += batch.num_rows() - room;
        Ok(())
    }
}

/// Sends all rows of a statement as a file. An error before the first rows is a reply, a later one a file without end.
pub(crate) async fn file(
    hall: &ServedCaptures,
    capture: &Arc<ServedCapture>,
    text: &str,
    (reply, format): (WebReply, RowFormat),
    (channel, limit): (&mut WebChannel, &RequestEnd),
) -> Result<(), QueryFault> {
    let mut running =
        RunningStatement::start(hall, capture, single(text)?, Some(format), (&mut *channel, limit)).await?;
    let mut next = running.next(channel, limit).await?;
    limit.write(channel, &reply.chunked()).await?;
    let sent = async {
        while let Some(part) = next {
            if let ResultPart::Bytes(bytes) = part {
                limit.write(channel, &chunk(&bytes)).await?;
            }
            next = running.next(channel, limit).await?;
        }
        limit.write(channel, LAST_CHUNK).await
    };
    // The head is sent. A reply within the body would be a part of the file.
    sent.await.map_err(|_| QueryFault::Gone(ErrorKind::ConnectionAborted.into()))
}

//! A running statement of a page: its rows, or the bytes of a file with them.

use std::io::{Result as IoResult, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt as _;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use stallmap_console::args::RowFormat;
use stallmap_console::output;
use stallmap_console::output::rows::{RowStyle, WriteError, writer};
use stallmap_console::output::table::TableShape;
use tokio::sync::mpsc;

use super::channel::WebChannel;
use super::hall::{ServedCapture, ServedCaptures};
use super::host::RequestEnd;
use crate::failure::CodedFailure;
use crate::query::QueryFault;
use crate::work::{QueryTask, defect, started};

/// A part of a result.
pub(crate) enum ResultPart {
    Schema(SchemaRef),
    Batch(RecordBatch),
    /// Bytes of a file.
    Bytes(Vec<u8>),
}

/// A running statement. It runs in a task of its own, which ends when this is dropped.
pub(crate) struct RunningStatement {
    pub(crate) schema: SchemaRef,
    parts: mpsc::Receiver<Result<ResultPart, CodedFailure>>,
    task: QueryTask<()>,
}

impl RunningStatement {
    /// Plans and starts a statement. With a format its parts are bytes of a file.
    pub(crate) async fn start(
        hall: &ServedCaptures,
        capture: &Arc<ServedCapture>,
        sql: &str,
        format: Option<RowFormat>,
        (channel, limit): (&mut WebChannel, &RequestEnd),
    ) -> Result<Self, QueryFault> {
        let (own, sql) = (Arc::clone(capture), sql.to_owned());
        let (sender, mut parts) = mpsc::channel(1);
        let task = QueryTask::start(&hall.queries, async move {
            if let Err(refusal) = run(&own.session, &sql, format, &sender).await {
                // A client that left needs no reason.
                drop(sender.send(Err(refusal)).await);
            }
        });
        match limit.work(channel, parts.recv()).await? {
            Some(Ok(ResultPart::Schema(schema))) => Ok(Self { schema, parts, task }),
            Some(Err(refusal)) => Err(refusal.into()),
            Some(Ok(_)) | None => Err(defect().into()),
        }
    }

    /// The next part. None at the end.
    pub(crate) async fn next(
        &mut self,
        channel: &mut WebChannel,
        limit: &RequestEnd,
    ) -> Result<Option<ResultPart>, QueryFault> {
        match limit.work(channel, self.parts.recv()).await? {
            Some(part) => Ok(Some(part?)),
            None => Ok(self.task.result().await.map(|()| None)?),
        }
    }
}

/// Runs a statement that only reads. The next part is computed while one is sent.
async fn run(
    session: &Session,
    sql: &str,
    format: Option<RowFormat>,
    sender: &mpsc::Sender<Result<ResultPart, CodedFailure>>,
) -> Result<(), CodedFailure> {
    let fail = |error: AnalyzeError| CodedFailure::from_error(error, session, sql);
    let plan = session.plan(sql).await.map_err(fail)?;
    Session::check_reads_only(&plan).map_err(fail)?;
    let mut stream = started(session, plan).await.map_err(fail)?;
    let (schema, buffer) = (stream.schema(), SharedBuffer::default());
    let style =
        |format| RowStyle { format, canvas: output::sheet(), shape: TableShape::default(), limit: None };
    let file = format.map(|format| writer(Box::new(buffer.clone()), &schema, style(format)));
    let mut file = file.transpose().map_err(|error| unwritable(&error))?;
    let mut part = ResultPart::Schema(schema);
    loop {
        // A client that left needs no rows.
        if sender.send(Ok(part)).await.is_err() {
            return Ok(());
        }
        let Some(batch) = stream.next().await else { break };
        let batch = batch.map_err(|error| fail(error.into()))?;
        part = match &mut file {
            None => ResultPart::Batch(batch),
            Some(file) => {
                file.write(&batch).map_err(|error| unwritable(&error))?;
                ResultPart::Bytes(buffer.take())
            }
        };
    }
    if let Some(file) = file {
        file.finish().map_err(|error| unwritable(&error))?;
        drop(sender.send(Ok(ResultPart::Bytes(buffer.take()))).await);
    }
    Ok(())
}

/// Values that the format cannot represent.
fn unwritable(error: &WriteError) -> CodedFailure {
    CodedFailure::message("22000", error.to_string(), "choose another format, or CAST the column to VARCHAR")
}

/// Bytes of a file on their way from its writer to the network.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

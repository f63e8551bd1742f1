//! Rows of one statement, streamed within a limit of time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt as _;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::cell::BatchCells;
use crate::failure::CodedFailure;
use crate::kind::ColumnType;
use crate::message::{AnswerField, ServerMessage, ValueFormat};
use crate::server::PostgresListener;
use crate::wire::ClientWire;
use crate::work::{QueryTask, TOO_LONG, over, started};

/// Why a statement has no complete answer.
#[derive(Debug)]
pub(crate) enum QueryFault {
    /// The client gets this error, and the connection goes on.
    Refused(CodedFailure),
    /// The connection is over.
    Gone(io::Error),
}

impl From<CodedFailure> for QueryFault {
    fn from(refusal: CodedFailure) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for QueryFault {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// The end of a query: a time, a cancel by the client, or the end of its connection.
pub(crate) struct QueryEnd {
    deadline: Instant,
    longest: Duration,
    cancelled: watch::Receiver<u64>,
}

impl QueryEnd {
    /// A limit from now on. Earlier cancels have no effect.
    pub(crate) fn new(longest: Duration, cancelled: &watch::Receiver<u64>) -> Self {
        let mut cancelled = cancelled.clone();
        cancelled.mark_unchanged();
        Self { deadline: Instant::now() + longest, longest, cancelled }
    }

    /// Waits for a part of a query.
    async fn work<T>(
        &mut self,
        wire: &mut ClientWire,
        work: impl Future<Output = T>,
    ) -> Result<T, QueryFault> {
        tokio::select! {
            biased;
            Ok(()) = self.cancelled.changed() => Err(cancelled().into()),
            () = sleep_until(self.deadline) => Err(self.over().into()),
            () = wire.closed() => Err(QueryFault::Gone(io::ErrorKind::ConnectionReset.into())),
            value = work => Ok(value),
        }
    }

    /// Writes what waits for the network.
    async fn flush(&mut self, wire: &mut ClientWire) -> Result<(), QueryFault> {
        tokio::select! {
            biased;
            Ok(()) = self.cancelled.changed() => Err(cancelled().into()),
            written = timeout_at(self.deadline, wire.flush()) => match written {
                Ok(written) => Ok(written?),
                Err(_) => Err(self.over().into()),
            },
        }
    }

    fn over(&self) -> CodedFailure {
        over(self.longest)
    }
}

fn cancelled() -> CodedFailure {
    CodedFailure::message(TOO_LONG, "the query was cancelled", "its client asked for it")
}

/// A column of an answer: its name and type.
pub(crate) type AnswerColumn = (String, ColumnType);

/// The columns of a plan.
pub(crate) fn columns(plan: &LogicalPlan) -> Vec<AnswerColumn> {
    let fields = plan.schema().fields().iter();
    fields.map(|field| (field.name().clone(), ColumnType::from_arrow(field.data_type()))).collect()
}

/// Sends the names and types of columns.
pub(crate) fn send_columns(
    wire: &mut ClientWire,
    columns: &[AnswerColumn],
    formats: impl Fn(usize) -> ValueFormat,
) {
    let fields = columns.iter().enumerate().map(|(index, (name, column))| AnswerField {
        name,
        type_id: column.type_id(),
        size: column.size(),
        format: formats(index),
    });
    wire.send(&ServerMessage::Columns(&fields.collect::<Vec<_>>()));
}

/// Plans a statement.
pub(crate) async fn planned(
    server: &Arc<PostgresListener>,
    sql: &str,
    wire: &mut ClientWire,
    limit: &mut QueryEnd,
) -> Result<LogicalPlan, QueryFault> {
    let (session, own, text) = (&server.session, Arc::clone(server), sql.to_owned());
    let mut planning = QueryTask::start(&server.queries, async move {
        own.catalog.prepare(&own.session, &text).await?;
        own.session.plan(&text).await
    });
    let plan = limit.work(wire, planning.result()).await??;
    let plan = plan.map_err(|error| CodedFailure::from_error(error, session, sql))?;
    Session::check_reads_only(&plan).map_err(|error| CodedFailure::from_error(error, session, sql))?;
    if plan.schema().fields().len() > usize::from(u16::MAX / 2) {
        return Err(CodedFailure::message(
            "54011",
            "the statement has too many columns",
            "name fewer columns",
        )
        .into());
    }
    Ok(plan)
}

/// A running query. It runs in a task of its own: computing never delays the end of its time.
pub(crate) struct RunningQuery {
    sql: String,
    batches: mpsc::Receiver<Result<RecordBatch, AnalyzeError>>,
    task: QueryTask<()>,
    types: Vec<(ColumnType, ValueFormat)>,
    /// The batch that is being sent, its next row, and its number of rows.
    batch: Option<(BatchCells, usize, usize)>,
    /// True after the last batch.
    is_over: bool,
    /// Rows that were sent.
    pub(crate) count: u64,
}

impl RunningQuery {
    /// Starts a query with the types that its client has.
    pub(crate) fn start(
        server: &Arc<PostgresListener>,
        sql: &str,
        plan: LogicalPlan,
        types: Vec<(ColumnType, ValueFormat)>,
    ) -> Self {
        let (sender, batches) = mpsc::channel(1);
        let task = QueryTask::start(&server.queries, run(Arc::clone(server), plan, sender));
        Self { sql: sql.to_owned(), batches, task, types, batch: None, is_over: false, count: 0 }
    }

    /// Sends up to a number of rows, or all for 0. True if rows may be left.
    pub(crate) async fn send(
        &mut self,
        session: &Session,
        most_rows: usize,
        wire: &mut ClientWire,
        limit: &mut QueryEnd,
    ) -> Result<bool, QueryFault> {
        let mut left = if most_rows == 0 { usize::MAX } else { most_rows };
        loop {
            let Some((cells, next, rows)) = &mut self.batch else {
                let Some(batch) = limit.work(wire, self.batches.recv()).await? else {
                    return self.ended().await.map(|()| false);
                };
                let fail = |error| CodedFailure::from_error(error, session, &self.sql);
                let batch = batch.map_err(fail)?;
                let cells = BatchCells::for_batch(&batch, &self.types);
                let cells = cells.map_err(|error| fail(DataFusionError::from(error).into()))?;
                self.batch = Some((cells, 0, batch.num_rows()));
                continue;
            };
            while *next < *rows && left > 0 {
                cells.put(*next, wire.output());
                *next += 1;
                left -= 1;
                self.count += 1;
                if wire.is_full() {
                    limit.flush(wire).await?;
                }
            }
            if *next == *rows {
                self.batch = None;
            }
            if left == 0 {
                return Ok(true);
            }
        }
    }

    /// An error if the query's task did not end by itself.
    async fn ended(&mut self) -> Result<(), QueryFault> {
        // A second wait for a task that ended would fail.
        if !self.is_over {
            self.task.result().await?;
            self.is_over = true;
        }
        Ok(())
    }
}

/// Runs a query. The next batch is computed while one is sent.
async fn run(
    server: Arc<PostgresListener>,
    plan: LogicalPlan,
    sender: mpsc::Sender<Result<RecordBatch, AnalyzeError>>,
) {
    match started(&server.session, plan).await {
        Ok(mut stream) => {
            while let Some(batch) = stream.next().await {
                let is_last = batch.is_err();
                if sender.send(batch.map_err(AnalyzeError::from)).await.is_err() || is_last {
                    return;
                }
            }
        }
        // A client that left needs no reason.
        Err(error) => drop(sender.send(Err(error)).await),
    }
}

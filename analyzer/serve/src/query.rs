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

use crate::cell::Cells;
use crate::failure::Refusal;
use crate::kind::ColumnType;
use crate::message::{Field, Format, Reply};
use crate::server::Server;
use crate::wire::Wire;
use crate::work::{TOO_LONG, Task, over, started};

/// Why a statement has no complete answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The client gets this error, and the connection goes on.
    Refused(Refusal),
    /// The connection is over.
    Gone(io::Error),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// The end of a query: a time, a cancel by the client, or the end of its connection.
pub(crate) struct Limit {
    deadline: Instant,
    longest: Duration,
    cancelled: watch::Receiver<u64>,
}

impl Limit {
    /// A limit from now on. Earlier cancels have no effect.
    pub(crate) fn new(longest: Duration, cancelled: &watch::Receiver<u64>) -> Self {
        let mut cancelled = cancelled.clone();
        cancelled.mark_unchanged();
        Self { deadline: Instant::now() + longest, longest, cancelled }
    }

    /// Waits for a part of a query.
    async fn work<T>(&mut self, wire: &mut Wire, work: impl Future<Output = T>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            Ok(()) = self.cancelled.changed() => Err(cancelled().into()),
            () = sleep_until(self.deadline) => Err(self.over().into()),
            () = wire.closed() => Err(Fault::Gone(io::ErrorKind::ConnectionReset.into())),
            value = work => Ok(value),
        }
    }

    /// Writes what waits for the network.
    async fn flush(&mut self, wire: &mut Wire) -> Result<(), Fault> {
        tokio::select! {
            biased;
            Ok(()) = self.cancelled.changed() => Err(cancelled().into()),
            written = timeout_at(self.deadline, wire.flush()) => match written {
                Ok(written) => Ok(written?),
                Err(_) => Err(self.over().into()),
            },
        }
    }

    fn over(&self) -> Refusal {
        over(self.longest)
    }
}

fn cancelled() -> Refusal {
    Refusal::message(TOO_LONG, "the query was cancelled", "its client asked for it")
}

/// A column of an answer: its name and type.
pub(crate) type Column = (String, ColumnType);

/// The columns of a plan.
pub(crate) fn columns(plan: &LogicalPlan) -> Vec<Column> {
    let fields = plan.schema().fields().iter();
    fields.map(|field| (field.name().clone(), ColumnType::of(field.data_type()))).collect()
}

/// Sends the names and types of columns.
pub(crate) fn send_columns(wire: &mut Wire, columns: &[Column], formats: impl Fn(usize) -> Format) {
    let fields = columns.iter().enumerate().map(|(index, (name, column))| Field {
        name,
        type_id: column.type_id(),
        size: column.size(),
        format: formats(index),
    });
    wire.send(&Reply::Columns(&fields.collect::<Vec<_>>()));
}

/// Plans a statement.
pub(crate) async fn planned(
    server: &Arc<Server>,
    sql: &str,
    wire: &mut Wire,
    limit: &mut Limit,
) -> Result<LogicalPlan, Fault> {
    let (session, own, text) = (&server.session, Arc::clone(server), sql.to_owned());
    let mut planning = Task::start(&server.queries, async move {
        own.catalog.prepare(&own.session, &text).await?;
        own.session.plan(&text).await
    });
    let plan = limit.work(wire, planning.result()).await??;
    let plan = plan.map_err(|error| Refusal::of(error, session, sql))?;
    Session::check_reads_only(&plan).map_err(|error| Refusal::of(error, session, sql))?;
    if plan.schema().fields().len() > usize::from(u16::MAX / 2) {
        return Err(
            Refusal::message("54011", "the statement has too many columns", "name fewer columns").into()
        );
    }
    Ok(plan)
}

/// A running query. It runs in a task of its own: computing never delays the end of its time.
pub(crate) struct Rows {
    sql: String,
    batches: mpsc::Receiver<Result<RecordBatch, AnalyzeError>>,
    task: Task<()>,
    types: Vec<(ColumnType, Format)>,
    /// The batch that is being sent, its next row, and its number of rows.
    batch: Option<(Cells, usize, usize)>,
    /// True after the last batch.
    is_over: bool,
    /// Rows that were sent.
    pub(crate) count: u64,
}

impl Rows {
    /// Starts a query with the types that its client has.
    pub(crate) fn start(
        server: &Arc<Server>,
        sql: &str,
        plan: LogicalPlan,
        types: Vec<(ColumnType, Format)>,
    ) -> Self {
        let (sender, batches) = mpsc::channel(1);
        let task = Task::start(&server.queries, run(Arc::clone(server), plan, sender));
        Self { sql: sql.to_owned(), batches, task, types, batch: None, is_over: false, count: 0 }
    }

    /// Sends up to a number of rows, or all for 0. True if rows may be left.
    pub(crate) async fn send(
        &mut self,
        session: &Session,
        most_rows: usize,
        wire: &mut Wire,
        limit: &mut Limit,
    ) -> Result<bool, Fault> {
        let mut left = if most_rows == 0 { usize::MAX } else { most_rows };
        loop {
            let Some((cells, next, rows)) = &mut self.batch else {
                let Some(batch) = limit.work(wire, self.batches.recv()).await? else {
                    return self.ended().await.map(|()| false);
                };
                let fail = |error| Refusal::of(error, session, &self.sql);
                let batch = batch.map_err(fail)?;
                let cells = Cells::of(&batch, &self.types);
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
    async fn ended(&mut self) -> Result<(), Fault> {
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
    server: Arc<Server>,
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

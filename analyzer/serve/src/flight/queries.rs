//! Queries: their number, their time, and their rows.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::CodedFailure;
use crate::work::{QueryTask, over, single, started};
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::logical_expr::LogicalPlan;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use stallmap::session::Session;
use tokio::runtime::Handle as Threads;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::Status;

use crate::flight::columns::{plain, plain_batch};
use crate::flight::handle::StatementHandle;
use crate::flight::status::{failed, status};

/// Messages of an answer.
pub(crate) type FlightMessages = BoxStream<'static, Result<FlightData, Status>>;

/// The session with its threads and limits.
pub(crate) struct FlightQueries {
    pub(crate) session: Session,
    /// Threads for queries.
    threads: Threads,
    /// Time of a query.
    longest: Duration,
    most: usize,
    slots: Arc<Semaphore>,
}

impl FlightQueries {
    pub(crate) fn new(session: Session, threads: Threads, longest: Duration, most: usize) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(most));
        Arc::new(Self { session, threads, longest, most, slots })
    }

    /// A place for a query.
    fn slot(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let message = format!("all {} queries at a time are running", self.most);
            status(&CodedFailure::message("53300", message, "wait for one, or raise --connections"))
        })
    }

    /// Runs work on the threads for queries, within the time of a query.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let slot = self.slot()?;
        let mut task = QueryTask::start(&self.threads, async move {
            let done = work.await;
            drop(slot);
            done
        });
        match timeout(self.longest, task.result()).await {
            Ok(Ok(done)) => done,
            Ok(Err(refusal)) => Err(status(&refusal)),
            Err(_) => Err(status(&over(self.longest))),
        }
    }

    /// The plan of a statement that only reads, and the schema of its rows.
    pub(crate) async fn planned(&self, handle: &StatementHandle) -> Result<(LogicalPlan, SchemaRef), Status> {
        let sql = single(&handle.sql).map_err(|refusal| status(&refusal))?;
        let fail = |error| failed(error, &self.session, sql);
        let plan = self.session.plan(sql).await.map_err(fail)?;
        Session::check_reads_only(&plan).map_err(fail)?;
        let plan = handle.bound(plan).await.map_err(|refusal| status(&refusal))?;
        // Values can give types to columns.
        let schema = plain(plan.schema().as_arrow());
        Ok((plan, schema))
    }

    /// The rows of a statement. The query runs in a task of its own, which ends when the stream is dropped.
    pub(crate) fn rows(self: &Arc<Self>, handle: StatementHandle) -> Result<FlightMessages, Status> {
        let slot = self.slot()?;
        let deadline = Instant::now() + self.longest;
        let (sender, messages) = mpsc::channel(1);
        let queries = Arc::clone(self);
        let task = QueryTask::start(&self.threads, async move {
            if let Err(refused) = queries.run(handle, &sender).await {
                // A client that left needs no reason.
                drop(sender.send(Err(refused)).await);
            }
            drop(slot);
        });
        let stop = task.stop();
        // A client that does not read never asks the stream for the time.
        let watch = QueryTask::start(&Threads::current(), async move {
            sleep_until(deadline).await;
            stop.now();
        });
        let rows = FlightRows { messages, task, _watch: watch, deadline, longest: self.longest };
        Ok(stream::unfold(Some(rows), FlightRows::step).boxed())
    }

    /// Sends the rows of a statement.
    async fn run(
        self: &Arc<Self>,
        handle: StatementHandle,
        sender: &mpsc::Sender<Result<FlightData, Status>>,
    ) -> Result<(), Status> {
        let (plan, schema) = self.planned(&handle).await?;
        let fail = |error| failed(error, &self.session, &handle.sql);
        let batches = started(&self.session, plan).await.map_err(fail)?;
        let (queries, sql, shape) = (Arc::clone(self), handle.sql.clone(), SchemaRef::clone(&schema));
        let batches = batches.map(move |batch| {
            let sent = batch.and_then(|batch| Ok(plain_batch(&batch, &shape)?));
            sent.map_err(|error| FlightError::from(failed(error.into(), &queries.session, &sql)))
        });
        let mut messages = encoded(schema, batches);
        while let Some(message) = messages.next().await {
            if sender.send(message).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Batches as messages of Flight, those of their schema first.
pub(crate) fn encoded(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<arrow::array::RecordBatch, FlightError>> + Send + 'static,
) -> FlightMessages {
    let messages = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    messages.map(|message| message.map_err(Status::from)).boxed()
}

/// A running answer.
struct FlightRows {
    messages: mpsc::Receiver<Result<FlightData, Status>>,
    task: QueryTask<()>,
    _watch: QueryTask<()>,
    deadline: Instant,
    longest: Duration,
}

impl FlightRows {
    /// The next message with the rest of the answer, which ends with an error.
    async fn step(rows: Option<Self>) -> Option<(Result<FlightData, Status>, Option<Self>)> {
        let mut rows = rows?;
        match timeout_at(rows.deadline, rows.messages.recv()).await {
            Ok(Some(Ok(message))) => Some((Ok(message), Some(rows))),
            Ok(Some(Err(refused))) => Some((Err(refused), None)),
            Ok(None) if Instant::now() < rows.deadline => {
                let refusal = rows.task.result().await.err()?;
                Some((Err(status(&refusal)), None))
            }
            Ok(None) | Err(_) => Some((Err(status(&over(rows.longest))), None)),
        }
    }
}

//! The end of a statement's time: planning and some functions compute without a pause, so no runtime can cancel them from
//! outside.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::error::{DataFusionError, Result};
use futures::future::BoxFuture;

tokio::task_local! {
    static ENDING: StatementEnd;
}

/// The end of a statement, by its client or by a time. Its planning, and work of its rows that may be long, ask for it again
/// and again.
#[derive(Clone, Debug, Default)]
pub struct StatementEnd(Arc<EndState>);

#[derive(Debug, Default)]
struct EndState {
    is_over: AtomicBool,
    deadline: Option<Instant>,
}

impl StatementEnd {
    /// An end at a time, or before.
    pub fn at(deadline: Instant) -> Self {
        Self(Arc::new(EndState { is_over: AtomicBool::new(false), deadline: Some(deadline) }))
    }

    /// Ends the statement now.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }

    /// True after the end of the statement.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Relaxed)
            || self.0.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Work that has this end.
    pub async fn within<T>(self, work: impl Future<Output = T>) -> T {
        ENDING.scope(self, work).await
    }
}

/// An error after the end of the statement that is being planned or run.
///
/// # Errors
/// Fails after the end of [`StatementEnd::within`] around the caller. Without one it never does.
pub fn check() -> Result<()> {
    if ENDING.try_with(StatementEnd::is_over).unwrap_or(false) {
        return Err(DataFusionError::Execution("the statement ended before its answer".to_owned()));
    }
    Ok(())
}

/// Gives the tasks that DataFusion starts the end of the statement that starts them.
struct TaskEnds;

type AnyTaskResult = Box<dyn Any + Send>;

impl JoinSetTracer for TaskEnds {
    fn trace_future(&self, work: BoxFuture<'static, AnyTaskResult>) -> BoxFuture<'static, AnyTaskResult> {
        match ENDING.try_with(StatementEnd::clone) {
            Ok(ending) => Box::pin(ending.within(work)),
            Err(_) => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> AnyTaskResult + Send>,
    ) -> Box<dyn FnOnce() -> AnyTaskResult + Send> {
        match ENDING.try_with(StatementEnd::clone) {
            Ok(ending) => Box::new(move || ENDING.sync_scope(ending, work)),
            Err(_) => work,
        }
    }
}

/// Lets the tasks of all statements of this process see their end. A program that watches DataFusion's tasks itself goes
/// without.
pub fn follow_tasks() {
    drop(set_join_set_tracer(&TaskEnds));
}

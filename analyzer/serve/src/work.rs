//! Running statements: one that only reads, its task, and its end.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use stallmap::ending::StatementEnd;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use stallmap::statements;
use stallmap_console::exit::CommandFailure;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use crate::failure::CodedFailure;

/// The code of a query that was ended.
pub(crate) const TOO_LONG: &str = "57014";

/// Work on the threads for queries, which ends when no client waits for it.
#[derive(Debug)]
pub(crate) struct QueryTask<T> {
    handle: JoinHandle<T>,
    stop: TaskStop,
}

/// The end of a task from outside.
#[derive(Clone, Debug)]
pub(crate) struct TaskStop {
    /// Ends it at its next pause.
    abort: AbortHandle,
    /// Ends its planning, which has no pause.
    ending: StatementEnd,
}

impl TaskStop {
    /// Ends the task.
    pub(crate) fn now(&self) {
        self.ending.end();
        self.abort.abort();
    }
}

impl<T: Send + 'static> QueryTask<T> {
    /// Starts work.
    pub(crate) fn start(threads: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        let ending = StatementEnd::default();
        let handle = threads.spawn(ending.clone().within(work));
        let stop = TaskStop { abort: handle.abort_handle(), ending };
        Self { handle, stop }
    }
}

impl<T> QueryTask<T> {
    /// Its result.
    ///
    /// # Errors
    /// Fails if it panicked.
    pub(crate) async fn result(&mut self) -> Result<T, CodedFailure> {
        (&mut self.handle).await.map_err(|_| defect())
    }

    /// Its end from outside.
    pub(crate) fn stop(&self) -> TaskStop {
        self.stop.clone()
    }
}

impl<T> Drop for QueryTask<T> {
    fn drop(&mut self) {
        self.stop.now();
    }
}

/// The end of a query's task by a panic.
pub(crate) fn defect() -> CodedFailure {
    CodedFailure::message(
        "XX000",
        "internal error in the query",
        "this is a defect: report it with the statement",
    )
}

/// The end of a query by its time.
pub(crate) fn over(longest: Duration) -> CodedFailure {
    CodedFailure::new(TOO_LONG, CommandFailure::over_time("query", longest))
}

/// The statement of a text.
///
/// # Errors
/// Fails unless there is one.
pub(crate) fn single(text: &str) -> Result<&str, CodedFailure> {
    match statements::split(text).as_slice() {
        [sql] => Ok(sql),
        [] => Err(CodedFailure::message(
            "42601",
            "there is no statement",
            "type one: SELECT * FROM kernel_cost",
        )),
        _ => Err(CodedFailure::message("42601", "there are several statements", "run one after the other")),
    }
}

/// The stream of a plan whose joins pause regularly. Else one with many rows on both sides computes for minutes in one
/// step, and neither its limit of time nor a cancel ends it.
///
/// # Errors
/// Fails if the plan changes anything, or cannot run.
pub(crate) async fn started(
    session: &Session,
    plan: LogicalPlan,
) -> Result<SendableRecordBatchStream, AnalyzeError> {
    let frame = session.read(plan).await?;
    let context = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let pausing =
        |plan: Arc<dyn ExecutionPlan>| -> Result<Transformed<Arc<dyn ExecutionPlan>>, DataFusionError> {
            let is_join = plan.children().len() > 1 || plan.name().ends_with("JoinExec");
            Ok(if is_join {
                Transformed::yes(Arc::new(CooperativeExec::new(plan)) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(plan)
            })
        };
    Ok(execute_stream(plan.transform_up(pausing)?.data, context)?)
}

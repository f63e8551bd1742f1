//! Tasks that run at the same time, until memory does not suffice for it: then one after another.
//!
//! A task that finds no memory left does not wait for that of other tasks: it fails. Alone it may succeed.

use std::collections::{BTreeMap, VecDeque};

use datafusion::error::DataFusionError;
use tokio::task::JoinSet;

/// Running tasks, each with a number.
pub struct RunningTasks<T, E> {
    running: JoinSet<EndedTask<T, E>>,
    most: usize,
    lacks_memory: fn(&E) -> bool,
}

struct EndedTask<T, E> {
    number: usize,
    was_alone: bool,
    result: Result<T, E>,
}

/// The next thing to do about tasks.
pub enum NextTask<T, E> {
    /// The task has ended.
    Done(usize, Result<T, E>),
    /// Start it again: it lacked memory while other tasks ran.
    Again(usize),
    /// No task runs.
    Nothing,
}

impl<T: Send + 'static, E: From<DataFusionError> + Send + 'static> RunningTasks<T, E> {
    /// None yet. `most` run at the same time. `lacks_memory` is true for an error that means so.
    pub fn new(most: usize, lacks_memory: fn(&E) -> bool) -> Self {
        Self { running: JoinSet::new(), most, lacks_memory }
    }

    /// The number of running tasks.
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// True if another task may start.
    pub fn has_room(&self) -> bool {
        self.count() < self.most
    }

    /// Starts a task.
    pub fn start(&mut self, number: usize, task: impl Future<Output = Result<T, E>> + Send + 'static) {
        let was_alone = self.most == 1;
        self.running.spawn(async move { EndedTask { number, was_alone, result: task.await } });
    }

    /// Waits for a task. An error is the panic of one.
    pub async fn next(&mut self) -> Result<NextTask<T, E>, E> {
        let Some(ended) = self.running.join_next().await else { return Ok(NextTask::Nothing) };
        let EndedTask { number, was_alone, result } =
            ended.map_err(|error| DataFusionError::External(Box::new(error)))?;
        if !was_alone && result.as_ref().is_err_and(self.lacks_memory) {
            self.most = 1;
            return Ok(NextTask::Again(number));
        }
        Ok(NextTask::Done(number, result))
    }
}

/// Runs tasks with the numbers from 0, and returns their results in this order. All end, also behind an error.
pub async fn all<T, E, F>(
    mut tasks: RunningTasks<T, E>,
    count: usize,
    task: impl Fn(usize) -> F,
) -> Result<Vec<T>, E>
where
    T: Send + 'static,
    E: From<DataFusionError> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut waiting: VecDeque<usize> = (0..count).collect();
    let mut results = BTreeMap::new();
    loop {
        while tasks.has_room()
            && let Some(number) = waiting.pop_front()
        {
            tasks.start(number, task(number));
        }
        match tasks.next().await? {
            NextTask::Done(number, result) => drop(results.insert(number, result)),
            NextTask::Again(number) => waiting.push_front(number),
            NextTask::Nothing => return results.into_values().collect(),
        }
    }
}

/// True if an error means that memory did not suffice.
pub fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tokio::task::yield_now;

    use super::*;

    type TaskResult<T> = std::result::Result<T, DataFusionError>;

    /// A task that needs a part of the memory for a while.
    async fn needing(memory: Arc<Semaphore>, parts: u32) -> TaskResult<u32> {
        let lacking = |_| DataFusionError::ResourcesExhausted("memory".into()).context("view `a`");
        let held = memory.try_acquire_many(parts).map_err(lacking)?;
        for _ in 0..10 {
            yield_now().await;
        }
        drop(held);
        Ok(parts)
    }

    /// The results of tasks that need so many of ten parts of memory, three at the same time.
    async fn results(parts: &'static [u32]) -> TaskResult<Vec<u32>> {
        let memory = Arc::new(Semaphore::new(10));
        all(RunningTasks::new(3, is_out_of_memory), parts.len(), |at| needing(Arc::clone(&memory), parts[at]))
            .await
    }

    #[tokio::test]
    async fn tasks_that_lack_memory_together_run_alone() {
        let parts = &[4, 8, 3, 9, 2, 10];
        assert_eq!(results(parts).await.unwrap(), parts);
    }

    #[tokio::test]
    async fn a_task_that_lacks_memory_alone_fails() {
        assert!(is_out_of_memory(&results(&[4, 11, 5]).await.unwrap_err()));
    }
}

//! The end of a statement's time: planning computes without a pause, so no runtime can cancel it from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use datafusion::error::{DataFusionError, Result};

tokio::task_local! {
    static ENDING: StatementEnd;
}

/// The end of a statement, by its client or by a time. Its planning asks for it again and again.
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

    /// Work whose planning has this end.
    pub async fn within<T>(self, work: impl Future<Output = T>) -> T {
        ENDING.scope(self, work).await
    }
}

/// An error after the end of the statement that is being planned.
///
/// # Errors
/// Fails after the end of [`StatementEnd::within`] around the caller. Without one it never does.
pub fn check() -> Result<()> {
    if ENDING.try_with(StatementEnd::is_over).unwrap_or(false) {
        return Err(DataFusionError::Execution("the statement ended while it was planned".to_owned()));
    }
    Ok(())
}

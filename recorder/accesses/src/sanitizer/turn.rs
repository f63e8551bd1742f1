//! Turns of launches: one at a time, if the memory before and after each is recorded.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use stallmap_schema::word::LossKind;

use stallmap_session::session;

/// Time that a launch waits for another thread's before it runs concurrently.
const PATIENCE: Duration = Duration::from_mins(1);

/// The turn to launch.
#[derive(Default)]
pub(super) struct Turn {
    is_taken: Mutex<bool>,
    ended: Condvar,
}

impl Turn {
    /// Waits for the turn and takes it.
    pub(super) fn wait(&self) {
        let is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(is_taken, PATIENCE, |is_taken| *is_taken);
        let (mut is_taken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            session::lose(LossKind::Bundle, "two launches ran at once: their memory may be mixed", 1, None);
        }
        *is_taken = true;
    }

    /// Ends the turn.
    pub(super) fn end(&self) {
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.ended.notify_one();
    }
}

//! Turns of launches: one at a time, if the memory before and after each is recorded.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use stallmap_schema::word::LossKind;

use super::AccessInstrument;
use super::bundle::stepped;
use stallmap_session::session;

/// Time that a launch waits for another thread's before it runs concurrently.
const PATIENCE: Duration = Duration::from_mins(1);

/// The turn to launch.
#[derive(Default)]
pub(super) struct LaunchTurn {
    is_taken: Mutex<bool>,
    ended: Condvar,
}

thread_local! {
    /// True while a launch call of this thread has its turn.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

impl AccessInstrument {
    /// Waits for the turn, where memory is compared. It is taken at the call: in the launch itself the driver holds locks
    /// that the other launch may wait for. Steps of a graph share the turn of its launch.
    pub(super) fn begin_turn(&self) {
        if self.bundles.is_some() && stepped().is_none() {
            self.turn.wait();
            HAS_TURN.set(true);
        }
    }

    /// Ends this thread's turn.
    pub(super) fn end_turn(&self) {
        if stepped().is_none() && HAS_TURN.replace(false) {
            self.turn.end();
        }
    }
}

impl LaunchTurn {
    fn wait(&self) {
        let is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(is_taken, PATIENCE, |is_taken| *is_taken);
        let (mut is_taken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            session::lose(LossKind::Bundle, "two launches ran at once: their memory may be mixed", 1, None);
        }
        *is_taken = true;
    }

    fn end(&self) {
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.ended.notify_one();
    }
}

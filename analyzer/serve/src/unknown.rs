//! Connections whose clients have not shown the password or token yet: some at a time, and their guesses.
//!
//! A new connection takes the place of the oldest. So connections that are opened and left never keep a user out: its
//! request comes in one piece, and the place is free again at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Most connections of unknown clients.
const MAX_UNKNOWN: usize = 32;
/// Pause after a wrong password or token.
const PAUSE: Duration = Duration::from_secs(1);

/// The places of unknown clients.
#[derive(Debug, Default)]
pub(crate) struct UnknownClients(Mutex<ConnectionCount>);

#[derive(Debug, Default)]
struct ConnectionCount {
    /// The number of the next one.
    next: u64,
    /// The oldest first.
    held: VecDeque<(u64, Sender<()>)>,
}

impl UnknownClients {
    /// A place for a new connection. The oldest loses its own if there are too many.
    pub(crate) fn place(self: &Arc<Self>) -> ConnectionSlot {
        let (sender, evicted) = channel();
        let mut places = self.places();
        if places.held.len() >= MAX_UNKNOWN
            && let Some((_, oldest)) = places.held.pop_front()
        {
            // An error means that it is gone already.
            let _is_told = oldest.send(());
        }
        let number = places.next;
        places.next += 1;
        places.held.push_back((number, sender));
        drop(places);
        ConnectionSlot { number, evicted, unknown: Arc::clone(self) }
    }

    /// No holder can panic between two states, so a poisoned lock is sound.
    fn places(&self) -> MutexGuard<'_, ConnectionCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, until its client is known.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    number: u64,
    evicted: Receiver<()>,
    unknown: Arc<UnknownClients>,
}

impl ConnectionSlot {
    /// The result of work for an unknown client. None if its connection loses its place.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = &mut self.evicted => None,
            result = work => Some(result),
        }
    }

    /// Ready when the connection has lost its place.
    pub(crate) fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.evicted.poll_unpin(context).map(|_| ())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.unknown.places().held.retain(|(number, _)| *number != self.number);
    }
}

/// Guesses of passwords and tokens: few at a time, each with a pause, whether its connection waits for that or not.
#[derive(Debug)]
pub(crate) struct PasswordGuesses(Arc<Semaphore>);

impl Default for PasswordGuesses {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_UNKNOWN)))
    }
}

impl PasswordGuesses {
    /// The turn to guess.
    pub(crate) async fn turn(&self) -> GuessTurn {
        GuessTurn { _permit: Arc::clone(&self.0).acquire_owned().await.ok() }
    }
}

/// One guess.
#[derive(Debug)]
pub(crate) struct GuessTurn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl GuessTurn {
    /// Waits, after a wrong one.
    pub(crate) async fn wrong(self) {
        let pause = tokio::spawn(async move {
            sleep(PAUSE).await;
            drop(self);
        });
        // The end of the runtime is that of the pause.
        drop(pause.await);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_the_oldest() {
        let unknown = Arc::new(UnknownClients::default());
        let mut places: Vec<ConnectionSlot> = (0..MAX_UNKNOWN).map(|_| unknown.place()).collect();
        // One that left makes room.
        drop(places.remove(1));
        let mut newer = unknown.place();
        assert_eq!(places[0].during(async { 1 }).await, Some(1));
        let newest = unknown.place();
        assert_eq!(places[0].during(pending::<()>()).await, None);
        for place in places.iter_mut().skip(1).chain([&mut newer]) {
            assert_eq!(place.during(async { 1 }).await, Some(1));
        }
        drop((places, newer, newest));
        assert!(unknown.places().held.is_empty());
    }

    #[tokio::test]
    async fn a_wrong_guess_keeps_its_turn_for_a_pause() {
        let guesses = PasswordGuesses::default();
        for _ in 0..MAX_UNKNOWN {
            let turn = guesses.turn().await;
            // Its client does not wait.
            drop(tokio::time::timeout(Duration::ZERO, turn.wrong()).await);
        }
        assert_eq!(guesses.0.available_permits(), 0);
        drop(guesses.turn().await);
    }
}

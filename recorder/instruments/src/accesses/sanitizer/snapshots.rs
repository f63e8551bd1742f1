//! The thread that records counts while the program runs. A program that is killed, or leaves by `_exit`, loses those of its
//! last 200 ms.

use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use stallmap_schema::word::LossKind;
use stallmap_session::gpu::device;
use stallmap_session::gpu::graphs;
use stallmap_session::guard::guard;
use stallmap_session::session;
use stallmap_sys::cuda::DriverHandle;

use super::{AccessInstrument, HandleKey, INSTRUMENT, own};
use crate::accesses::ring::{AccessRing, SnapshotCopier};

/// The reason where no copies can be made.
const LATE: &str = "counts are read late: a program that is killed loses them";
/// Longest time until counts of a launch that has ended are recorded.
const INTERVAL: Duration = Duration::from_millis(200);
/// Shortest time between two copies, in a program that often waits for the GPU.
const PAUSE: Duration = Duration::from_millis(50);

/// True if the program has waited for the GPU since the last copy.
static IS_DUE: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

/// Starts the thread, once.
pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let thread = thread::Builder::new().name("stallmap-counts".into());
        if let Err(error) = thread.spawn(|| guard((), run)) {
            session::lose(LossKind::Source, LATE, 1, Some(error.to_string()));
        }
    });
}

/// The program has waited for the GPU: launches have ended.
pub(super) fn notify() {
    *IS_DUE.lock().unwrap_or_else(PoisonError::into_inner) = true;
    CHANGED.notify_one();
}

fn run() {
    while let (Some(instrument), false) = (INSTRUMENT.get(), session::has_ended()) {
        thread::sleep(PAUSE);
        let is_due = IS_DUE.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = CHANGED.wait_timeout_while(is_due, INTERVAL.saturating_sub(PAUSE), |is_due| !*is_due);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        instrument.record_snapshots();
    }
}

impl AccessInstrument {
    /// Makes copies of counts possible in the context of this thread, once. A launch is being called.
    pub(super) fn prepare_snapshots(&self) {
        let Some(context) = own(device::current_context).filter(|_| self.config.counts()) else { return };
        if self.lock().copiers.contains_key(&context.key()) {
            return;
        }
        let copier = own(|| graphs::relaxed(|| SnapshotCopier::new(&self.api, context)));
        let lose = |error: String| session::lose(LossKind::Source, LATE, 1, Some(error));
        self.lock().copiers.insert(context.key(), copier.map_err(lose).ok());
    }

    /// Records what was counted in launches that have ended.
    fn record_snapshots(&self) {
        let contexts: Vec<HandleKey> = self.lock().rings.keys().copied().collect();
        for context in contexts {
            // The copy takes as long as the GPU likes: no lock is held meanwhile.
            let Some(snapshot) = self.lock().rings.get(&context).and_then(AccessRing::snapshot) else {
                continue;
            };
            let copied = own(|| device::within(DriverHandle::of_key(context), || snapshot.copy(&self.api)));
            let mut state = self.lock();
            let Some(ring) = state.rings.get_mut(&context) else { continue };
            match copied.unwrap_or_else(|| Err("its context could not be entered".to_owned())) {
                Ok(copied) => ring.record_snapshot(copied),
                // A kernel has failed, or the context ends.
                Err(_) => ring.end_snapshots(),
            }
        }
    }
}

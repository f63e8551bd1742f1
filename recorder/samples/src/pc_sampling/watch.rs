//! A watch over sampled launches.
//!
//! Sampling runs kernels one at a time, and CUPTI holds the launch call until its kernel has ended. A kernel that waits
//! for a later launch never ends, and no call can release it. The user reads which one it is, and so does the capture.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use stallmap_schema::word::LossKind;
use stallmap_session::guard::{guard, say};
use stallmap_session::session;

/// A launch that takes longer is reported.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Sampled launches whose calls are running, in their order.
static RUNNING: Mutex<BTreeMap<u64, WatchState>> = Mutex::new(BTreeMap::new());

struct WatchState {
    name: String,
    since: Instant,
    is_reported: bool,
}

/// One launch that is watched until this is dropped.
#[derive(Debug)]
pub(super) struct WatchedLaunch(u64);

impl WatchedLaunch {
    /// Watches a launch from now on.
    pub(super) fn begin(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static START: Once = Once::new();
        START.call_once(start);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let launch = WatchState { name: name.to_owned(), since: Instant::now(), is_reported: false };
        running().insert(number, launch);
        Self(number)
    }
}

impl Drop for WatchedLaunch {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

fn running() -> MutexGuard<'static, BTreeMap<u64, WatchState>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() {
    let body = || {
        guard((), || {
            loop {
                std::thread::sleep(INTERVAL);
                report(PATIENCE);
            }
        });
    };
    if let Err(error) = std::thread::Builder::new().name("stallmap-watch".into()).spawn(body) {
        session::lose(LossKind::Source, "long launches are not reported", 1, Some(error.to_string()));
    }
}

/// Reports each launch that runs for longer than this, once.
fn report(patience: Duration) {
    let late = |launch: &&mut WatchState| !launch.is_reported && launch.since.elapsed() >= patience;
    let mut running = running();
    let names: Vec<String> = running
        .values_mut()
        .filter(late)
        .map(|launch| {
            launch.is_reported = true;
            launch.name.clone()
        })
        .collect();
    drop(running);
    for name in names {
        say(&warning(&name, patience));
        session::lose(LossKind::Source, "a launch took long under sampling", 1, Some(name));
    }
}

fn warning(name: &str, patience: Duration) -> String {
    format!(
        "`{name}` has been running for {} s. Sampling runs kernels one at a time: if it waits for a later launch, it \
         never ends. Leave it out with --exclude, or sample with --sampling continuous",
        patience.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_reported_once_and_forgotten_when_it_ends() {
        let slow = WatchedLaunch::begin("slow");
        let quick = WatchedLaunch::begin("quick");
        let reported = |watched: &WatchedLaunch| running().get(&watched.0).map(|launch| launch.is_reported);
        report(Duration::from_hours(1));
        assert_eq!((reported(&slow), reported(&quick)), (Some(false), Some(false)));
        report(Duration::ZERO);
        assert_eq!((reported(&slow), reported(&quick)), (Some(true), Some(true)));
        let number = quick.0;
        drop(quick);
        assert!(!running().contains_key(&number));
        assert!(warning("wait_for", PATIENCE).starts_with("`wait_for` has been running for 10 s."));
    }
}

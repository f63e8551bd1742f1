//! A watch over sampled launches.
//!
//! Sampling runs kernels one at a time, and CUPTI holds the launch call until its kernel has ended. A kernel that waits
//! for what the program does behind the call never ends, and no call can release it. `stallmap-record` reads which one it
//! is, and samples the program again, continuously. Where it cannot, the user reads it, and so does the capture.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use stallmap_config::held::{self, HeldLaunch};
use stallmap_schema::word::LossKind;
use stallmap_session::guard::{guard, say};
use stallmap_session::session;

/// A launch of unknown duration that takes longer is reported.
const UNMEASURED_PATIENCE: Duration = Duration::from_secs(10);
/// So is one of a measured kernel that takes longer than this, and longer than [`MEASURED_FACTOR`] times the longest.
const MEASURED_PATIENCE: Duration = Duration::from_secs(3);
/// Sampling costs a kernel far less.
const MEASURED_FACTOR: u32 = 20;
/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Sampled launches whose calls are running, in their order.
static RUNNING: Mutex<BTreeMap<u64, WatchState>> = Mutex::new(BTreeMap::new());

struct WatchState {
    name: String,
    since: Instant,
    patience: Duration,
    is_reported: bool,
}

/// One launch that is watched until this is dropped.
#[derive(Debug)]
pub(super) struct WatchedLaunch(u64);

/// Time that a launch may take, whose longest an earlier run of the program has measured. `None` where it has not.
pub(super) fn patience(longest: Option<Duration>) -> Duration {
    longest.map_or(UNMEASURED_PATIENCE, |longest| MEASURED_PATIENCE.max(longest * MEASURED_FACTOR))
}

impl WatchedLaunch {
    /// Watches a launch from now on.
    pub(super) fn begin(name: &str, patience: Duration) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static START: Once = Once::new();
        START.call_once(start);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let launch =
            WatchState { name: name.to_owned(), since: Instant::now(), patience, is_reported: false };
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
                newly_held(Instant::now()).iter().for_each(report);
            }
        });
    };
    if let Err(error) = std::thread::Builder::new().name("stallmap-watch".into()).spawn(body) {
        session::lose(LossKind::Source, "long launches are not reported", 1, Some(error.to_string()));
    }
}

/// Launches that have run out of patience, each once. A short launch may wait for the end of a long one of another
/// thread: the most patient running launch decides.
fn newly_held(now: Instant) -> Vec<HeldLaunch> {
    let mut running = running();
    let patience = running.values().map(|launch| launch.patience).max().unwrap_or_default();
    let since = |launch: &WatchState| now.saturating_duration_since(launch.since);
    let late = running.values_mut().filter(|launch| !launch.is_reported && since(launch) >= patience);
    late.map(|launch| {
        launch.is_reported = true;
        let (kernel, held_s) = (launch.name.clone(), since(launch).as_secs());
        HeldLaunch { process_id: std::process::id(), kernel, held_s }
    })
    .collect()
}

fn report(launch: &HeldLaunch) {
    if session::config().is_some_and(|config| config.is_sampled_again) && leave(launch).is_some() {
        return;
    }
    say(&warning(launch));
    session::lose(LossKind::Source, "a launch took long under sampling", 1, Some(launch.kernel.clone()));
}

/// Leaves the launch to `stallmap-record`. A reader finds the whole file or none.
fn leave(launch: &HeldLaunch) -> Option<()> {
    let path = session::config()?.directory.join(held::FILE_NAME);
    let new = path.with_extension(format!("{}.new", launch.process_id));
    std::fs::write(&new, launch.to_json().ok()?).ok()?;
    std::fs::rename(&new, &path).ok()
}

fn warning(launch: &HeldLaunch) -> String {
    format!(
        "`{}` has been running for {} s. Sampling runs kernels one at a time: if it waits for a later launch, it \
         never ends. Leave it out with --exclude, or sample with --sampling continuous",
        launch.kernel, launch.held_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_held_once_and_forgotten_when_it_ends() {
        let ms = Duration::from_millis;
        let slow = WatchedLaunch::begin("slow", patience(Some(ms(200))));
        let quick = WatchedLaunch::begin("quick", patience(Some(ms(1))));
        let later = |duration| newly_held(Instant::now() + duration);
        assert_eq!(later(ms(3_500)), [], "the quick one may wait for the slow one's end");
        let held = later(ms(4_100));
        let names: Vec<&str> = held.iter().map(|launch| launch.kernel.as_str()).collect();
        assert_eq!((names, held[0].held_s), (vec!["slow", "quick"], 4));
        assert_eq!(later(Duration::from_hours(1)), [], "each is reported once");
        let number = quick.0;
        drop((slow, quick));
        assert!(!running().contains_key(&number));
        assert!(warning(&held[0]).starts_with("`slow` has been running for 4 s."));
    }

    #[test]
    fn patience_follows_the_longest_measured_launch() {
        let seconds = [None, Some(Duration::from_millis(2)), Some(Duration::from_secs(2))];
        assert_eq!(seconds.map(|longest| patience(longest).as_secs()), [10, 3, 40]);
    }
}

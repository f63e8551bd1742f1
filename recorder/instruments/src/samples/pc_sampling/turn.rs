//! The right to sample a GPU.
//!
//! The hardware samples for one process at a time. A second process that enables sampling breaks that of the first, and
//! may break the program. Recorded processes agree on a name in Linux's abstract namespace of sockets: the kernel gives
//! it to one of them, and takes it back when that process ends, in any way. Processes in other network namespaces do
//! not see it.
//!
//! A process whose launch is to be sampled connects to the name and waits: the process that has it gives it up between
//! two launches, after [`MIN_TURN`].

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time for which a process samples before it gives way to another: to enable sampling takes a good part of it.
const MIN_TURN: Duration = Duration::from_millis(400);
/// Time that a launch waits for another process. Its kernel may wait for that launch.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Time after such a wait in which launches do not wait again.
const PAUSE: Duration = Duration::from_secs(10);

/// The right to sample one GPU. The contexts of this process share it, and it ends with the last of them.
#[derive(Debug)]
pub(super) struct SamplingTurn {
    _name: Option<Arc<UnixListener>>,
}

/// A name that this process has had.
struct HeldName {
    listener: Weak<UnixListener>,
    since: Instant,
    /// Processes that wait for it. They read the end of their connections.
    waiting: Vec<UnixStream>,
}

/// The names by GPU.
static HELD: Mutex<BTreeMap<String, HeldName>> = Mutex::new(BTreeMap::new());
/// The end of the last wait after which the turn was still another process's.
static LAST_FAILED_WAIT: Mutex<Option<Instant>> = Mutex::new(None);

fn held() -> MutexGuard<'static, BTreeMap<String, HeldName>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SamplingTurn {
    /// Takes the right to sample the GPU of this UUID. `None` while another process has it. Where the system has no such
    /// names, or the GPU is not known, nothing is excluded.
    pub(super) fn take(gpu: Option<&str>) -> Option<Self> {
        let Some(gpu) = gpu else { return Some(Self { _name: None }) };
        let mut held = held();
        if let Some(name) = held.get(gpu).and_then(|name| name.listener.upgrade()) {
            return Some(Self { _name: Some(name) });
        }
        match address(gpu).and_then(|address| UnixListener::bind_addr(&address)) {
            Ok(name) => {
                let name = Arc::new(name);
                let (listener, since, waiting) = (Arc::downgrade(&name), Instant::now(), Vec::new());
                held.insert(gpu.to_owned(), HeldName { listener, since, waiting });
                Some(Self { _name: Some(name) })
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(_) => Some(Self { _name: None }),
        }
    }
}

/// As [`SamplingTurn::take`], after another process has given up its right. `None` if it does not within [`MAX_WAIT`].
pub(super) fn take_after_wait(gpu: Option<&str>) -> Option<SamplingTurn> {
    let turn = SamplingTurn::take(gpu);
    let Some(gpu) = gpu.filter(|_| turn.is_none()) else { return turn };
    let mut failed = LAST_FAILED_WAIT.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_some_and(|end| end.elapsed() < PAUSE) {
        return None;
    }
    let deadline = Instant::now() + MAX_WAIT;
    while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        wait_for_end(gpu, left);
        // Several processes may have waited for it.
        let turn = SamplingTurn::take(Some(gpu));
        if turn.is_some() {
            return turn;
        }
    }
    *failed = Some(Instant::now());
    None
}

/// Waits for the end of the turn of the process that has the name now.
fn wait_for_end(gpu: &str, most: Duration) {
    let stream = address(gpu).and_then(|address| UnixStream::connect_addr(&address));
    // No connection: it has ended.
    let Ok(mut stream) = stream else { return };
    if stream.set_read_timeout(Some(most)).is_ok() {
        // Nothing is ever sent: the read ends with the connection, or in time.
        drop(stream.read(&mut [0]));
    }
}

/// GPUs that other processes wait for, and that this process has sampled for long enough.
pub(super) fn wanted() -> Vec<String> {
    let mut held = held();
    for name in held.values_mut() {
        let Some(listener) = name.listener.upgrade() else {
            name.waiting.clear();
            continue;
        };
        let is_set = listener.set_nonblocking(true).is_ok();
        while let Some(stream) = is_set.then(|| listener.accept().ok()).flatten() {
            name.waiting.push(stream.0);
        }
    }
    let is_wanted = |name: &HeldName| !name.waiting.is_empty() && name.since.elapsed() >= MIN_TURN;
    held.iter().filter(|(_, name)| is_wanted(name)).map(|(gpu, _)| gpu.clone()).collect()
}

/// The name of a GPU's turn.
pub(super) fn address(gpu: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("stallmap-samples-{gpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_for_a_process_that_waits() {
        let gpu = format!("GPU-test-{}", std::process::id());
        // Another process's turn: this one's table does not know it.
        let other = UnixListener::bind_addr(&address(&gpu).unwrap()).unwrap();
        assert!(SamplingTurn::take(Some(&gpu)).is_none());
        let giver = std::thread::spawn(move || other.accept().map(|(stream, _)| drop((stream, other))));
        let turn = take_after_wait(Some(&gpu));
        assert!(turn.is_some());
        giver.join().unwrap().unwrap();
        // Now this process has it, and another one waits.
        let waiting = UnixStream::connect_addr(&address(&gpu).unwrap()).unwrap();
        assert_eq!(wanted(), Vec::<String>::new(), "the turn has only begun");
        held().get_mut(&gpu).unwrap().since -= MIN_TURN;
        assert_eq!(wanted(), std::slice::from_ref(&gpu));
        drop(turn);
        assert_eq!(wanted(), Vec::<String>::new());
        waiting.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        assert_eq!((&waiting).read(&mut [0]).unwrap(), 0, "the connection has ended");
    }
}

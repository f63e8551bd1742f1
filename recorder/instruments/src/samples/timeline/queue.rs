//! Rows of launches on their way to the session: a launch call only appends to a list, a thread of its own writes it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_session::session;

/// Longest time until rows reach the session.
const PAUSE: Duration = Duration::from_millis(50);
/// Waiting launches at which the launching thread writes them itself.
const MAX_WAITING: usize = 1 << 16;

/// Rows that wait.
static WAITING: Mutex<WaitingRecords> = Mutex::new(WaitingRecords::NONE);

/// Memory of rows that were written, for the next ones: new memory would cost page faults in launch calls.
static SPARE: Mutex<WaitingRecords> = Mutex::new(WaitingRecords::NONE);

struct WaitingRecords {
    launches: Vec<Launch>,
    runs: Vec<LaunchRun>,
}

impl WaitingRecords {
    const NONE: Self = Self { launches: Vec::new(), runs: Vec::new() };
}

/// Starts the thread that writes. Without it, launching threads write.
pub(super) fn start() {
    let write = || {
        while !session::has_ended() {
            thread::sleep(PAUSE);
            flush();
        }
    };
    if let Err(error) = thread::Builder::new().name("stallmap-timeline".into()).spawn(write) {
        stallmap_session::guard::say(&format!("launches are written late: no thread: {error}"));
    }
}

/// Records a launch. Without a function it has no row of its own.
pub(crate) fn add(launch: Option<Launch>, run: LaunchRun) {
    let count = {
        let mut waiting = lock(&WAITING);
        waiting.launches.extend(launch);
        waiting.runs.push(run);
        waiting.runs.len()
    };
    if count >= MAX_WAITING {
        flush();
    }
}

/// Writes all rows that wait.
pub(super) fn flush() {
    let spare = std::mem::replace(&mut *lock(&SPARE), WaitingRecords::NONE);
    let mut rows = std::mem::replace(&mut *lock(&WAITING), spare);
    session::emit_all(rows.launches.drain(..));
    session::emit_all(rows.runs.drain(..));
    *lock(&SPARE) = rows;
}

fn lock(rows: &Mutex<WaitingRecords>) -> MutexGuard<'_, WaitingRecords> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

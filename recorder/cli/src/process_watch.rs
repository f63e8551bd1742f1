//! A watch over a run of the program: processes of it that record nothing, and a launch that sampling holds.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stallmap_config::held::{FILE_NAME, HeldLaunch};

use crate::process_tree::{EscapedProcess, ProcessTree};

/// Time between two looks at least: CUDA needs longer to start.
const MIN_INTERVAL: Duration = Duration::from_millis(150);
/// And at least this many times the time of a look: a machine may have thousands of processes.
const INTERVAL_LOOKS: u32 = 50;
/// Maximum bytes of the file that names a held launch.
const MAX_BYTES: u64 = 64 << 10;

/// A thread that watches one run.
#[derive(Debug)]
pub(crate) struct ProcessWatch {
    /// Dropped at the end of the run.
    running: Sender<()>,
    thread: JoinHandle<WatchReport>,
}

/// The observations of a watch.
#[derive(Debug, Default)]
pub(crate) struct WatchReport {
    /// Processes that used a GPU without the recorder.
    pub escaped: Vec<EscapedProcess>,
    /// The launch because of which the run was ended.
    pub held: Option<HeldLaunch>,
}

impl ProcessWatch {
    /// Watches a run from its start. With `is_sampled_again` a held launch ends it.
    pub(crate) fn begin(process_id: u32, folder: &Path, is_sampled_again: bool) -> Self {
        let (running, ended) = mpsc::channel::<()>();
        let held_file = is_sampled_again.then(|| folder.join(FILE_NAME));
        let thread = std::thread::spawn(move || {
            let mut tree = ProcessTree::of_program(process_id);
            let mut held = None;
            let mut interval = MIN_INTERVAL;
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let begin = Instant::now();
                tree.look();
                interval = MIN_INTERVAL.max(begin.elapsed() * INTERVAL_LOOKS);
                if held.is_none() {
                    held = held_file.as_deref().and_then(read_held);
                    if held.is_some() {
                        tree.kill();
                    }
                }
            }
            WatchReport { escaped: tree.escaped(), held }
        });
        Self { running, thread }
    }

    /// The report, after the run's end.
    pub(crate) fn end(self) -> WatchReport {
        drop(self.running);
        self.thread.join().unwrap_or_default()
    }
}

/// The launch that the recorded program has written down. The program may have put another file there.
fn read_held(path: &Path) -> Option<HeldLaunch> {
    let facts = fs::symlink_metadata(path).ok()?;
    let json = (facts.is_file() && facts.len() <= MAX_BYTES).then(|| fs::read_to_string(path))?.ok()?;
    HeldLaunch::from_json(&json).ok()
}

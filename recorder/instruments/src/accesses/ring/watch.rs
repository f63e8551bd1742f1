//! State that the launching threads share with the thread that reads the ring, and the watch over that thread: whoever
//! waits for it sees its progress, and that it is gone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::LossKind;
use stallmap_session::guard::say;
use stallmap_session::session;

use super::record::{LaunchTag, RingSlot};
use super::{LAST_PATIENCE, RecordFailure};
use crate::accesses::bundle::pages::PageSet;

/// State that the launching threads and the reader thread share.
pub(super) struct ReaderShared {
    pub(super) slots: *mut RingSlot,
    /// The same, by words.
    pub(super) words: *const AtomicU32,
    pub(super) slot_shift: u32,
    /// Slots that the host has read. The GPU reads it.
    pub(super) tail: *const AtomicU64,
    /// 1 once a warp has waited too long. The GPU writes it.
    pub(super) abandoned: *const AtomicU64,
    /// Not 0 once the launch of a tag has ended. The GPU writes it.
    pub(super) marks: *const AtomicU32,
    pub(super) work: Mutex<ReaderWork>,
    pub(super) changed: Condvar,
    /// The reader's folder below /proc, which goes with it.
    pub(super) reader: OnceLock<PathBuf>,
}

// SAFETY: the pointers are to pinned memory that lives as long as the process. The GPU's side of the protocol and the
// single reader thread order all access to it.
unsafe impl Send for ReaderShared {}
// SAFETY: as above.
unsafe impl Sync for ReaderShared {}

/// A launch, as announced to the reader.
pub(super) struct StartedLaunch {
    pub(super) tag: LaunchTag,
    /// Ordinal of its first kernel.
    pub(super) first: u64,
    /// Number of its tags: one, or one for each node of a graph.
    pub(super) count: u32,
    /// The rows of its kernels, by tag.
    pub(super) rows: Vec<Option<LaunchRun>>,
    /// True if its pages are gathered.
    pub(super) gathers: bool,
    /// True if its requests are counted: those without records are not lost.
    pub(super) counts: bool,
}

/// The end of a launch that the GPU cannot report.
pub(super) struct SettledLaunch {
    pub(super) tag: LaunchTag,
    /// The reason why it has no records, or not all.
    pub(super) failure: Option<RecordFailure>,
    /// Requests that it lost.
    pub(super) lost_requests: u64,
}

#[derive(Default)]
pub(super) struct ReaderWork {
    pub(super) started: Vec<StartedLaunch>,
    pub(super) settled: Vec<SettledLaunch>,
    /// Tags that the reader is done with.
    pub(super) free: Vec<(LaunchTag, u32)>,
    /// Launches that are started and not done.
    pub(super) outstanding: usize,
    /// The ordinals of their kernels.
    pub(super) ordinals: BTreeMap<LaunchTag, Range<u64>>,
    /// Rows of those launches.
    pub(super) open_rows: usize,
    /// Counts the slots that the reader has read: a waiting thread sees progress.
    pub(super) progress: u64,
    /// Pages of a launch that has ended.
    pub(super) gathered: Option<(u64, PageSet)>,
    /// The reader is gone: nothing more is read.
    pub(super) dead: bool,
    /// The process ends: launches that make no progress are given up.
    pub(super) ends: bool,
}

/// Pages of a launch, left by the reader of a ring.
pub struct PageGathering(Arc<ReaderShared>);

impl PageGathering {
    pub(super) fn new(shared: &Arc<ReaderShared>) -> Self {
        Self(Arc::clone(shared))
    }

    /// Waits until all records of a launch are read, and takes the pages that they touch.
    pub fn take(&self, ordinal: u64) -> Option<PageSet> {
        let gathered = self.0.drain().gathered.take();
        gathered.filter(|gathered| gathered.0 == ordinal).map(|gathered| gathered.1)
    }
}

impl ReaderWork {
    /// Adds a row to a launch of a graph, which may already be announced to the reader.
    pub(super) fn add(&mut self, tag: LaunchTag, offset: u32, row: LaunchRun) {
        let known = self.started.iter().rposition(|started| started.tag == tag);
        let at = known.unwrap_or_else(|| {
            let unknown =
                StartedLaunch { tag, first: 0, count: 0, rows: Vec::new(), gathers: false, counts: false };
            self.started.push(unknown);
            self.started.len() - 1
        });
        let Some(StartedLaunch { rows, .. }) = self.started.get_mut(at) else { return };
        if rows.len() <= offset as usize {
            rows.resize_with(offset as usize + 1, || None);
        }
        if let Some(slot) = rows.get_mut(offset as usize) {
            *slot = Some(row);
            self.open_rows += 1;
        }
    }
}

impl ReaderShared {
    pub(super) fn lock(&self) -> MutexGuard<'_, ReaderWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut ReaderWork)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until the reader has nothing left to do, or makes no progress.
    pub(super) fn drain(&self) -> MutexGuard<'_, ReaderWork> {
        let mut work = self.lock();
        let (mut seen, mut since) = (work.progress, Instant::now());
        while work.outstanding > 0 && !work.dead {
            let waited = self.changed.wait_timeout(work, Duration::from_millis(50));
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
            if work.progress != seen {
                (seen, since) = (work.progress, Instant::now());
            } else if !self.has_reader() {
                self.give_up(&mut work, true);
            } else if since.elapsed() > LAST_PATIENCE {
                // Its kernel hangs, or failed without a reported error.
                work.ends = true;
                since = Instant::now();
            }
        }
        work
    }

    /// The ordinals of kernels that may be running.
    pub(super) fn running(&self) -> Vec<Range<u64>> {
        let work = self.lock();
        // SAFETY: there is a word for each tag. The GPU writes it whole.
        let mark = |tag: LaunchTag| unsafe { &*self.marks.wrapping_add(tag.0 as usize) };
        let running = |(tag, _): &(&LaunchTag, &Range<u64>)| mark(**tag).load(Ordering::Acquire) == 0;
        work.ordinals.iter().filter(running).map(|(_, ordinals)| ordinals.clone()).collect()
    }

    /// Waits until the reader has nothing left to do; `false` if that takes too long.
    pub(super) fn is_idle(&self, patience: Duration) -> bool {
        let work = self.lock();
        let waited =
            self.changed.wait_timeout_while(work, patience, |work| work.outstanding > 0 && !work.dead);
        waited.unwrap_or_else(PoisonError::into_inner).0.outstanding == 0
    }

    /// False once the reader's thread is gone, however that came about: then nothing reports its end.
    pub(super) fn has_reader(&self) -> bool {
        // A program that sees another root has no /proc, and a reader nevertheless.
        self.reader.get().is_none_or(|folder| folder.exists() || !Path::new("/proc/self").exists())
    }

    /// Reads nothing more. From now on warps do not wait. `is_gone` if the reader has ended, and the launches with it that
    /// it knew.
    pub(super) fn give_up(&self, work: &mut ReaderWork, is_gone: bool) {
        // SAFETY: the word lives as long as the process.
        unsafe { &*self.tail }.store(u64::MAX >> 1, Ordering::Release);
        if !std::mem::replace(&mut work.dead, true) {
            say("memory accesses are recorded no longer, the program runs on");
        }
        let waiting = work.started.drain(..).flat_map(|started| started.rows).flatten().count();
        let lost = if is_gone { work.open_rows } else { waiting };
        work.open_rows = work.open_rows.saturating_sub(lost);
        session::lose(LossKind::Launch, "its records could not be read", lost as u64, None);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_a_reader_that_is_gone() {
        let tail: &'static AtomicU64 = Box::leak(Box::default());
        let shared = ReaderShared {
            slots: std::ptr::null_mut(),
            words: std::ptr::null(),
            slot_shift: 0,
            tail,
            abandoned: std::ptr::null(),
            marks: std::ptr::null(),
            work: Mutex::new(ReaderWork { outstanding: 2, open_rows: 3, ..ReaderWork::default() }),
            changed: Condvar::new(),
            reader: OnceLock::from(PathBuf::from("/proc/self/task/0")),
        };
        let work = shared.drain();
        assert!(work.dead);
        assert_eq!((work.open_rows, tail.load(Ordering::Acquire) > 1 << 60), (0, true));
    }
}

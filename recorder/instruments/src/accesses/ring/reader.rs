//! The thread that reads a ring: records to their launches, launches that have ended to the session.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::{read_volatile, write_bytes};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stallmap_schema::capture::request::{RequestHeader, SLOT_BYTES};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::LossKind;

use super::RecordFailure;
use super::record::{self, LaunchTag, RingSlot, TAGS};
use super::watch::{ReaderShared, ReaderWork, SettledLaunch, StartedLaunch};
use crate::accesses::bundle::pages::PageSet;
use stallmap_session::session;

/// Limit of slots that are read before the GPU is notified, and of their part of the ring.
const PIECE_SLOTS: u64 = 64 << 10;
const PIECES: u64 = 4;
/// Slots that are read before they are emptied, while they are in the processor's nearest cache.
const CLEARED_SLOTS: u64 = 256;
/// Bytes of records of one launch that go to the writer in one piece.
const PIECE_BYTES: usize = 4 << 20;
/// Most bytes of a record: a header and 32 distances of 8 bytes.
const MAX_RECORD_BYTES: usize = 9 * SLOT_BYTES;
/// Interval at which the reader looks for records and ended launches while there is nothing to read.
const POLL: Duration = Duration::from_micros(100);
/// Silence after which the records of a launch that has ended are all read, though another launch runs: a warp that has
/// reserved slots fills them within microseconds.
const QUIET: Duration = Duration::from_millis(200);

/// Starts the reader of a ring. It ends with the process. If it panics, no thread waits for it.
pub(super) fn start(shared: &Arc<ReaderShared>) -> Result<(), String> {
    let shared = Arc::clone(shared);
    let body = move || {
        if let Ok(folder) = std::fs::read_link("/proc/thread-self") {
            shared.reader.get_or_init(|| Path::new("/proc").join(folder));
        }
        let reader = RingReader::new(Arc::clone(&shared));
        if catch_unwind(AssertUnwindSafe(|| reader.run())).is_err() {
            session::lose(LossKind::Source, "the reader of accesses ended: internal error", 1, None);
            shared.give_up(&mut shared.lock(), true);
        }
    };
    let thread = std::thread::Builder::new().name("stallmap-reader".into());
    thread.spawn(body).map(drop).map_err(|error| format!("failed to start the reader thread: {error}"))
}

/// The kernel whose records carry a tag.
struct TaggedKernel {
    row: LaunchRun,
    requests: u64,
    lanes: u64,
    records: Vec<u8>,
    pages: Option<PageSet>,
}

/// A launch that is not done.
#[derive(Default)]
struct OpenLaunch {
    /// Its tags.
    count: u32,
    /// Position and time of the reader when it saw that the launch had ended.
    ended: Option<(u64, Instant)>,
    ended_ns: Option<i64>,
    failure: Option<RecordFailure>,
    lost_requests: u64,
    /// True if its requests are counted.
    counts: bool,
}

struct RingReader {
    shared: Arc<ReaderShared>,
    /// Slots read since the start.
    position: u64,
    /// Time of the last read.
    last_read: Instant,
    /// Kernels by tag.
    kernels: Vec<Option<Box<TaggedKernel>>>,
    /// Launches by their first tag.
    launches: BTreeMap<LaunchTag, OpenLaunch>,
}

impl RingReader {
    fn new(shared: Arc<ReaderShared>) -> Self {
        let kernels = std::iter::repeat_with(|| None).take(TAGS as usize).collect();
        Self { shared, position: 0, last_read: Instant::now(), kernels, launches: BTreeMap::new() }
    }

    fn run(mut self) {
        loop {
            // The order matters: a launch that is known to have ended before new announcements and before the ring is
            // read has all its records in that read.
            self.look_for_ends();
            let ends = self.take_announcements();
            let all_ended = self.launches.values().all(|launch| launch.ended.is_some());
            let (has_read, is_dry) = self.read();
            if self.is_abandoned() {
                session::lose(
                    LossKind::Source,
                    "the reader of accesses was too slow: recording ended",
                    1,
                    None,
                );
                self.shared.give_up(&mut self.shared.lock(), false);
                return self.finish_all("its records could not be read in time");
            }
            // Once the last launch is done its context may go, and the ring's memory with it: nothing below reads it.
            if is_dry {
                self.finish_ended(all_ended);
            }
            if ends && !has_read {
                self.finish_all("kernel did not complete");
            }
            if !has_read {
                std::thread::sleep(POLL);
            }
        }
    }

    /// Notes the launches whose mark the GPU has set.
    fn look_for_ends(&mut self) {
        let now = Instant::now();
        for (tag, launch) in self.launches.iter_mut().filter(|(_, launch)| launch.ended.is_none()) {
            // SAFETY: there is a word for each tag.
            let mark = unsafe { &*self.shared.marks.add(tag.0 as usize) };
            if mark.load(Ordering::Acquire) != 0 {
                launch.ended = Some((self.position, now));
                launch.ended_ns = Some(session::now_ns());
            }
        }
    }

    /// Takes the announcements of launching threads, and waits for them if there is nothing to do. Returns whether to
    /// give up launches that do not end.
    fn take_announcements(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut work = shared.lock();
        while self.launches.is_empty() && work.started.is_empty() && work.settled.is_empty() && !work.ends {
            work = shared.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        let ends = std::mem::take(&mut work.ends);
        self.hear_from(work);
        ends
    }

    fn hear_from(&mut self, mut work: MutexGuard<'_, ReaderWork>) {
        let (started, settled) = (std::mem::take(&mut work.started), std::mem::take(&mut work.settled));
        drop(work);
        for started in started {
            self.begin(started);
        }
        for settled in settled {
            self.settle(settled);
        }
    }

    fn begin(&mut self, started: StartedLaunch) {
        let StartedLaunch { tag, count, rows, gathers, counts, .. } = started;
        let launch = self.launches.entry(tag).or_default();
        launch.count = launch.count.max(count);
        launch.counts |= counts;
        for (offset, row) in (0..).zip(rows) {
            let Some(row) = row else { continue };
            let pages = gathers.then(PageSet::default);
            let kernel = TaggedKernel { row, requests: 0, lanes: 0, records: Vec::new(), pages };
            if let Some(slot) = self.kernels.get_mut(tag.plus(offset).0 as usize) {
                *slot = Some(Box::new(kernel));
            }
        }
    }

    fn settle(&mut self, settled: SettledLaunch) {
        let position = self.position;
        if let Some(launch) = self.launches.get_mut(&settled.tag) {
            launch.ended.get_or_insert((position, Instant::now()));
            launch.ended_ns.get_or_insert_with(session::now_ns);
            launch.failure = settled.failure;
            launch.lost_requests = settled.lost_requests;
        }
    }

    /// Reads complete records: whether there were any, and whether all were read.
    fn read(&mut self) -> (bool, bool) {
        let start = self.position;
        let mut position = start;
        let mut cleared = start;
        let piece = PIECE_SLOTS.min((1 << self.shared.slot_shift) / PIECES);
        let is_dry = loop {
            if position - start >= piece {
                break false;
            }
            let Some(slot) = self.shared.complete(position) else { break true };
            let (tag, header) = record::split(slot);
            let next = position + 1 + record::slots_behind(&header);
            self.take(tag, &header, position + 1..next);
            position = next;
            if position - cleared >= CLEARED_SLOTS {
                self.shared.clear(cleared, position);
                cleared = position;
            }
        };
        if position == start {
            return (false, is_dry);
        }
        self.shared.clear(cleared, position);
        // SAFETY: the word lives as long as the process.
        unsafe { &*self.shared.tail }.store(position, Ordering::Release);
        self.position = position;
        self.last_read = Instant::now();
        self.shared.lock().progress += 1;
        (true, is_dry)
    }

    fn take(&mut self, tag: LaunchTag, header: &RingSlot, rest: std::ops::Range<u64>) {
        if self.kernels.get(tag.0 as usize).is_none_or(Option::is_none) {
            // Its launch began since the reader last heard.
            let shared = Arc::clone(&self.shared);
            self.hear_from(shared.lock());
        }
        let Some(kernel) = self.kernels.get_mut(tag.0 as usize).and_then(Option::as_deref_mut) else {
            // It came after its launch was done.
            session::lose(LossKind::Access, "request of a launch that is not recorded", 1, None);
            return;
        };
        kernel.requests += 1;
        kernel.lanes += u64::from(record::lanes(header).count_ones());
        let begin = kernel.records.len();
        kernel.records.extend_from_slice(&record::bytes(header));
        for position in rest {
            kernel.records.extend_from_slice(&record::bytes(&self.shared.slot(position)));
        }
        if let Some(pages) = &mut kernel.pages {
            let record = kernel.records.get(begin..).unwrap_or_default();
            if let Some((header, slots)) = record.as_chunks().0.split_first() {
                pages.add(&RequestHeader::read(header), slots.iter());
            }
        }
        if kernel.records.len() >= PIECE_BYTES {
            let room = Vec::with_capacity(PIECE_BYTES + MAX_RECORD_BYTES);
            session::emit_requests(kernel.row.ordinal, std::mem::replace(&mut kernel.records, room));
        }
    }

    /// Finishes the launches whose records are all read: when every launch has ended, or enough was read after this one
    /// ended, or nothing came for long.
    fn finish_ended(&mut self, all_ended: bool) {
        let a_ring = 1_u64 << self.shared.slot_shift;
        let is_quiet = self.last_read.elapsed() > QUIET;
        let is_done = |launch: &OpenLaunch| {
            launch.ended.is_some_and(|(position, when)| {
                all_ended || self.position >= position + a_ring || is_quiet && when.elapsed() > QUIET
            })
        };
        let done: Vec<LaunchTag> =
            self.launches.iter().filter(|(_, launch)| is_done(launch)).map(|(tag, _)| *tag).collect();
        for tag in done {
            self.finish(tag);
        }
    }

    /// Finishes every launch. Those that have not ended for this reason.
    fn finish_all(&mut self, reason: &'static str) {
        let all: Vec<LaunchTag> = self.launches.keys().copied().collect();
        for tag in all {
            if let Some(launch) = self.launches.get_mut(&tag)
                && launch.ended.is_none()
            {
                launch.failure.get_or_insert(RecordFailure { reason, detail: None, has_run: true });
            }
            self.finish(tag);
        }
    }

    fn finish(&mut self, tag: LaunchTag) {
        let Some(launch) = self.launches.remove(&tag) else { return };
        let (mut gathered, mut rows) = (None, 0);
        if launch.count > 1 {
            let reason = "request of a graph's kernels that was left out or dropped";
            session::lose(LossKind::Access, reason, launch.lost_requests, None);
        }
        for offset in 0..launch.count {
            let slot = self.kernels.get_mut(tag.plus(offset).0 as usize);
            if let Some(kernel) = slot.and_then(Option::take) {
                rows += 1;
                gathered = finish_kernel(*kernel, &launch).or(gathered);
            }
        }
        self.shared.change(|work| {
            work.free.push((tag, launch.count));
            work.outstanding = work.outstanding.saturating_sub(1);
            work.ordinals.remove(&tag);
            work.open_rows = work.open_rows.saturating_sub(rows);
            work.progress += 1;
            work.gathered = gathered.or(work.gathered.take());
        });
    }

    fn is_abandoned(&self) -> bool {
        // SAFETY: the word lives as long as the process.
        unsafe { &*self.shared.abandoned }.load(Ordering::Acquire) != 0
    }
}

fn finish_kernel(kernel: TaggedKernel, launch: &OpenLaunch) -> Option<(u64, PageSet)> {
    let TaggedKernel { mut row, requests, lanes, records, pages } = kernel;
    let ordinal = row.ordinal;
    if !records.is_empty() {
        session::emit_requests(ordinal, records);
    }
    if let Some(failure) = &launch.failure {
        session::lose(LossKind::Launch, failure.reason, 1, failure.detail.clone());
        row.recorded = failure.has_run;
    }
    row.end_ns = launch.ended_ns;
    row.request_count = Some(requests);
    row.lane_access_count = Some(lanes);
    // Kernels of a graph launch lose requests together: which of them did is not known.
    // Finishing knows it from the counts, if there are any.
    let is_known = !launch.counts && (launch.count == 1 || launch.lost_requests == 0);
    row.lost_request_count = is_known.then_some(launch.lost_requests);
    session::emit(row);
    pages.map(|pages| (ordinal, pages))
}

impl ReaderShared {
    /// The slot at a position.
    fn slot(&self, position: u64) -> RingSlot {
        let index = position & ((1 << self.slot_shift) - 1);
        // SAFETY: the index is below the slot count. The GPU wrote the slot before its record's last word and does not
        // write it again before `tail` goes past it.
        unsafe { read_volatile(self.slots.add(index as usize)) }
    }

    /// The header at a position, where the record that begins there is complete.
    fn complete(&self, position: u64) -> Option<RingSlot> {
        /// The word of a header that is written last.
        const LAST_WORD: usize = 7;
        let index = position & ((1 << self.slot_shift) - 1);
        let words = self.words.wrapping_add(index as usize * (SLOT_BYTES / 4));
        // SAFETY: slots are aligned to their size, as pinned memory is to pages, and the word lies in the slot. The GPU
        // may write it at any time, whole.
        let last = unsafe { &*words.wrapping_add(LAST_WORD) };
        (last.load(Ordering::Acquire) != 0).then(|| self.slot(position))
    }

    /// Empties slots, which keeps their old content from being taken for a record.
    fn clear(&self, start: u64, end: u64) {
        let slot_count = 1_u64 << self.slot_shift;
        let first = start & (slot_count - 1);
        let before_wrap = (end - start).min(slot_count - first);
        for (at, slots) in [(first, before_wrap), (0, end - start - before_wrap)] {
            // SAFETY: both ranges lie in the ring, and the GPU does not write them before `tail` goes past them.
            unsafe { write_bytes(self.slots.add(at as usize), 0, slots as usize) };
        }
    }
}

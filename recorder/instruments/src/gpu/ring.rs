//! The ring that the GPU writes records into and the host reads: pinned host memory, mapped at one address for both.
//!
//! The device side and the protocol are in `device/access.cu`. On the host, the launch callback tells a reader thread
//! how far each launch wrote; the thread walks the records, copies them out, and publishes how far the GPU may write.
//! While a kernel runs it reads the chunks that the GPU announced as complete, so a kernel that fills the ring waits
//! only for this thread. Copying and compression overlap with the program; nothing is lost.
#![expect(unsafe_code, reason = "memory shared with the GPU")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "CUDA runs on 64-bit machines only, as the assertion below says"
)]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use stallmap_config::{Config, WhenFull};
use stallmap_schema::capture::request::{Request, SLOT_BYTES};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_sys::cuda::Handle;
use stallmap_sys::sanitizer::Sanitizer;

use super::bundle::pages::PageSet;
use crate::session;

const _: () = assert!(usize::BITS == 64, "slot counts are cast to usize");

/// Chunks in a ring, a power of two.
const CHUNKS: u64 = 64;
/// Slots of records that go to the writer in one piece: 4 MiB.
const PIECE_SLOTS: u64 = 128 << 10;
/// How often the reader looks for complete chunks while a kernel runs.
const POLL: Duration = Duration::from_micros(100);

/// `struct Ring` of `device/access.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    head: u64,
    tail_seen: u64,
    lost_requests: u64,
    lost_lanes: u64,
    slot_count: u64,
    slot_shift: u32,
    chunk_shift: u32,
    drops: u32,
    block_stride: u32,
    slots: u64,
    tail: u64,
    written: u64,
    ready: u64,
}

/// A ring of one context.
pub struct Ring {
    /// The control block in device memory: the patches' userdata.
    control: u64,
    shared: Arc<Shared>,
    /// Requests lost when the control block was last read.
    lost_requests: u64,
}

/// What the launching threads and the reader thread share.
struct Shared {
    slots: *const [u8; SLOT_BYTES],
    slot_shift: u32,
    chunk_shift: u32,
    /// Slots that the host has read; the GPU reads it.
    tail: *const AtomicU64,
    /// The lap in which each chunk was completed; the GPU writes it.
    ready: *const AtomicU64,
    work: Mutex<Work>,
    changed: Condvar,
}

// SAFETY: the pointers are to pinned memory that lives as long as the process; the GPU's side of the protocol and the
// single reader thread order all access to it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

#[derive(Default)]
struct Work {
    /// Launches that have ended: up to where they wrote, and their rows.
    ended: VecDeque<(u64, LaunchRun)>,
    /// The launch that runs.
    running: Option<u64>,
    /// A launch whose pages are gathered.
    gathering: Option<u64>,
    /// The pages of a launch that has ended.
    gathered: Option<(u64, PageSet)>,
    /// Whether the reader is at work on something that is no longer in `ended`.
    busy: bool,
}

impl Ring {
    /// Makes the ring of a context and starts its reader.
    pub fn new(api: &Sanitizer, context: Handle, stream: Handle, config: &Config) -> Result<Self, String> {
        let slot_count = (config.buffer_bytes / SLOT_BYTES as u64).next_power_of_two().max(CHUNKS * 64);
        let slot_shift = slot_count.trailing_zeros();
        let chunk_shift = slot_shift - CHUNKS.trailing_zeros();
        let bytes = slot_count as usize * SLOT_BYTES;
        let slots = allocate(api.alloc_host, context, bytes)?;
        let words = allocate(api.alloc_host, context, (CHUNKS as usize + 64) * 8)?;
        // SAFETY: the allocation has that many bytes and nobody else knows it yet.
        unsafe { words.cast::<u8>().write_bytes(0, (CHUNKS as usize + 64) * 8) };
        let written = allocate(api.alloc, context, CHUNKS as usize * 8)?;
        let control = allocate(api.alloc, context, size_of::<Control>())?;
        // SAFETY: `written` has that many bytes.
        check(unsafe { (api.set)(written, 0, CHUNKS as usize * 8, stream) })?;
        // The tail has a cache line of its own.
        let ready = words.wrapping_byte_add(512);
        let initial = Control {
            slot_count,
            slot_shift,
            chunk_shift,
            drops: u32::from(config.when_full == WhenFull::Drop),
            block_stride: 1,
            slots: slots as u64,
            tail: words as u64,
            written: written as u64,
            ready: ready as u64,
            ..Control::default()
        };
        // SAFETY: `control` has the size of a Control, and the call copies `initial` before it returns.
        check(unsafe {
            (api.copy_to_device)(control, (&raw const initial).cast(), size_of::<Control>(), stream)
        })?;
        // SAFETY: the stream is the launch's own.
        check(unsafe { (api.synchronize)(stream) })?;
        let shared = Arc::new(Shared {
            slots: slots.cast_const().cast(),
            slot_shift,
            chunk_shift,
            tail: words.cast_const().cast(),
            ready: ready.cast_const().cast(),
            work: Mutex::default(),
            changed: Condvar::new(),
        });
        let reader = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("stallmap-reader".into())
            .spawn(move || reader.run())
            .map_err(|error| format!("failed to start the reader thread: {error}"))?;
        Ok(Self { control: control as u64, shared, lost_requests: 0 })
    }

    /// The patches' userdata.
    pub fn userdata(&self) -> *const c_void {
        self.control as *const c_void
    }

    /// Says that a launch begins, of which one block in `block_stride` is recorded.
    /// With `gathers` the reader collects the pages that it touches.
    pub fn begin(
        &self,
        api: &Sanitizer,
        stream: Handle,
        ordinal: u64,
        block_stride: u32,
        gathers: bool,
    ) -> Result<(), String> {
        let field = self.control as usize + std::mem::offset_of!(Control, block_stride);
        // SAFETY: the field lies in the control block; the call copies the value before it returns.
        check(unsafe {
            (api.copy_to_device)(field as *mut c_void, (&raw const block_stride).cast(), 4, stream)
        })?;
        self.shared.change(|work| {
            work.running = Some(ordinal);
            work.gathering = gathers.then_some(ordinal);
            work.gathered = None;
        });
        Ok(())
    }

    /// Says that a launch has ended: reads how far it wrote, and hands its row to the reader, which completes it. How many
    /// requests it lost.
    pub fn end(&mut self, api: &Sanitizer, stream: Handle, mut row: LaunchRun) -> Result<u64, String> {
        let mut control = Control::default();
        let target = (&raw mut control).cast();
        // SAFETY: both sides have the size of a Control; the kernel has ended, so nothing changes it.
        let read = check(unsafe {
            (api.copy_to_host)(target, self.control as *const c_void, size_of::<Control>(), stream)
        });
        if let Err(error) = read {
            self.shared.change(|work| work.running = None);
            row.recorded = false;
            session::emit(row);
            return Err(error);
        }
        let lost = control.lost_requests - self.lost_requests;
        row.lost_request_count = Some(lost);
        self.lost_requests = control.lost_requests;
        self.shared.change(|work| {
            work.running = None;
            work.ended.push_back((control.head, row));
        });
        Ok(lost)
    }

    /// Waits until everything that was handed over is on its way to the disk.
    pub fn drain(&self) {
        drop(self.shared.drained());
    }

    /// Where the pages of launches are gathered.
    pub fn gathering(&self) -> Gathering {
        Gathering(Arc::clone(&self.shared))
    }
}

/// Where the reader of a ring leaves the pages of a launch.
pub struct Gathering(Arc<Shared>);

impl Gathering {
    /// Waits until all records of a launch are read, and takes the pages that they touch.
    pub fn take(&self, ordinal: u64) -> Option<PageSet> {
        let gathered = self.0.drained().gathered.take();
        gathered.filter(|gathered| gathered.0 == ordinal).map(|gathered| gathered.1)
    }
}

/// What the reader does next.
enum Next {
    /// A launch wrote up to here and has ended.
    Ended(u64, Box<LaunchRun>),
    /// A launch is running: complete chunks may be read.
    Running(u64),
}

/// The launch whose records are being read.
#[derive(Default)]
struct Count {
    requests: u64,
    lanes: u64,
    pages: Option<PageSet>,
}

impl Count {
    /// Collects pages from now on, where they are wanted.
    fn gather(&mut self, is_wanted: bool) {
        if is_wanted {
            self.pages.get_or_insert_default();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until the reader has nothing left to do.
    fn drained(&self) -> std::sync::MutexGuard<'_, Work> {
        let mut work = self.lock();
        while work.busy || !work.ended.is_empty() {
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        work
    }

    /// The reader thread.
    fn run(&self) {
        let mut position = 0;
        let mut count = Count::default();
        loop {
            match self.next() {
                Next::Ended(end, mut row) => {
                    count.gather(self.gathers(row.ordinal));
                    position = self.read(position, end, row.ordinal, &mut count);
                    let count = std::mem::take(&mut count);
                    let gathered = count.pages.map(|pages| (row.ordinal, pages));
                    row.request_count = Some(count.requests);
                    row.lane_access_count = Some(count.lanes);
                    session::emit(*row);
                    self.change(|work| {
                        work.busy = false;
                        work.gathered = gathered.or(work.gathered.take());
                    });
                }
                Next::Running(ordinal) => {
                    count.gather(self.gathers(ordinal));
                    let before = position;
                    position = self.read(position, self.complete(position), ordinal, &mut count);
                    if position == before {
                        std::thread::sleep(POLL);
                    }
                }
            }
        }
    }

    /// Whether the pages of a launch are wanted.
    fn gathers(&self, ordinal: u64) -> bool {
        self.lock().gathering == Some(ordinal)
    }

    fn next(&self) -> Next {
        let mut work = self.lock();
        loop {
            if let Some((end, row)) = work.ended.pop_front() {
                work.busy = true;
                return Next::Ended(end, Box::new(row));
            }
            if let Some(ordinal) = work.running {
                return Next::Running(ordinal);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The end of the complete chunks that begin at `position`'s.
    fn complete(&self, position: u64) -> u64 {
        let mut end = position;
        loop {
            let chunk = end >> self.chunk_shift;
            let lap = (end >> self.slot_shift) + 1;
            // SAFETY: there is a word for each chunk.
            let ready = unsafe { &*self.ready.add((chunk & (CHUNKS - 1)) as usize) };
            if ready.load(Ordering::Acquire) < lap {
                return end;
            }
            end = (chunk + 1) << self.chunk_shift;
        }
    }

    /// Reads the whole records in a range of written slots, and gives the end of the last one.
    fn read(&self, start: u64, end: u64, ordinal: u64, count: &mut Count) -> u64 {
        let mut position = start;
        loop {
            let piece_end = self.walk(position, end, count);
            if piece_end == position {
                return position;
            }
            let records = self.copy(position, piece_end);
            self.publish(piece_end);
            session::emit_requests(ordinal, records);
            position = piece_end;
        }
    }

    /// The end of the whole records from `start` on that make a piece, which are counted.
    fn walk(&self, start: u64, end: u64, count: &mut Count) -> u64 {
        let piece_end = end.min(start + PIECE_SLOTS);
        let mut position = start;
        while position < piece_end {
            let request = Request::read(self.slot(position));
            let next = position + request.slots() as u64;
            if next > end {
                break;
            }
            count.requests += 1;
            count.lanes += u64::from(request.lane_mask.count_ones());
            if let Some(pages) = &mut count.pages {
                pages.add(&request, (position + 1..next).map(|position| self.slot(position)));
            }
            position = next;
        }
        position
    }

    fn copy(&self, start: u64, end: u64) -> Vec<u8> {
        let slot_count = 1_u64 << self.slot_shift;
        let first = start & (slot_count - 1);
        let before_wrap = (end - start).min(slot_count - first);
        let mut records = Vec::with_capacity((end - start) as usize * SLOT_BYTES);
        for (at, slots) in [(first, before_wrap), (0, end - start - before_wrap)] {
            // SAFETY: both ranges lie in the ring; the GPU wrote them before it announced them and does not write them
            // again before `publish` goes past them.
            let part = unsafe { std::slice::from_raw_parts(self.slots.add(at as usize), slots as usize) };
            records.extend_from_slice(part.as_flattened());
        }
        records
    }

    fn slot(&self, position: u64) -> &[u8; SLOT_BYTES] {
        let index = position & ((1 << self.slot_shift) - 1);
        // SAFETY: the index is below the slot count; the GPU wrote the slot before it announced it and does not write it
        // again before `publish` goes past it.
        unsafe { &*self.slots.add(index as usize) }
    }

    fn publish(&self, position: u64) {
        // SAFETY: the word lives as long as the process.
        unsafe { &*self.tail }.store(position, Ordering::Release);
    }
}

type Allocate = unsafe extern "C" fn(Handle, *mut *mut c_void, usize) -> i32;

fn allocate(allocate: Allocate, context: Handle, bytes: usize) -> Result<*mut c_void, String> {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the context is alive: its launch is being called; `pointer` outlives the call.
    let code = unsafe { allocate(context, &raw mut pointer, bytes) };
    check(code).map_err(|error| format!("failed to allocate {bytes} bytes: {error}"))?;
    Ok(pointer)
}

fn check(code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("sanitizer error {code}")) }
}

//! Times of blocks: launches run a copy of their kernel that notes when its blocks begin and end.
//!
//! The copy writes into memory of its stream: launches of a stream follow each other. Before the launch that memory is
//! zeroed, behind it it is copied to pinned memory, and a word there is set: the launch has ended. A thread reads what has
//! ended. The launch path waits for no kernel. The code is `device/block.cu`, its way into a kernel [`stallmap_sass::splice`].
#![expect(unsafe_code, reason = "calls of the driver, and memory shared with the GPU")]

pub(crate) mod events;
mod layout;
mod spans;

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stallmap_sass::splice::{SplicedCode, WarpMarker, spliced};
use stallmap_schema::word::LossKind;
use stallmap_session::session;
use stallmap_sys::cuda::{ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES, ATTRIBUTE_SHARED_CARVEOUT, DriverHandle};
use stallmap_sys::replayer::{ATTRIBUTE_NON_PORTABLE_CLUSTER, Driver, HOST_PORTABLE};
use stallmap_sys::sanitizer::Sanitizer;

use crate::accesses::patch::{self, PatchSource};
use events::MarkedWarps;
use layout::{LaunchClock, RECORD_BYTES};
use spans::SpanQueue;

/// The kernels of `device/block.cu`.
const ENTER: &str = "stallmap_block_enter";
const EXIT: &str = "stallmap_block_exit";
/// The kernel for the begin where warps note moments.
const WARP_ENTER: &str = "stallmap_warp_enter";
/// Threads of a warp.
const WARP_THREADS: u64 = 32;
/// Registers that a block may have.
const MAX_BLOCK_REGISTERS: u64 = 1 << 16;
/// Limit of blocks of a launch.
pub const MAX_BLOCKS: u64 = 1 << 20;
/// Limit of streams whose launches are timed.
const MAX_STREAMS: usize = 8;
/// Pinned memory for launches that have not been read.
const POOL_BYTES: u64 = 64 << 20;
/// Limit of launches that have not been read.
const MAX_WAITING: usize = 4096;
/// Time that a launch waits for room while none gets free.
const BEHIND: Duration = Duration::from_millis(20);
/// Time that the end of the process waits for launches that make no progress.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at launches at the end.
const LAST_PAUSE: Duration = Duration::from_millis(1);

/// Times of the blocks of one context.
pub struct BlockTimer {
    driver: Driver,
    /// The GPU's compute capability.
    capability: (i32, i32),
    /// True if warps note moments.
    marks_warps: bool,
    streams: Mutex<BTreeMap<usize, Arc<StreamTimer>>>,
    /// Pinned memory for records.
    pool: *mut u8,
    /// Pinned words, one of each launch that has not been read: not 0 once it has ended.
    ended: *const AtomicU32,
    queue: Mutex<TimerQueue>,
    freed: Condvar,
}

// SAFETY: the pointers are to pinned memory that is never freed. Its words are atomic, and a span of the pool is read by
// one thread, once the GPU has written it.
unsafe impl Send for BlockTimer {}
// SAFETY: as above.
unsafe impl Sync for BlockTimer {}

/// Copies of kernels by module and function, or why there is none.
type KernelCopies = BTreeMap<(usize, usize), Result<Arc<KernelCopy>, &'static str>>;

/// Memory and code for the launches of one stream.
struct StreamTimer {
    /// Device memory for the records of the largest launch.
    records: u64,
    /// Device memory for the rings of warps, where they note moments.
    events: Option<u64>,
    /// Code that writes there.
    code: SplicedCode,
    /// Copies of kernels, by module and function.
    copies: Mutex<KernelCopies>,
    /// True while a thread calls a launch of the stream.
    is_busy: AtomicBool,
}

/// A copy of a kernel.
struct KernelCopy {
    module: DriverHandle,
    function: DriverHandle,
    /// The moments that its warps note.
    markers: Arc<[WarpMarker]>,
    /// General registers of a thread.
    registers: u32,
    /// Dynamic shared memory that its launches may ask for.
    shared_bytes: AtomicI32,
}

struct TimerQueue {
    spans: SpanQueue,
    /// Words of `ended` that no launch has.
    free: Vec<u32>,
    waiting: Vec<TimedLaunch>,
    /// Launches that were read or given up so far.
    settled: u64,
    /// True at the end: nothing is recorded any more.
    has_ended: bool,
}

/// A kernel that the program launches.
pub struct OriginalKernel<'a> {
    /// Its module.
    pub module: DriverHandle,
    /// Its function, no kernel's handle.
    pub function: DriverHandle,
    /// Its mangled name.
    pub name: &'a str,
    /// The module's cubin.
    pub cubin: &'a [u8],
}

/// The size of a launch.
#[derive(Clone, Copy, Debug)]
pub struct TimedLaunchSize {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u64,
}

/// A launch call whose kernel is replaced.
pub struct TimedCall {
    stream: DriverHandle,
    timer: Arc<StreamTimer>,
    copy: Arc<KernelCopy>,
    blocks: u64,
    /// Warps whose events are read.
    warps: Option<MarkedWarps>,
}

impl TimedCall {
    /// The function to launch.
    pub fn function(&self) -> DriverHandle {
        self.copy.function
    }

    /// Its module.
    pub fn module(&self) -> DriverHandle {
        self.copy.module
    }

    /// The launch begins and is recorded: its memory is zeroed. `stream` is the API's handle of its stream.
    pub fn begin(&self, api: &Sanitizer, stream: DriverHandle) -> Result<(), &'static str> {
        let zero = |address: u64, bytes: u64| {
            let start = std::ptr::with_exposed_provenance_mut(size(address));
            // SAFETY: the memory has room for all blocks. Earlier launches that write it are before in the stream.
            let code = unsafe { (api.set)(start, 0, size(bytes), stream) };
            if code == 0 { Ok(()) } else { Err("its memory could not be zeroed") }
        };
        zero(self.timer.records, self.blocks * RECORD_BYTES)?;
        match self.timer.events.zip(self.warps) {
            Some((events, warps)) => zero(events, warps.bytes()),
            None => Ok(()),
        }
    }

    fn record_bytes(&self) -> u64 {
        self.blocks * RECORD_BYTES
    }

    fn event_bytes(&self) -> u64 {
        self.warps.map_or(0, MarkedWarps::bytes)
    }
}

impl Drop for TimedCall {
    fn drop(&mut self) {
        self.timer.is_busy.store(false, Ordering::Release);
    }
}

/// A launch whose blocks are timed, and whose times were not read yet.
#[derive(Debug)]
pub struct TimedLaunch {
    ordinal: u64,
    record_bytes: u64,
    event_bytes: u64,
    warps: Option<MarkedWarps>,
    markers: Arc<[WarpMarker]>,
    /// Begin of its span in the pool.
    span: u64,
    /// Its word in `ended`.
    word: u32,
}

impl BlockTimer {
    /// Allocates pinned memory. The context is the thread's.
    pub fn new(capability: (i32, i32), marks_warps: bool) -> Result<Self, String> {
        let (driver, _path) = Driver::load(&["libcuda.so.1".into()]).map_err(|error| error.to_string())?;
        let pinned = |bytes: usize| {
            let mut pointer = null_mut();
            // SAFETY: `pointer` outlives the call.
            check(unsafe { (driver.alloc_host)(&raw mut pointer, bytes, HOST_PORTABLE) })?;
            Ok::<_, String>(pointer)
        };
        let pool = pinned(size(POOL_BYTES))?.cast();
        let ended: *mut AtomicU32 = pinned(MAX_WAITING * size_of::<AtomicU32>())?.cast();
        // SAFETY: the allocation has that many words and is not shared yet.
        unsafe { ended.write_bytes(0, MAX_WAITING) };
        let queue = TimerQueue {
            spans: SpanQueue::new(POOL_BYTES),
            free: (0..u32::try_from(MAX_WAITING).unwrap_or(0)).collect(),
            waiting: Vec::new(),
            settled: 0,
            has_ended: false,
        };
        Ok(Self {
            driver,
            capability,
            marks_warps,
            streams: Mutex::default(),
            pool,
            ended: ended.cast_const(),
            queue: Mutex::new(queue),
            freed: Condvar::new(),
        })
    }

    /// A launch of a kernel on a stream is being called: its copy.
    ///
    /// # Errors
    /// The reason why the kernel is launched as it is.
    pub fn replace(
        &self,
        kernel: &OriginalKernel<'_>,
        stream: DriverHandle,
        launch: TimedLaunchSize,
    ) -> Result<TimedCall, &'static str> {
        let TimedLaunchSize { blocks, threads } = launch;
        if blocks > MAX_BLOCKS {
            return Err("it has too many blocks");
        }
        let timer = self.stream(stream)?;
        let copy = timer.copy(&self.driver, kernel)?;
        if threads.next_multiple_of(WARP_THREADS) * u64::from(copy.registers.next_multiple_of(8))
            > MAX_BLOCK_REGISTERS
        {
            return Err("its blocks leave no registers free");
        }
        if timer.is_busy.swap(true, Ordering::AcqRel) {
            return Err("another thread launches on its stream");
        }
        let warps = self.marks_warps.then(|| MarkedWarps::new(blocks, threads.div_ceil(WARP_THREADS)));
        let call = TimedCall { stream, timer, copy, blocks, warps };
        call.copy.allow(&self.driver, kernel.function);
        Ok(call)
    }

    /// The timer of a stream, made for its first launch.
    fn stream(&self, stream: DriverHandle) -> Result<Arc<StreamTimer>, &'static str> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(timer) = streams.get(&stream.key()) {
            return Ok(Arc::clone(timer));
        }
        if streams.len() >= MAX_STREAMS {
            return Err("launches of too many streams");
        }
        let mut records = 0;
        // SAFETY: `records` outlives the call. The context is the thread's.
        if unsafe { (self.driver.alloc)(&raw mut records, size(MAX_BLOCKS * RECORD_BYTES)) } != 0 {
            return Err("no memory for times of blocks");
        }
        let events = self.marks_warps.then(|| self.rings()).transpose()?;
        let code = self.code(records, events).map_err(|error| {
            session::lose(LossKind::Source, "code for times of blocks could not be compiled", 1, Some(error));
            "code for times of blocks could not be compiled"
        })?;
        let timer =
            StreamTimer { records, events, code, copies: Mutex::default(), is_busy: AtomicBool::new(false) };
        #[expect(
            clippy::arc_with_non_send_sync,
            reason = "the timer of all streams, which holds it, is for all threads"
        )]
        let timer = Arc::new(timer);
        streams.insert(stream.key(), Arc::clone(&timer));
        Ok(timer)
    }

    /// Device memory for rings of events.
    fn rings(&self) -> Result<u64, &'static str> {
        let mut memory = 0;
        // SAFETY: `memory` outlives the call. The context is the thread's.
        let code =
            unsafe { (self.driver.alloc)(&raw mut memory, size(events::MEMORY_BYTES + events::RING_BYTES)) };
        let aligned = memory.next_multiple_of(events::RING_BYTES);
        if code == 0 { Ok(aligned) } else { Err("no memory for events of warps") }
    }

    /// Code that writes to these addresses.
    fn code(&self, records: u64, events: Option<u64>) -> Result<SplicedCode, String> {
        let (major, minor) = self.capability;
        let cubin = patch::compile(PatchSource::Blocks { records, events }, major, minor)?;
        match events {
            Some(_) => SplicedCode::read(&cubin, WARP_ENTER, EXIT)?
                .with_rings(u32::try_from(events::RING_BYTES).unwrap_or(u32::MAX)),
            None => SplicedCode::read(&cubin, ENTER, EXIT),
        }
    }

    /// A module is unloaded: another one may have its handle later.
    pub fn forget(&self, module: usize) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for timer in streams.values() {
            timer.lock().retain(|(of, _), _| *of != module);
        }
    }

    /// Room for the times of a launch.
    pub fn reserve(&self, ordinal: u64, call: &TimedCall) -> Result<TimedLaunch, &'static str> {
        let (record_bytes, event_bytes) = (call.record_bytes(), call.event_bytes());
        let mut queue = self.lock();
        loop {
            if queue.has_ended {
                return Err("the recording has ended");
            }
            if let Some(word) = queue.free.pop() {
                if let Some(span) = queue.spans.take(record_bytes + event_bytes) {
                    self.word(word).store(0, Ordering::Release);
                    let (warps, markers) = (call.warps, Arc::clone(&call.copy.markers));
                    let span = span.start;
                    return Ok(TimedLaunch {
                        ordinal,
                        record_bytes,
                        event_bytes,
                        warps,
                        markers,
                        span,
                        word,
                    });
                }
                queue.free.push(word);
            }
            let before = queue.settled;
            queue = self.freed.wait_timeout(queue, BEHIND).unwrap_or_else(PoisonError::into_inner).0;
            if queue.settled == before {
                return Err("too many launches are running");
            }
        }
    }

    /// The launch call has returned: its times are copied behind it.
    pub fn submit(&self, call: &TimedCall, launch: TimedLaunch) -> Result<(), String> {
        let target: *mut c_void = self.pool.wrapping_add(size(launch.span)).cast();
        let word: *const AtomicU32 = self.word(launch.word);
        // SAFETY: the span has room for the records and events, and nothing reads it until the word is set.
        let code = unsafe {
            let copy = self.driver.copy_to_host_async;
            let mut copied = copy(target, call.timer.records, size(launch.record_bytes), call.stream);
            if let (Some(events), 0) = (call.timer.events, copied) {
                let behind = target.cast::<u8>().wrapping_add(size(launch.record_bytes)).cast();
                copied = copy(behind, events, size(launch.event_bytes), call.stream);
            }
            let word = word.expose_provenance() as u64;
            if copied == 0 {
                (self.driver.fill)(word, 1, size_of::<AtomicU32>(), call.stream)
            } else {
                copied
            }
        };
        match check(code) {
            Ok(()) => self.lock().waiting.push(launch),
            Err(_) => self.settle(&launch),
        }
        check(code)
    }

    /// A launch needs its room no more.
    pub fn settle(&self, launch: &TimedLaunch) {
        let mut queue = self.lock();
        queue.spans.release(launch.span);
        queue.free.push(launch.word);
        queue.settled += 1;
        drop(queue);
        self.freed.notify_all();
    }

    /// Records launches that have ended.
    pub fn collect(&self) {
        while let Some(launch) = self.next_ended() {
            let start = self.pool.wrapping_add(size(launch.span)).cast_const();
            // SAFETY: the span holds that many bytes, which the GPU has written before the launch's word.
            let bytes =
                unsafe { std::slice::from_raw_parts(start, size(launch.record_bytes + launch.event_bytes)) };
            let (records, events) = bytes.split_at(size(launch.record_bytes));
            let clock = LaunchClock::from_bytes(records);
            let (rows, lost) = clock.block_times(launch.ordinal);
            session::emit_all(rows);
            session::lose(LossKind::Activity, "block without a begin or an end", lost, None);
            if let Some(warps) = launch.warps {
                let (rows, lost) = warps.events(launch.ordinal, events, &launch.markers, &clock);
                session::emit_all(rows);
                session::lose(LossKind::Activity, "earlier events of a warp than its ring holds", lost, None);
            }
            self.settle(&launch);
        }
    }

    /// Records all launches, or those that end soon.
    pub fn drain(&self) {
        let (mut settled, mut since) = (0, Instant::now());
        loop {
            self.collect();
            let mut queue = self.lock();
            if queue.waiting.is_empty() || since.elapsed() > LAST_PATIENCE {
                queue.has_ended = true;
                let lost = queue.waiting.len() as u64;
                session::lose(LossKind::Activity, "launch did not end: its blocks have no times", lost, None);
                return;
            }
            if queue.settled != settled {
                (settled, since) = (queue.settled, Instant::now());
            }
            drop(queue);
            std::thread::sleep(LAST_PAUSE);
        }
    }

    fn next_ended(&self) -> Option<TimedLaunch> {
        let mut queue = self.lock();
        let has_ended = |launch: &TimedLaunch| self.word(launch.word).load(Ordering::Acquire) != 0;
        let index = queue.waiting.iter().position(has_ended)?;
        Some(queue.waiting.remove(index))
    }

    fn word(&self, word: u32) -> &AtomicU32 {
        // SAFETY: words are numbered from 0 to `MAX_WAITING`, and are never freed.
        unsafe { &*self.ended.add(word as usize) }
    }

    fn lock(&self) -> MutexGuard<'_, TimerQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamTimer {
    /// The copy of a kernel, made for its first launch.
    fn copy(&self, driver: &Driver, kernel: &OriginalKernel<'_>) -> Result<Arc<KernelCopy>, &'static str> {
        let mut copies = self.lock();
        let key = (kernel.module.key(), kernel.function.key());
        copies
            .entry(key)
            .or_insert_with(|| KernelCopy::load(driver, kernel, &self.code).map(Arc::new))
            .clone()
    }

    fn lock(&self) -> MutexGuard<'_, KernelCopies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KernelCopy {
    fn load(driver: &Driver, kernel: &OriginalKernel<'_>, own: &SplicedCode) -> Result<Self, &'static str> {
        const REFUSED: &str = "the driver refuses its copy";
        let spliced = spliced(kernel.cubin, kernel.name, own)?;
        let unmarked = u64::from(spliced.unmarked);
        session::lose(LossKind::Activity, "moment of warps without free registers", unmarked, None);
        let name = CString::new(kernel.name).map_err(|_| REFUSED)?;
        let (mut module, mut function) = (DriverHandle::NULL, DriverHandle::NULL);
        // SAFETY: the cubin is whole, and the outputs outlive the calls. The context is the thread's.
        let code = unsafe {
            let loaded = (driver.load_module)(&raw mut module, spliced.cubin.as_ptr().cast());
            if loaded == 0 { (driver.function)(&raw mut function, module, name.as_ptr()) } else { loaded }
        };
        if code != 0 {
            return Err(REFUSED);
        }
        let markers = spliced.markers.into();
        let registers = spliced.registers;
        let copy = Self { module, function, markers, registers, shared_bytes: AtomicI32::new(0) };
        if let Some(carveout) = attribute(kernel.function, ATTRIBUTE_SHARED_CARVEOUT) {
            copy.set(driver, ATTRIBUTE_SHARED_CARVEOUT, carveout);
        }
        copy.set(driver, ATTRIBUTE_NON_PORTABLE_CLUSTER, 1);
        Ok(copy)
    }

    /// Lets a launch have the shared memory that the program has allowed the kernel.
    fn allow(&self, driver: &Driver, original: DriverHandle) {
        let allowed = attribute(original, ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES).unwrap_or(0);
        if self.shared_bytes.swap(allowed, Ordering::AcqRel) != allowed {
            self.set(driver, ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES, allowed);
        }
    }

    fn set(&self, driver: &Driver, attribute: c_int, value: c_int) {
        // SAFETY: the function is loaded. A value that the driver refuses stays as it was.
        unsafe { (driver.set_function_attribute)(self.function, attribute, value) };
    }
}

fn attribute(function: DriverHandle, attribute: c_int) -> Option<c_int> {
    stallmap_session::gpu::device::function_attribute(function, attribute)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn check(code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("CUDA error {code}")) }
}

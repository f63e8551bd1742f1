//! The ring that the GPU writes records into and the host reads: pinned host memory, mapped at one address for both.
//!
//! The device side and the protocol are in `device/access.cu`. All launches of a context share the ring, on whatever
//! stream they run: each record carries its launch's [`LaunchTag`]. The reader thread learns of launches before they start
//! ([`AccessRing::arm`]). It walks complete records, copies them to their launches, and publishes how far the GPU may write.
//! Behind each launch, in its stream, a word in pinned memory is set ([`AccessRing::submitted`]): the launch has ended, and
//! its records lie in the ring. The launch path waits neither for the GPU nor for another launch, and nothing is lost.
#![expect(unsafe_code, reason = "memory shared with the GPU")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "CUDA runs on 64-bit machines only, as the assertion below says"
)]

mod armed;
mod counted;
mod counts;
mod nodes;
mod reader;
mod record;
mod snapshot;
mod sums;
mod tags;
mod watch;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use stallmap_config::{Config, FullBufferAction};
use stallmap_schema::capture::request::SLOT_BYTES;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::sanitizer::Sanitizer;

use crate::accesses::blocks::DeviceRange;
pub use armed::{ArmedLaunch, RecordFailure};
use counts::CountTable;
use nodes::NodeTable;
use record::{LaunchTag, TAGS};
pub use snapshot::{CountSnapshot, SnapshotCopier, SnapshotCopy};
use tags::LaunchTags;
pub use watch::PageGathering;
use watch::{ReaderShared, StartedLaunch};

const _: () = assert!(usize::BITS == 64, "slot counts are cast to usize");

/// Fewest slots of a ring: the longest records of many warps.
const FEWEST_SLOTS: u64 = 4096;
/// Time that a warp waits for a reader that reads nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a launch waits for a reader that is behind and makes no progress.
const BEHIND: Duration = Duration::from_millis(20);
/// Time that the end of the process waits for launches that make no progress.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// `struct Ring` of `device/access.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RingControl {
    head: u64,
    tail_seen: u64,
    slot_count: u64,
    patience_ns: u64,
    slots: u64,
    tail: u64,
    abandoned: u64,
    drops: u32,
    padding: u32,
}

/// `struct Launch` of `device/access.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct LaunchControl {
    ring: u64,
    nodes: u64,
    lost_requests: u64,
    lost_lanes: u64,
    counts: u64,
    ranges: u64,
    range_count: u32,
    range_offset: u32,
    ordinal: u32,
    record_limit: u32,
    records: u32,
    tag: u32,
    node_mask: u32,
    block_stride: u32,
}

/// API and context of calls for a ring.
#[derive(Clone, Copy)]
pub struct RingContext<'a> {
    /// The API.
    pub api: &'a Sanitizer,
    /// The ring's context.
    pub context: DriverHandle,
    /// The API's handle of the stream of the launch that is being called.
    pub stream: DriverHandle,
}

/// The part of a launch that is recorded.
#[derive(Clone, Copy, Debug)]
pub struct LaunchRecordPlan<'a> {
    /// One in so many blocks writes records.
    pub block_stride: u32,
    /// True if the pages that it touches are collected.
    pub gathers: bool,
    /// The blocks of memory that all its requests are counted by. Then it writes a limited number of records.
    pub counted: Option<&'a [DeviceRange]>,
    /// One in so many of that number.
    pub divisor: u32,
}

/// A ring of one context.
pub struct AccessRing {
    /// The control block in device memory.
    control: u64,
    /// A `LaunchControl` for each tag, in device memory.
    launches: u64,
    /// True if requests without room are lost: each launch's control block counts them from 0.
    drops: bool,
    tags: LaunchTags,
    /// Tags whose `LaunchControl` is not as it was made.
    changed: Vec<bool>,
    /// Grids of the nodes of executable graphs, by handle.
    nodes: BTreeMap<usize, NodeTable>,
    /// The table of counts, from the first launch that is counted.
    counts: Option<CountTable>,
    /// Copies of that table. `None` where they cannot be made.
    copier: Option<SnapshotCopier>,
    shared: Arc<ReaderShared>,
}

impl AccessRing {
    /// Makes the ring of a context and starts its reader.
    pub fn new(gpu: RingContext, config: &Config) -> Result<Self, String> {
        let RingContext { api, context, stream } = gpu;
        let slot_count = (config.buffer_bytes / SLOT_BYTES as u64).next_power_of_two().max(FEWEST_SLOTS);
        let slots = zeroed(api, context, slot_count as usize * SLOT_BYTES)?;
        // The tail and the flag have cache lines of their own.
        let words = zeroed(api, context, 512)?;
        let marks = zeroed(api, context, TAGS as usize * 4)?;
        let control = allocate(api.alloc, context, size_of::<RingControl>())?;
        let launches = allocate(api.alloc, context, TAGS as usize * size_of::<LaunchControl>())?;
        let initial = RingControl {
            slot_count,
            patience_ns: PATIENCE.as_nanos() as u64,
            slots: slots as u64,
            tail: words as u64,
            abandoned: words as u64 + 256,
            drops: u32::from(config.when_full == FullBufferAction::Drop),
            ..RingControl::default()
        };
        copy(gpu, control as u64, &[initial])?;
        let each: Vec<LaunchControl> = (0..TAGS).map(|tag| launch_control(control as u64, tag)).collect();
        copy(gpu, launches as u64, &each)?;
        // Launches on other streams must find it: the only wait, once for a context.
        // SAFETY: the stream is the launch's own.
        check(unsafe { (api.synchronize)(stream) })?;
        let shared = Arc::new(ReaderShared {
            slots: slots.cast(),
            words: slots.cast_const().cast(),
            slot_shift: slot_count.trailing_zeros(),
            tail: words.cast_const().cast(),
            abandoned: words.wrapping_byte_add(256).cast_const().cast(),
            marks: marks.cast_const().cast(),
            work: Mutex::default(),
            changed: Condvar::new(),
            reader: OnceLock::new(),
        });
        reader::start(&shared)?;
        Ok(Self {
            control: control as u64,
            launches: launches as u64,
            drops: config.when_full == FullBufferAction::Drop,
            tags: LaunchTags::default(),
            changed: vec![false; TAGS as usize],
            nodes: BTreeMap::new(),
            counts: None,
            copier: None,
            shared,
        })
    }

    /// Lets a launch write records. The row is completed and recorded at its end. It comes back if no launch can be
    /// armed.
    pub fn arm(
        &mut self,
        gpu: RingContext,
        row: LaunchRun,
        plan: LaunchRecordPlan,
    ) -> Result<ArmedLaunch, (Box<LaunchRun>, String)> {
        let ordinals = row.ordinal..row.ordinal + 1;
        let ready = self.count(gpu, plan.counted, ordinals).and_then(|control| {
            let tag = self.take_tags(1)?;
            let record_limit = control.record_limit / plan.divisor.max(1);
            let control = LaunchControl { block_stride: plan.block_stride, record_limit, ..control };
            let differs = plan.block_stride != 1 || self.drops || plan.counted.is_some();
            self.write(gpu, tag, 1, control, differs)?;
            Ok(tag)
        });
        let tag = match ready {
            Ok(tag) => tag,
            Err(error) => return Err((Box::new(row), error)),
        };
        let counts = plan.counted.is_some();
        let (first, rows) = (row.ordinal, vec![Some(row)]);
        self.start(StartedLaunch { tag, first, count: 1, rows, gathers: plan.gathers, counts });
        Ok(self.armed(tag))
    }

    /// Lets a launch of a graph write records. Its kernel nodes are added one by one, up to `nodes` of them. Where they
    /// are counted, the first has the ordinal `first`.
    pub fn arm_graph(
        &mut self,
        gpu: RingContext,
        exec: usize,
        nodes: u32,
        counted: Option<&[DeviceRange]>,
        first: u64,
    ) -> Result<ArmedLaunch, String> {
        let count = self.nodes.get(&exec).map_or(0, NodeTable::len).max(nodes);
        let control = self.count(gpu, counted, first..first.saturating_add(count.into()))?;
        let control = LaunchControl { record_limit: control.record_limit.saturating_mul(count), ..control };
        let tag = self.take_tags(count)?;
        self.prepare_graph(gpu, exec, tag, count, control)?;
        let counts = counted.is_some();
        self.start(StartedLaunch { tag, first, count, rows: Vec::new(), gathers: false, counts });
        Ok(self.armed(tag))
    }

    /// Adds the kernel that the grid of this number runs to a launch of a graph, with its row. The row comes back where it
    /// cannot be recorded.
    pub fn add_node(
        &mut self,
        gpu: RingContext,
        (exec, armed): (usize, &ArmedLaunch),
        grid: u64,
        (block_stride, position): (u32, u32),
        row: LaunchRun,
    ) -> Result<(), (Box<LaunchRun>, String)> {
        let Some(nodes) = self.nodes.get_mut(&exec) else {
            return Err((Box::new(row), "its graph is not known".to_owned()));
        };
        match nodes.place(gpu, grid, block_stride, position) {
            Ok(offset) => {
                self.shared.change(|work| work.add(armed.tag, offset, row));
                Ok(())
            }
            Err(error) => Err((Box::new(row), error)),
        }
    }

    /// Lets the kernel that the grid of this number runs record nothing in a launch of a graph.
    pub fn skip_node(&mut self, gpu: RingContext, exec: usize, grid: u64) -> Result<(), String> {
        self.nodes.get_mut(&exec).map_or(Ok(()), |nodes| nodes.skip(gpu, grid))
    }

    /// Forgets an executable graph, whose handle may be used again.
    pub fn forget_graph(&mut self, exec: usize) {
        self.nodes.remove(&exec);
    }

    /// Waits until the records of all launches are on their way to the disk, or none of them makes progress.
    pub fn drain(&self) {
        drop(self.shared.drain());
    }

    fn armed(&self, tag: LaunchTag) -> ArmedLaunch {
        let userdata = self.launches + u64::from(tag.0) * size_of::<LaunchControl>() as u64;
        ArmedLaunch::new(tag, userdata, &self.shared)
    }

    /// Free tags in a row, whose marks are clear. Where there are none, the reader may be behind: as long as it makes
    /// progress, this waits for it, and for no launch.
    fn take_tags(&mut self, count: u32) -> Result<LaunchTag, String> {
        let shared = Arc::clone(&self.shared);
        let mut work = shared.lock();
        let tag = loop {
            if work.dead {
                return Err("its records would not be read: the reader has ended".to_owned());
            }
            for (tag, count) in work.free.drain(..) {
                self.tags.release(tag, count);
            }
            if let Some(tag) = self.tags.take(count) {
                break tag;
            }
            let before = work.progress;
            let waited = shared.changed.wait_timeout(work, BEHIND);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
            if work.progress == before {
                if !shared.has_reader() {
                    shared.give_up(&mut work, true);
                    continue;
                }
                return Err("too many launches are running".to_owned());
            }
        };
        drop(work);
        // SAFETY: there is a word for each tag. Its last launch has ended, so the GPU does not write it.
        unsafe { &*self.shared.marks.add(tag.0 as usize) }.store(0, Ordering::Release);
        Ok(tag)
    }

    fn start(&self, started: StartedLaunch) {
        self.shared.change(|work| {
            work.outstanding += 1;
            work.ordinals
                .insert(started.tag, started.first..started.first.saturating_add(started.count.into()));
            work.open_rows += started.rows.iter().flatten().count();
            if started.gathers {
                work.gathered = None;
            }
            work.started.push(started);
        });
    }

    fn prepare_graph(
        &mut self,
        gpu: RingContext,
        exec: usize,
        tag: LaunchTag,
        count: u32,
        control: LaunchControl,
    ) -> Result<(), String> {
        if self.nodes.get(&exec).is_none_or(|nodes| nodes.room() < count) {
            match NodeTable::new(gpu, count) {
                Ok(nodes) => self.nodes.insert(exec, nodes),
                Err(error) => {
                    self.tags.release(tag, count);
                    return Err(error);
                }
            };
        }
        let Some(nodes) = self.nodes.get(&exec) else { return Ok(()) };
        let control = LaunchControl { nodes: nodes.address(), node_mask: nodes.mask(), ..control };
        self.write(gpu, tag, count, control, true)
    }

    /// Updates the control block of a launch with `count` tags, if it must change. Where that fails, they are free.
    fn write(
        &mut self,
        gpu: RingContext,
        tag: LaunchTag,
        count: u32,
        control: LaunchControl,
        differs: bool,
    ) -> Result<(), String> {
        let Some(changed) = self.changed.get_mut(tag.0 as usize) else { return Ok(()) };
        if differs || *changed {
            *changed = differs;
            let address = self.launches + u64::from(tag.0) * size_of::<LaunchControl>() as u64;
            let written = copy(gpu, address, &[LaunchControl { tag: tag.0, ..control }]);
            if written.is_err() {
                self.tags.release(tag, count);
            }
            return written;
        }
        Ok(())
    }
}

/// The control block of a launch as it is made.
fn launch_control(ring: u64, tag: u32) -> LaunchControl {
    LaunchControl { ring, tag, block_stride: 1, ..LaunchControl::default() }
}

/// Copies values to device memory, in the order of the stream.
fn copy<T: Copy>(gpu: RingContext, target: u64, values: &[T]) -> Result<(), String> {
    let target = std::ptr::with_exposed_provenance_mut(target as usize);
    // SAFETY: the target has room for the values, and the call copies them before it returns.
    check(unsafe {
        (gpu.api.copy_to_device)(target, values.as_ptr().cast(), size_of_val(values), gpu.stream)
    })
}

type AllocateMemory = unsafe extern "C" fn(DriverHandle, *mut *mut c_void, usize) -> i32;

fn allocate(allocate: AllocateMemory, context: DriverHandle, bytes: usize) -> Result<*mut c_void, String> {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the context is alive: its launch is being called; `pointer` outlives the call.
    let code = unsafe { allocate(context, &raw mut pointer, bytes) };
    check(code).map_err(|error| format!("failed to allocate {bytes} bytes: {error}"))?;
    Ok(pointer)
}

/// Pinned host memory that is 0.
fn zeroed(api: &Sanitizer, context: DriverHandle, bytes: usize) -> Result<*mut c_void, String> {
    let pointer = allocate(api.alloc_host, context, bytes)?;
    // SAFETY: the allocation has that many bytes and is not shared yet.
    unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
    Ok(pointer)
}

fn check(code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("sanitizer error {code}")) }
}

//! Counts of requests, by launch, instruction and block of memory, and by shape: a hash table in device memory that
//! patches fill.
//!
//! A copy of it is read while the program runs ([`super::CountSnapshot`]), for the launches that have ended. It is emptied where
//! no launch that counts is running: after the program itself has waited for the GPU, and at the end.
//! A launch is counted against the blocks of memory that are alive when it is called. Their list is written behind the
//! lists of earlier launches, since these may still run.
#![expect(unsafe_code, reason = "memory shared with the GPU")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::read_volatile;
use std::time::Duration;

use stallmap_schema::word::LossKind;
use stallmap_session::session;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::sanitizer::Sanitizer;

use super::counted::LaunchOrdinals;
use super::sums::{CountEntry, CountSums, NO_BLOCK, ordinal, rows, shapes, sums};
use super::{
    AccessRing, LAST_PATIENCE, LaunchControl, RingContext, allocate, check, copy, launch_control, zeroed,
};
use crate::accesses::blocks::DeviceRange;

/// Entries of the table, a power of two.
pub(super) const ENTRIES: usize = 1 << 19;
/// Entries in use from which on the table is read at the next chance, and from which on no launch is counted.
const MANY: u64 = ENTRIES as u64 / 4;
const MOST: u64 = ENTRIES as u64 / 4 * 3;
/// Blocks of memory of all launches between two readings.
const BLOCKS: usize = 1 << 20;

/// Requests of a launch that write records, where all are counted.
const MAX_RECORDS: u32 = 1 << 16;
/// Time that the program's own wait for the GPU is prolonged for launches to be read.
const SOON: Duration = Duration::from_millis(50);

/// `struct Counts` of `device/access.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CountsControl {
    entries: u64,
    mask: u64,
    claimed: u64,
    uncounted: u64,
    shapeless: u64,
    seen: u64,
}

/// The blocks of a launch: their list in device memory, and its position among all lists.
#[derive(Clone, Copy, Debug, Default)]
struct BlockListRef {
    address: u64,
    offset: u32,
    count: u32,
}

/// The table of one context.
pub(super) struct CountTable {
    control: u64,
    entries: u64,
    /// The blocks of all launches since the last reading, in device memory and in pinned memory.
    blocks: u64,
    staged: *mut DeviceRange,
    used: usize,
    last: BlockListRef,
    /// Entries in use, about. The GPU writes it.
    seen: *const u64,
    /// Launches that are not recorded yet.
    counted: LaunchOrdinals,
    /// Number of times that the table was emptied.
    emptied: u64,
}

// SAFETY: the pointers are to pinned memory that lives as long as its context, and one thread at a time uses them.
unsafe impl Send for CountTable {}

impl CountTable {
    /// The empty table of a context. Its launches find it once the stream has come so far.
    fn new(gpu: RingContext) -> Result<Self, String> {
        let RingContext { api, context, .. } = gpu;
        let control = allocate(api.alloc, context, size_of::<CountsControl>())? as u64;
        let entries = allocate(api.alloc, context, ENTRIES * size_of::<CountEntry>())? as u64;
        let blocks = allocate(api.alloc, context, BLOCKS * size_of::<DeviceRange>())? as u64;
        let staged = zeroed(api, context, BLOCKS * size_of::<DeviceRange>())?.cast();
        let seen = zeroed(api, context, size_of::<u64>())?.cast_const().cast();
        let last = BlockListRef::default();
        let (counted, emptied) = (LaunchOrdinals::default(), 0);
        let counts = Self { control, entries, blocks, staged, used: 0, last, seen, counted, emptied };
        counts.clear(gpu)?;
        Ok(counts)
    }

    /// Lists the blocks of memory of a launch. `None` if there is room for no launch until the table is read.
    fn list(&mut self, gpu: RingContext, blocks: &[DeviceRange]) -> Result<Option<BlockListRef>, String> {
        if self.claimed() > MOST {
            return Ok(None);
        }
        if self.is_last(blocks) {
            return Ok(Some(self.last));
        }
        if self.used + blocks.len() > BLOCKS {
            return Ok(None);
        }
        let bytes = size_of_val(blocks);
        let target = self.blocks + (self.used * size_of::<DeviceRange>()) as u64;
        // SAFETY: both lists have room for the blocks behind those in use, which no launch reads yet.
        let code = unsafe {
            let staged = self.staged.add(self.used);
            staged.copy_from_nonoverlapping(blocks.as_ptr(), blocks.len());
            let target = std::ptr::with_exposed_provenance_mut::<c_void>(target as usize);
            (gpu.api.copy_to_device)(target, staged.cast_const().cast(), bytes, gpu.stream)
        };
        check(code)?;
        self.last = BlockListRef {
            address: target,
            offset: u32::try_from(self.used).unwrap_or(NO_BLOCK),
            count: u32::try_from(blocks.len()).unwrap_or(0),
        };
        self.used += blocks.len();
        Ok(Some(self.last))
    }

    fn is_last(&self, blocks: &[DeviceRange]) -> bool {
        let (offset, count) = (self.last.offset as usize, self.last.count as usize);
        // SAFETY: the list holds at least the blocks in use, of which these are the last.
        self.used > 0 && unsafe { std::slice::from_raw_parts(self.staged.add(offset), count) } == blocks
    }

    /// True if the table is to be emptied.
    fn is_due(&self) -> bool {
        self.claimed() > MANY || self.used > BLOCKS / 2
    }

    /// Launches that a copy of the table can add, while some run.
    pub(super) fn news(&self, running: &[Range<u64>]) -> Option<NewCounts> {
        let ended = self.counted.ended(running);
        let has_news = !ended.is_empty() && self.claimed() > 0;
        has_news.then_some(NewCounts { entries: self.entries, emptied: self.emptied, ended })
    }

    /// Records launches that had ended when the table was copied. The copy is worth nothing if the table was emptied since.
    pub(super) fn record(&mut self, sums: CountSums, emptied: u64, ended: &LaunchOrdinals) {
        if emptied == self.emptied {
            self.emit(sums, ended);
            self.counted.remove(ended);
        }
    }

    /// Records the sums of some launches.
    fn emit(&self, mut sums: CountSums, launches: &LaunchOrdinals) {
        sums.retain(|(owner, _), _| launches.contains(ordinal(*owner)));
        // SAFETY: so many blocks are listed.
        let blocks = unsafe { std::slice::from_raw_parts(self.staged, self.used) };
        session::emit_all(rows(&sums, blocks));
        session::emit_all(shapes(&sums));
    }

    fn claimed(&self) -> u64 {
        // SAFETY: the word lives as long as the context. The GPU writes it whole.
        unsafe { read_volatile(self.seen) }
    }

    /// Records what was counted, and empties the table. No launch that counts may run.
    fn read(&mut self, gpu: RingContext) -> Result<(), String> {
        if self.claimed() == 0 {
            return Ok(());
        }
        let mut control = CountsControl::default();
        copy_back(gpu.api, gpu.stream, self.control, std::slice::from_mut(&mut control))?;
        let mut entries = vec![CountEntry::default(); ENTRIES];
        copy_back(gpu.api, gpu.stream, self.entries, &mut entries)?;
        self.emit(sums(&entries), &self.counted);
        let reason = "request that was not counted: the table of counts was full";
        session::lose(LossKind::Access, reason, control.uncounted, None);
        let reason = "request whose shape was not counted: the table of counts was full";
        session::lose(LossKind::Access, reason, control.shapeless, None);
        self.clear(gpu)?;
        self.used = 0;
        self.last = BlockListRef::default();
        self.counted = LaunchOrdinals::default();
        self.emptied += 1;
        Ok(())
    }

    fn clear(&self, gpu: RingContext) -> Result<(), String> {
        // SAFETY: the table has that many bytes, and the word is pinned memory of this size.
        unsafe {
            let entries = std::ptr::with_exposed_provenance_mut::<c_void>(self.entries as usize);
            check((gpu.api.set)(entries, 0, ENTRIES * size_of::<CountEntry>(), gpu.stream))?;
            self.seen.cast_mut().write_volatile(0);
        }
        let control = CountsControl {
            entries: self.entries,
            mask: ENTRIES as u64 - 1,
            seen: self.seen as u64,
            ..CountsControl::default()
        };
        copy(gpu, self.control, &[control])?;
        // Launches on other streams must find it empty.
        // SAFETY: the stream is the caller's.
        check(unsafe { (gpu.api.synchronize)(gpu.stream) })
    }
}

impl AccessRing {
    /// A control block that lets requests be counted, where blocks of memory are given.
    pub(super) fn count(
        &mut self,
        gpu: RingContext,
        counted: Option<&[DeviceRange]>,
        ordinals: Range<u64>,
    ) -> Result<LaunchControl, String> {
        let control = launch_control(self.control, 0);
        let Some(blocks) = counted else { return Ok(control) };
        let Ok(ordinal) = u32::try_from(ordinals.start) else {
            return Err("more launches than can be counted".to_owned());
        };
        let counts = match &mut self.counts {
            Some(counts) => counts,
            none => none.insert(CountTable::new(gpu)?),
        };
        let mut listed = counts.list(gpu, blocks)?;
        if listed.is_none() {
            // Rare: only a program that never waits for the GPU fills the table.
            if !self.shared.is_idle(LAST_PATIENCE) {
                return Err("more launches run at once than can be counted".to_owned());
            }
            counts.read(gpu)?;
            listed = counts.list(gpu, blocks)?;
        }
        let listed = listed.ok_or("more blocks of memory than can be counted by")?;
        counts.counted.add(&ordinals);
        Ok(LaunchControl {
            counts: counts.control,
            ranges: listed.address,
            range_count: listed.count,
            range_offset: listed.offset,
            ordinal,
            record_limit: MAX_RECORDS,
            ..control
        })
    }

    /// The program has waited for the GPU: empties the table, if it is time and no launch that counts runs.
    pub fn record_counts(&mut self, gpu: RingContext) {
        if self.counts.as_ref().is_some_and(CountTable::is_due) && self.shared.is_idle(SOON) {
            self.report(gpu);
        }
    }

    /// Records what was counted since the last time. The ring is drained.
    pub fn record_last_counts(&mut self, gpu: RingContext) {
        if self.shared.is_idle(SOON) {
            self.report(gpu);
        } else if self.counts.is_some() {
            session::lose(LossKind::Access, "counts of launches that did not end", 1, None);
        }
    }

    fn report(&mut self, gpu: RingContext) {
        if let Some(Err(error)) = self.counts.as_mut().map(|counts| counts.read(gpu)) {
            session::lose(LossKind::Access, "counts of requests could not be read", 1, Some(error));
        }
    }
}

/// Copies device memory to the host, and waits for it.
fn copy_back<T: Copy>(
    api: &Sanitizer,
    stream: DriverHandle,
    source: u64,
    values: &mut [T],
) -> Result<(), String> {
    let source = std::ptr::with_exposed_provenance::<c_void>(source as usize);
    // SAFETY: both sides have the size of the values, which are plain numbers.
    check(unsafe { (api.copy_to_host)(values.as_mut_ptr().cast(), source, size_of_val(values), stream) })
}

/// Launches whose counts are in the table and not recorded.
pub(super) struct NewCounts {
    /// The entries in device memory.
    pub(super) entries: u64,
    /// Number of times that the table was emptied.
    pub(super) emptied: u64,
    /// Launches that have ended.
    pub(super) ended: LaunchOrdinals,
}

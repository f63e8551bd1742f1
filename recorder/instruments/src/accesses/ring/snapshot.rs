//! A copy of the table of counts, made while kernels run: a program that ends in any way leaves the counts of its launches.
//!
//! The copy comes on a stream of its own that waits for no other one. What it holds of a launch that has ended is final.
#![expect(unsafe_code, reason = "memory shared with the GPU")]

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use stallmap_session::gpu::device;
use stallmap_sys::cuda::{DriverHandle, STREAM_NON_BLOCKING};
use stallmap_sys::sanitizer::Sanitizer;

use super::counted::LaunchOrdinals;
use super::counts::ENTRIES;
use super::sums::{CountEntry, CountSums, sums};
use super::{AccessRing, LAST_PATIENCE, check, zeroed};

/// Memory and stream of the copies of a context.
#[derive(Clone)]
pub struct SnapshotCopier {
    /// Room for all entries, pinned.
    target: *mut CountEntry,
    /// The API's handle of the stream.
    stream: DriverHandle,
    busy: Arc<CopierState>,
}

// SAFETY: the pointer is to pinned memory that lives as long as its context. One copy at a time is made, and nothing but
// that reads it.
unsafe impl Send for SnapshotCopier {}

/// State of the copies of a context.
#[derive(Default)]
struct CopierState {
    is_copying: Mutex<bool>,
    done: Condvar,
}

/// A copy to be made.
pub struct CountSnapshot {
    copier: SnapshotCopier,
    source: u64,
    emptied: u64,
    /// Launches that have ended.
    ended: LaunchOrdinals,
}

/// A copy that was made.
pub struct SnapshotCopy {
    sums: CountSums,
    emptied: u64,
    ended: LaunchOrdinals,
}

impl SnapshotCopier {
    /// Makes the stream and the memory in the context of this thread. Not in the callbacks of a launch, in which the driver
    /// holds locks.
    pub fn new(api: &Sanitizer, context: DriverHandle) -> Result<Self, String> {
        let driver = device::driver().ok_or("the driver is not known")?;
        let (mut stream, mut handle) = (DriverHandle::NULL, DriverHandle::NULL);
        // SAFETY: the outputs outlive the calls. The context is the thread's.
        unsafe {
            check((driver.stream_create)(&raw mut stream, STREAM_NON_BLOCKING))?;
            check((api.stream_handle)(context, stream, &raw mut handle))?;
        }
        let target = zeroed(api, context, ENTRIES * size_of::<CountEntry>())?.cast();
        Ok(Self { target, stream: handle, busy: Arc::default() })
    }

    /// Waits until no copy is being made: the context ends.
    pub(super) fn settle(&self) {
        let is_copying = self.busy.lock();
        let waited = self.busy.done.wait_timeout_while(is_copying, LAST_PATIENCE, |is_copying| *is_copying);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl CopierState {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_copying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountSnapshot {
    fn drop(&mut self) {
        *self.copier.busy.lock() = false;
        self.copier.busy.done.notify_all();
    }
}

impl CountSnapshot {
    /// Copies the table. The context is the thread's.
    pub fn copy(mut self, api: &Sanitizer) -> Result<SnapshotCopy, String> {
        let SnapshotCopier { target, stream, .. } = self.copier;
        let source = std::ptr::with_exposed_provenance::<c_void>(self.source as usize);
        // SAFETY: both sides have that many bytes, which are plain numbers. The end of the context waits for the copy.
        unsafe {
            check((api.copy_to_host)(target.cast(), source, ENTRIES * size_of::<CountEntry>(), stream))?;
            check((api.synchronize)(stream))?;
        }
        // SAFETY: the memory holds that many entries, and no other copy is being made.
        let sums = sums(unsafe { std::slice::from_raw_parts(target, ENTRIES) });
        Ok(SnapshotCopy { sums, emptied: self.emptied, ended: std::mem::take(&mut self.ended) })
    }
}

impl AccessRing {
    /// Lets copies be made.
    pub fn begin_snapshots(&mut self, copier: SnapshotCopier) {
        self.copier = Some(copier);
    }

    /// A copy of the counts, to be made, if it may hold more than the last one.
    pub fn snapshot(&self) -> Option<CountSnapshot> {
        let copier = self.copier.clone()?;
        let news = self.counts.as_ref()?.news(&self.shared.running())?;
        *copier.busy.lock() = true;
        Some(CountSnapshot { copier, source: news.entries, emptied: news.emptied, ended: news.ended })
    }

    /// Records a copy of the counts that was made.
    pub fn record_snapshot(&mut self, SnapshotCopy { sums, emptied, ended }: SnapshotCopy) {
        if let Some(counts) = &mut self.counts {
            counts.record(sums, emptied, &ended);
        }
    }

    /// Makes no copies any more.
    pub fn end_snapshots(&mut self) {
        if let Some(copier) = self.copier.take() {
            copier.settle();
        }
    }
}

//! Launches that write records.
#![expect(unsafe_code, reason = "memory shared with the GPU")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "CUDA runs on 64-bit machines only, as the ring asserts"
)]

use std::ffi::c_void;
use std::sync::Arc;

use super::record::LaunchTag;
use super::watch::{PageGathering, ReaderShared, SettledLaunch};
use super::{LaunchControl, RingContext, check};

/// A launch, or a launch of a graph, that may write records.
#[derive(Clone)]
pub struct ArmedLaunch {
    pub(super) tag: LaunchTag,
    userdata: u64,
    shared: Arc<ReaderShared>,
}

/// The reason why a launch has no records, or not all of them.
#[derive(Clone, Debug)]
pub struct RecordFailure {
    /// The reason, as losses name it.
    pub reason: &'static str,
    /// The API's error.
    pub detail: Option<String>,
    /// True if the kernel ran.
    pub has_run: bool,
}

impl ArmedLaunch {
    /// A launch with this tag and userdata.
    pub(super) fn new(tag: LaunchTag, userdata: u64, shared: &Arc<ReaderShared>) -> Self {
        Self { tag, userdata, shared: Arc::clone(shared) }
    }

    /// The patches' userdata.
    pub fn userdata(&self) -> *const c_void {
        std::ptr::with_exposed_provenance(self.userdata as usize)
    }

    /// The launch call has returned: a word behind the launch in its stream will mark its end.
    pub fn submitted(&self, gpu: RingContext) {
        let mark = self.shared.marks.wrapping_add(self.tag.0 as usize).cast_mut().cast();
        // SAFETY: the word lives as long as the process. The stream is the launch's own.
        let set = check(unsafe { (gpu.api.set)(mark, 1, 4, gpu.stream) });
        if let Err(error) = set {
            let failure =
                RecordFailure { reason: "kernel did not complete", detail: Some(error), has_run: true };
            self.settle(Some(failure), 0);
        }
    }

    /// The launch has ended, or was refused, having lost so many requests.
    pub fn settle(&self, failure: Option<RecordFailure>, lost_requests: u64) {
        let settled = SettledLaunch { tag: self.tag, failure, lost_requests };
        self.shared.change(|work| work.settled.push(settled));
    }

    /// Number of requests that the launch lost. Its kernels must have ended.
    pub fn lost_requests(&self, gpu: RingContext) -> Result<u64, String> {
        let mut control = LaunchControl::default();
        // SAFETY: both sides have the size of a LaunchControl.
        check(unsafe {
            let target = (&raw mut control).cast();
            (gpu.api.copy_to_host)(target, self.userdata(), size_of::<LaunchControl>(), gpu.stream)
        })?;
        Ok(control.lost_requests)
    }

    /// Collector of the pages of its launch.
    pub fn gathering(&self) -> PageGathering {
        PageGathering::new(&self.shared)
    }
}

//! Selection of recorded launches. Every other launch has a reason.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stallmap_config::{COLLECTIVES, LaunchSelection};

use super::kernels::KernelNames;
use crate::{context, session};

/// The selection of a session, with its counters.
pub struct LaunchSelector {
    selection: LaunchSelection,
    kernels: KernelNames,
    excluded: Option<KernelNames>,
    collectives: KernelNames,
    /// Launches that name and region let through.
    seen: AtomicU64,
    /// Time of the first launch that was recorded.
    first: OnceLock<Instant>,
}

impl LaunchSelector {
    /// The selector of a selection. An error is a bad regular expression.
    pub fn new(selection: LaunchSelection) -> Result<Self, String> {
        let kernels = KernelNames::new(selection.kernels.as_deref())?;
        let excluded = selection.exclude.as_deref().map(|names| KernelNames::new(Some(names))).transpose()?;
        let collectives = KernelNames::new(Some(COLLECTIVES))?;
        Ok(Self {
            selection,
            kernels,
            excluded,
            collectives,
            seen: AtomicU64::new(0),
            first: OnceLock::new(),
        })
    }

    /// True if any launch may be recorded now: recording is active, and there are launches left to record.
    pub fn is_open(&self) -> bool {
        let has_more = self.selection.count.is_none_or(|count| {
            let last = self.selection.skip.saturating_add(count.saturating_mul(self.selection.every.max(1)));
            self.seen.load(Ordering::Relaxed) < last
        });
        has_more && self.is_time().is_ok()
    }

    /// Decides if launches of a kernel may be recorded, by its mangled name. The error is the reason against it.
    pub fn takes(&self, kernel: &str) -> Result<(), &'static str> {
        if !self.kernels.hold(kernel) {
            return Err("kernel not selected");
        }
        if self.excluded.as_ref().is_some_and(|excluded| excluded.hold(kernel)) {
            return Err("kernel excluded");
        }
        if !self.selection.collectives && self.collectives.hold(kernel) {
            return Err("collective: it waits for other GPUs, --collectives records it");
        }
        Ok(())
    }

    /// True if a kernel waits for other GPUs, by its mangled name.
    pub fn is_collective(&self, kernel: &str) -> bool {
        self.collectives.hold(kernel)
    }

    fn is_time(&self) -> Result<(), &'static str> {
        if session::has_failed() {
            return Err("recording had stopped");
        }
        if session::is_paused() {
            return Err("recording was paused");
        }
        if context::in_region(context::TUNING_REGION) {
            return Err("trial of a tuner");
        }
        if self.selection.region.as_deref().is_some_and(|region| !context::in_region(region)) {
            return Err("outside the selected region");
        }
        let duration = self.selection.duration_ms.map(Duration::from_millis);
        if self.first.get().zip(duration).is_some_and(|(first, duration)| first.elapsed() >= duration) {
            return Err("after the selected duration");
        }
        if self.selection.size_bytes.is_some_and(|most| session::written_bytes() >= most) {
            return Err("the recording has its largest size");
        }
        Ok(())
    }

    /// Decides if the launch of a kernel on this thread is recorded. The error is the reason against it.
    pub fn decide(&self, kernel: &str) -> Result<(), &'static str> {
        self.decide_taken(self.takes(kernel))
    }

    /// As [`Self::decide`], with the answer of [`Self::takes`] about the kernel.
    pub fn decide_taken(&self, taken: Result<(), &'static str>) -> Result<(), &'static str> {
        self.is_time()?;
        taken?;
        self.count(self.seen.fetch_add(1, Ordering::Relaxed))?;
        self.first.get_or_init(Instant::now);
        Ok(())
    }

    fn count(&self, position: u64) -> Result<(), &'static str> {
        let Some(after) = position.checked_sub(self.selection.skip) else {
            return Err("skipped at the start");
        };
        let every = self.selection.every.max(1);
        if !after.is_multiple_of(every) {
            return Err("left out between recorded ones");
        }
        match self.selection.count {
            Some(count) if after / every >= count => Err("after the last selected one"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(selection: LaunchSelection, kernels: &[&str]) -> Vec<usize> {
        let selector = LaunchSelector::new(selection).unwrap();
        (0..kernels.len()).filter(|&index| selector.decide(kernels[index]).is_ok()).collect()
    }

    #[test]
    fn skip_then_every_then_count() {
        let selection = LaunchSelection { skip: 2, every: 3, count: Some(2), ..LaunchSelection::default() };
        assert_eq!(taken(selection, &["k"; 12]), [2, 5]);
    }

    #[test]
    fn counting_starts_at_matching_kernels() {
        let selection =
            LaunchSelection { kernels: Some("gemm".into()), skip: 1, ..LaunchSelection::default() };
        assert_eq!(taken(selection, &["gemm", "copy", "my_gemm", "copy", "gemm2"]), [2, 4]);
    }

    #[test]
    fn what_is_excluded_and_what_waits_for_other_gpus_is_left_out() {
        let names = ["_Z4gemmPf", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "_Z4copyPf"];
        assert_eq!(
            taken(LaunchSelection { exclude: Some("copy".into()), ..LaunchSelection::default() }, &names),
            [0]
        );
        assert_eq!(
            taken(LaunchSelection { collectives: true, ..LaunchSelection::default() }, &names),
            [0, 1, 2]
        );
    }

    #[test]
    fn a_selection_closes_after_its_last_launch() {
        let selection = LaunchSelection { skip: 1, every: 2, count: Some(2), ..LaunchSelection::default() };
        let selector = LaunchSelector::new(selection).unwrap();
        let open: Vec<bool> = (0..6)
            .map(|_| {
                let is_open = selector.is_open();
                selector.decide("k").ok();
                is_open
            })
            .collect();
        assert_eq!(open, [true, true, true, true, true, false]);
    }

    #[test]
    fn a_duration_counts_from_the_first_recorded_launch() {
        let selection = LaunchSelection { skip: 1, duration_ms: Some(0), ..LaunchSelection::default() };
        assert_eq!(taken(selection, &["k"; 4]), [1]);
        let long = LaunchSelection { duration_ms: Some(1 << 30), ..LaunchSelection::default() };
        assert_eq!(taken(long, &["k"; 3]), [0, 1, 2]);
    }

    #[test]
    fn nothing_is_recorded_beyond_the_largest_size() {
        let selection = LaunchSelection { size_bytes: Some(0), ..LaunchSelection::default() };
        assert_eq!(taken(selection, &["k"; 2]), Vec::<usize>::new());
        let selection = LaunchSelection { size_bytes: Some(1), ..LaunchSelection::default() };
        assert_eq!(taken(selection, &["k"; 2]), [0, 1]);
    }

    #[test]
    fn a_bad_expression_is_an_error() {
        let selection = LaunchSelection { kernels: Some("(".into()), ..LaunchSelection::default() };
        assert!(LaunchSelector::new(selection).is_err());
    }
}

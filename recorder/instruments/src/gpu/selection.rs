//! Which launches are recorded; every other one has a reason.

use std::sync::atomic::{AtomicU64, Ordering};

use stallmap_config::Selection;

use super::kernels::Kernels;
use crate::{context, session};

/// The selection of a session, with its counters.
pub struct Selector {
    selection: Selection,
    kernels: Kernels,
    /// Launches that name and region let through.
    seen: AtomicU64,
}

impl Selector {
    /// The selector of a selection; an error is a bad regular expression.
    pub fn new(selection: Selection) -> Result<Self, String> {
        let kernels = Kernels::new(selection.kernels.as_deref())?;
        Ok(Self { selection, kernels, seen: AtomicU64::new(0) })
    }

    /// Whether the launch of a kernel on this thread is recorded, and if not, why.
    pub fn decide(&self, kernel: &str) -> Result<(), &'static str> {
        if session::has_failed() {
            return Err("recording had stopped");
        }
        if session::is_paused() {
            return Err("recording was paused");
        }
        if self.selection.region.as_deref().is_some_and(|region| !context::in_region(region)) {
            return Err("outside the selected region");
        }
        if !self.kernels.hold(kernel) {
            return Err("kernel not selected");
        }
        self.count(self.seen.fetch_add(1, Ordering::Relaxed))
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

    fn taken(selection: Selection, kernels: &[&str]) -> Vec<usize> {
        let selector = Selector::new(selection).unwrap();
        (0..kernels.len()).filter(|&index| selector.decide(kernels[index]).is_ok()).collect()
    }

    #[test]
    fn skip_then_every_then_count() {
        let selection = Selection { skip: 2, every: 3, count: Some(2), ..Selection::default() };
        assert_eq!(taken(selection, &["k"; 12]), [2, 5]);
    }

    #[test]
    fn counting_starts_at_matching_kernels() {
        let selection = Selection { kernels: Some("gemm".into()), skip: 1, ..Selection::default() };
        assert_eq!(taken(selection, &["gemm", "copy", "my_gemm", "copy", "gemm2"]), [2, 4]);
    }

    #[test]
    fn a_bad_expression_is_an_error() {
        let selection = Selection { kernels: Some("(".into()), ..Selection::default() };
        assert!(Selector::new(selection).is_err());
    }
}

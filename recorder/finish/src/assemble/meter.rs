//! Progress of a stage that several runs go through.

use std::cell::Cell;

use crate::summary::FinishProgress;

/// Bytes of a stage that are done.
pub(super) struct StageMeter<'a> {
    stage: &'static str,
    done: Cell<u64>,
    total: u64,
    progress: &'a dyn Fn(FinishProgress),
}

impl<'a> StageMeter<'a> {
    pub(super) fn new(stage: &'static str, total: u64, progress: &'a dyn Fn(FinishProgress)) -> Self {
        Self { stage, done: Cell::new(0), total, progress }
    }

    /// Adds bytes, and reports.
    pub(super) fn add(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
        (self.progress)(FinishProgress { stage: self.stage, done: self.done.get(), total: self.total });
    }
}

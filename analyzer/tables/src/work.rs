//! The known work of a session's queries: views to compute, and rows to scan.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a session, in its configuration. Scans and the computation of views add to them.
#[derive(Debug, Default)]
pub struct SessionWork {
    views: WorkCounts,
    rows: WorkCounts,
}

#[derive(Debug, Default)]
struct WorkCounts {
    expected: AtomicU64,
    done: AtomicU64,
}

impl SessionWork {
    /// A scan begins that reads about this number of rows.
    pub fn scan(self: &Arc<Self>, rows: u64) -> WorkTask {
        WorkTask::for_work(Arc::clone(self), |work| &work.rows, rows)
    }

    /// A view is to be computed.
    pub fn view(self: &Arc<Self>) -> WorkTask {
        WorkTask::for_work(Arc::clone(self), |work| &work.views, 1)
    }

    /// Forgets what is done: another question begins.
    pub fn forget_done(&self) {
        for counts in [&self.views, &self.rows] {
            let done = counts.done.swap(0, Ordering::Relaxed);
            counts.expected.fetch_sub(done, Ordering::Relaxed);
        }
    }

    /// The part of the known work that is done, 0 to 1. Views count alike, and all scans together as one more view.
    pub fn share(&self) -> f64 {
        let (views, rows) = (&self.views, &self.rows);
        let rows = rows.done() as f64 / rows.expected().max(1) as f64;
        (views.done() as f64 + rows) / (views.expected() as f64 + 1.0)
    }
}

impl WorkCounts {
    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn expected(&self) -> u64 {
        self.expected.load(Ordering::Relaxed)
    }
}

/// A part of the work. When it is dropped, all of it counts as done: a query may not need the rest.
#[derive(Debug)]
pub struct WorkTask {
    work: Arc<SessionWork>,
    counts: fn(&SessionWork) -> &WorkCounts,
    left: u64,
}

impl WorkTask {
    fn for_work(work: Arc<SessionWork>, counts: fn(&SessionWork) -> &WorkCounts, size: u64) -> Self {
        counts(&work).expected.fetch_add(size, Ordering::Relaxed);
        Self { work, counts, left: size }
    }

    /// Counts rows as read, up to the expected number.
    pub fn read(&mut self, rows: u64) {
        let rows = rows.min(self.left);
        self.left -= rows;
        (self.counts)(&self.work).done.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Drop for WorkTask {
    fn drop(&mut self) {
        self.read(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_views_are_parts_of_the_work() {
        let work = Arc::new(SessionWork::default());
        assert!(work.share().abs() < 1e-9);
        let mut scan = work.scan(100);
        scan.read(25);
        assert!((work.share() - 0.25).abs() < 1e-9);
        let view = work.view();
        assert!((work.share() - 0.125).abs() < 1e-9);
        drop(view);
        assert!((work.share() - 0.625).abs() < 1e-9);
        work.forget_done();
        assert!(work.share().abs() < 1e-9);
        drop(scan);
        assert!((work.share() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_scan_that_ends_early_or_reads_more_is_done() {
        let work = Arc::new(SessionWork::default());
        drop(work.scan(100));
        let mut longer = work.scan(10);
        longer.read(1_000);
        drop(longer);
        assert!((work.share() - 1.0).abs() < 1e-9);
    }
}

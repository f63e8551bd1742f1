//! Losses since the session began, by kind and reason.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::LossTotal;
use stallmap_schema::word::LossKind;

/// Totals of a session.
#[derive(Default)]
pub(super) struct SessionLosses(BTreeMap<(LossKind, &'static str), RunningTotal>);

#[derive(Default)]
struct RunningTotal {
    count: u64,
    /// The first that was given.
    detail: Option<String>,
    is_written: bool,
}

impl SessionLosses {
    /// Counts things that are not recorded.
    pub(super) fn add(&mut self, kind: LossKind, reason: &'static str, count: u64, detail: Option<String>) {
        let total = self.0.entry((kind, reason)).or_default();
        total.count += count;
        total.detail = total.detail.take().or(detail);
        total.is_written = false;
    }

    /// The totals that changed since they were last taken.
    pub(super) fn take_changed(&mut self) -> Vec<LossTotal> {
        let changed = self.0.iter_mut().filter(|(_, total)| !total.is_written);
        changed
            .map(|(key, total)| {
                total.is_written = true;
                total.row(*key)
            })
            .collect()
    }

    /// Every total.
    pub(super) fn all(&self) -> Vec<LossTotal> {
        self.0.iter().map(|(key, total)| total.row(*key)).collect()
    }
}

impl RunningTotal {
    fn row(&self, (kind, reason): (LossKind, &'static str)) -> LossTotal {
        LossTotal { kind, reason: reason.to_owned(), total_count: self.count, detail: self.detail.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_written_again_and_as_a_total() {
        let mut losses = SessionLosses::default();
        losses.add(LossKind::Op, "a", 2, None);
        losses.add(LossKind::Op, "b", 1, Some("first".into()));
        assert_eq!(losses.take_changed().len(), 2);
        assert_eq!(losses.take_changed(), []);
        losses.add(LossKind::Op, "b", 4, Some("second".into()));
        let [total] = &losses.take_changed()[..] else { panic!() };
        assert_eq!((total.total_count, total.detail.as_deref()), (5, Some("first")));
        assert_eq!(losses.all().len(), 2);
    }
}

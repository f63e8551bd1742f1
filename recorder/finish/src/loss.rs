//! Losses: things missing from the capture, counted by run, kind, reason and launch.

use std::collections::BTreeMap;

use stallmap_schema::id::{KernelId, RunId};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::word::LossKind;

/// Losses while they are collected.
#[derive(Debug, Default)]
pub(crate) struct LossTotals(BTreeMap<LossKey, (u64, Option<String>)>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LossKey {
    run_id: RunId,
    // Rows are sorted by the text, not by the order of declaration.
    kind: &'static str,
    reason: String,
    kernel_id: Option<KernelId>,
}

impl LossTotals {
    /// Counts things lost. The first detail that is given stays.
    pub(crate) fn add(
        &mut self,
        run_id: RunId,
        kind: LossKind,
        reason: &str,
        count: u64,
    ) -> &mut Option<String> {
        self.add_at(run_id, kind, reason, count, None)
    }

    /// Counts things lost in a launch.
    pub(crate) fn add_at(
        &mut self,
        run_id: RunId,
        kind: LossKind,
        reason: &str,
        count: u64,
        kernel_id: Option<KernelId>,
    ) -> &mut Option<String> {
        let key = LossKey { run_id, kind: kind.word(), reason: reason.to_owned(), kernel_id };
        let entry = self.0.entry(key).or_default();
        entry.0 += count;
        &mut entry.1
    }

    /// Takes over a row that the recording itself wrote.
    pub(crate) fn add_row(&mut self, loss: Loss) {
        let detail = self.add_at(loss.run_id, loss.kind, &loss.reason, loss.lost_count, loss.kernel_id);
        *detail = detail.take().or(loss.detail);
    }

    /// The rows of `loss`, sorted.
    pub(crate) fn into_rows(self) -> Vec<Loss> {
        let row = |(key, (lost_count, detail)): (LossKey, _)| {
            let kind = LossKind::from_word(key.kind)?;
            let LossKey { run_id, reason, kernel_id, .. } = key;
            Some(Loss { run_id, kind, reason, lost_count, kernel_id, detail })
        };
        self.0.into_iter().filter(|(_, (count, _))| *count > 0).filter_map(row).collect()
    }
}

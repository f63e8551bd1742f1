//! The samples of runs, merged: rows of `pc_sample`.

use std::collections::BTreeMap;

use stallmap_schema::id::{FunctionId, KernelId, Pc, RunId};
use stallmap_schema::tables::sample::PcSample;

use super::{SampleCounter, SampleMerger, TAKEN, reason};
use crate::code::{CodeMap, RecordedModules};
use crate::loss::LossTotals;
use crate::runs::RunState;

/// A row of `pc_sample` while its run is merged.
#[derive(Clone, Debug)]
pub(super) struct MergedSample {
    pub(super) key: (KernelId, FunctionId, Pc, u32),
    pub(super) run_id: RunId,
    pub(super) samples: u64,
    pub(super) samples_not_issued: u64,
}

/// The samples of runs.
#[derive(Debug, Default)]
pub(crate) struct MergedSamples {
    /// Numbers of reasons.
    reasons: BTreeMap<String, u32>,
    rows: Vec<MergedSample>,
}

/// The code that samples are of.
#[derive(Clone, Copy)]
pub(crate) struct SampledCode<'a> {
    pub(crate) map: &'a CodeMap,
    pub(crate) modules: &'a RecordedModules,
    /// The kernel of every launch.
    pub(crate) launched: &'a BTreeMap<KernelId, FunctionId>,
}

impl MergedSamples {
    /// Merges the raw samples of a run, and fills `sample_count` and `lost_sample_count` of its launches.
    pub(crate) fn add(&mut self, run: &mut RunState, code: SampledCode<'_>, losses: &mut LossTotals) {
        let raw = std::mem::take(&mut run.rows.samples);
        let counters = raw.names().iter().map(|name| self.counter(name)).collect();
        let (crcs, functions) = (run.crcs.clone(), BTreeMap::new());
        let mut rows = SampleMerger { raw: &raw, counters, crcs, code, functions }.merge(run, losses);
        if self.rows.is_empty() {
            rows.shrink_to_fit();
            self.rows = rows;
        } else {
            self.rows.append(&mut rows);
        }
    }

    /// The meaning of a raw sample's name.
    fn counter(&mut self, name: &str) -> SampleCounter {
        match reason(name) {
            Some((reason, false)) => SampleCounter::Samples(self.number(reason)),
            Some((reason, true)) => SampleCounter::NotIssued(self.number(reason)),
            None if name == TAKEN => SampleCounter::Taken,
            None => SampleCounter::Dropped,
        }
    }

    fn number(&mut self, reason: &str) -> u32 {
        let next = u32::try_from(self.reasons.len()).unwrap_or(u32::MAX);
        match self.reasons.get(reason) {
            Some(number) => *number,
            None => *self.reasons.entry(reason.to_owned()).or_insert(next),
        }
    }

    /// Puts rows into the table's order. From then on, a reason's number sorts like the reason.
    pub(crate) fn sort(&mut self) {
        let mut ranks = vec![0; self.reasons.len()];
        for (rank, number) in (0..).zip(self.reasons.values_mut()) {
            if let Some(slot) = ranks.get_mut(*number as usize) {
                *slot = rank;
            }
            *number = rank;
        }
        for row in &mut self.rows {
            row.key.3 = ranks.get(row.key.3 as usize).copied().unwrap_or_default();
        }
        self.rows.sort_unstable_by_key(|row| (row.key, row.run_id));
    }

    /// The rows of `pc_sample`, once they are sorted.
    pub(crate) fn rows(&self) -> impl Iterator<Item = PcSample> {
        let reasons: Vec<&String> = self.reasons.keys().collect();
        self.rows.iter().map(move |row| {
            let (kernel_id, function_id, pc, reason) = row.key;
            PcSample {
                run_id: row.run_id,
                kernel_id,
                function_id,
                pc,
                stall_reason: reasons.get(reason as usize).copied().cloned().unwrap_or_default(),
                samples: row.samples,
                samples_not_issued: row.samples_not_issued,
            }
        })
    }

    /// Functions that rows name.
    pub(crate) fn functions(&self) -> impl Iterator<Item = FunctionId> {
        self.rows.iter().map(|row| row.key.1)
    }
}

/// Adds up rows of one key.
pub(super) fn sum(mut rows: Vec<MergedSample>) -> Vec<MergedSample> {
    rows.sort_unstable_by_key(|row| row.key);
    rows.dedup_by(|row, merged| {
        let same = row.key == merged.key;
        if same {
            merged.samples += row.samples;
            merged.samples_not_issued += row.samples_not_issued;
        }
        same
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_sort_by_name_whichever_run_names_them_first() {
        let mut samples = MergedSamples::default();
        let numbers = ["wait", "barrier", "long_scoreboard", "barrier"].map(|reason| samples.number(reason));
        assert_eq!(numbers, [0, 1, 2, 1]);
        for (number, run_id) in [(0, 1), (2, 1), (1, 2), (0, 3)] {
            let key = (KernelId(0), FunctionId(0), Pc(0), number);
            samples.rows.push(MergedSample { key, run_id: RunId(run_id), samples: 1, samples_not_issued: 0 });
        }
        samples.sort();
        let rows: Vec<(String, u32)> = samples.rows().map(|row| (row.stall_reason, row.run_id.0)).collect();
        let expected = [("barrier", 2), ("long_scoreboard", 1), ("wait", 1), ("wait", 3)];
        assert_eq!(rows, expected.map(|(reason, run_id)| (reason.to_owned(), run_id)));
    }
}

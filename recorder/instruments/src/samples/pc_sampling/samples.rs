//! Records of samples before they become rows.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::RawSample;
use stallmap_schema::id::Pc;

use super::buffer::{PcRecord, ReadTotals};
use stallmap_session::session;

/// The beginning of the names of stall reasons. CUPTI's other names are totals.
const REASON_PREFIX: &str = "smsp__pcsamp_warps_issue_stalled_";
/// The end of the name of a reason that counts some samples of another one again.
const NOT_ISSUED: &str = "_not_issued";

/// The stall reasons of a context, by CUPTI's number.
#[derive(Clone, Debug, Default)]
pub(super) struct StallReasons(BTreeMap<u32, String>);

impl StallReasons {
    /// The stall reasons among all that CUPTI names.
    pub(super) fn new(names: BTreeMap<u32, String>) -> Self {
        Self(names.into_iter().filter(|(_, name)| name.starts_with(REASON_PREFIX)).collect())
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

    /// Samples of a record, each once.
    pub(super) fn count(&self, record: &PcRecord) -> u64 {
        let counts = |number: &u32| self.0.get(number).is_some_and(|name| !name.ends_with(NOT_ISSUED));
        record.reasons.iter().filter(|(number, _)| counts(number)).map(|(_, samples)| samples).sum()
    }

    /// Samples of records, each once.
    pub(super) fn count_all(&self, records: &[PcRecord]) -> u64 {
        records.iter().map(|record| self.count(record)).sum()
    }

    /// Samples of each instruction, by its function's mangled name and its pc.
    pub(super) fn by_pc(&self, records: &[PcRecord]) -> BTreeMap<(String, Pc), u64> {
        let mut by_pc = BTreeMap::new();
        for record in records {
            let samples = self.count(record);
            if samples > 0 {
                *by_pc.entry((record.function.to_string(), record.pc)).or_default() += samples;
            }
        }
        by_pc
    }

    /// Writes records. Where an ordinal is given, they are that launch's, whatever their correlation id.
    pub(super) fn emit(&self, records: &[PcRecord], ordinal: Option<u64>) {
        self.rows(records).for_each(|row| session::emit(RawSample { ordinal, ..row }));
    }

    /// Writes records that were taken in a window of time.
    pub(super) fn emit_window(&self, records: &[PcRecord], window_id: u32) {
        let rows = self.rows(records).map(|row| RawSample { window_id: Some(window_id), ..row });
        session::emit_all(rows.collect::<Vec<_>>());
    }

    fn rows(&self, records: &[PcRecord]) -> impl Iterator<Item = RawSample> {
        let of_record = |record: &PcRecord| {
            let row = |&(number, samples): &(u32, u64)| RawSample {
                correlation_id: record.correlation_id,
                cubin_crc: record.cubin_crc,
                function_name: record.function.to_string(),
                pc: record.pc,
                stall_reason: self.0.get(&number).cloned().unwrap_or_else(|| format!("reason {number}")),
                samples,
                ordinal: None,
                window_id: None,
            };
            record.reasons.iter().map(row).collect::<Vec<_>>()
        };
        records.iter().flat_map(of_record)
    }
}

/// CRCs of the cubins in which records found a kernel.
pub(super) fn crcs(records: &[PcRecord], kernel: &str) -> BTreeSet<u64> {
    let of_kernel = records.iter().filter(|record| *record.function == *kernel);
    of_kernel.map(|record| record.cubin_crc).collect()
}

/// The totals of the parts of one read. CUPTI may give them with each part, so the largest holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadSums {
    all: u64,
    pub(super) dropped: u64,
    pub(super) outside: u64,
}

impl ReadSums {
    /// Adds a part.
    pub(super) fn add(&mut self, part: ReadTotals) {
        self.all = self.all.max(part.all);
        self.dropped = self.dropped.max(part.dropped);
        self.outside = self.outside.max(part.outside);
    }

    /// Samples in the total of all that are in no part, of so many in records.
    pub(super) fn missing(&self, collected: u64) -> u64 {
        self.all.saturating_sub(collected).saturating_sub(self.dropped).saturating_sub(self.outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons() -> StallReasons {
        let names = [
            (1, "smsp__pcsamp_warps_issue_stalled_wait"),
            (2, "smsp__pcsamp_warps_issue_stalled_wait_not_issued"),
            (3, "smsp__pcsamp_sample_count"),
        ];
        StallReasons::new(names.map(|(number, name)| (number, name.to_owned())).into())
    }

    fn record(function: &str, cubin_crc: u64, pc: u32, reasons: &[(u32, u64)]) -> PcRecord {
        let reasons = reasons.to_vec();
        PcRecord { correlation_id: 1, cubin_crc, function: function.into(), pc: Pc(pc), reasons }
    }

    #[test]
    fn samples_count_once() {
        assert_eq!(reasons().numbers(), [1, 2]);
        let records = [record("k", 7, 0, &[(1, 5), (2, 3)]), record("k", 7, 0, &[(1, 2)])];
        assert_eq!(reasons().count_all(&records), 7);
        assert_eq!(reasons().by_pc(&records), BTreeMap::from([(("k".to_owned(), Pc(0)), 7)]));
    }

    #[test]
    fn only_the_kernel_itself_names_its_cubin() {
        let records = [record("k", 7, 0, &[]), record("callee", 8, 0, &[]), record("k", 7, 16, &[])];
        assert_eq!(crcs(&records, "k"), BTreeSet::from([7]));
    }

    #[test]
    fn totals_of_parts_are_not_added_up() {
        let mut sums = ReadSums::default();
        let part = ReadTotals { all: 10, dropped: 2, outside: 3, is_full: false, has_more: true };
        sums.add(part);
        sums.add(part);
        assert_eq!((sums.dropped, sums.outside), (2, 3));
        assert_eq!(sums.missing(4), 1);
        assert_eq!(sums.missing(50), 0);
    }
}

//! Reads of samples: records, totals, and the reasons of missing ones.

use std::sync::Arc;

use stallmap_schema::word::LossKind;
use stallmap_sys::cupti::{CuptiCode, OUT_OF_MEMORY};

use super::buffer::{PcRecord, SamplingBuffer};
use super::calls::ContextCalls;
use super::samples::{ReadSums, StallReasons};
use stallmap_session::session;

/// The samples of one launch call.
#[derive(Debug, Default)]
pub(super) struct CallSamples {
    pub(super) reasons: Arc<StallReasons>,
    pub(super) records: Vec<PcRecord>,
    /// Samples that the hardware dropped.
    pub(super) dropped: u64,
    /// The reason that samples are missing.
    pub(super) failure: Option<SamplingFailure>,
}

impl CallSamples {
    /// CUPTI's error, if it gave no sample.
    pub(super) fn unread(&self) -> Option<CuptiCode> {
        match self.failure {
            Some(SamplingFailure::Code(code)) if self.records.is_empty() => Some(code),
            _ => None,
        }
    }
}

/// A reason that samples of a launch are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SamplingFailure {
    /// The hardware buffer was full.
    Full,
    /// CUPTI answered with this code. The number of samples is not known.
    Code(CuptiCode),
}

/// Counts records of launches that were sampled because they ran while a selected one did.
pub(super) fn lose_others<'a>(reasons: &StallReasons, others: impl Iterator<Item = &'a Vec<PcRecord>>) {
    let samples = others.map(|records| reasons.count_all(records)).sum();
    if samples > 0 {
        session::lose(LossKind::Sample, "launch was not selected", samples, None);
    }
}

/// Reads until CUPTI has no more records. The result says why it did not come so far.
pub(super) fn read_all(
    calls: ContextCalls<'_>,
    answer: &mut SamplingBuffer,
    sums: &mut ReadSums,
    each: &mut dyn FnMut(PcRecord),
) -> Option<SamplingFailure> {
    loop {
        answer.clear();
        let code = calls.read(answer);
        let totals = answer.totals();
        if code == 0 {
            answer.records().into_iter().for_each(&mut *each);
            sums.add(totals);
        }
        match code {
            OUT_OF_MEMORY => return Some(SamplingFailure::Full),
            0 if totals.is_full => return Some(SamplingFailure::Full),
            0 if totals.has_more => {}
            0 => return None,
            code => return Some(SamplingFailure::Code(code)),
        }
    }
}

pub(super) fn count_losses(sums: &ReadSums, collected: u64) {
    let losses = [
        ("dropped by the hardware", sums.dropped),
        ("taken outside the program's kernels", sums.outside),
        ("in the hardware's total and in no record", sums.missing(collected)),
    ];
    for (reason, count) in losses.into_iter().filter(|(_, count)| *count > 0) {
        session::lose(LossKind::Sample, reason, count, None);
    }
}

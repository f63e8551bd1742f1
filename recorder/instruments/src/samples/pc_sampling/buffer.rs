//! Buffers that CUPTI writes samples into, with their records.
#![expect(unsafe_code, reason = "memory that CUPTI writes")]

use std::collections::BTreeSet;
use std::ptr::null_mut;
use std::sync::Arc;

use stallmap_schema::id::Pc;
use stallmap_sys::cupti::types::{CUpti_PCSamplingData, CUpti_PCSamplingPCData, CUpti_PCSamplingStallReason};

use stallmap_session::gpu::name::text;

/// Samples of one instruction in one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PcRecord {
    pub(super) correlation_id: u64,
    pub(super) cubin_crc: u64,
    /// Mangled name of the function.
    pub(super) function: Arc<str>,
    pub(super) pc: Pc,
    /// Samples by CUPTI's number of the reason.
    pub(super) reasons: Vec<(u32, u64)>,
}

/// Totals of a read, as CUPTI gives them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTotals {
    /// All samples: those in records, those dropped, and those outside the program's kernels.
    pub(super) all: u64,
    /// Samples that the hardware dropped.
    pub(super) dropped: u64,
    /// Samples outside the program's kernels.
    pub(super) outside: u64,
    /// True if the hardware buffer was full.
    pub(super) is_full: bool,
    /// True if CUPTI has more records.
    pub(super) has_more: bool,
}

/// A `CUpti_PCSamplingData` with room for instructions and their reasons.
pub(super) struct SamplingBuffer {
    /// The structure that CUPTI fills.
    pub(super) data: Box<CUpti_PCSamplingData>,
    /// Names of functions, each once.
    names: BTreeSet<Arc<str>>,
    _pcs: Vec<CUpti_PCSamplingPCData>,
    _reasons: Vec<CUpti_PCSamplingStallReason>,
}

impl SamplingBuffer {
    /// Room for `pcs` instructions with `reason_count` reasons each.
    pub(super) fn new(pcs: usize, reason_count: usize) -> Self {
        let empty = CUpti_PCSamplingStallReason { pcSamplingStallReasonIndex: 0, samples: 0 };
        let mut reasons = vec![empty; pcs * reason_count];
        let base = reasons.as_mut_ptr();
        let mut records: Vec<CUpti_PCSamplingPCData> = (0..pcs)
            .map(|index| CUpti_PCSamplingPCData {
                size: size_of::<CUpti_PCSamplingPCData>(),
                cubinCrc: 0,
                pcOffset: 0,
                functionIndex: 0,
                pad: 0,
                functionName: null_mut(),
                stallReasonCount: reason_count,
                stallReason: base.wrapping_add(index * reason_count),
                correlationId: 0,
            })
            .collect();
        let data = Box::new(CUpti_PCSamplingData {
            size: size_of::<CUpti_PCSamplingData>(),
            collectNumPcs: pcs,
            totalSamples: 0,
            droppedSamples: 0,
            totalNumPcs: 0,
            remainingNumPcs: 0,
            rangeId: 0,
            pPcData: records.as_mut_ptr(),
            nonUsrKernelsTotalSamples: 0,
            hardwareBufferFull: 0,
        });
        Self { data, names: BTreeSet::new(), _pcs: records, _reasons: reasons }
    }

    /// Empties the buffer. CUPTI leaves fields that it does not write: totals of the last read would count again.
    pub(super) fn clear(&mut self) {
        self.data.totalSamples = 0;
        self.data.droppedSamples = 0;
        self.data.totalNumPcs = 0;
        self.data.remainingNumPcs = 0;
        self.data.nonUsrKernelsTotalSamples = 0;
        self.data.hardwareBufferFull = 0;
    }

    /// The totals that CUPTI wrote.
    pub(super) fn totals(&self) -> ReadTotals {
        ReadTotals {
            all: self.data.totalSamples,
            dropped: self.data.droppedSamples,
            outside: self.data.nonUsrKernelsTotalSamples,
            is_full: self.data.hardwareBufferFull != 0,
            has_more: self.data.remainingNumPcs != 0,
        }
    }

    /// The records that CUPTI wrote, in its order.
    pub(super) fn records(&mut self) -> Vec<PcRecord> {
        let count = self.data.totalNumPcs.min(self.data.collectNumPcs);
        (0..count).map(|index| self.record(index)).collect()
    }

    fn record(&mut self, index: usize) -> PcRecord {
        // SAFETY: `index` is below the count of records, which does not exceed the array.
        let record = unsafe { &*self.data.pPcData.add(index) };
        let reasons = (0..record.stallReasonCount).filter_map(|reason| {
            // SAFETY: there are that many reasons behind the pointer.
            let reason = unsafe { *record.stallReason.add(reason) };
            (reason.samples > 0).then(|| (reason.pcSamplingStallReasonIndex, u64::from(reason.samples)))
        });
        PcRecord {
            correlation_id: { record.correlationId }.into(),
            cubin_crc: record.cubinCrc,
            pc: Pc(u32::try_from(record.pcOffset).unwrap_or(u32::MAX)),
            reasons: reasons.collect(),
            // Records of one function share one name, and which reads share it is not documented: it stays CUPTI's,
            // because freeing each frees some twice.
            function: self.name(text(record.functionName)),
        }
    }

    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(name.as_str()) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_buffer_counts_nothing_again() {
        let mut buffer = SamplingBuffer::new(2, 1);
        buffer.data.totalNumPcs = 1;
        buffer.data.totalSamples = 9;
        buffer.data.droppedSamples = 3;
        buffer.data.nonUsrKernelsTotalSamples = 5;
        buffer.data.hardwareBufferFull = 1;
        // SAFETY: the buffer has room for two records of one reason each.
        unsafe { (*(*buffer.data.pPcData).stallReason).samples = 1 };
        assert_eq!(buffer.records().len(), 1);
        assert!(buffer.totals().is_full);
        buffer.clear();
        let ReadTotals { all, dropped, outside, is_full, has_more } = buffer.totals();
        assert_eq!((all, dropped, outside, is_full, has_more), (0, 0, 0, false, false));
        assert!(buffer.records().is_empty());
    }

    #[test]
    fn names_are_kept_once() {
        let mut buffer = SamplingBuffer::new(1, 1);
        let [first, second] = [buffer.name("k".into()), buffer.name("k".into())];
        assert!(Arc::ptr_eq(&first, &second));
    }
}

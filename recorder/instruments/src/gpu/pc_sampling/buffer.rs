//! The buffers that CUPTI writes samples into, and the rows that become of them.
#![expect(unsafe_code, reason = "memory that CUPTI writes")]

use std::collections::BTreeMap;
use std::ptr::null_mut;

use stallmap_schema::capture::recording::RawSample;
use stallmap_schema::id::Pc;
use stallmap_schema::word::LossKind;
use stallmap_sys::cupti::types::{CUpti_PCSamplingData, CUpti_PCSamplingPCData, CUpti_PCSamplingStallReason};

use crate::gpu::name::text;
use crate::{replayed, session};

/// Samples that CUPTI handed over.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// In rows, those of `_not_issued` reasons not counted again.
    pub delivered: u64,
    /// Dropped by the hardware.
    pub dropped: u64,
    /// The delivered ones of each instruction, by its function's mangled name and its pc; only where launches are
    /// replayed.
    pub by_pc: BTreeMap<(String, Pc), u64>,
}

impl Taken {
    /// Nothing.
    pub(super) const EMPTY: Self = Self { delivered: 0, dropped: 0, by_pc: BTreeMap::new() };

    /// Adds what was taken after it.
    pub(super) fn add(&mut self, more: Self) {
        self.delivered += more.delivered;
        self.dropped += more.dropped;
        for (pc, samples) in more.by_pc {
            *self.by_pc.entry(pc).or_default() += samples;
        }
    }
}

/// A `CUpti_PCSamplingData` with room for instructions and their reasons.
pub(super) struct Buffer {
    /// What CUPTI fills.
    pub(super) data: Box<CUpti_PCSamplingData>,
    _pcs: Vec<CUpti_PCSamplingPCData>,
    _reasons: Vec<CUpti_PCSamplingStallReason>,
}

impl Buffer {
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
        Self { data, _pcs: records, _reasons: reasons }
    }

    /// Turns what CUPTI wrote into rows, and empties the buffer.
    pub(super) fn record(&mut self, names: &BTreeMap<u32, String>) -> Taken {
        let data = &mut *self.data;
        let mut taken = Taken { dropped: data.droppedSamples, ..Taken::EMPTY };
        let (is_replay, is_silent) = (replayed::is_session(), replayed::is_silent());
        let count = data.totalNumPcs.min(data.collectNumPcs);
        for index in 0..count {
            // SAFETY: CUPTI wrote `count` records, at most as many as there are.
            let record = unsafe { &*data.pPcData.add(index) };
            // Records of one function share one name, so it stays CUPTI's: freeing each frees some twice.
            let function_name = text(record.functionName);
            let pc = Pc(u32::try_from(record.pcOffset).unwrap_or(u32::MAX));
            let before = taken.delivered;
            for reason in 0..record.stallReasonCount {
                // SAFETY: there are that many reasons behind the pointer.
                let reason = unsafe { *record.stallReason.add(reason) };
                if reason.samples == 0 {
                    continue;
                }
                let name = names.get(&reason.pcSamplingStallReasonIndex);
                if name.is_some_and(|name| !name.ends_with("_not_issued")) {
                    taken.delivered += u64::from(reason.samples);
                }
                if is_silent {
                    continue;
                }
                session::emit(RawSample {
                    correlation_id: { record.correlationId }.into(),
                    cubin_crc: record.cubinCrc,
                    function_name: function_name.clone(),
                    pc,
                    stall_reason: name
                        .cloned()
                        .unwrap_or_else(|| format!("reason {}", { reason.pcSamplingStallReasonIndex })),
                    samples: reason.samples.into(),
                });
            }
            if is_replay && taken.delivered > before {
                *taken.by_pc.entry((function_name, pc)).or_default() += taken.delivered - before;
            }
        }
        if is_silent {
            data.totalNumPcs = 0;
            data.droppedSamples = 0;
            return taken;
        }
        if data.droppedSamples > 0 {
            session::lose(LossKind::Sample, "dropped by the hardware", data.droppedSamples, None);
        }
        if data.hardwareBufferFull != 0 {
            session::lose(LossKind::Source, "sample buffer of the hardware was full", 1, None);
        }
        if data.nonUsrKernelsTotalSamples > 0 {
            let samples = data.nonUsrKernelsTotalSamples;
            session::lose(LossKind::Sample, "taken outside the program's kernels", samples, None);
        }
        data.totalNumPcs = 0;
        data.droppedSamples = 0;
        taken
    }
}

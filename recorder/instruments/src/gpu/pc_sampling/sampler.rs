//! Sampling of one context: enabled with it, read after each launch, disabled before it goes.
#![expect(unsafe_code, reason = "calls of CUPTI")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::ptr::null_mut;

use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::Handle;
use stallmap_sys::cupti::types::{
    CUpti_PCSamplingConfigurationAttributeType as Attribute, CUpti_PCSamplingConfigurationInfo,
    CUpti_PCSamplingConfigurationInfo__bindgen_ty_1 as Value,
    CUpti_PCSamplingConfigurationInfo__bindgen_ty_1__bindgen_ty_1 as Words,
    CUpti_PCSamplingConfigurationInfoParams, CUpti_PCSamplingDisableParams, CUpti_PCSamplingEnableParams,
    CUpti_PCSamplingGetDataParams, CUpti_PCSamplingGetNumStallReasonsParams,
    CUpti_PCSamplingGetStallReasonsParams, CUptiResult,
};

use super::buffer::{Buffer, Taken};
use super::{Instrument, check};
use crate::gpu::name::text;
use crate::session;

/// Two to this power cycles between samples, where the user does not say.
pub(super) const DEFAULT_PERIOD_EXPONENT: u32 = 8;
/// Instructions that one request for data can answer.
const PCS: usize = 4096;
/// Bytes of a stall reason's name.
const NAME_BYTES: usize = 128;
/// KERNEL_SERIALIZED of CUpti_PCSamplingCollectionMode.
const SERIALIZED: u64 = 2;
/// What the names of the reasons that we collect begin with.
const REASON_PREFIX: &str = "smsp__pcsamp_warps_issue_stalled_";

/// Sampling of one context.
pub(super) struct Sampler {
    context: Handle,
    reasons: BTreeMap<u32, String>,
    /// Where CUPTI keeps what nobody asked for yet.
    kept: Buffer,
    /// Where it answers.
    answer: Buffer,
}

// SAFETY: the buffers' pointers are to memory that the sampler owns.
unsafe impl Send for Sampler {}

impl Instrument {
    /// Enables sampling in a context.
    pub(super) fn begin(&self, context: Handle) -> Result<Sampler, String> {
        // Until sampling is enabled, CUPTI does not say which reasons there are.
        let mut enable = CUpti_PCSamplingEnableParams {
            size: size_of::<CUpti_PCSamplingEnableParams>(),
            pPriv: null_mut(),
            ctx: context.0.cast(),
        };
        // SAFETY: the context was just created.
        check(unsafe { (self.api.enable)(&raw mut enable) }, "enable PC sampling")?;
        let reasons = self.reasons(context)?;
        let kept = Buffer::new(PCS, reasons.len());
        let answer = Buffer::new(PCS, reasons.len());
        let mut indices: Vec<u32> = reasons.keys().copied().collect();
        let exponent = self.config.sampling_period_exponent.unwrap_or(DEFAULT_PERIOD_EXPONENT);
        let mut settings = [
            setting(Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE, [SERIALIZED, 0]),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD,
                [exponent.into(), 0],
            ),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON,
                [indices.len() as u64, indices.as_mut_ptr() as u64],
            ),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE,
                [self.config.sampling_buffer_bytes, 0],
            ),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER,
                [&raw const *kept.data as u64, 0],
            ),
        ];
        let mut configure = CUpti_PCSamplingConfigurationInfoParams {
            size: size_of::<CUpti_PCSamplingConfigurationInfoParams>(),
            pPriv: null_mut(),
            ctx: context.0.cast(),
            numAttributes: settings.len(),
            pPCSamplingConfigurationInfo: settings.as_mut_ptr(),
        };
        // SAFETY: the settings and what they point to outlive the call; `kept` lives until sampling ends.
        check(unsafe { (self.api.configure)(&raw mut configure) }, "configure PC sampling")?;
        Ok(Sampler { context, reasons, kept, answer })
    }

    /// The stall reasons that the hardware counts, by index.
    fn reasons(&self, context: Handle) -> Result<BTreeMap<u32, String>, String> {
        let mut count = 0;
        let mut ask = CUpti_PCSamplingGetNumStallReasonsParams {
            size: size_of::<CUpti_PCSamplingGetNumStallReasonsParams>(),
            pPriv: null_mut(),
            ctx: context.0.cast(),
            numStallReasons: &raw mut count,
        };
        // SAFETY: `count` outlives the call.
        check(unsafe { (self.api.stall_reason_count)(&raw mut ask) }, "count stall reasons")?;
        let mut indices = vec![0_u32; count];
        let mut names = vec![[0 as c_char; NAME_BYTES]; count];
        let mut pointers: Vec<*mut c_char> = names.iter_mut().map(|name| name.as_mut_ptr()).collect();
        let mut list = CUpti_PCSamplingGetStallReasonsParams {
            size: size_of::<CUpti_PCSamplingGetStallReasonsParams>(),
            pPriv: null_mut(),
            ctx: context.0.cast(),
            numStallReasons: count,
            stallReasonIndex: indices.as_mut_ptr(),
            stallReasons: pointers.as_mut_ptr(),
        };
        // SAFETY: there are `count` indices and `count` names of 128 bytes, as CUPTI asks for.
        check(unsafe { (self.api.stall_reasons)(&raw mut list) }, "list stall reasons")?;
        let reasons = indices.into_iter().zip(pointers.iter().map(|&name| text(name)));
        // The others are totals, not reasons.
        Ok(reasons.filter(|(_, name)| name.starts_with(REASON_PREFIX)).collect())
    }

    /// Records every sample that CUPTI has for a context.
    pub(super) fn collect(&self, context: Handle) -> Taken {
        let mut state = self.lock();
        let sampler = state.samplers.get_mut(&context.key());
        sampler.map_or_else(Taken::default, |sampler| self.collect_from(sampler))
    }

    fn collect_from(&self, sampler: &mut Sampler) -> Taken {
        let mut taken = Taken::default();
        loop {
            let Sampler { context, reasons, answer, .. } = sampler;
            let mut ask = CUpti_PCSamplingGetDataParams {
                size: size_of::<CUpti_PCSamplingGetDataParams>(),
                pPriv: null_mut(),
                ctx: context.0.cast(),
                pcSamplingData: (&raw mut *answer.data).cast(),
            };
            // SAFETY: the buffer was built for this many instructions and reasons, and the sampler owns it.
            let code = unsafe { (self.api.get_data)(&raw mut ask) };
            if code != 0 {
                let detail = Some(format!("CUPTI error {code}"));
                session::lose(LossKind::Sample, "samples could not be read", 1, detail);
                return taken;
            }
            taken.add(answer.record(reasons));
            if answer.data.remainingNumPcs == 0 {
                return taken;
            }
        }
    }

    /// Delivers what is left, and disables sampling.
    pub(super) fn end(&self, mut sampler: Sampler) {
        self.collect_from(&mut sampler);
        let mut disable = CUpti_PCSamplingDisableParams {
            size: size_of::<CUpti_PCSamplingDisableParams>(),
            pPriv: null_mut(),
            ctx: sampler.context.0.cast(),
        };
        // SAFETY: sampling was enabled for this context.
        let code = unsafe { (self.api.disable)(&raw mut disable) };
        if code == 0 {
            // What was left after the last request lies in the buffer that CUPTI was given.
            sampler.kept.record(&sampler.reasons);
        }
    }
}

fn setting(attribute: Attribute, [first, second]: [u64; 2]) -> CUpti_PCSamplingConfigurationInfo {
    CUpti_PCSamplingConfigurationInfo {
        attributeType: attribute,
        attributeStatus: CUptiResult::CUPTI_SUCCESS,
        attributeData: Value { invalidData: Words { data: [first, second, 0] } },
    }
}

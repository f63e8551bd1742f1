//! CUPTI's calls for the samples of one context.
#![expect(unsafe_code, reason = "calls of CUPTI")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::ptr::null_mut;

use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::cupti::types::{
    CUpti_PCSamplingConfigurationAttributeType as Attribute, CUpti_PCSamplingConfigurationInfo,
    CUpti_PCSamplingConfigurationInfo__bindgen_ty_1 as Value,
    CUpti_PCSamplingConfigurationInfo__bindgen_ty_1__bindgen_ty_1 as Words,
    CUpti_PCSamplingConfigurationInfoParams, CUpti_PCSamplingDisableParams, CUpti_PCSamplingEnableParams,
    CUpti_PCSamplingGetDataParams, CUpti_PCSamplingGetNumStallReasonsParams,
    CUpti_PCSamplingGetStallReasonsParams, CUpti_PCSamplingStartParams, CUpti_PCSamplingStopParams,
    CUptiResult,
};
use stallmap_sys::cupti::{Cupti, CuptiCode};

use super::buffer::SamplingBuffer;
use super::check;
use stallmap_session::gpu::name::text;

/// Bytes of a stall reason's name.
const NAME_BYTES: usize = 128;
/// Milliseconds between two looks of CUPTI's own thread at the hardware's buffer, in continuous sampling.
const WORKER_MS: u64 = 10;

/// CUpti_PCSamplingCollectionMode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectionMode {
    /// Kernels run side by side, and samples have no launch.
    Continuous = 1,
    /// Kernels run one after the other.
    Serialized = 2,
}

/// Samples of one context.
#[derive(Clone, Copy)]
pub(super) struct ContextCalls<'a> {
    pub(super) api: &'a Cupti,
    pub(super) context: DriverHandle,
}

/// A call that takes nothing but a context.
macro_rules! call {
    ($self:ident.$function:ident, $parameters:ident) => {{
        let mut parameters = $parameters {
            size: size_of::<$parameters>(),
            pPriv: null_mut(),
            ctx: $self.context.0.cast(),
        };
        // SAFETY: the parameters are of the type that the function takes, and outlive the call. The context is alive,
        // because its end removes its sampler first.
        unsafe { ($self.api.$function)(&raw mut parameters) }
    }};
}

impl ContextCalls<'_> {
    /// Enables sampling: tens of milliseconds.
    pub(super) fn enable(self) -> Result<(), String> {
        check(call!(self.enable, CUpti_PCSamplingEnableParams), "enable PC sampling")
    }

    /// Disables sampling.
    pub(super) fn disable(self) -> Result<(), String> {
        check(call!(self.disable, CUpti_PCSamplingDisableParams), "disable PC sampling")
    }

    /// Samples the kernels that are launched from now on.
    pub(super) fn start(self) -> Result<(), String> {
        check(call!(self.start, CUpti_PCSamplingStartParams), "start PC sampling")
    }

    /// Samples no more kernels.
    pub(super) fn stop(self) -> Result<(), String> {
        check(call!(self.stop, CUpti_PCSamplingStopParams), "stop PC sampling")
    }

    /// Configures sampling. `leftover` must live until sampling is disabled.
    pub(super) fn configure(
        self,
        mode: CollectionMode,
        mut reasons: Vec<u32>,
        exponent: u32,
        buffer_bytes: u64,
        leftover: &SamplingBuffer,
    ) -> Result<(), String> {
        let mut settings = vec![
            setting(Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE, [mode as u64, 0]),
            setting(Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL, [1, 0]),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD,
                [exponent.into(), 0],
            ),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON,
                [reasons.len() as u64, reasons.as_mut_ptr() as u64],
            ),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE,
                [buffer_bytes, 0],
            ),
            setting(
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER,
                [&raw const *leftover.data as u64, 0],
            ),
        ];
        if mode == CollectionMode::Continuous {
            let sleep =
                Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_WORKER_THREAD_PERIODIC_SLEEP_SPAN;
            settings.push(setting(sleep, [WORKER_MS, 0]));
        }
        self.set(&mut settings)
    }

    /// Changes the period, while sampling is stopped.
    pub(super) fn set_period(self, exponent: u32) -> Result<(), String> {
        let period = Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
        self.set(&mut [setting(period, [exponent.into(), 0])])
    }

    /// Every pointer in `settings` is to memory that outlives the call, or sampling where CUPTI keeps it.
    fn set(self, settings: &mut [CUpti_PCSamplingConfigurationInfo]) -> Result<(), String> {
        let mut configure = CUpti_PCSamplingConfigurationInfoParams {
            size: size_of::<CUpti_PCSamplingConfigurationInfoParams>(),
            pPriv: null_mut(),
            ctx: self.context.0.cast(),
            numAttributes: settings.len(),
            pPCSamplingConfigurationInfo: settings.as_mut_ptr(),
        };
        // SAFETY: the settings and what they point to outlive the call, as the two callers see to.
        check(unsafe { (self.api.configure)(&raw mut configure) }, "configure PC sampling")
    }

    /// Fills a buffer with records that no read had before.
    pub(super) fn read(self, answer: &mut SamplingBuffer) -> CuptiCode {
        let mut ask = CUpti_PCSamplingGetDataParams {
            size: size_of::<CUpti_PCSamplingGetDataParams>(),
            pPriv: null_mut(),
            ctx: self.context.0.cast(),
            pcSamplingData: (&raw mut *answer.data).cast(),
        };
        // SAFETY: the buffer was built for as many instructions and reasons as its data says.
        unsafe { (self.api.get_data)(&raw mut ask) }
    }

    /// Names of the hardware's counters, by index. Until sampling is enabled, CUPTI does not give them.
    pub(super) fn reasons(self) -> Result<BTreeMap<u32, String>, String> {
        let mut count = 0;
        let mut ask = CUpti_PCSamplingGetNumStallReasonsParams {
            size: size_of::<CUpti_PCSamplingGetNumStallReasonsParams>(),
            pPriv: null_mut(),
            ctx: self.context.0.cast(),
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
            ctx: self.context.0.cast(),
            numStallReasons: count,
            stallReasonIndex: indices.as_mut_ptr(),
            stallReasons: pointers.as_mut_ptr(),
        };
        // SAFETY: there are `count` indices and `count` names of 128 bytes, as CUPTI asks for.
        check(unsafe { (self.api.stall_reasons)(&raw mut list) }, "list stall reasons")?;
        Ok(indices.into_iter().zip(pointers.iter().map(|&name| text(name))).collect())
    }
}

fn setting(attribute: Attribute, [first, second]: [u64; 2]) -> CUpti_PCSamplingConfigurationInfo {
    CUpti_PCSamplingConfigurationInfo {
        attributeType: attribute,
        attributeStatus: CUptiResult::CUPTI_SUCCESS,
        attributeData: Value { invalidData: Words { data: [first, second, 0] } },
    }
}

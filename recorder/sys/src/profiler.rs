//! CUPTI's profiler host and range profiler: hardware counters of a part of a program.
//!
//! They exist since the CUPTI of CUDA 12.6, so the table stands apart from [`crate::cupti::Cupti`], which must load
//! from any. Functions that came later are not in it.
#![expect(unsafe_code, reason = "tables of C functions and their parameters")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::path::{Path, PathBuf};

use crate::cupti::{CuptiCode, types};
use crate::load::{self, LoadError};
use crate::locate;

/// cuptiProfilerHostGetMetricProperties: the chip has no metric of the name (CUPTI_ERROR_INVALID_METRIC_NAME).
pub const INVALID_METRIC_NAME: CuptiCode = 17;
/// The driver lets only administrators read counters (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES).
pub const INSUFFICIENT_PRIVILEGES: CuptiCode = 35;
/// Another tool uses the profiler (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED).
pub const MULTIPLE_SUBSCRIBERS: CuptiCode = 39;

crate::functions! {
    /// Functions of `libcupti.so` since CUDA 12.6. Each takes its parameters, a struct that begins with its own size.
    Profiler from "CUPTI library (libcupti.so)" {
        /// (code, text)
        result_text: cuptiGetResultString(CuptiCode, *mut *const c_char) -> CuptiCode;
        /// Before all else.
        initialize: cuptiProfilerInitialize(*mut types::CUpti_Profiler_Initialize_Params) -> CuptiCode;
        /// After all else.
        deinitialize: cuptiProfilerDeInitialize(*mut types::CUpti_Profiler_DeInitialize_Params) -> CuptiCode;
        /// The name under which the host functions know a device.
        chip_name: cuptiDeviceGetChipName(*mut types::CUpti_Device_GetChipName_Params) -> CuptiCode;
        /// The counters that the driver gives out.
        availability:
            cuptiProfilerGetCounterAvailability(*mut types::CUpti_Profiler_GetCounterAvailability_Params) -> CuptiCode;
        /// A host object of a chip, which needs no device.
        host_initialize: cuptiProfilerHostInitialize(*mut types::CUpti_Profiler_Host_Initialize_Params) -> CuptiCode;
        /// Its end.
        host_deinitialize:
            cuptiProfilerHostDeinitialize(*mut types::CUpti_Profiler_Host_Deinitialize_Params) -> CuptiCode;
        /// Unit and kind of one metric.
        metric_properties: cuptiProfilerHostGetMetricProperties(*mut MetricProperties) -> CuptiCode;
        /// Adds metrics. One that is refused leaves the host object unusable.
        add_metrics:
            cuptiProfilerHostConfigAddMetrics(*mut types::CUpti_Profiler_Host_ConfigAddMetrics_Params) -> CuptiCode;
        /// Bytes of the configuration of the added metrics.
        config_bytes:
            cuptiProfilerHostGetConfigImageSize(*mut types::CUpti_Profiler_Host_GetConfigImageSize_Params) -> CuptiCode;
        /// The configuration.
        config: cuptiProfilerHostGetConfigImage(*mut types::CUpti_Profiler_Host_GetConfigImage_Params) -> CuptiCode;
        /// Number of times that the work must run to measure it all.
        pass_count:
            cuptiProfilerHostGetNumOfPasses(*mut types::CUpti_Profiler_Host_GetNumOfPasses_Params) -> CuptiCode;
        /// Values of metrics, from counter data.
        evaluate: cuptiProfilerHostEvaluateToGpuValues(
            *mut types::CUpti_Profiler_Host_EvaluateToGpuValues_Params
        ) -> CuptiCode;
        /// Range profiling of a context.
        enable: cuptiRangeProfilerEnable(*mut types::CUpti_RangeProfiler_Enable_Params) -> CuptiCode;
        /// Its end.
        disable: cuptiRangeProfilerDisable(*mut types::CUpti_RangeProfiler_Disable_Params) -> CuptiCode;
        /// Sets the metrics, the ranges and the target of the counter data.
        set_config: cuptiRangeProfilerSetConfig(*mut types::CUpti_RangeProfiler_SetConfig_Params) -> CuptiCode;
        /// The beginning of a pass.
        start: cuptiRangeProfilerStart(*mut types::CUpti_RangeProfiler_Start_Params) -> CuptiCode;
        /// The end of a pass.
        stop: cuptiRangeProfilerStop(*mut types::CUpti_RangeProfiler_Stop_Params) -> CuptiCode;
        /// Writes the hardware's counts into the counter data.
        decode: cuptiRangeProfilerDecodeData(*mut types::CUpti_RangeProfiler_DecodeData_Params) -> CuptiCode;
        /// Bytes of the counter data.
        data_bytes:
            cuptiRangeProfilerGetCounterDataSize(*mut types::CUpti_RangeProfiler_GetCounterDataSize_Params) -> CuptiCode;
        /// Empties the counter data.
        initialize_data: cuptiRangeProfilerCounterDataImageInitialize(
            *mut types::CUpti_RangeProfiler_CounterDataImage_Initialize_Params
        ) -> CuptiCode;
        /// Ranges in the counter data.
        data_info:
            cuptiRangeProfilerGetCounterDataInfo(*mut types::CUpti_RangeProfiler_GetCounterDataInfo_Params) -> CuptiCode;
    }
}

impl Profiler {
    /// Opens this machine's CUPTI, and the library next to it that knows the chips' counters.
    pub fn open() -> Result<(Self, PathBuf), LoadError> {
        let (table, path) = Self::load(&locate::cupti())?;
        // CUPTI reports a failure itself.
        open_host_library(&path).ok();
        Ok((table, path))
    }
}

/// Opens the library of metrics that belongs to a CUPTI. CUPTI opens it by plain name, which the system finds only if
/// it is loaded already.
pub fn open_host_library(cupti: &Path) -> Result<(), LoadError> {
    let candidates: Vec<PathBuf> = next_to(cupti).into_iter().chain([HOST_LIBRARY.into()]).collect();
    load::open_first(HOST_LIBRARY, &candidates).map(drop)
}

/// The library of metrics and how chips count them.
const HOST_LIBRARY: &str = "libnvperf_host.so";

/// Possible locations of the library of metrics that belongs to a CUPTI.
fn next_to(cupti: &Path) -> Vec<PathBuf> {
    // Of a CUPTI that was opened by plain name, the list of loaded libraries knows the folder.
    let loaded = locate::cupti().into_iter().next();
    let files =
        [Some(cupti.to_owned()), cupti.canonicalize().ok(), loaded.and_then(|path| path.canonicalize().ok())];
    let folders =
        files.iter().flatten().filter_map(|file| file.parent()).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(HOST_LIBRARY)).filter(|file| file.is_file()).collect()
}

/// A parameter struct of CUPTI's, which begins with its size.
pub trait CuptiParameters: Sized {
    /// Bytes up to the end of its last field: less than the size of the type where that ends with padding.
    const STRUCT_BYTES: usize;

    /// One with its size set and all else zero.
    fn new() -> Self;
}

/// Bytes of the type of a field.
const fn field_bytes<T, F>(_field: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Declares parameter structs by their last fields.
macro_rules! parameters {
    ($($struct:ty: $last:ident;)+) => {$(
        impl CuptiParameters for $struct {
            const STRUCT_BYTES: usize =
                offset_of!($struct, $last) + field_bytes(|parameters: &$struct| &parameters.$last);

            fn new() -> Self {
                // SAFETY: the struct is C's, of integers, pointers and enums that have a constant of value 0.
                let mut parameters: Self = unsafe { std::mem::zeroed() };
                parameters.structSize = Self::STRUCT_BYTES;
                parameters
            }
        }
    )+};
}

parameters! {
    types::CUpti_Profiler_Initialize_Params: pPriv;
    types::CUpti_Profiler_DeInitialize_Params: pPriv;
    types::CUpti_Device_GetChipName_Params: pChipName;
    types::CUpti_Profiler_GetCounterAvailability_Params: pCounterAvailabilityImage;
    types::CUpti_Profiler_Host_Initialize_Params: pHostObject;
    types::CUpti_Profiler_Host_Deinitialize_Params: pHostObject;
    MetricProperties: metricType;
    types::CUpti_Profiler_Host_ConfigAddMetrics_Params: numMetrics;
    types::CUpti_Profiler_Host_GetConfigImageSize_Params: configImageSize;
    types::CUpti_Profiler_Host_GetConfigImage_Params: pConfigImage;
    types::CUpti_Profiler_Host_GetNumOfPasses_Params: numOfPasses;
    types::CUpti_Profiler_Host_EvaluateToGpuValues_Params: pMetricValues;
    types::CUpti_RangeProfiler_Enable_Params: pRangeProfilerObject;
    types::CUpti_RangeProfiler_Disable_Params: pRangeProfilerObject;
    types::CUpti_RangeProfiler_SetConfig_Params: targetNestingLevel;
    types::CUpti_RangeProfiler_Start_Params: pRangeProfilerObject;
    types::CUpti_RangeProfiler_Stop_Params: isAllPassSubmitted;
    types::CUpti_RangeProfiler_DecodeData_Params: numOfRangeDropped;
    types::CUpti_RangeProfiler_GetCounterDataSize_Params: counterDataSize;
    types::CUpti_RangeProfiler_CounterDataImage_Initialize_Params: pCounterData;
    types::CUpti_RangeProfiler_GetCounterDataInfo_Params: numTotalRanges;
}

/// `CUpti_Profiler_Host_GetMetricProperties_Params`, with the type a plain integer: a newer CUPTI may know more types.
#[repr(C)]
#[expect(non_snake_case, reason = "C's names, as those of the other structs")]
#[derive(Clone, Copy, Debug)]
pub struct MetricProperties {
    /// Bytes of the struct.
    pub structSize: usize,
    /// Null.
    pub pPriv: *mut c_void,
    /// The host object.
    pub pHostObject: *mut types::CUpti_Profiler_Host_Object,
    /// The metric's name.
    pub pMetricName: *const c_char,
    /// Its description, in CUPTI's memory, as the next two.
    pub pDescription: *const c_char,
    /// The part of the chip that counts it.
    pub pHwUnit: *const c_char,
    /// The unit of its values.
    pub pDimUnit: *const c_char,
    /// Counter, ratio or throughput.
    pub metricType: c_int,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the `*_STRUCT_SIZE` macros of the headers of CUDA 13.0.
    #[test]
    fn sizes_are_those_of_the_headers() {
        use types::*;
        let sizes = [
            (CUpti_Profiler_Initialize_Params::STRUCT_BYTES, 16),
            (CUpti_Profiler_DeInitialize_Params::STRUCT_BYTES, 16),
            (CUpti_Device_GetChipName_Params::STRUCT_BYTES, 32),
            (CUpti_Profiler_GetCounterAvailability_Params::STRUCT_BYTES, 40),
            (CUpti_Profiler_Host_Initialize_Params::STRUCT_BYTES, 48),
            (CUpti_Profiler_Host_Deinitialize_Params::STRUCT_BYTES, 24),
            (MetricProperties::STRUCT_BYTES, 60),
            (CUpti_Profiler_Host_ConfigAddMetrics_Params::STRUCT_BYTES, 40),
            (CUpti_Profiler_Host_GetConfigImageSize_Params::STRUCT_BYTES, 32),
            (CUpti_Profiler_Host_GetConfigImage_Params::STRUCT_BYTES, 40),
            (CUpti_Profiler_Host_GetNumOfPasses_Params::STRUCT_BYTES, 40),
            (CUpti_Profiler_Host_EvaluateToGpuValues_Params::STRUCT_BYTES, 72),
            (CUpti_RangeProfiler_Enable_Params::STRUCT_BYTES, 32),
            (CUpti_RangeProfiler_Disable_Params::STRUCT_BYTES, 24),
            (CUpti_RangeProfiler_SetConfig_Params::STRUCT_BYTES, 90),
            (CUpti_RangeProfiler_Start_Params::STRUCT_BYTES, 24),
            (CUpti_RangeProfiler_Stop_Params::STRUCT_BYTES, 41),
            (CUpti_RangeProfiler_DecodeData_Params::STRUCT_BYTES, 32),
            (CUpti_RangeProfiler_GetCounterDataSize_Params::STRUCT_BYTES, 64),
            (CUpti_RangeProfiler_CounterDataImage_Initialize_Params::STRUCT_BYTES, 40),
            (CUpti_RangeProfiler_GetCounterDataInfo_Params::STRUCT_BYTES, 40),
        ];
        for (index, (ours, header)) in sizes.into_iter().enumerate() {
            assert_eq!(ours, header, "struct {index}");
        }
    }

    #[test]
    fn a_new_struct_knows_its_size() {
        let stop = types::CUpti_RangeProfiler_Stop_Params::new();
        assert_eq!((stop.structSize, stop.passIndex, stop.isAllPassSubmitted), (41, 0, 0));
    }
}

//! Hardware counters of a piece of work, through CUPTI's range profiler: the work is run once for each pass that the
//! metrics need, and each run must find the memory that the first one found.
//!
//! No other client of CUPTI may be in the process. The caller replays. This only measures.
#![expect(unsafe_code, reason = "calls of CUPTI")]

use std::ffi::CString;
use std::ptr::null_mut;

use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::cupti::types::{
    CUpti_Device_GetChipName_Params, CUpti_Profiler_DeInitialize_Params,
    CUpti_Profiler_GetCounterAvailability_Params, CUpti_Profiler_Initialize_Params,
    CUpti_ProfilerRange as Range, CUpti_ProfilerReplayMode as ReplayMode,
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params, CUpti_RangeProfiler_DecodeData_Params,
    CUpti_RangeProfiler_Disable_Params, CUpti_RangeProfiler_Enable_Params,
    CUpti_RangeProfiler_GetCounterDataInfo_Params, CUpti_RangeProfiler_GetCounterDataSize_Params,
    CUpti_RangeProfiler_Object, CUpti_RangeProfiler_SetConfig_Params, CUpti_RangeProfiler_Start_Params,
    CUpti_RangeProfiler_Stop_Params,
};
use stallmap_sys::load::LoadError;
use stallmap_sys::profiler::{CuptiParameters, Profiler as Api};

use answer::call;
use host::{ConfiguredMetrics, CounterHost};
use image::AlignedImage;
use stallmap_session::gpu::name::text;

mod answer;
mod host;
mod image;
pub mod sets;

/// One value that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredValue {
    /// The metric's name, as in ncu.
    pub metric: String,
    /// Its value. None where the hardware gave none, such as a ratio whose divisor is 0.
    pub value: Option<f64>,
    /// Its unit as CUPTI names it, in base units: `byte`, `nanosecond`, `percent`, `l2_sector/l1tex_request`. Empty for
    /// a plain number.
    pub unit: String,
}

/// A set of metrics, ready to be measured in one context as often as wished.
///
/// The context is the one that was current when it was made. It must be current in every call and outlive this.
pub struct CounterProfiler {
    api: Api,
    ranges: *mut CUpti_RangeProfiler_Object,
    /// Outlives `ranges`, not the profiler interface: dropped by hand, in order.
    configured: Option<ConfiguredMetrics>,
    data: AlignedImage,
}

impl CounterProfiler {
    /// Prepares `metrics` for a context and its device. Metrics that the chip does not have are left out and can be
    /// requested. Having none at all is an error.
    pub fn new(context: DriverHandle, device: i32, metrics: &[String]) -> Result<Self, String> {
        let (api, _path) = Api::open().map_err(|error| unfit(&error))?;
        Self::with(api, context, device, metrics)
    }

    /// As [`CounterProfiler::new`], with CUPTI's functions given.
    fn with(api: Api, context: DriverHandle, device: i32, metrics: &[String]) -> Result<Self, String> {
        let mut initialize = CUpti_Profiler_Initialize_Params::new();
        call(&api, api.initialize, &mut initialize, "start CUPTI's profiler")?;
        // From here on, dropping ends the measurement.
        let mut profiler = Self { api, ranges: null_mut(), configured: None, data: AlignedImage::default() };
        let chip = profiler.chip(device)?;
        // To be called before any session is active.
        let availability = profiler.availability(context)?;
        let host = || CounterHost::new(api, &chip, Some(&availability));
        profiler.configured = Some(ConfiguredMetrics::new(host, metrics)?);
        profiler.enable(context)?;
        profiler.data = profiler.counter_data()?;
        Ok(profiler)
    }

    /// Number of times that one measurement runs the work.
    pub fn passes(&self) -> usize {
        self.configured.as_ref().map_or(0, |configured| configured.passes)
    }

    /// The requested metrics that the chip does not have. Those that [`sets::hold`] are the spellings of
    /// other chips. The user should be warned about the rest.
    pub fn unknown(&self) -> &[String] {
        self.configured.as_ref().map_or(&[], |configured| configured.unknown.as_slice())
    }

    /// The names of the metrics that are measured.
    pub fn metrics(&self) -> Vec<String> {
        let metrics = self.configured.iter().flat_map(|configured| &configured.metrics);
        metrics.map(|metric| metric.name.to_string_lossy().into_owned()).collect()
    }

    /// Measures one piece of work: for each pass, `before` puts memory (and caches) in order, then `launch` starts
    /// the work and returns when it has ended.
    pub fn measure(
        &mut self,
        before: &mut dyn FnMut() -> Result<(), String>,
        launch: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Vec<MeasuredValue>, String> {
        self.empty_data()?;
        self.set_config()?;
        // One more than the passes that were announced would be a profiler that never ends.
        for _pass in 0..self.passes() {
            before()?;
            if self.pass(launch)? {
                self.decode()?;
                return self.evaluate();
            }
        }
        Err(format!("CUPTI wants more than the {} passes that it announced", self.passes()))
    }

    /// One pass. Returns whether it was the last.
    fn pass(&mut self, launch: &mut dyn FnMut() -> Result<(), String>) -> Result<bool, String> {
        let mut start = CUpti_RangeProfiler_Start_Params::new();
        start.pRangeProfilerObject = self.ranges;
        call(&self.api, self.api.start, &mut start, "start a pass")?;
        let measured = launch();
        let mut stop = CUpti_RangeProfiler_Stop_Params::new();
        stop.pRangeProfilerObject = self.ranges;
        // Also after a failure: a pass that stays open spoils the next measurement.
        let stopped = call(&self.api, self.api.stop, &mut stop, "stop a pass");
        measured?;
        stopped?;
        Ok(stop.isAllPassSubmitted != 0)
    }

    fn chip(&self, device: i32) -> Result<CString, String> {
        let mut ask = CUpti_Device_GetChipName_Params::new();
        ask.deviceIndex = usize::try_from(device).map_err(|_negative| format!("no device {device}"))?;
        call(&self.api, self.api.chip_name, &mut ask, "ask for the chip's name")?;
        CString::new(text(ask.pChipName)).map_err(|_zero| "the chip's name has a zero in it".to_owned())
    }

    fn availability(&self, context: DriverHandle) -> Result<AlignedImage, String> {
        let what = "ask which counters there are";
        let mut ask = CUpti_Profiler_GetCounterAvailability_Params::new();
        ask.ctx = context.0.cast();
        call(&self.api, self.api.availability, &mut ask, what)?;
        let mut image = AlignedImage::new(ask.counterAvailabilityImageSize);
        ask.pCounterAvailabilityImage = image.pointer();
        call(&self.api, self.api.availability, &mut ask, what)?;
        Ok(image)
    }

    fn enable(&mut self, context: DriverHandle) -> Result<(), String> {
        let mut enable = CUpti_RangeProfiler_Enable_Params::new();
        enable.ctx = context.0.cast();
        call(&self.api, self.api.enable, &mut enable, "enable range profiling")?;
        self.ranges = enable.pRangeProfilerObject;
        Ok(())
    }

    /// Room for the counter data of one range.
    fn counter_data(&mut self) -> Result<AlignedImage, String> {
        let mut names = self.configured.as_ref().map(ConfiguredMetrics::name_pointers).unwrap_or_default();
        let mut ask = CUpti_RangeProfiler_GetCounterDataSize_Params::new();
        ask.pRangeProfilerObject = self.ranges;
        ask.pMetricNames = names.as_mut_ptr();
        ask.numMetrics = names.len();
        ask.maxNumOfRanges = 1;
        ask.maxNumRangeTreeNodes = 1;
        call(&self.api, self.api.data_bytes, &mut ask, "ask for the size of counter data")?;
        Ok(AlignedImage::new(ask.counterDataSize))
    }

    fn empty_data(&mut self) -> Result<(), String> {
        let mut initialize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params::new();
        initialize.pRangeProfilerObject = self.ranges;
        initialize.counterDataSize = self.data.len();
        initialize.pCounterData = self.data.pointer();
        call(&self.api, self.api.initialize_data, &mut initialize, "empty the counter data")
    }

    /// Starts a new measurement. CUPTI itself goes from pass to pass until it has submitted them all.
    fn set_config(&mut self) -> Result<(), String> {
        let Some(configured) = &mut self.configured else { return Err("no metric is configured".to_owned()) };
        let mut config = CUpti_RangeProfiler_SetConfig_Params::new();
        config.pRangeProfilerObject = self.ranges;
        config.configSize = configured.config.len();
        config.pConfig = configured.config.pointer();
        config.counterDataImageSize = self.data.len();
        config.pCounterDataImage = self.data.pointer();
        // A range of the user's own would hold the time before and after the launch too.
        config.range = Range::CUPTI_AutoRange;
        config.replayMode = ReplayMode::CUPTI_UserReplay;
        config.maxRangesPerPass = 1;
        config.numNestingLevels = 1;
        config.minNestingLevel = 1;
        config.passIndex = 0;
        config.targetNestingLevel = 1;
        call(&self.api, self.api.set_config, &mut config, "configure range profiling")
    }

    /// Writes the hardware's counts into the counter data.
    fn decode(&mut self) -> Result<(), String> {
        let mut decode = CUpti_RangeProfiler_DecodeData_Params::new();
        decode.pRangeProfilerObject = self.ranges;
        call(&self.api, self.api.decode, &mut decode, "decode counter data")?;
        if decode.numOfRangeDropped > 0 {
            return Err(format!("CUPTI dropped {} ranges", decode.numOfRangeDropped));
        }
        let mut info = CUpti_RangeProfiler_GetCounterDataInfo_Params::new();
        info.pCounterDataImage = self.data.pointer();
        info.counterDataImageSize = self.data.len();
        call(&self.api, self.api.data_info, &mut info, "look into the counter data")?;
        match info.numTotalRanges {
            1 => Ok(()),
            count => Err(format!("counter data holds {count} ranges, not the one that was measured")),
        }
    }

    fn evaluate(&self) -> Result<Vec<MeasuredValue>, String> {
        let Some(configured) = &self.configured else { return Ok(Vec::new()) };
        configured.evaluate(&self.data)
    }
}

impl Drop for CounterProfiler {
    fn drop(&mut self) {
        if !self.ranges.is_null() {
            let mut disable = CUpti_RangeProfiler_Disable_Params::new();
            disable.pRangeProfilerObject = self.ranges;
            // SAFETY: the object is the one that enabling gave, and is used no more.
            unsafe { (self.api.disable)(&raw mut disable) };
        }
        self.configured = None;
        let mut end = CUpti_Profiler_DeInitialize_Params::new();
        // SAFETY: the interface was initialized, and all that was made with it is gone.
        unsafe { (self.api.deinitialize)(&raw mut end) };
    }
}

/// The reason why a library is of no use for counters.
fn unfit(error: &LoadError) -> String {
    match error {
        LoadError::MissingSymbol { .. } => {
            format!(
                "{error}; hardware counters need the CUPTI of CUDA 12.6 or newer: name it in STALLMAP_CUPTI"
            )
        }
        LoadError::NotFound { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests;

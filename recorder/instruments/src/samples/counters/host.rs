//! CUPTI's host object: a chip's metrics, their configuration, their values from counter data.
//!
//! It needs no GPU, only the chip's name.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null;

use stallmap_sys::cupti::types::{
    CUpti_Profiler_Host_ConfigAddMetrics_Params, CUpti_Profiler_Host_Deinitialize_Params,
    CUpti_Profiler_Host_EvaluateToGpuValues_Params, CUpti_Profiler_Host_GetConfigImage_Params,
    CUpti_Profiler_Host_GetConfigImageSize_Params, CUpti_Profiler_Host_GetNumOfPasses_Params,
    CUpti_Profiler_Host_Initialize_Params, CUpti_Profiler_Host_Object, CUpti_ProfilerType as ProfilerType,
};
use stallmap_sys::profiler::{CuptiParameters, MetricProperties, Profiler as Api};

use super::MeasuredValue;
use super::answer::call;
use super::image::AlignedImage;
use stallmap_session::gpu::name::text;

/// A host object of a chip.
pub(super) struct CounterHost {
    api: Api,
    object: *mut CUpti_Profiler_Host_Object,
}

/// A metric that the chip has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChipMetric {
    /// Its name.
    pub(super) name: CString,
    /// The unit of its values.
    pub(super) unit: String,
}

/// Metrics with the configuration that measures them.
pub(super) struct ConfiguredMetrics {
    host: CounterHost,
    /// The metrics to measure.
    pub(super) metrics: Vec<ChipMetric>,
    /// Requested metrics that are not available.
    pub(super) unknown: Vec<String>,
    /// The configuration of the measurement.
    pub(super) config: AlignedImage,
    /// Number of times that the work must run.
    pub(super) passes: usize,
}

impl CounterHost {
    /// A host object of the chip. With `availability`, only of counters that the driver gives out on it.
    pub(super) fn new(api: Api, chip: &CStr, availability: Option<&AlignedImage>) -> Result<Self, String> {
        let mut initialize = CUpti_Profiler_Host_Initialize_Params::new();
        initialize.profilerType = ProfilerType::CUPTI_PROFILER_TYPE_RANGE_PROFILER;
        initialize.pChipName = chip.as_ptr();
        initialize.pCounterAvailabilityImage = availability.map_or(null(), AlignedImage::address);
        let what = format!("prepare counters of the chip {}", chip.to_string_lossy());
        call(&api, api.host_initialize, &mut initialize, &what)?;
        Ok(Self { api, object: initialize.pHostObject })
    }

    /// The metric of a name, where the chip has it.
    fn metric(&self, name: &str) -> Option<ChipMetric> {
        let name = CString::new(name).ok()?;
        let mut ask = MetricProperties::new();
        ask.pHostObject = self.object;
        ask.pMetricName = name.as_ptr();
        call(&self.api, self.api.metric_properties, &mut ask, "look up a metric").ok()?;
        Some(ChipMetric { unit: text(ask.pDimUnit), name })
    }

    /// Adds metrics to the configuration.
    fn add(&self, metrics: &[ChipMetric]) -> Result<(), String> {
        let mut names = pointers(metrics);
        let mut add = CUpti_Profiler_Host_ConfigAddMetrics_Params::new();
        add.pHostObject = self.object;
        add.ppMetricNames = names.as_mut_ptr();
        add.numMetrics = names.len();
        call(&self.api, self.api.add_metrics, &mut add, "choose counters")
    }

    fn config(&self) -> Result<AlignedImage, String> {
        let mut size = CUpti_Profiler_Host_GetConfigImageSize_Params::new();
        size.pHostObject = self.object;
        call(&self.api, self.api.config_bytes, &mut size, "ask for the size of a configuration")?;
        let mut image = AlignedImage::new(size.configImageSize);
        let mut get = CUpti_Profiler_Host_GetConfigImage_Params::new();
        get.pHostObject = self.object;
        get.configImageSize = image.len();
        get.pConfigImage = image.pointer();
        call(&self.api, self.api.config, &mut get, "make a configuration")?;
        Ok(image)
    }

    fn passes(&self, config: &mut AlignedImage) -> Result<usize, String> {
        let mut ask = CUpti_Profiler_Host_GetNumOfPasses_Params::new();
        ask.configImageSize = config.len();
        ask.pConfigImage = config.pointer();
        call(&self.api, self.api.pass_count, &mut ask, "count passes")?;
        Ok(ask.numOfPasses)
    }
}

impl Drop for CounterHost {
    fn drop(&mut self) {
        let mut end = CUpti_Profiler_Host_Deinitialize_Params::new();
        end.pHostObject = self.object;
        // There is no caller to notify.
        call(&self.api, self.api.host_deinitialize, &mut end, "let a host object go").ok();
    }
}

impl ConfiguredMetrics {
    /// Configures those of `names` that the chip has.
    pub(super) fn new(
        new_host: impl Fn() -> Result<CounterHost, String>,
        names: &[String],
    ) -> Result<Self, String> {
        let (metrics, unknown) = known(&new_host, names)?;
        if metrics.is_empty() {
            return Err(format!("the chip has none of the metrics: {}", unknown.join(", ")));
        }
        let host = new_host()?;
        host.add(&metrics)?;
        let mut config = host.config()?;
        let passes = host.passes(&mut config)?;
        Ok(Self { host, metrics, unknown, config, passes })
    }

    /// The names, for CUPTI.
    pub(super) fn name_pointers(&self) -> Vec<*const c_char> {
        pointers(&self.metrics)
    }

    /// The values of the one range that counter data holds.
    pub(super) fn evaluate(&self, data: &AlignedImage) -> Result<Vec<MeasuredValue>, String> {
        let mut names = self.name_pointers();
        let mut values = vec![f64::NAN; names.len()];
        let mut ask = CUpti_Profiler_Host_EvaluateToGpuValues_Params::new();
        ask.pHostObject = self.host.object;
        ask.pCounterDataImage = data.address();
        ask.counterDataImageSize = data.len();
        ask.rangeIndex = 0;
        ask.ppMetricNames = names.as_mut_ptr();
        ask.numMetrics = names.len();
        ask.pMetricValues = values.as_mut_ptr();
        call(&self.host.api, self.host.api.evaluate, &mut ask, "evaluate counters")?;
        let measured = self.metrics.iter().zip(values).map(|(metric, value)| MeasuredValue {
            metric: metric.name.to_string_lossy().into_owned(),
            value: Some(value).filter(|value| value.is_finite()),
            unit: metric.unit.clone(),
        });
        Ok(measured.collect())
    }
}

/// Parts names into metrics of the chip, each once, and others.
///
/// A name may have properties and yet not be measurable, as one without its last part (`.sum`) is. And a host object
/// that has refused one metric refuses all that follow.
fn known(
    new_host: &impl Fn() -> Result<CounterHost, String>,
    names: &[String],
) -> Result<(Vec<ChipMetric>, Vec<String>), String> {
    let mut host = new_host()?;
    let mut metrics: Vec<ChipMetric> = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        let found = host.metric(name).filter(|metric| !metrics.contains(metric));
        match found {
            Some(metric) if host.add(std::slice::from_ref(&metric)).is_ok() => metrics.push(metric),
            Some(_) => {
                unknown.push(name.clone());
                host = new_host()?;
            }
            None if metrics.iter().any(|metric| metric.name.as_bytes() == name.as_bytes()) => {}
            None => unknown.push(name.clone()),
        }
    }
    Ok((metrics, unknown))
}

fn pointers(metrics: &[ChipMetric]) -> Vec<*const c_char> {
    metrics.iter().map(|metric| metric.name.as_ptr()).collect()
}

//! Tests of the order of calls and the use of results, with functions that stand in for CUPTI's: they check the
//! parameters as CUPTI does and write a log.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};

use stallmap_sys::cupti::CuptiCode;
use stallmap_sys::cupti::types::{
    CUpti_Profiler_Host_ConfigAddMetrics_Params, CUpti_Profiler_Host_Deinitialize_Params,
    CUpti_Profiler_Host_EvaluateToGpuValues_Params, CUpti_Profiler_Host_GetConfigImage_Params,
    CUpti_Profiler_Host_GetConfigImageSize_Params, CUpti_Profiler_Host_GetNumOfPasses_Params,
    CUpti_Profiler_Host_Initialize_Params,
};
use stallmap_sys::profiler::{INSUFFICIENT_PRIVILEGES, INVALID_METRIC_NAME, MetricProperties};

use super::*;

/// Answers of the stand-ins, with a log of their calls.
#[derive(Default)]
struct CuptiStandIn {
    log: Vec<&'static str>,
    passes: usize,
    /// Passes that "all are submitted" comes after.
    needed: usize,
    stopped: usize,
    dropped: usize,
    ranges: usize,
    start_answers: CuptiCode,
}

thread_local! {
    static CUPTI: RefCell<CuptiStandIn> = RefCell::new(CuptiStandIn { ranges: 1, ..CuptiStandIn::default() });
}

fn with<T>(action: impl FnOnce(&mut CuptiStandIn) -> T) -> T {
    CUPTI.with(|cupti| action(&mut cupti.borrow_mut()))
}

/// Logs a call, and refuses parameters of another size than the header's.
macro_rules! stand_ins {
    ($($name:ident($type:ty, $bytes:literal) $action:expr;)+) => {$(
        extern "C" fn $name(parameters: *mut $type) -> CuptiCode {
            // SAFETY: the code under test passes a struct of its own, filled in.
            let parameters = unsafe { &mut *parameters };
            if parameters.structSize != $bytes {
                return 1;
            }
            let action: fn(&mut $type, &mut CuptiStandIn) -> CuptiCode = $action;
            with(|cupti| {
                cupti.log.push(stringify!($name));
                action(parameters, cupti)
            })
        }
    )+};
}

stand_ins! {
    initialize(CUpti_Profiler_Initialize_Params, 16) |_, _| 0;
    deinitialize(CUpti_Profiler_DeInitialize_Params, 16) |_, _| 0;
    chip_name(CUpti_Device_GetChipName_Params, 32) |ask, _| {
        ask.pChipName = c"GH100".as_ptr();
        0
    };
    availability(CUpti_Profiler_GetCounterAvailability_Params, 40) |ask, _| {
        ask.counterAvailabilityImageSize = 12;
        0
    };
    host_initialize(CUpti_Profiler_Host_Initialize_Params, 48) |host, _| {
        host.pHostObject = std::ptr::dangling_mut::<u64>().cast();
        0
    };
    host_deinitialize(CUpti_Profiler_Host_Deinitialize_Params, 24) |_, _| 0;
    metric_properties(MetricProperties, 60) |ask, _| {
        ask.pDimUnit = c"byte".as_ptr();
        if name(ask.pMetricName).starts_with("other__") { INVALID_METRIC_NAME } else { 0 }
    };
    add_metrics(CUpti_Profiler_Host_ConfigAddMetrics_Params, 40) |add, _| {
        // SAFETY: there are that many names.
        let names = unsafe { std::slice::from_raw_parts(add.ppMetricNames, add.numMetrics) };
        CuptiCode::from(names.iter().any(|&pointer| !name(pointer).contains('.')))
    };
    config_bytes(CUpti_Profiler_Host_GetConfigImageSize_Params, 32) |ask, _| {
        ask.configImageSize = 20;
        0
    };
    config(CUpti_Profiler_Host_GetConfigImage_Params, 40) |get, _| CuptiCode::from(get.configImageSize != 20);
    pass_count(CUpti_Profiler_Host_GetNumOfPasses_Params, 40) |ask, cupti| {
        ask.numOfPasses = cupti.passes;
        0
    };
    evaluate(CUpti_Profiler_Host_EvaluateToGpuValues_Params, 72) |ask, _| {
        // SAFETY: there is room for that many values.
        let values = unsafe { std::slice::from_raw_parts_mut(ask.pMetricValues, ask.numMetrics) };
        values.iter_mut().zip([4096.0, f64::NAN, 7.0]).for_each(|(value, given)| *value = given);
        0
    };
    enable(CUpti_RangeProfiler_Enable_Params, 32) |enable, _| {
        enable.pRangeProfilerObject = std::ptr::dangling_mut::<u64>().cast();
        0
    };
    disable(CUpti_RangeProfiler_Disable_Params, 24) |_, _| 0;
    set_config(CUpti_RangeProfiler_SetConfig_Params, 90) |config, _| {
        let sizes = (config.configSize, config.counterDataImageSize, config.maxRangesPerPass);
        CuptiCode::from(sizes != (20, 30, 1) || config.targetNestingLevel != 1 || config.passIndex != 0)
    };
    start(CUpti_RangeProfiler_Start_Params, 24) |_, cupti| cupti.start_answers;
    stop(CUpti_RangeProfiler_Stop_Params, 41) |stop, cupti| {
        cupti.stopped += 1;
        stop.isAllPassSubmitted = u8::from(cupti.stopped == cupti.needed);
        0
    };
    decode(CUpti_RangeProfiler_DecodeData_Params, 32) |decode, cupti| {
        decode.numOfRangeDropped = cupti.dropped;
        0
    };
    data_bytes(CUpti_RangeProfiler_GetCounterDataSize_Params, 64) |ask, _| {
        ask.counterDataSize = 30;
        0
    };
    initialize_data(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, 40) |data, cupti| {
        cupti.stopped = 0;
        CuptiCode::from(data.counterDataSize != 30)
    };
    data_info(CUpti_RangeProfiler_GetCounterDataInfo_Params, 40) |info, cupti| {
        info.numTotalRanges = cupti.ranges;
        0
    };
}

extern "C" fn result_text(_code: CuptiCode, words: *mut *const c_char) -> CuptiCode {
    // SAFETY: the caller has a pointer there.
    unsafe { *words = c"CUPTI_ERROR".as_ptr() };
    0
}

fn name(pointer: *const c_char) -> String {
    // SAFETY: names are C strings of the code under test.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

const API: Api = Api {
    result_text,
    initialize,
    deinitialize,
    chip_name,
    availability,
    host_initialize,
    host_deinitialize,
    metric_properties,
    add_metrics,
    config_bytes,
    config,
    pass_count,
    evaluate,
    enable,
    disable,
    set_config,
    start,
    stop,
    decode,
    data_bytes,
    initialize_data,
    data_info,
};

/// A profiler of three metrics, two of them measurable twice, which takes `passes` passes.
fn profiler(passes: usize) -> Result<CounterProfiler, String> {
    with(|cupti| (cupti.passes, cupti.needed) = (passes, passes));
    let names =
        ["dram__bytes.sum", "other__x.sum", "l1tex__t_sector_hit_rate.pct", "dram__bytes", "dram__bytes.sum"];
    let profiler = CounterProfiler::with(API, DriverHandle::NULL, 0, &names.map(str::to_owned));
    with(|cupti| cupti.log.clear());
    profiler
}

#[test]
fn a_measurement_runs_the_work_once_a_pass() -> Result<(), String> {
    let mut profiler = profiler(2)?;
    assert_eq!(profiler.passes(), 2);
    let measured = profiler.measure(
        &mut || {
            with(|cupti| cupti.log.push("before"));
            Ok(())
        },
        &mut || {
            with(|cupti| cupti.log.push("launch"));
            Ok(())
        },
    )?;
    let log = with(|cupti| cupti.log.join(" "));
    let expected = "initialize_data set_config before start launch stop before start launch stop decode data_info \
                    evaluate";
    assert_eq!(log, expected);
    let value =
        |metric: &str, value| MeasuredValue { metric: metric.to_owned(), value, unit: "byte".to_owned() };
    let expected = [value("dram__bytes.sum", Some(4096.0)), value("l1tex__t_sector_hit_rate.pct", None)];
    assert_eq!(measured, expected);
    // And again, from the first pass.
    profiler.measure(&mut || Ok(()), &mut || Ok(()))?;
    Ok(())
}

#[test]
fn metrics_that_the_chip_lacks_are_named_and_left_out() -> Result<(), String> {
    let profiler = profiler(1)?;
    assert_eq!(profiler.unknown(), ["other__x.sum", "dram__bytes"]);
    assert_eq!(profiler.metrics(), ["dram__bytes.sum", "l1tex__t_sector_hit_rate.pct"]);
    let none = CounterProfiler::with(API, DriverHandle::NULL, 0, &["other__x.sum".to_owned()]).err();
    assert_eq!(none.as_deref(), Some("the chip has none of the metrics: other__x.sum"));
    Ok(())
}

#[test]
fn work_that_fails_ends_its_range_and_its_pass() -> Result<(), String> {
    let mut profiler = profiler(2)?;
    let failed = profiler.measure(&mut || Ok(()), &mut || Err("the launch failed".to_owned()));
    assert_eq!(failed, Err("the launch failed".to_owned()));
    let log = with(|cupti| cupti.log.join(" "));
    assert_eq!(log, "initialize_data set_config start stop");
    Ok(())
}

#[test]
fn what_is_dropped_or_missing_is_an_error() -> Result<(), String> {
    let mut profiler = profiler(1)?;
    let mut measure = || profiler.measure(&mut || Ok(()), &mut || Ok(())).err().unwrap_or_default();
    with(|cupti| cupti.dropped = 3);
    assert_eq!(measure(), "CUPTI dropped 3 ranges");
    with(|cupti| (cupti.dropped, cupti.ranges) = (0, 0));
    assert_eq!(measure(), "counter data holds 0 ranges, not the one that was measured");
    with(|cupti| (cupti.ranges, cupti.needed) = (1, 5));
    assert_eq!(measure(), "CUPTI wants more than the 1 passes that it announced");
    with(|cupti| cupti.start_answers = INSUFFICIENT_PRIVILEGES);
    assert!(measure().contains("only administrators"));
    Ok(())
}

#[test]
fn all_that_began_ends_in_order() -> Result<(), String> {
    drop(profiler(1)?);
    assert_eq!(with(|cupti| cupti.log.join(" ")), "disable host_deinitialize deinitialize");
    Ok(())
}

/// The sets hold no name that no chip has, and each chip of a generation gives every view its columns.
#[test]
#[ignore = "needs CUPTI of CUDA 13 and the library next to it, but no GPU"]
fn every_metric_is_one_of_some_chip() -> Result<(), String> {
    let (api, _path) = Api::open().map_err(|error| unfit(&error))?;
    let all: Vec<String> =
        sets::SETS.iter().flat_map(|set| set.metrics).map(|metric| (*metric).to_owned()).collect();
    let mut missing = all.clone();
    for chip in [c"GA100", c"AD102", c"GH100", c"GB100", c"GB202"] {
        let configured = ConfiguredMetrics::new(|| CounterHost::new(api, chip, None), &all)?;
        missing.retain(|metric| configured.unknown.contains(metric));
        println!("{}: {} passes, lacks {:?}", chip.to_string_lossy(), configured.passes, configured.unknown);
    }
    assert_eq!(missing, Vec::<String>::new());
    Ok(())
}

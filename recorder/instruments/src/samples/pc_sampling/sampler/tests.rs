//! Tests of launches of several threads, on a CUPTI that only logs its calls.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::cupti::types::{
    CUpti_GetCubinCrcParams, CUpti_PCSamplingConfigurationAttributeType as Attribute,
    CUpti_PCSamplingConfigurationInfoParams, CUpti_PCSamplingData, CUpti_PCSamplingDisableParams,
    CUpti_PCSamplingEnableParams, CUpti_PCSamplingGetDataParams, CUpti_PCSamplingGetNumStallReasonsParams,
    CUpti_PCSamplingGetStallReasonsParams, CUpti_PCSamplingStartParams, CUpti_PCSamplingStopParams,
};
use stallmap_sys::cupti::{Cupti, CuptiCallback, CuptiCode, OUT_OF_MEMORY};

use super::super::turn;
use super::*;

/// A context as CUPTI knows it.
#[derive(Default)]
struct CuptiContext {
    calls: Vec<String>,
    /// Correlation ids and samples that were not read yet.
    records: Vec<(u32, u32)>,
    is_full: bool,
    /// The result of reads, where not 0.
    error: CuptiCode,
    /// True if sampling cannot be enabled.
    is_broken: bool,
}

/// The contexts of all tests, by handle.
static CONTEXTS: Mutex<BTreeMap<usize, CuptiContext>> = Mutex::new(BTreeMap::new());

fn contexts() -> MutexGuard<'static, BTreeMap<usize, CuptiContext>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T, C>(context: *mut C, change: impl FnOnce(&mut CuptiContext) -> T) -> T {
    change(contexts().entry(context.addr()).or_default())
}

fn note<C>(context: *mut C, call: &str) -> CuptiCode {
    with(context, |context| context.calls.push(call.to_owned()));
    0
}

extern "C" fn version(_version: *mut u32) -> CuptiCode {
    0
}

extern "C" fn subscribe(
    _subscriber: *mut DriverHandle,
    _callback: CuptiCallback,
    _userdata: *mut c_void,
) -> CuptiCode {
    0
}

extern "C" fn unsubscribe(_subscriber: DriverHandle) -> CuptiCode {
    0
}

extern "C" fn enable_callback(
    _enable: u32,
    _subscriber: DriverHandle,
    _domain: c_int,
    _id: u32,
) -> CuptiCode {
    0
}

extern "C" fn device_of(_context: DriverHandle, _device: *mut u32) -> CuptiCode {
    0
}

extern "C" fn cubin_crc(_parameters: *mut CUpti_GetCubinCrcParams) -> CuptiCode {
    0
}

unsafe extern "C" fn stall_reason_count(
    parameters: *mut CUpti_PCSamplingGetNumStallReasonsParams,
) -> CuptiCode {
    // SAFETY: the sampler passes parameters whose output lives during the call.
    unsafe { *(*parameters).numStallReasons = 1 };
    0
}

unsafe extern "C" fn stall_reasons(parameters: *mut CUpti_PCSamplingGetStallReasonsParams) -> CuptiCode {
    let name = c"smsp__pcsamp_warps_issue_stalled_wait";
    // SAFETY: the sampler passes room for one number and one name of 128 bytes.
    unsafe {
        *(*parameters).stallReasonIndex = 1;
        name.as_ptr().copy_to(*(*parameters).stallReasons, name.count_bytes() + 1);
    }
    0
}

unsafe extern "C" fn configure(parameters: *mut CUpti_PCSamplingConfigurationInfoParams) -> CuptiCode {
    // SAFETY: the sampler passes so many settings.
    let (context, settings) = unsafe {
        let parameters = &*parameters;
        let settings = parameters.pPCSamplingConfigurationInfo;
        (parameters.ctx, std::slice::from_raw_parts(settings, parameters.numAttributes))
    };
    for setting in settings {
        if setting.attributeType == Attribute::CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD {
            // SAFETY: the setting is a period.
            let period = unsafe { setting.attributeData.samplingPeriodData.samplingPeriod };
            note(context, &format!("period {period}"));
        }
    }
    0
}

unsafe extern "C" fn enable(parameters: *mut CUpti_PCSamplingEnableParams) -> CuptiCode {
    // SAFETY: the sampler passes parameters.
    let context = unsafe { (*parameters).ctx };
    with(context, |context| context.is_full = false);
    note(context, "enable") + c_int::from(with(context, |context| context.is_broken))
}

unsafe extern "C" fn disable(parameters: *mut CUpti_PCSamplingDisableParams) -> CuptiCode {
    // SAFETY: the sampler passes parameters.
    note(unsafe { (*parameters).ctx }, "disable")
}

unsafe extern "C" fn start(parameters: *mut CUpti_PCSamplingStartParams) -> CuptiCode {
    // SAFETY: the sampler passes parameters.
    note(unsafe { (*parameters).ctx }, "start")
}

unsafe extern "C" fn stop(parameters: *mut CUpti_PCSamplingStopParams) -> CuptiCode {
    // SAFETY: the sampler passes parameters.
    note(unsafe { (*parameters).ctx }, "stop")
}

/// Answers with one record, and says that there are more.
unsafe extern "C" fn get_data(parameters: *mut CUpti_PCSamplingGetDataParams) -> CuptiCode {
    // SAFETY: the sampler passes a buffer with room for records of one reason.
    let (context, data) =
        unsafe { ((*parameters).ctx, &mut *(*parameters).pcSamplingData.cast::<CUpti_PCSamplingData>()) };
    with(context, |context| {
        if context.is_full {
            return OUT_OF_MEMORY;
        }
        if context.error != 0 {
            return context.error;
        }
        if !context.records.is_empty() {
            let (correlation_id, samples) = context.records.remove(0);
            // SAFETY: as above.
            unsafe {
                let record = &mut *data.pPcData;
                record.correlationId = correlation_id;
                record.stallReasonCount = 1;
                (*record.stallReason).pcSamplingStallReasonIndex = 1;
                (*record.stallReason).samples = samples;
            }
            data.totalNumPcs = 1;
        }
        data.remainingNumPcs = context.records.len();
        0
    })
}

const API: Cupti = Cupti {
    version,
    subscribe,
    unsubscribe,
    enable_callback,
    device_of,
    cubin_crc,
    stall_reason_count,
    stall_reasons,
    configure,
    enable,
    disable,
    get_data,
    start,
    stop,
};

/// A sampler of a context that no other test has. Its launches run side by side, as those that have waited for long.
fn sampler(context: usize) -> ContextSampler {
    let context = DriverHandle(std::ptr::without_provenance_mut(context));
    ContextSampler {
        patience: Duration::ZERO,
        ..ContextSampler::new(context, None, CollectionMode::Serialized, 64 << 20, 8)
    }
}

/// Begins a launch, as an instrument does.
fn enter(sampler: &ContextSampler, exponent: u32) -> Result<u32, &'static str> {
    sampler.prepare(&API)?;
    sampler.enter(&API, exponent)
}

fn end(sampler: &ContextSampler) {
    sampler.end(&API, "the context ended during the launch");
}

fn change(sampler: &ContextSampler, change: impl FnOnce(&mut CuptiContext)) {
    with(sampler.context.0, change);
}

/// The calls since the last time.
fn calls(sampler: &ContextSampler) -> Vec<String> {
    with(sampler.context.0, |context| std::mem::take(&mut context.calls))
}

fn samples(reading: &CallSamples) -> u64 {
    reading.reasons.count_all(&reading.records)
}

#[test]
fn sampling_is_enabled_once_and_on_only_during_launches() {
    let sampler = sampler(0x10);
    assert_eq!((sampler.prepare(&API), sampler.prepare(&API)), (Ok(()), Ok(())));
    assert_eq!(calls(&sampler), ["enable", "period 8"]);
    for exponent in [8, 12, 12] {
        assert_eq!(enter(&sampler, exponent), Ok(exponent));
        sampler.leave(&API, None);
    }
    assert_eq!(calls(&sampler), ["start", "stop", "period 12", "start", "stop", "start", "stop"]);
    end(&sampler);
    assert_eq!(calls(&sampler), ["disable"]);
    assert_eq!(enter(&sampler, 8), Err(DEAD));
}

#[test]
fn launches_side_by_side_share_a_period_and_have_their_own_samples() {
    let sampler = sampler(0x20);
    assert_eq!(enter(&sampler, 10), Ok(10));
    assert_eq!(enter(&sampler, 14), Ok(10));
    // The third was not selected.
    change(&sampler, |context| context.records = vec![(1, 5), (2, 7), (3, 9), (1, 11)]);
    assert_eq!(samples(&sampler.read(&API, 1)), 16);
    sampler.leave(&API, None);
    assert_eq!(samples(&sampler.read(&API, 2)), 7);
    assert_eq!(sampler.reader().others.len(), 1);
    sampler.leave(&API, None);
    assert!(sampler.reader().others.is_empty());
    assert_eq!(calls(&sampler), ["enable", "period 8", "period 10", "start", "stop"]);
}

#[test]
fn a_full_buffer_is_emptied_after_the_last_launch() {
    let sampler = sampler(0x30);
    assert_eq!(enter(&sampler, 8), Ok(8));
    assert_eq!(enter(&sampler, 8), Ok(8));
    calls(&sampler);
    change(&sampler, |context| context.is_full = true);
    for left in [1, 0] {
        let reading = sampler.read(&API, 1);
        assert_eq!(reading.failure, Some(SamplingFailure::Full));
        sampler.leave(&API, reading.failure);
        if left > 0 {
            assert_eq!(enter(&sampler, 8), Err(BUSY), "no launch joins until then");
        }
    }
    assert_eq!(calls(&sampler), ["stop", "disable", "enable", "period 8"]);
    assert_eq!(enter(&sampler, 9), Ok(9));
    change(&sampler, |context| context.records = vec![(4, 1)]);
    let reading = sampler.read(&API, 4);
    assert_eq!((samples(&reading), reading.failure), (1, None));
}

#[test]
fn a_context_that_cannot_be_sampled_says_so() {
    let sampler = sampler(0x40);
    change(&sampler, |context| context.is_broken = true);
    assert_eq!(enter(&sampler, 8), Err(DEAD));
    assert_eq!(enter(&sampler, 8), Err(DEAD));
    assert_eq!(calls(&sampler), ["enable"]);
}

#[test]
fn a_gpu_that_another_process_samples_is_left_alone() {
    let gpu = format!("test {}", std::process::id());
    let other = UnixListener::bind_addr(&turn::address(&gpu).unwrap()).unwrap();
    let context = DriverHandle(std::ptr::without_provenance_mut(0x70));
    let waiting = ContextSampler::new(context, Some(gpu.clone()), CollectionMode::Serialized, 64 << 20, 8);
    assert_eq!(enter(&waiting, 8), Err(TAKEN));
    assert!(waiting.collect(&API).is_some_and(|reading| reading.records.is_empty()), "it waits on");
    assert!(calls(&waiting).is_empty(), "CUPTI is not called");
    drop(other);
    assert_eq!(enter(&waiting, 8), Ok(8));
    let refused = || UnixListener::bind_addr(&turn::address(&gpu).unwrap()).is_err();
    assert!(refused(), "the GPU is this process's");
    let context = DriverHandle(std::ptr::without_provenance_mut(0x71));
    let second = ContextSampler::new(context, Some(gpu.clone()), CollectionMode::Serialized, 64 << 20, 8);
    assert_eq!(enter(&second, 8), Ok(8), "as are its other contexts");
    waiting.leave(&API, None);
    end(&waiting);
    assert!(refused());
    second.leave(&API, None);
    end(&second);
    assert!(!refused(), "given up");
}

#[test]
fn a_context_rests_while_another_one_of_its_gpu_is_sampled() {
    let (first, second) = (sampler(0x90), sampler(0x91));
    assert!(first.shares_gpu(&second));
    assert_eq!(enter(&first, 8), Ok(8));
    assert!(!first.rest(&API), "a launch is running");
    first.leave(&API, None);
    assert!(first.rest(&API) && !first.is_prepared());
    assert_eq!(enter(&second, 8), Ok(8));
    second.leave(&API, None);
    assert!(second.rest(&API));
    assert_eq!(enter(&first, 8), Ok(8), "it is enabled again");
    first.leave(&API, None);
    let once = ["enable", "period 8", "start", "stop", "disable"];
    assert_eq!(calls(&first), [&once[..], &["enable", "period 8", "start", "stop"]].concat());
    assert_eq!(calls(&second), once);
    end(&first);
    assert!(first.rest(&API), "a context that has ended needs no rest");
}

#[test]
fn samples_that_cupti_does_not_give_are_not_estimated() {
    let sampler = sampler(0xa0);
    assert_eq!(enter(&sampler, 8), Ok(8));
    change(&sampler, |context| context.error = 999);
    assert_eq!(sampler.read(&API, 1).unread(), Some(999));
    change(&sampler, |context| (context.error, context.is_full) = (0, true));
    assert_eq!(sampler.read(&API, 1).unread(), None, "a full buffer held as many as it can");
    sampler.leave(&API, None);
}

#[test]
fn records_that_no_launch_takes_are_bounded() {
    let sampler = sampler(0x50);
    assert_eq!(enter(&sampler, 8), Ok(8));
    change(&sampler, |context| context.records = (10..3000).map(|id| (id, 1)).collect());
    assert_eq!(samples(&sampler.read(&API, 2999)), 1);
    assert_eq!(sampler.reader().others.len(), MAX_OTHERS);
}

#[test]
fn a_launch_waits_until_the_one_before_was_read() {
    let sampler = ContextSampler { patience: Duration::from_hours(1), ..sampler(0x80) };
    assert_eq!(enter(&sampler, 8), Ok(8));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| enter(&sampler, 12));
        // CUPTI reads these while the first is running: they have its number.
        change(&sampler, |context| context.records = vec![(1, 5)]);
        assert_eq!(samples(&sampler.read(&API, 1)), 5);
        assert_eq!(sampler.gate().active, 1, "the second has not begun");
        sampler.leave(&API, None);
        assert_eq!(second.join().ok(), Some(Ok(12)), "with a period of its own");
    });
    sampler.leave(&API, None);
    assert_eq!(calls(&sampler), ["enable", "period 8", "start", "stop", "period 12", "start", "stop"]);
}

#[test]
fn threads_neither_hang_nor_lose_samples() {
    let sampler = sampler(0x60);
    let launch = |thread: u32| {
        let mut found = 0;
        for number in 0..200 {
            let correlation_id = thread << 16 | number;
            if enter(&sampler, 8 + number % 3).is_err() {
                // Another thread was enabling sampling.
                continue;
            }
            change(&sampler, |context| context.records.push((correlation_id, 1)));
            let reading = sampler.read(&API, correlation_id.into());
            assert_eq!(samples(&reading), 1);
            sampler.leave(&API, reading.failure);
            found += 1;
        }
        found
    };
    let found: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..5).map(|thread| scope.spawn(move || launch(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    assert!(found >= 200, "{found} launches were sampled");
    let calls = calls(&sampler);
    let count = |call: &str| calls.iter().filter(|found| *found == call).count();
    assert_eq!(count("start"), count("stop"));
    assert_eq!(sampler.gate().active, 0);
}

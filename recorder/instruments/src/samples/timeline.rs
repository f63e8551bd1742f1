//! The light instrument: CUPTI's activity records of the program as it runs alone, kernels side by side.
//!
//! CUPTI fills buffers and gives them back on a thread of its own. Times are those of the session's clock. Launches and
//! graphs come from the same callbacks as in a sampling pass.
#![expect(unsafe_code, reason = "callbacks and calls of CUPTI")]

use std::path::PathBuf;
use std::ptr::null;
use std::sync::OnceLock;

use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::cupti::CuptiCode;
use stallmap_sys::cupti::activity::{Activity, kind};

use stallmap_session::guard::guard;
use stallmap_session::session;

mod buffers;
mod nodes;
pub(crate) mod queue;
mod records;

pub(crate) use nodes::NodeClones;

/// Kinds of records.
const KINDS: [u32; 5] =
    [kind::CONCURRENT_KERNEL, kind::MEMCPY, kind::MEMCPY2, kind::MEMSET, kind::SYNCHRONIZATION];
/// Milliseconds until CUPTI gives back full buffers: a program that is killed loses the times of what ran since.
///
/// CUPTI's own thread does it. Calls of `cuptiActivityFlushAll` from another thread while copies are measured, before a
/// program instantiates graphs or after, break XLA's command buffers (CUDA 13.0: `CUDA_ERROR_LAUNCH_FAILED`).
const PERIOD_MS: u32 = 200;
/// Flush every buffer.
const FORCED: u32 = 1;

static ACTIVITY: OnceLock<Activity> = OnceLock::new();

/// Measures all work of the program's GPUs from now on.
pub(crate) fn start(candidates: &[PathBuf]) -> Result<(), String> {
    let (api, _path) = Activity::load(candidates).map_err(|error| error.to_string())?;
    let api = ACTIVITY.get_or_init(|| api);
    // SAFETY: the clock and the callbacks live as long as the process and do not unwind.
    unsafe {
        check((api.register_clock)(now), "set the clock of activity records")?;
        check((api.register_callbacks)(requested, completed), "give buffers to activity records")?;
    }
    // SAFETY: a call with a plain number.
    let code = unsafe { (api.flush_period)(PERIOD_MS) };
    if code != 0 {
        let detail = Some(format!("CUPTI error {code}"));
        session::lose(
            LossKind::Source,
            "times are written late: a program that is killed loses some",
            1,
            detail,
        );
    }
    for kind in KINDS {
        // SAFETY: a call with a plain number.
        let code = unsafe { (api.enable)(kind) };
        if kind == kind::CONCURRENT_KERNEL {
            check(code, "enable activity records")?;
        } else if code != 0 {
            let detail = Some(format!("CUPTI error {code}, kind {kind}"));
            session::lose(LossKind::Source, "a kind of work is not measured", 1, detail);
        }
    }
    queue::start();
    Ok(())
}

/// Writes the records that are left.
pub(crate) fn shut_down() {
    let Some(api) = ACTIVITY.get() else { return };
    queue::flush();
    // SAFETY: a call with a plain number.
    let code = unsafe { (api.flush)(FORCED) };
    if code != 0 {
        let detail = Some(format!("CUPTI error {code}"));
        session::lose(LossKind::Activity, "the last records could not be read", 1, detail);
    }
}

/// Measures no more: another profiler can.
pub(crate) fn give_way() {
    shut_down();
    let Some(api) = ACTIVITY.get() else { return };
    // SAFETY: calls with plain numbers. A kind that was not enabled stays so.
    unsafe {
        (api.flush_period)(0);
        for kind in KINDS {
            (api.disable)(kind);
        }
    }
}

fn check(code: CuptiCode, what: &str) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("CUPTI error {code}: failed to {what}")) }
}

extern "C" fn now() -> u64 {
    session::now_ns().unsigned_abs()
}

extern "C" fn requested(buffer: *mut *mut u8, bytes: *mut usize, most_records: *mut usize) {
    let memory = buffers::take();
    // SAFETY: CUPTI gives three outputs. Without a buffer it drops records, and counts them.
    unsafe {
        *buffer = memory;
        *bytes = if memory.is_null() { 0 } else { buffers::used_bytes() };
        *most_records = 0;
    }
}

extern "C" fn completed(context: DriverHandle, stream: u32, buffer: *mut u8, _bytes: usize, used: usize) {
    guard((), || {
        let Some(api) = ACTIVITY.get().filter(|_| !buffer.is_null()) else { return };
        buffers::filled(session::now_ns());
        let (mut record, mut rows) = (null(), Vec::new());
        // SAFETY: the buffer is the one that `requested` made, with so many bytes of records in it.
        while unsafe { (api.next_record)(buffer, used, &raw mut record) } == 0 && !record.is_null() {
            // SAFETY: CUPTI gave a record.
            rows.extend(unsafe { records::read(record) });
        }
        session::emit_all(rows);
        let mut dropped = 0;
        // SAFETY: the output outlives the call.
        if unsafe { (api.dropped)(context, stream, &raw mut dropped) } == 0 && dropped > 0 {
            session::lose(LossKind::Activity, "dropped by CUPTI", dropped as u64, None);
        }
    });
    buffers::give_back(buffer);
}

/// CUPTI's number of a graph node.
fn number(node: DriverHandle) -> Option<u64> {
    let mut number = 0;
    // SAFETY: the node lives: CUPTI has just named it. The output outlives the call.
    let code = unsafe { (ACTIVITY.get()?.graph_node_id)(node, &raw mut number) };
    (code == 0).then_some(number)
}

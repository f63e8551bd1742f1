//! The light instrument: CUPTI's activity records of the program as it runs alone, kernels side by side.
//!
//! CUPTI fills buffers and gives them back on a thread of its own. Times are those of the session's clock. Launches and
//! graphs come from the same callbacks as in a sampling pass.
#![expect(unsafe_code, reason = "callbacks and calls of CUPTI")]

use std::path::PathBuf;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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
/// Flush the buffers whose records are all complete.
const COMPLETE: u32 = 0;
/// Flush every buffer.
const FORCED: u32 = 1;

static ACTIVITY: OnceLock<Activity> = OnceLock::new();
/// True once another profiler measures.
static IS_GIVEN_AWAY: AtomicBool = AtomicBool::new(false);
/// True once the program has instantiated a graph.
static HAS_GRAPHS: AtomicBool = AtomicBool::new(false);

/// Measures all work of the program's GPUs from now on.
pub(crate) fn start(candidates: &[PathBuf]) -> Result<(), String> {
    let (api, _path) = Activity::load(candidates).map_err(|error| error.to_string())?;
    let api = ACTIVITY.get_or_init(|| api);
    // SAFETY: the clock and the callbacks live as long as the process and do not unwind.
    unsafe {
        check((api.register_clock)(now), "set the clock of activity records")?;
        check((api.register_callbacks)(requested, completed), "give buffers to activity records")?;
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

/// Records are written by full buffers only from now on: the program instantiates a CUDA graph. A flush while an executable
/// graph's copies are measured breaks the launch (CUDA 13.0: `CUDA_ERROR_LAUNCH_FAILED` in command buffers of XLA).
pub(crate) fn graph_begins() {
    HAS_GRAPHS.store(true, Ordering::Release);
}

/// Writes the records that are complete. CUPTI's own thread writes those of full buffers only, and a program that is killed
/// would lose the rest.
fn write_complete() {
    let is_unsafe = IS_GIVEN_AWAY.load(Ordering::Acquire) || HAS_GRAPHS.load(Ordering::Acquire);
    if let Some(api) = ACTIVITY.get().filter(|_| !is_unsafe) {
        // SAFETY: a call with a plain number. The last flush reports errors.
        unsafe { (api.flush)(COMPLETE) };
    }
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
    IS_GIVEN_AWAY.store(true, Ordering::Release);
    for kind in KINDS.into_iter().filter(|_| ACTIVITY.get().is_some()) {
        // SAFETY: a call with a plain number. A kind that was not enabled stays so.
        ACTIVITY.get().map(|api| unsafe { (api.disable)(kind) });
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
        *bytes = if memory.is_null() { 0 } else { buffers::BYTES };
        *most_records = 0;
    }
}

extern "C" fn completed(context: DriverHandle, stream: u32, buffer: *mut u8, _bytes: usize, used: usize) {
    guard((), || {
        let Some(api) = ACTIVITY.get().filter(|_| !buffer.is_null()) else { return };
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

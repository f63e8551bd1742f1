//! Rows of activity records.
#![expect(unsafe_code, reason = "reads CUPTI's records")]

use std::collections::BTreeSet;
use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use stallmap_schema::capture::recording::{ActivityName, RawActivity};
use stallmap_schema::word::{ActivityKind, CopyKind, LossKind, SynchronizationKind};
use stallmap_sys::cupti::activity::{
    ActivityHead, ActivityKernel, ActivityMemcpy, ActivityMemset, ActivitySynchronization, NO_STREAM,
    PeerCopy, kind,
};

use stallmap_session::gpu::name::text;
use stallmap_session::session;

/// Names of kernels, by their address: CUPTI keeps one for all records of a kernel.
static NAMES: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The row of a record. `None`, and counted, where it says nothing.
///
/// # Safety
/// `record` is one that CUPTI gave.
pub(super) unsafe fn read(record: *const ActivityHead) -> Option<RawActivity> {
    // SAFETY: a record begins with its kind, and has the type of it. CUPTI aligns records.
    let row = unsafe {
        match (*record).kind {
            kind::CONCURRENT_KERNEL => kernel(&*record.cast()),
            kind::MEMCPY => copy(&*record.cast()),
            kind::MEMCPY2 => peer_copy(&*record.cast()),
            kind::MEMSET => fill(&*record.cast()),
            kind::SYNCHRONIZATION => synchronization(&*record.cast()),
            other => {
                let detail = Some(format!("kind {other}"));
                session::lose(LossKind::Activity, "record of a kind that is not known", 1, detail);
                return None;
            }
        }
    };
    if row.begin_ns == 0 {
        session::lose(LossKind::Activity, "CUPTI gave no time", 1, Some(row.kind.word().to_owned()));
        return None;
    }
    Some(row)
}

/// The number of a kernel's name, which is written once.
fn name_id(name: *const c_char) -> Option<u64> {
    let number = name.addr();
    let is_new = NAMES.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    if is_new {
        session::emit(ActivityName { name_id: number as u64, name: text(name) });
    }
    (number != 0).then_some(number as u64)
}

/// A row with the facts that every record has. The records' types differ, and their fields have the same names.
macro_rules! head {
    ($record:expr, $kind:ident, $device:expr) => {
        RawActivity {
            kind: ActivityKind::$kind,
            correlation_id: $record.correlation.into(),
            device_id: $device,
            context_number: $record.context,
            stream_number: ($record.stream != NO_STREAM).then_some($record.stream),
            begin_ns: time($record.begin),
            end_ns: ($record.end >= $record.begin && $record.end > 0).then(|| time($record.end)),
            ..RawActivity::default()
        }
    };
}

fn time(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn device(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

fn kernel(record: &ActivityKernel) -> RawActivity {
    RawActivity {
        graph_node_id: (record.graph_node != 0).then_some(record.graph_node),
        name_id: name_id(record.name),
        ..head!(record, Kernel, Some(device(record.device)))
    }
}

fn copy(record: &ActivityMemcpy) -> RawActivity {
    // CUpti_ActivityMemcpyKind.
    let copy_kind = match record.direction {
        1 | 3 => CopyKind::HostToDevice,
        2 | 4 => CopyKind::DeviceToHost,
        5..=8 => CopyKind::DeviceToDevice,
        _ => CopyKind::Other,
    };
    let [source, destination, _] = record.memory;
    let copy_memory = Some(format!("{} -> {}", memory_word(source), memory_word(destination)));
    RawActivity {
        size_bytes: Some(record.bytes),
        copy_kind: Some(copy_kind),
        copy_memory,
        ..head!(record, Copy, Some(device(record.device)))
    }
}

/// A CUpti_ActivityMemoryKind, in the words of PyTorch's traces.
fn memory_word(kind: u8) -> &'static str {
    match kind {
        1 => "Pageable",
        2 => "Pinned",
        3 | 6 => "Device",
        4 => "Array",
        5 | 7 => "Managed",
        _ => "Unknown",
    }
}

fn peer_copy(record: &PeerCopy) -> RawActivity {
    let peer =
        if record.source_device == record.device { record.destination_device } else { record.source_device };
    RawActivity {
        size_bytes: Some(record.bytes),
        copy_kind: Some(CopyKind::DeviceToDevice),
        peer_device_id: Some(device(peer)),
        ..head!(record, Copy, Some(device(record.device)))
    }
}

fn fill(record: &ActivityMemset) -> RawActivity {
    RawActivity { size_bytes: Some(record.bytes), ..head!(record, Fill, Some(device(record.device))) }
}

fn synchronization(record: &ActivitySynchronization) -> RawActivity {
    let what = match record.what {
        1 => SynchronizationKind::Event,
        2 => SynchronizationKind::StreamWaitEvent,
        3 => SynchronizationKind::Stream,
        4 => SynchronizationKind::Context,
        _ => SynchronizationKind::Other,
    };
    RawActivity { synchronization: Some(what), ..head!(record, Synchronization, None) }
}

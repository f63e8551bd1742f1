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

/// The facts that every record has.
struct RecordHead {
    kind: ActivityKind,
    correlation: u32,
    device: Option<u32>,
    context: u32,
    stream: u32,
    begin: u64,
    end: u64,
}

impl RecordHead {
    fn row(self) -> RawActivity {
        let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        RawActivity {
            kind: self.kind,
            correlation_id: self.correlation.into(),
            device_id: self.device.map(device),
            context_number: self.context,
            stream_number: (self.stream != NO_STREAM).then_some(self.stream),
            begin_ns: time(self.begin),
            end_ns: (self.end >= self.begin && self.end > 0).then(|| time(self.end)),
            ..RawActivity::default()
        }
    }
}

fn device(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

fn kernel(record: &ActivityKernel) -> RawActivity {
    let &ActivityKernel { correlation, device, context, stream, begin, end, .. } = record;
    let head = RecordHead {
        kind: ActivityKind::Kernel,
        correlation,
        device: Some(device),
        context,
        stream,
        begin,
        end,
    };
    RawActivity {
        graph_node_id: (record.graph_node != 0).then_some(record.graph_node),
        name_id: name_id(record.name),
        ..head.row()
    }
}

fn copy(record: &ActivityMemcpy) -> RawActivity {
    /// CUpti_ActivityMemcpyKind.
    const HOST_TO_DEVICE: [u8; 2] = [1, 3];
    const DEVICE_TO_HOST: [u8; 2] = [2, 4];
    const DEVICE_TO_DEVICE: [u8; 4] = [5, 6, 7, 8];
    let &ActivityMemcpy { correlation, device, context, stream, begin, end, .. } = record;
    let head = RecordHead {
        kind: ActivityKind::Copy,
        correlation,
        device: Some(device),
        context,
        stream,
        begin,
        end,
    };
    let direction = record.direction;
    let copy_kind = if HOST_TO_DEVICE.contains(&direction) {
        CopyKind::HostToDevice
    } else if DEVICE_TO_HOST.contains(&direction) {
        CopyKind::DeviceToHost
    } else if DEVICE_TO_DEVICE.contains(&direction) {
        CopyKind::DeviceToDevice
    } else {
        CopyKind::Other
    };
    RawActivity { size_bytes: Some(record.bytes), copy_kind: Some(copy_kind), ..head.row() }
}

fn peer_copy(record: &PeerCopy) -> RawActivity {
    let &PeerCopy { correlation, device: own, context, stream, begin, end, .. } = record;
    let head =
        RecordHead { kind: ActivityKind::Copy, correlation, device: Some(own), context, stream, begin, end };
    let peer = if record.source_device == own { record.destination_device } else { record.source_device };
    RawActivity {
        size_bytes: Some(record.bytes),
        copy_kind: Some(CopyKind::DeviceToDevice),
        peer_device_id: Some(device(peer)),
        ..head.row()
    }
}

fn fill(record: &ActivityMemset) -> RawActivity {
    let &ActivityMemset { correlation, device, context, stream, begin, end, .. } = record;
    let head = RecordHead {
        kind: ActivityKind::Fill,
        correlation,
        device: Some(device),
        context,
        stream,
        begin,
        end,
    };
    RawActivity { size_bytes: Some(record.bytes), ..head.row() }
}

fn synchronization(record: &ActivitySynchronization) -> RawActivity {
    let &ActivitySynchronization { correlation, context, stream, begin, end, .. } = record;
    let kind = ActivityKind::Synchronization;
    let head = RecordHead { kind, correlation, device: None, context, stream, begin, end };
    let what = match record.what {
        1 => SynchronizationKind::Event,
        2 => SynchronizationKind::StreamWaitEvent,
        3 => SynchronizationKind::Stream,
        4 => SynchronizationKind::Context,
        _ => SynchronizationKind::Other,
    };
    RawActivity { synchronization: Some(what), ..head.row() }
}

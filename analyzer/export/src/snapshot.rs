//! PyTorch's memory snapshot: events of the allocator by GPU, and the memory that is still allocated.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::rows;

use crate::pickle::pickled;
use crate::source::{ExportSource, FileFormat};

/// PyTorch's memory snapshot.
pub(crate) const FORMAT: FileFormat = FileFormat { queries: &[queries::STORAGES, queries::FRAMES], write };

/// Bytes from which PyTorch's allocator calls a segment large.
const LARGE_BYTES: u64 = 1 << 20;

rows! {
    /// An allocation with its lifetime.
    struct SnapshotStorage {
        process_id: i64,
        device_id: i64,
        address: u64,
        size_bytes: u64,
        origin: String,
        alloc_ns: i64,
        free_ns: Option<i64>,
        pystates_hash: Option<u64>,
    }

    /// A frame of a stack, innermost first.
    struct StackFrame {
        pystates_hash: u64,
        file: String,
        function: String,
        line: u32,
    }
}

/// Frames by stack.
type StackFrames = BTreeMap<u64, Vec<Value>>;

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let storages: Vec<SnapshotStorage> = source.read(queries::STORAGES)?;
    if storages.is_empty() {
        return Err(CommandFailure::message(QUERY, "the capture has no allocations")
            .hint("record without `--only samples`. Of imports, memory snapshots have them".to_owned()));
    }
    let mut stacks = StackFrames::new();
    for frame in source.read::<StackFrame>(queries::FRAMES)? {
        let text = json!({ "filename": frame.file, "line": frame.line, "name": frame.function });
        stacks.entry(frame.pystates_hash).or_default().push(text);
    }
    let devices = devices(&storages);
    let count = devices.values().max().map_or(0, |last| last + 1);
    let mut traces: Vec<Vec<(i64, Value)>> = vec![Vec::new(); count];
    let mut segments = Vec::new();
    for storage in &storages {
        let device = devices.get(&(storage.process_id, storage.device_id)).copied().unwrap_or(0);
        if storage.free_ns.is_none() {
            segments.push(segment(storage, device, &stacks));
        }
        if let Some(trace) = traces.get_mut(device) {
            trace.extend(events(storage, &stacks));
        }
    }
    let sorted = traces.into_iter().map(|mut trace| {
        trace.sort_by_key(|(time, _)| *time);
        trace.into_iter().map(|(_, event)| event).collect::<Vec<_>>()
    });
    let sorted: Vec<Vec<Value>> = sorted.collect();
    Ok(pickled(&json!({ "segments": segments, "device_traces": sorted, "external_annotations": [] })))
}

/// The place of each GPU in the snapshot: its ordinal, or a number of its own if several processes were recorded.
fn devices(storages: &[SnapshotStorage]) -> BTreeMap<(i64, i64), usize> {
    let mut found: BTreeMap<(i64, i64), usize> =
        storages.iter().map(|storage| ((storage.process_id, storage.device_id), 0)).collect();
    let processes: std::collections::BTreeSet<i64> = found.keys().map(|(process, _)| *process).collect();
    for (number, ((_, device), place)) in found.iter_mut().enumerate() {
        let ordinal = usize::try_from(*device).ok().filter(|ordinal| processes.len() == 1 && *ordinal < 1024);
        *place = ordinal.unwrap_or(number);
    }
    found
}

fn frames<'a>(storage: &SnapshotStorage, stacks: &'a StackFrames) -> &'a [Value] {
    storage.pystates_hash.and_then(|hash| stacks.get(&hash)).map_or(&[], Vec::as_slice)
}

/// The events of an allocation. Memory that is older than the recording has no allocation event, as in a full ring.
fn events(storage: &SnapshotStorage, stacks: &StackFrames) -> Vec<(i64, Value)> {
    let event = |action: &str, ns: i64, frames: &[Value]| {
        let event = json!({
            "action": action, "addr": storage.address, "size": storage.size_bytes, "stream": 0, "time_us": ns / 1000,
            "frames": frames,
        });
        (ns, event)
    };
    let is_older = storage.origin == "tensor";
    let alloc = (!is_older).then(|| event("alloc", storage.alloc_ns, frames(storage, stacks)));
    let free = |ns| ["free_requested", "free_completed"].map(|action| event(action, ns, &[]));
    alloc.into_iter().chain(storage.free_ns.into_iter().flat_map(free)).collect()
}

/// Memory that is never freed, as a segment with one block.
fn segment(storage: &SnapshotStorage, device: usize, stacks: &StackFrames) -> Value {
    let frames = frames(storage, stacks);
    let size = storage.size_bytes;
    json!({
        "device": device, "address": storage.address, "total_size": size, "allocated_size": size, "active_size": size,
        "requested_size": size, "stream": 0, "segment_type": if size < LARGE_BYTES { "small" } else { "large" },
        "segment_pool_id": [0, 0], "is_expandable": false, "frames": frames,
        "blocks": [{
            "address": storage.address, "size": size, "requested_size": size, "state": "active_allocated", "frames": frames,
        }],
    })
}

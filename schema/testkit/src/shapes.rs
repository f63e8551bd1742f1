//! Rows of `access_histogram`, counted from rows of `memory_access` without code of the analyzer.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::{FunctionId, KernelId, Pc};
use stallmap_schema::tables::memory::{AccessHistogram, MemoryAccess};
use stallmap_schema::word::LanePattern;

/// Shape of a request: bytes of a lane, pattern, misaligned, sectors.
type RequestShape = (u8, LanePattern, bool, u32);
type HistogramKey = (KernelId, FunctionId, Pc, &'static str, &'static str, RequestShape);

/// Counts requests by shape, in the order of the table. Rows of one sequence number are one request.
pub(crate) fn count(rows: &[MemoryAccess]) -> Vec<AccessHistogram> {
    let mut counts: BTreeMap<HistogramKey, AccessHistogram> = BTreeMap::new();
    for request in rows.chunk_by(|a, b| (a.kernel_id, a.sequence) == (b.kernel_id, b.sequence)) {
        let Some(row) = request.first() else { continue };
        let lanes = request.iter().flat_map(MemoryAccess::lanes).map(|(lane, address)| (lane, address.0));
        let lanes: BTreeMap<u8, u64> = lanes.collect();
        let addresses: BTreeSet<u64> = lanes.values().copied().collect();
        let bytes = u64::from(row.access_bytes);
        let [sectors, line_count, unique_bytes] = [32, 128, 1].map(|unit| units(&addresses, bytes, unit));
        let class = pattern(&lanes, bytes);
        let is_misaligned =
            class == LanePattern::Unit && addresses.first().is_some_and(|address| address % 32 != 0);
        let shape = (row.access_bytes, class, is_misaligned, u32::try_from(sectors).unwrap_or(u32::MAX));
        let key = (row.kernel_id, row.function_id, row.pc, row.kind.word(), row.space.word(), shape);
        let count = counts.entry(key).or_insert_with(|| empty(row, shape));
        count.request_count += 1;
        count.lane_count += lanes.len() as u64;
        count.line_count += line_count;
        count.unique_bytes += unique_bytes;
        count.ideal_sectors += unique_bytes.div_ceil(32);
    }
    counts.into_values().collect()
}

fn empty(row: &MemoryAccess, (access_bytes, class, is_misaligned, sectors): RequestShape) -> AccessHistogram {
    AccessHistogram {
        kernel_id: row.kernel_id,
        function_id: row.function_id,
        pc: row.pc,
        kind: row.kind,
        space: row.space,
        access_bytes,
        class,
        is_misaligned,
        sectors,
        ..AccessHistogram::default()
    }
}

/// Distinct units of some bytes that accesses touch.
fn units(addresses: &BTreeSet<u64>, bytes: u64, unit: u64) -> u64 {
    let (mut count, mut next) = (0, 0);
    for address in addresses {
        let (first, past) = ((address / unit).max(next), (address + bytes).div_ceil(unit));
        count += past.saturating_sub(first);
        next = next.max(past);
    }
    count
}

/// The pattern of lanes: by their numbers, or by the order of the active ones.
fn pattern(lanes: &BTreeMap<u8, u64>, bytes: u64) -> LanePattern {
    let lanes: Vec<(i64, u64)> = lanes.iter().map(|(lane, address)| (i64::from(*lane), *address)).collect();
    let steps: Vec<(i64, i64)> = lanes
        .iter()
        .zip(lanes.iter().skip(1))
        .map(|(a, b)| (b.0 - a.0, b.1.wrapping_sub(a.1).cast_signed()))
        .collect();
    let Some(&(lanes_apart, distance)) = steps.first() else { return LanePattern::Broadcast };
    let by_order = steps.iter().all(|step| step.1 == distance).then_some(distance);
    let stride = distance / lanes_apart;
    let by_number = steps.iter().all(|step| step.1 == stride * step.0).then_some(stride);
    let is_unit = |stride: Option<i64>| stride.is_some_and(|stride| stride.unsigned_abs() == bytes);
    let distances: BTreeSet<i64> = steps.iter().map(|step| step.1).collect();
    match by_number.or(by_order) {
        Some(0) => LanePattern::Broadcast,
        _ if is_unit(by_number) || is_unit(by_order) => LanePattern::Unit,
        Some(_) => LanePattern::Strided,
        None if distances.len() * 4 <= lanes.len() => LanePattern::Tiled,
        None => LanePattern::Gather,
    }
}

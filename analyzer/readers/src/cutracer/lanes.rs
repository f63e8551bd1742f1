//! Addresses of lanes as rows of `memory_access`: a stride where lanes are regular, else distances.

use crate::model::TraceAccess;

/// An active lane and its address.
type TracedLane = (u32, u64);

/// The rows of a request: one, or several if lanes are too far apart. `first` has the mask of all lanes, and no address.
pub(super) fn rows(first: &TraceAccess, addresses: &[Option<u64>]) -> Result<Vec<TraceAccess>, &'static str> {
    let active = (0..32).filter(|lane| first.lane_mask >> lane & 1 == 1);
    let address = |lane: u32| Some((lane, addresses.get(usize::try_from(lane).ok()?).copied().flatten()?));
    let lanes: Option<Vec<TracedLane>> = active.map(address).collect();
    let lanes = lanes.ok_or("requests without the addresses of all active lanes")?;
    if lanes.is_empty() {
        return Err("requests without active lanes");
    }
    if let Some(row) = regular(first, &lanes) {
        return Ok(vec![row]);
    }
    let mut near = lanes;
    near.sort_unstable_by_key(|(_, address)| *address);
    let mut rows = Vec::new();
    while !near.is_empty() {
        let count =
            (1..=near.len()).rev().find(|count| fits(near.get(..*count).unwrap_or_default())).unwrap_or(1);
        let far = near.split_off(count);
        near.sort_unstable_by_key(|(lane, _)| *lane);
        rows.push(irregular(first, &near));
        near = far;
    }
    Ok(rows)
}

/// A row whose lanes have one distance from each other, or none if they have several.
fn regular(first: &TraceAccess, lanes: &[TracedLane]) -> Option<TraceAccess> {
    let (&(lowest, begin), &(highest, end)) = lanes.first().zip(lanes.last())?;
    let between = i64::from(highest) - i64::from(lowest);
    let distance = i64::try_from(i128::from(end) - i128::from(begin)).ok()?;
    let stride = if between == 0 { 0 } else { distance / between };
    let is_regular = lanes.iter().all(|(lane, address)| {
        let expected = i128::from(begin) + i128::from(stride) * (i128::from(*lane) - i128::from(lowest));
        expected == i128::from(*address)
    });
    let stride_bytes = i32::try_from(stride).ok().filter(|_| is_regular)?;
    Some(TraceAccess {
        stride_bytes: Some(stride_bytes),
        address: begin.min(end),
        span_bytes: distance.unsigned_abs().saturating_add(first.bytes.into()),
        lane_mask: mask(lanes),
        ..first.clone()
    })
}

/// A row with the distance of each lane from the lowest address.
fn irregular(first: &TraceAccess, lanes: &[TracedLane]) -> TraceAccess {
    let (begin, end, shift) = extent(lanes);
    let is_alone = lanes.len() == 1;
    let distance = |(_, address): &TracedLane| u32::try_from((address - begin) >> shift).unwrap_or(u32::MAX);
    TraceAccess {
        stride_bytes: is_alone.then_some(0),
        offsets: (!is_alone).then(|| lanes.iter().map(distance).collect()),
        offset_shift: if is_alone { 0 } else { shift },
        address: begin,
        span_bytes: (end - begin).saturating_add(first.bytes.into()),
        lane_mask: mask(lanes),
        ..first.clone()
    }
}

/// The lowest and the highest address, and the bits that all distances leave free.
fn extent(lanes: &[TracedLane]) -> (u64, u64, u8) {
    let addresses = || lanes.iter().map(|(_, address)| *address);
    let begin = addresses().min().unwrap_or(0);
    let bits = addresses().fold(0, |bits, address| bits | (address - begin));
    (begin, addresses().max().unwrap_or(0), u8::try_from(bits.trailing_zeros() % 64).unwrap_or(0))
}

/// True if the distances of lanes fit into 32 bits.
fn fits(lanes: &[TracedLane]) -> bool {
    let (begin, end, shift) = extent(lanes);
    u32::try_from((end - begin) >> shift).is_ok()
}

fn mask(lanes: &[TracedLane]) -> u32 {
    lanes.iter().fold(0, |mask, (lane, _)| mask | 1 << lane)
}

#[cfg(test)]
mod tests {
    use stallmap_schema::word::{AccessKind, Space};

    use super::*;

    fn request(lane_mask: u32) -> TraceAccess {
        TraceAccess {
            kernel: 0,
            pc: 16,
            block: 0,
            warp: 0,
            sequence: 0,
            kind: AccessKind::Read,
            space: Space::Global,
            bytes: 4,
            lane_mask,
            address: 0,
            span_bytes: 0,
            stride_bytes: None,
            offsets: None,
            offset_shift: 0,
        }
    }

    fn lanes(mask: u32, address: impl Fn(u64) -> u64) -> Vec<TraceAccess> {
        let addresses: Vec<Option<u64>> = (0..32).map(|lane| Some(address(lane))).collect();
        rows(&request(mask), &addresses).unwrap()
    }

    #[test]
    fn rows_hold_every_address() {
        let forward = lanes(u32::MAX, |lane| 4096 + 4 * lane);
        assert_eq!(
            (forward[0].stride_bytes, forward[0].address, forward[0].span_bytes),
            (Some(4), 4096, 128)
        );
        let backward = lanes(0b1011, |lane| 4096 - 8 * lane);
        assert_eq!(
            (backward[0].stride_bytes, backward[0].address, backward[0].span_bytes),
            (Some(-8), 4072, 28)
        );
        let single = lanes(1 << 31, |lane| lane);
        assert_eq!((single[0].stride_bytes, single[0].address, single[0].span_bytes), (Some(0), 31, 4));
        let odd = lanes(0b111, |lane| 64 + 16 * lane * lane);
        assert_eq!((odd[0].offsets.as_deref(), odd[0].offset_shift), (Some(&[0, 1, 4][..]), 4));
        let far = lanes(0b111, |lane| if lane == 1 { u64::MAX - 3 } else { 8 + 5 * (lane / 2) });
        assert_eq!((far.len(), far[0].lane_mask, far[1].lane_mask), (2, 0b101, 0b010));
    }

    #[test]
    fn missing_addresses_are_reasons() {
        assert!(rows(&request(3), &[Some(1)]).is_err());
        assert!(rows(&request(0), &[Some(1)]).is_err());
        assert!(rows(&request(1), &[None]).is_err());
    }
}

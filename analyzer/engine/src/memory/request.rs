//! One warp request: its lanes' addresses, and the memory touched by a set of its lanes.

/// Bytes of a sector: the unit in which memory is moved.
pub const SECTOR_BYTES: u64 = 32;

/// Addresses of a row of `memory_access`.
#[derive(Clone, Copy, Debug)]
pub struct WarpRequest<'a> {
    /// Active lanes.
    pub lane_mask: u32,
    /// Lowest address that any lane accesses.
    pub address: u64,
    /// Bytes from there to past the last byte.
    pub span_bytes: u64,
    /// Bytes that each lane accesses.
    pub access_bytes: u64,
    /// Addresses of the lanes.
    pub lanes: ActiveLanes<'a>,
}

/// Addresses of the active lanes of one warp request.
#[derive(Clone, Copy, Debug)]
pub enum ActiveLanes<'a> {
    /// At equal distances, lane by lane. If negative, the highest lane has the lowest address.
    Regular(i32),
    /// Each active lane's distance from the lowest address, to be shifted left.
    Irregular(&'a [u32], u8),
}

/// Memory that some lanes of one warp request access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchedMemory {
    /// Lanes.
    pub lanes: u32,
    /// Distinct sectors of 32 bytes.
    pub sectors: u64,
    /// Bytes of the union.
    pub unique_bytes: u64,
}

impl WarpRequest<'_> {
    /// The active lanes with their addresses, lowest lane first. Lanes whose distance is missing are left out.
    pub fn addresses(&self) -> impl Iterator<Item = (u32, u64)> {
        let Self { lane_mask, address, lanes, .. } = *self;
        let first = if let ActiveLanes::Regular(..0) = lanes {
            31 - lane_mask.leading_zeros().min(31)
        } else {
            lane_mask.trailing_zeros()
        };
        let active = (0..32_u32).filter(move |lane| lane_mask >> lane & 1 == 1);
        active.enumerate().filter_map(move |(position, lane)| {
            let distance = match lanes {
                ActiveLanes::Regular(stride) => (i64::from(lane) - i64::from(first)) * i64::from(stride),
                ActiveLanes::Irregular(offsets, shift) => {
                    i64::try_from(u64::from(*offsets.get(position)?).checked_shl(shift.into())?).ok()?
                }
            };
            Some((lane, address.wrapping_add_signed(distance)))
        })
    }

    /// True if the bytes of an access, a power of two, divide the address of each lane.
    pub fn is_aligned(&self) -> bool {
        let distances = match self.lanes {
            ActiveLanes::Regular(stride) if self.lane_mask.count_ones() > 1 => stride.unsigned_abs().into(),
            ActiveLanes::Regular(_) => 0,
            ActiveLanes::Irregular(offsets, shift) => {
                let all = offsets.iter().fold(0, |all, offset| all | offset);
                u64::from(all).checked_shl(shift.into()).unwrap_or(0)
            }
        };
        !self.access_bytes.is_power_of_two() || (self.address | distances) & (self.access_bytes - 1) == 0
    }

    /// Memory touched by all lanes.
    pub fn touched(&self) -> TouchedMemory {
        match self.lanes {
            ActiveLanes::Regular(stride) if contiguous(self.lane_mask) => {
                self.touched_regular(stride.unsigned_abs().into())
            }
            _ => self.touched_by(u32::MAX),
        }
    }

    /// The distinct sectors that all lanes touch, as runs of adjacent ones, first and last, ascending.
    pub fn sector_runs_into(&self, runs: &mut Vec<(u64, u64)>) {
        runs.clear();
        let Some(rest) = self.access_bytes.checked_sub(1) else { return };
        if let Some(bytes) = self.gapless_bytes()
            && let Some(last) = self.address.checked_add(bytes - 1)
        {
            runs.push((self.address / SECTOR_BYTES, last / SECTOR_BYTES));
            return;
        }
        let mut is_ascending = true;
        for (_, address) in self.addresses() {
            let (first, last) = (address / SECTOR_BYTES, address.saturating_add(rest) / SECTOR_BYTES);
            match runs.last_mut() {
                Some(run) if run.0 <= first && first <= run.1 + 1 => run.1 = run.1.max(last),
                before => {
                    is_ascending &= before.is_none_or(|run| run.1 < first);
                    runs.push((first, last));
                }
            }
        }
        if !is_ascending {
            runs.sort_unstable();
            merge(runs);
        }
    }

    /// Bytes of all lanes, if each begins where another ends.
    pub fn adjacent_bytes(&self) -> Option<u64> {
        let ActiveLanes::Regular(stride) = self.lanes else { return None };
        let is_adjacent = u64::from(stride.unsigned_abs()) == self.access_bytes && contiguous(self.lane_mask);
        is_adjacent.then(|| self.access_bytes * u64::from(self.lane_mask.count_ones()))
    }

    /// True if all lanes are known to access one address.
    pub fn is_broadcast(&self) -> bool {
        matches!(self.lanes, ActiveLanes::Regular(0))
    }

    /// Bytes from the first to past the last, if lanes touch every sector in between: no gap holds a sector.
    fn gapless_bytes(&self) -> Option<u64> {
        let ActiveLanes::Regular(stride) = self.lanes else { return None };
        let stride = u64::from(stride.unsigned_abs());
        let is_gapless = contiguous(self.lane_mask) && stride < self.access_bytes + SECTOR_BYTES;
        is_gapless.then(|| stride * u64::from(self.lane_mask.count_ones() - 1) + self.access_bytes)
    }

    /// Memory touched by the lanes of a mask, with a fast path for all lanes.
    #[inline]
    pub fn touched_in(&self, mask: u32) -> TouchedMemory {
        if mask == self.lane_mask { self.touched() } else { self.touched_by(mask) }
    }

    /// Memory touched by the lanes of a mask.
    pub fn touched_by(&self, mask: u32) -> TouchedMemory {
        let mut addresses = [0; 32];
        let mut count = 0;
        for (_, address) in self.addresses().filter(|(lane, _)| mask >> lane & 1 == 1) {
            addresses[count] = address;
            count += 1;
        }
        touched(&mut addresses[..count], self.access_bytes)
    }

    /// Distinct units of some bytes, a power of two, that all lanes touch.
    pub fn units(&self, unit: u64) -> u64 {
        let size = self.access_bytes;
        if size == 0 {
            return 0;
        }
        if let ActiveLanes::Regular(stride) = self.lanes
            && contiguous(self.lane_mask)
        {
            return self.units_regular(stride.unsigned_abs().into(), unit);
        }
        if size <= unit && size.is_power_of_two() && self.addresses().all(|(_, address)| address % size == 0)
        {
            // Aligned accesses lie in one unit each.
            return distinct(self.addresses().map(|(_, address)| address / unit));
        }
        let (mut lanes, mut known) = ([0; 32], 0);
        for (lane, (_, address)) in lanes.iter_mut().zip(self.addresses()) {
            *lane = address;
            known += 1;
        }
        let lanes = &mut lanes[..known];
        lanes.sort_unstable();
        units_at(lanes, size, unit)
    }

    /// The same of lanes without gaps between them, `stride` bytes from one to the next.
    fn units_regular(&self, stride: u64, unit: u64) -> u64 {
        let (count, size) = (u64::from(self.lane_mask.count_ones()), self.access_bytes);
        if stride < size + unit {
            // A gap is shorter than a unit: every unit of the span is touched.
            units_between(self.address, stride * (count - 1) + size, unit)
        } else if stride.is_multiple_of(unit) {
            count * units_between(self.address, size, unit)
        } else {
            let lane = |lane: u64| units_between(self.address.wrapping_add(lane * stride), size, unit);
            (0..count).map(lane).sum()
        }
    }

    /// Lanes without gaps between them, `stride` bytes from one to the next.
    fn touched_regular(&self, stride: u64) -> TouchedMemory {
        let lanes = self.lane_mask.count_ones();
        let (count, size) = (u64::from(lanes), self.access_bytes);
        if count == 0 || size == 0 {
            return TouchedMemory { lanes, ..TouchedMemory::default() };
        }
        let span = stride * (count - 1) + size;
        let unique_bytes = if stride <= size { span } else { count * size };
        let sectors = self.units_regular(stride, SECTOR_BYTES);
        TouchedMemory { lanes, sectors, unique_bytes }
    }
}

/// Merges ascending runs that overlap or adjoin.
fn merge(runs: &mut Vec<(u64, u64)>) {
    runs.dedup_by(|next, run| {
        let joins = next.0 <= run.1.saturating_add(1);
        if joins {
            run.1 = run.1.max(next.1);
        }
        joins
    });
}

/// True if the set bits have no gap.
pub(crate) fn contiguous(mask: u32) -> bool {
    mask != 0 && (u64::from(mask >> mask.trailing_zeros()) + 1).is_power_of_two()
}

/// Units of `bytes` bytes from an address.
fn units_between(address: u64, bytes: u64, unit: u64) -> u64 {
    address.saturating_add(bytes - 1) / unit - address / unit + 1
}

/// Distinct units that accesses of one size at ascending addresses touch.
fn units_at(ascending: &[u64], size: u64, unit: u64) -> u64 {
    let (mut count, mut next) = (0, 0);
    for &address in ascending {
        let past = address.saturating_add(size - 1) / unit;
        let past = past.saturating_add(1);
        count += past.saturating_sub((address / unit).max(next));
        next = next.max(past);
    }
    count
}

/// Memory touched by accesses of one size at some addresses.
fn touched(addresses: &mut [u64], size: u64) -> TouchedMemory {
    let lanes = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    if addresses.is_empty() || size == 0 {
        return TouchedMemory { lanes, ..TouchedMemory::default() };
    }
    let bits = addresses.iter().fold(0, |bits, address| bits | address);
    if size <= SECTOR_BYTES && size.is_power_of_two() && bits % size == 0 {
        // Aligned accesses lie in one sector each, and two are either equal or disjoint.
        let shift = size.trailing_zeros();
        let sectors = distinct(addresses.iter().map(|address| address / SECTOR_BYTES));
        return TouchedMemory {
            lanes,
            sectors,
            unique_bytes: distinct(addresses.iter().map(|a| a >> shift)) * size,
        };
    }
    addresses.sort_unstable();
    let (mut sectors, mut unique_bytes) = (0, 0);
    let (mut next_sector, mut next_byte) = (0, 0);
    for &address in &*addresses {
        let end = address.saturating_add(size);
        unique_bytes += end.saturating_sub(address.max(next_byte));
        next_byte = next_byte.max(end);
        let past = (end - 1) / SECTOR_BYTES + 1;
        sectors += past.saturating_sub((address / SECTOR_BYTES).max(next_sector));
        next_sector = next_sector.max(past);
    }
    TouchedMemory { lanes, sectors, unique_bytes }
}

/// Counts distinct numbers among up to 32: a hash table of 64 slots on the stack.
pub(super) fn distinct(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut table = [0_u64; 64];
    let mut taken = 0_u64;
    for number in numbers {
        let mut slot = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize;
        while taken >> slot & 1 == 1 && table[slot] != number {
            slot = (slot + 1) % 64;
        }
        table[slot] = number;
        taken |= 1 << slot;
    }
    taken.count_ones().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[track_caller]
    fn check(address: u64, size: u64, stride: i32, mask: u32, expected: (u64, u64)) {
        let request = WarpRequest {
            lane_mask: mask,
            address,
            span_bytes: 0,
            access_bytes: size,
            lanes: ActiveLanes::Regular(stride),
        };
        let touched = request.touched();
        assert_eq!((touched.sectors, touched.unique_bytes), expected);
        assert_eq!(request.touched_by(u32::MAX), touched, "the general way agrees with the short one");
        let addresses: Vec<u64> = request.addresses().map(|(_, address)| address).collect();
        let lowest = addresses.iter().min().copied().unwrap();
        assert_eq!(lowest, address);
        let offsets: Vec<u32> =
            addresses.iter().map(|&lane| u32::try_from(lane - address).unwrap()).collect();
        let mut runs = Vec::new();
        request.sector_runs_into(&mut runs);
        let sectors = |address: u64| address / SECTOR_BYTES..=(address + size - 1) / SECTOR_BYTES;
        let one_by_one: BTreeSet<u64> = addresses.iter().flat_map(|&address| sectors(address)).collect();
        assert!(runs.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "runs do not adjoin");
        assert!(one_by_one.into_iter().eq(runs.into_iter().flat_map(|(first, last)| first..=last)));
        let irregular = WarpRequest { lanes: ActiveLanes::Irregular(&offsets, 0), ..request };
        for unit in [SECTOR_BYTES, 128] {
            let units = |address: u64| address / unit..=(address + size - 1) / unit;
            let one_by_one: BTreeSet<u64> = addresses.iter().flat_map(|&address| units(address)).collect();
            assert_eq!(
                (request.units(unit), irregular.units(unit)),
                (one_by_one.len() as u64, request.units(unit))
            );
        }
        assert_eq!(irregular.touched(), touched, "irregular lanes at the same offsets touch the same");
    }

    #[test]
    fn golden_patterns() {
        let all = u32::MAX;
        check(0x1000, 4, 4, all, (4, 128));
        check(0x1004, 4, 4, all, (5, 128));
        check(0x1000, 4, 8, all, (8, 128));
        check(0x1000, 4, 128, all, (32, 128));
        check(0x1000, 4, 0, all, (1, 4));
        check(0x1000, 16, 16, all, (16, 512));
        check(0x1000, 2, 2, all, (2, 64));
    }

    #[test]
    fn unusual_patterns() {
        check(0x1000, 4, -4, u32::MAX, (4, 128));
        check(0x1000, 4, -4, 0xff, (1, 32));
        check(0x1000, 4, 4, 0x8000_0001, (2, 8));
        check(0x1002, 4, 36, u32::MAX, (36, 128));
        check(0x101e, 4, 40, 7, (4, 12));
        check(0x1000, 8, 4, 3, (1, 12));
        check(0x1000, 64, 32, 3, (3, 96));
        check(0x1000, 4, 4, 1 << 31, (1, 4));
    }
}

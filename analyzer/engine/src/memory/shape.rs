//! The shape of one warp request: touched memory, lane pattern, and wavefronts of shared memory.

use super::request::{ActiveLanes, SECTOR_BYTES, TouchedMemory, WarpRequest, contiguous, distinct};

/// Bytes of a line of the caches: four sectors.
pub const LINE_BYTES: u64 = 128;
/// Banks of shared memory, each one word wide.
const BANKS: usize = 32;
/// Bytes of a word of a bank.
const WORD_BYTES: u64 = 4;
/// Maximum of bytes per lane for wavefronts: no instruction accesses more.
const WIDEST_ACCESS: u64 = 16;

/// Lane pattern of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PatternClass {
    /// All at one address, or a single lane.
    #[default]
    Broadcast,
    /// Side by side, up or down.
    Unit,
    /// At equal distances.
    Strided,
    /// With few distances from lane to lane: up to one per four lanes.
    Tiled,
    /// Any other pattern.
    Gather,
}

impl PatternClass {
    /// Its name in SQL.
    pub fn word(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::Unit => "unit",
            Self::Strided => "strided",
            Self::Tiled => "tiled",
            Self::Gather => "gather",
        }
    }
}

/// Memory touched by a request, and its pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessedShape {
    /// Active lanes with known addresses.
    pub lanes: u32,
    /// Distinct sectors of 32 bytes.
    pub sectors: u64,
    /// Distinct lines of 128 bytes.
    pub lines: u64,
    /// Bytes of the union.
    pub unique_bytes: u64,
    /// Lane pattern.
    pub class: PatternClass,
    /// Bytes from lane to lane, if these distances are equal.
    pub stride_bytes: Option<i64>,
    /// True if the lanes are adjacent but not aligned to a sector.
    pub is_misaligned: bool,
}

/// Cost of a request in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCost {
    /// Wavefronts of the banks.
    pub wavefronts: u32,
    /// The minimum for accesses of this width by these lanes: 4 bytes one, 8 bytes one per half warp, 16 bytes one per
    /// quarter.
    pub passes: u32,
}

/// Bytes from one lane number to the next, while all distances agree.
#[derive(Clone, Copy, Debug, Default)]
enum LaneStride {
    /// No distance yet.
    #[default]
    Open,
    /// So many bytes.
    Equal(i64),
    /// Distances differ.
    Different,
}

impl LaneStride {
    /// Adds a distance over some lane numbers.
    fn add(&mut self, bytes: i64, lanes: i64) {
        *self = match *self {
            Self::Open if bytes % lanes == 0 => Self::Equal(bytes / lanes),
            Self::Equal(stride) if stride.checked_mul(lanes) == Some(bytes) => *self,
            _ => Self::Different,
        };
    }

    fn bytes(self) -> Option<i64> {
        if let Self::Equal(stride) = self { Some(stride) } else { None }
    }
}

impl WarpRequest<'_> {
    /// Its shape.
    pub fn shape(&self) -> AccessedShape {
        let TouchedMemory { lanes, sectors, unique_bytes } = self.touched();
        let (class, stride_bytes) = self.class();
        let is_misaligned = class == PatternClass::Unit && !self.address.is_multiple_of(SECTOR_BYTES);
        AccessedShape {
            lanes,
            sectors,
            lines: self.units(LINE_BYTES),
            unique_bytes,
            class,
            stride_bytes,
            is_misaligned,
        }
    }

    fn class(&self) -> (PatternClass, Option<i64>) {
        let width = self.access_bytes;
        match self.lanes {
            ActiveLanes::Regular(0) => (PatternClass::Broadcast, Some(0)),
            ActiveLanes::Regular(_) if self.lane_mask.count_ones() < 2 => (PatternClass::Broadcast, Some(0)),
            ActiveLanes::Regular(stride) if u64::from(stride.unsigned_abs()) == width => {
                (PatternClass::Unit, Some(stride.into()))
            }
            ActiveLanes::Regular(stride) if contiguous(self.lane_mask) => {
                (PatternClass::Strided, Some(stride.into()))
            }
            ActiveLanes::Regular(_) | ActiveLanes::Irregular(..) => self.class_by_distances(),
        }
    }

    /// The class by the distances between active lanes, whichever way a row holds them. Lanes are at equal distances if
    /// their numbers give their addresses, or if each active lane is as far from the one before.
    fn class_by_distances(&self) -> (PatternClass, Option<i64>) {
        let (mut distances, mut known, mut before) = ([0; 32], 0, None);
        let mut by_number = LaneStride::default();
        for (lane, address) in self.addresses() {
            if let (Some((last, before)), Some(slot)) =
                (before.replace((lane, address)), distances.get_mut(known))
            {
                *slot = address.wrapping_sub(before).cast_signed();
                by_number.add(*slot, i64::from(lane - last));
                known += 1;
            }
        }
        let distances = &distances[..known];
        let different = usize::try_from(distinct(distances.iter().map(|d| d.cast_unsigned()))).unwrap_or(32);
        let strides = [distances.first().copied().filter(|_| different < 2), by_number.bytes()];
        let is_unit = |stride: &&i64| stride.unsigned_abs() == self.access_bytes;
        match strides.iter().flatten().find(is_unit).or_else(|| strides.iter().rev().flatten().next()) {
            None if known == 0 => (PatternClass::Broadcast, Some(0)),
            Some(0) => (PatternClass::Broadcast, Some(0)),
            Some(&stride) if stride.unsigned_abs() == self.access_bytes => (PatternClass::Unit, Some(stride)),
            Some(&stride) => (PatternClass::Strided, Some(stride)),
            None if different * 4 <= known + 1 => (PatternClass::Tiled, None),
            None => (PatternClass::Gather, None),
        }
    }

    /// Its cost in shared memory: 32 banks of 4-byte words. Words that several lanes request are read once.
    pub fn banked(&self) -> BankCost {
        let group = match self.access_bytes {
            0..=4 => 32,
            5..=8 => 16,
            _ => 8,
        };
        let mut banked = BankCost::default();
        let mut words = Vec::with_capacity(64);
        let mut addresses = self.addresses().peekable();
        for pass in 1..=32 / group {
            words.clear();
            while let Some((_, address)) = addresses.next_if(|(lane, _)| *lane < pass * group) {
                let last = address.saturating_add(self.access_bytes.clamp(1, WIDEST_ACCESS) - 1);
                words.extend(address / WORD_BYTES..=last / WORD_BYTES);
            }
            if !words.is_empty() {
                banked.passes += 1;
                banked.wavefronts += fullest_bank(&mut words);
            }
        }
        banked
    }
}

/// The largest number of distinct words in one bank.
fn fullest_bank(words: &mut Vec<u64>) -> u32 {
    words.sort_unstable();
    words.dedup();
    let mut banks = [0_u32; BANKS];
    for word in &*words {
        let bank = usize::try_from(word % BANKS as u64).unwrap_or(0);
        banks[bank] += 1;
    }
    banks.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;

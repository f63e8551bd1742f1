//! The pages that a launch touches, from the records of its accesses.
//!
//! The ring's reader adds each record while the kernel runs, and a launch can have tens of millions: a record whose
//! lanes lie in one page or two neighbours costs two comparisons and a bit, a gather a bit for each lane.

use std::collections::HashMap;

use stallmap_schema::capture::request::{
    ATOMIC, OFFSETS_32, OFFSETS_64, PREFETCH, READ, REGULAR, RequestHeader, SLOT_BYTES, SPACE_GLOBAL,
    SPACE_GLOBAL_ASYNC, WRITE,
};

use super::PAGE_SHIFT;

/// Words of 64 pages in a region: 2 MiB.
const WORDS: usize = 8;
/// Pages in a region.
const REGION_PAGES: u64 = 512;
/// Regions that are found without the map.
const RECENT: usize = 256;

/// Pages read and pages written.
pub struct PageSet {
    regions: Vec<PageRegion>,
    index: HashMap<u64, usize>,
    /// By the low bits of a region's number: regions that were touched lately, and where they are.
    recent: Box<[(u64, usize); RECENT]>,
}

struct PageRegion {
    number: u64,
    read: [u64; WORDS],
    written: [u64; WORDS],
    atomic: [u64; WORDS],
}

/// The pages of a set, each list in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPages {
    /// Pages that were read.
    pub read: Vec<u64>,
    /// Pages that were written.
    pub written: Vec<u64>,
    /// Pages that atomics wrote.
    pub atomic: Vec<u64>,
}

impl Default for PageSet {
    fn default() -> Self {
        Self { regions: Vec::new(), index: HashMap::new(), recent: Box::new([(u64::MAX, 0); RECENT]) }
    }
}

impl PageSet {
    /// Adds the pages of a record; `slots` are those behind its header. Only device memory counts.
    pub fn add<'a>(&mut self, request: &RequestHeader, slots: impl Iterator<Item = &'a [u8; SLOT_BYTES]>) {
        if !matches!(request.space, SPACE_GLOBAL | SPACE_GLOBAL_ASYNC) {
            return;
        }
        let access = PageAccess::from_flags(request.flags);
        if access == PageAccess::NONE || request.lane_mask == 0 {
            return;
        }
        match request.encoding {
            REGULAR => self.add_regular(request, access),
            OFFSETS_32 => {
                for distance in slots.flat_map(|slot| slot.as_chunks().0).take(lanes(request)) {
                    self.add_lane(request, i32::from_le_bytes(*distance).into(), access);
                }
            }
            OFFSETS_64 => {
                for distance in slots.flat_map(|slot| slot.as_chunks().0).take(lanes(request)) {
                    self.add_lane(request, i64::from_le_bytes(*distance), access);
                }
            }
            _ => {}
        }
    }

    /// The pages by their accesses.
    pub fn pages(&self) -> TouchedPages {
        let mut regions: Vec<&PageRegion> = self.regions.iter().collect();
        regions.sort_unstable_by_key(|region| region.number);
        let list = |bits: fn(&PageRegion) -> &[u64; WORDS]| {
            regions.iter().flat_map(|region| set_bits(region.number * REGION_PAGES, bits(region))).collect()
        };
        TouchedPages {
            read: list(|region| &region.read),
            written: list(|region| &region.written),
            atomic: list(|region| &region.atomic),
        }
    }

    fn add_regular(&mut self, request: &RequestHeader, access: PageAccess) {
        let first_lane = request.lane_mask.trailing_zeros();
        let last_lane = request.lane_mask.ilog2();
        let distance = i64::from(request.stride) * i64::from(last_lane - first_lane);
        let last = request.address.wrapping_add_signed(distance);
        let (low, high) = (request.address.min(last), request.address.max(last));
        let bytes = u64::from(request.access_bytes.max(1)) - 1;
        let (low_page, high_page) = (low >> PAGE_SHIFT, high.wrapping_add(bytes) >> PAGE_SHIFT);
        // The first and the last lane are active, so up to two pages are both touched.
        if high_page <= low_page + 1 {
            self.touch(low_page, access);
            if high_page != low_page {
                self.touch(high_page, access);
            }
            return;
        }
        let mut rest = request.lane_mask;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            self.add_lane(request, i64::from(request.stride) * i64::from(lane - first_lane), access);
        }
    }

    fn add_lane(&mut self, request: &RequestHeader, distance: i64, access: PageAccess) {
        let first = request.address.wrapping_add_signed(distance);
        let last = first.wrapping_add(u64::from(request.access_bytes.max(1)) - 1);
        self.touch(first >> PAGE_SHIFT, access);
        if first >> PAGE_SHIFT != last >> PAGE_SHIFT {
            self.touch(last >> PAGE_SHIFT, access);
        }
    }

    fn touch(&mut self, page: u64, access: PageAccess) {
        let number = page / REGION_PAGES;
        let bit = page % REGION_PAGES;
        let recent = &mut self.recent[usize::try_from(number).unwrap_or(0) % RECENT];
        if recent.0 != number {
            let regions = &mut self.regions;
            let at = *self.index.entry(number).or_insert_with(|| {
                regions.push(PageRegion {
                    number,
                    read: [0; WORDS],
                    written: [0; WORDS],
                    atomic: [0; WORDS],
                });
                regions.len() - 1
            });
            *recent = (number, at);
        }
        let Some(region) = self.regions.get_mut(recent.1) else { return };
        let (word, mask) = (usize::try_from(bit / 64).unwrap_or(0), 1_u64 << (bit % 64));
        if access.reads {
            region.read[word] |= mask;
        }
        if access.writes {
            region.written[word] |= mask;
        }
        if access.is_atomic {
            region.atomic[word] |= mask;
        }
    }
}

/// The effect of an access on the pages that it touches.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PageAccess {
    reads: bool,
    writes: bool,
    is_atomic: bool,
}

impl PageAccess {
    const NONE: Self = Self { reads: false, writes: false, is_atomic: false };

    /// Atomics do both. A prefetch does neither.
    fn from_flags(flags: u8) -> Self {
        if flags & PREFETCH != 0 {
            return Self::NONE;
        }
        let is_atomic = flags & ATOMIC != 0;
        let (reads, writes) = (is_atomic || flags & READ != 0, is_atomic || flags & WRITE != 0);
        Self { reads, writes, is_atomic }
    }
}

fn lanes(request: &RequestHeader) -> usize {
    request.lane_mask.count_ones() as usize
}

fn set_bits(first: u64, words: &[u64]) -> impl Iterator<Item = u64> {
    words
        .iter()
        .zip((first..).step_by(64))
        .flat_map(|(&word, base)| (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| base + bit))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use stallmap_schema::capture::request::SPACE_SHARED;

    use super::*;

    /// One warp request, and the address of each active lane.
    type RecordedWarp = (RequestHeader, Vec<[u8; SLOT_BYTES]>, Vec<u64>);

    fn request() -> RequestHeader {
        RequestHeader {
            address: 0x7f00_0000_0ff8,
            pc: 0,
            access_bytes: 8,
            flags: READ,
            lane_mask: u32::MAX,
            stride: 0,
            block: 0,
            warp: 0,
            space: SPACE_GLOBAL,
            encoding: REGULAR,
        }
    }

    fn warp() -> impl Strategy<Value = RecordedWarp> {
        let base = (0x7f00_0000_0000_u64..0x7f00_0400_0000).prop_map(|address| address & !3);
        let stride =
            prop_oneof![0..64_i32, -8192..8192_i32, any::<i16>().prop_map(|far| i32::from(far) * 4096)];
        let distance = prop_oneof![-4096..4096_i64, -(1 << 30)..(1_i64 << 30)];
        (
            (base, 1..=u32::MAX, stride, prop::sample::select(vec![1_u8, 4, 8, 16])),
            (
                prop::collection::vec(distance, 32),
                prop::sample::select(vec![REGULAR, OFFSETS_32, OFFSETS_64]),
            ),
            (
                prop::sample::select(vec![READ, WRITE, READ | WRITE | ATOMIC, ATOMIC, PREFETCH | READ]),
                any::<bool>(),
            ),
        )
            .prop_map(
                |((address, lane_mask, stride, access_bytes), (distances, encoding), (flags, is_shared))| {
                    let stride = if encoding == REGULAR { stride } else { 0 };
                    let space = if is_shared { SPACE_SHARED } else { SPACE_GLOBAL };
                    let request = RequestHeader {
                        address,
                        access_bytes,
                        flags,
                        lane_mask,
                        stride,
                        space,
                        encoding,
                        ..request()
                    };
                    spread(request, &distances)
                },
            )
    }

    fn spread(request: RequestHeader, distances: &[i64]) -> RecordedWarp {
        let first = request.lane_mask.trailing_zeros();
        let active: Vec<u32> = (0..32).filter(|lane| request.lane_mask >> lane & 1 == 1).collect();
        let distance = |lane: u32| match request.encoding {
            REGULAR => i64::from(request.stride) * i64::from(lane - first),
            _ if lane == first => 0,
            _ => distances[lane as usize],
        };
        let offsets: Vec<u8> = active
            .iter()
            .flat_map(|&lane| {
                let bytes = distance(lane).to_le_bytes();
                bytes[..if request.encoding == OFFSETS_32 { 4 } else { 8 }].to_vec()
            })
            .collect();
        let slot = |bytes: &[u8]| {
            let mut slot = [0; SLOT_BYTES];
            slot[..bytes.len()].copy_from_slice(bytes);
            slot
        };
        let addresses = active.iter().map(|&lane| request.address.wrapping_add_signed(distance(lane)));
        (request, offsets.chunks(SLOT_BYTES).map(slot).collect(), addresses.collect())
    }

    proptest! {
        #[test]
        fn pages_are_those_that_the_lanes_touch(warps in prop::collection::vec(warp(), 0..40)) {
            let mut set = PageSet::default();
            let [mut read, mut written, mut atomic] = [const { BTreeSet::new() }; 3];
            for (request, slots, addresses) in warps {
                set.add(&request, slots.iter());
                if request.space == SPACE_SHARED || request.flags & PREFETCH != 0 {
                    continue;
                }
                for byte in addresses.iter().flat_map(|&first| first..first + u64::from(request.access_bytes)) {
                    if request.flags & (READ | ATOMIC) != 0 {
                        read.insert(byte >> PAGE_SHIFT);
                    }
                    if request.flags & (WRITE | ATOMIC) != 0 {
                        written.insert(byte >> PAGE_SHIFT);
                    }
                    if request.flags & ATOMIC != 0 {
                        atomic.insert(byte >> PAGE_SHIFT);
                    }
                }
            }
            let [read, written, atomic] = [read, written, atomic].map(|pages| pages.into_iter().collect());
            prop_assert_eq!(set.pages(), TouchedPages { read, written, atomic });
        }
    }

    #[test]
    fn an_access_may_lie_in_two_pages() {
        let mut set = PageSet::default();
        set.add(&RequestHeader { address: 0xffc, lane_mask: 1, ..request() }, std::iter::empty());
        assert_eq!(set.pages(), TouchedPages { read: vec![0, 1], ..TouchedPages::default() });
    }
}

//! One sector of memory while the requests of a launch load and store its bytes, in their order.

use std::cmp::Ordering;

use super::loads::{LaunchLoads, LoadRequest, SectorTouch};
use super::numbers::NumberMap;
use super::request::SECTOR_BYTES;

/// Bytes of a sector, one bit each.
pub(super) type SectorMask = u32;
const _: () = assert!(SectorMask::BITS as u64 == SECTOR_BYTES);

/// Thread, warp, block, grid.
pub(super) const SCOPES: usize = 4;
/// One bit for each scope.
const EVERY_SCOPE: u8 = (1 << SCOPES) - 1;
/// Loaders that are searched one by one. More of them have a map.
const FEW: usize = 16;
/// Entries of a map that is worth clearing.
const SMALL_MAP: usize = 1 << 12;

/// The sector at hand.
#[derive(Default)]
pub(super) struct SectorLoads {
    first_byte: u64,
    /// The bytes loaded since the last store to them.
    loaded: SectorMask,
    /// Number of stores, and the number of the last one of each byte.
    stores: u32,
    stored: [u32; 32],
    loaders: ByteLoaders,
    /// The bytes that each lane of a warp has loaded, for warps with several requests.
    lanes: Vec<[SectorMask; 32]>,
}

/// Warps and blocks that loaded bytes of the sector.
#[derive(Default)]
struct ByteLoaders {
    known: Vec<SectorLoader>,
    /// The position of each, if they are more than a few.
    indexes: NumberMap<(u64, u32), usize>,
}

/// A warp or a block.
#[derive(Clone, Copy, Default)]
struct SectorLoader {
    block: u64,
    /// 0 for the block, otherwise the warp from 1.
    warp: u32,
    /// Number of stores when it was last looked at.
    stores: u32,
    /// The bytes that it loaded since the last store to them.
    bytes: SectorMask,
    /// The first touch of a warp, and the position of its lanes after another.
    first: SectorTouch,
    lanes: Option<usize>,
}

impl LaunchLoads {
    fn for_touch(&self, touch: &SectorTouch) -> Option<&LoadRequest> {
        self.requests.get(touch.request as usize)
    }

    /// A load of a sector that nothing else touches has new bytes only.
    pub(super) fn first_in_sector(&self, touch: &SectorTouch, fresh: &mut [u8]) {
        if self.for_touch(touch).is_some_and(|request| !request.is_store) {
            set(fresh, touch, EVERY_SCOPE);
        }
    }

    /// The lanes of a touch with the bytes of its sector that they access.
    fn accessed(&self, touch: &SectorTouch, first_byte: u64) -> impl Iterator<Item = (usize, SectorMask)> {
        let request = self.for_touch(touch);
        let bytes = request.map_or(0, |request| u64::from(request.bytes));
        let lanes = request.into_iter().flat_map(|request| self.lanes(request, touch.positions()));
        lanes.map(move |lane| (usize::from(lane.lane), within(lane.address, bytes, first_byte)))
    }

    /// The bytes of its sector that a touch accesses.
    fn bytes_of(&self, touch: &SectorTouch, request: &LoadRequest, first_byte: u64) -> SectorMask {
        match Self::run(request, touch.positions()) {
            Some((address, bytes)) => within(address, bytes, first_byte),
            None => self.accessed(touch, first_byte).fold(0, |bytes, (_, lane)| bytes | lane),
        }
    }
}

/// The part of an access in the sector with a first byte.
fn within(address: u64, bytes: u64, first_byte: u64) -> SectorMask {
    let begin = address.saturating_sub(first_byte);
    let end = address.saturating_add(bytes).saturating_sub(first_byte);
    let up_to = |byte: u64| (1_u64 << byte.min(SECTOR_BYTES)) - 1;
    SectorMask::try_from(up_to(end) & !up_to(begin)).unwrap_or(SectorMask::MAX)
}

impl SectorLoads {
    /// Moves to a sector.
    pub(super) fn enter(&mut self, number: u64) {
        self.first_byte = number * SECTOR_BYTES;
        self.loaded = 0;
        if self.stores > 0 {
            (self.stores, self.stored) = (0, [0; 32]);
        }
        self.loaders.clear();
        self.lanes.clear();
    }

    /// Processes the first of the remaining touches, together with those at the same time. Sets, per lane, one bit per
    /// scope in which a byte of a load was not loaded before. Returns the number of processed touches.
    pub(super) fn step(&mut self, touches: &[SectorTouch], all: &LaunchLoads, fresh: &mut [u8]) -> usize {
        let Some(request) = touches.first().and_then(|touch| all.for_touch(touch)) else { return 1 };
        let is_now = |other: &&SectorTouch| {
            all.for_touch(other).is_some_and(|other| other.sequence == request.sequence)
        };
        let count = 1 + touches.iter().skip(1).take_while(is_now).count();
        let now = touches.iter().take(count).filter_map(|touch| Some((touch, all.for_touch(touch)?)));
        now.clone().filter(|(_, request)| !request.is_store).for_each(|(touch, request)| {
            self.compare(touch, request, all, fresh);
        });
        now.for_each(|(touch, request)| self.apply(touch, request, all));
        count
    }

    /// Compares a load with the earlier ones.
    fn compare(&mut self, touch: &SectorTouch, request: &LoadRequest, all: &LaunchLoads, fresh: &mut [u8]) {
        let bytes = all.bytes_of(touch, request, self.first_byte);
        if bytes & self.loaded == 0 {
            return set(fresh, touch, EVERY_SCOPE);
        }
        let block = self.current(request.block, 0).map_or(0, |(_, loader)| loader.bytes);
        let warp = self.current(request.block, request.who());
        let warp_bytes = warp.map_or(0, |(_, loader)| loader.bytes);
        let lanes = match warp {
            Some((index, _)) if warp_bytes & bytes != 0 => self.lanes_of(index, all),
            _ => None,
        };
        let own = lanes.and_then(|index| self.lanes.get(index));
        if own.is_none()
            && let Some(bits) = same_for_all(bytes, &[0, warp_bytes, block, self.loaded])
        {
            return set(fresh, touch, bits);
        }
        let fresh = fresh.get_mut(touch.lanes()).unwrap_or_default();
        for ((lane, bytes), fresh) in all.accessed(touch, self.first_byte).zip(fresh) {
            let thread = own.and_then(|own| own.get(lane)).copied().unwrap_or(0);
            for (scope, loaded) in [thread, warp_bytes, block, self.loaded].into_iter().enumerate() {
                *fresh |= u8::from(bytes & !loaded != 0) << scope;
            }
        }
    }

    /// Applies a touch to what is known.
    fn apply(&mut self, touch: &SectorTouch, request: &LoadRequest, all: &LaunchLoads) {
        let bytes = all.bytes_of(touch, request, self.first_byte);
        if request.is_store {
            return self.store(bytes);
        }
        self.loaded |= bytes;
        let index = self.enter_loader(request.block, 0, touch);
        self.loaders.known[index].bytes |= bytes;
        let known = self.loaders.known.len();
        let index = self.enter_loader(request.block, request.who(), touch);
        if index < known
            && let Some(lanes) = self.lanes_of(index, all)
            && let Some(lanes) = self.lanes.get_mut(lanes)
        {
            for (lane, bytes) in all.accessed(touch, self.first_byte) {
                lanes[lane % 32] |= bytes;
            }
        }
        self.loaders.known[index].bytes |= bytes;
    }

    fn store(&mut self, bytes: SectorMask) {
        self.loaded &= !bytes;
        if self.loaders.known.is_empty() {
            return;
        }
        self.stores += 1;
        for (byte, stored) in self.stored.iter_mut().enumerate() {
            if bytes >> byte & 1 == 1 {
                *stored = self.stores;
            }
        }
    }

    /// A warp or a block as of now, if it loaded bytes.
    fn current(&mut self, block: u64, warp: u32) -> Option<(usize, SectorLoader)> {
        let index = self.loaders.find(block, warp)?;
        let loader = self.loaders.known.get_mut(index)?;
        if loader.stores < self.stores {
            let since = self.stored.iter().enumerate().filter(|(_, stored)| **stored > loader.stores);
            let void = since.fold(0, |void, (byte, _)| void | 1 << byte);
            loader.stores = self.stores;
            loader.bytes &= !void;
            if let Some(lanes) = loader.lanes.and_then(|index| self.lanes.get_mut(index)) {
                for bytes in lanes {
                    *bytes &= !void;
                }
            }
        }
        Some((index, *loader))
    }

    /// The position of a warp or a block, which is entered if it is new.
    fn enter_loader(&mut self, block: u64, warp: u32, touch: &SectorTouch) -> usize {
        if let Some((index, _)) = self.current(block, warp) {
            return index;
        }
        self.loaders.push(SectorLoader {
            block,
            warp,
            stores: self.stores,
            first: *touch,
            ..SectorLoader::default()
        })
    }

    /// The position of the lanes of a warp.
    fn lanes_of(&mut self, index: usize, all: &LaunchLoads) -> Option<usize> {
        let next = self.lanes.len();
        let loader = self.loaders.known.get_mut(index)?;
        let lanes = *loader.lanes.get_or_insert(next);
        if lanes == next {
            let mut bytes = [0; 32];
            // Only the first touch has set the warp's bytes.
            for (lane, loaded) in all.accessed(&loader.first, self.first_byte) {
                bytes[lane % 32] |= loaded & loader.bytes;
            }
            self.lanes.push(bytes);
        }
        Some(lanes)
    }

    /// Bytes of memory that it holds.
    pub(super) fn bytes(&self) -> usize {
        let ByteLoaders { known, indexes } = &self.loaders;
        known.capacity() * size_of::<SectorLoader>()
            + indexes.capacity() * size_of::<((u64, u32), usize)>()
            + self.lanes.capacity() * size_of::<[SectorMask; 32]>()
    }
}

/// The scopes with new bytes, if they are the same for all lanes: a scope has loaded all bytes of a touch, or none.
fn same_for_all(bytes: SectorMask, scopes: &[SectorMask]) -> Option<u8> {
    let mut bits = 0;
    for (scope, &loaded) in scopes.iter().enumerate() {
        match bytes & loaded {
            0 => bits |= 1 << scope,
            all if all == bytes => {}
            _ => return None,
        }
    }
    Some(bits)
}

/// Sets bits of all lanes of a touch.
fn set(fresh: &mut [u8], touch: &SectorTouch, bits: u8) {
    fresh.get_mut(touch.lanes()).unwrap_or_default().iter_mut().for_each(|fresh| *fresh |= bits);
}

impl ByteLoaders {
    fn find(&self, block: u64, warp: u32) -> Option<usize> {
        if self.known.len() > FEW {
            return self.indexes.get(&(block, warp)).copied();
        }
        self.known.iter().position(|loader| (loader.block, loader.warp) == (block, warp))
    }

    fn push(&mut self, loader: SectorLoader) -> usize {
        let index = self.known.len();
        self.known.push(loader);
        // The map begins with all that were few before.
        let new = match index.cmp(&FEW) {
            Ordering::Less => return index,
            Ordering::Equal => 0,
            Ordering::Greater => index,
        };
        for (index, loader) in self.known.iter().enumerate().skip(new) {
            self.indexes.insert((loader.block, loader.warp), index);
        }
        index
    }

    fn clear(&mut self) {
        self.known.clear();
        if self.indexes.capacity() > SMALL_MAP {
            self.indexes = NumberMap::default();
        } else if !self.indexes.is_empty() {
            self.indexes.clear();
        }
    }
}

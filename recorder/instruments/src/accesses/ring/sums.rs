//! Entries of the table of counts, added up to rows.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::{AccessCount, ShapeCount};
use stallmap_schema::id::{Address, KernelId};
use stallmap_schema::word::LanePattern;

use crate::accesses::blocks::DeviceRange;

/// Position for lanes in no known block.
pub(super) const NO_BLOCK: u32 = u32::MAX;
/// Bit of a position that is a shape.
const SHAPE: u32 = 1 << 31;

/// `struct Count` of `device/access.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct CountEntry {
    site: u64,
    owner: u64,
    requests: u64,
    shared: u64,
    lanes: u64,
    sectors: u64,
    unique_bytes: u64,
    ideal_sectors: u64,
    not_low: u64,
    end: u64,
}

/// Sums by owner and place, without its copy.
pub(super) type CountSums = BTreeMap<(u64, u64), CountEntry>;

/// Adds up the entries of a table.
pub(super) fn sums(entries: &[CountEntry]) -> CountSums {
    /// Bits of `site` with the copy.
    const COPIES: u64 = 0xff << 54;
    let mut sums = CountSums::new();
    for entry in entries.iter().filter(|entry| entry.site != 0 && entry.owner != 0) {
        let sum = sums.entry((entry.owner, entry.site & !COPIES)).or_default();
        sum.requests += entry.requests;
        sum.shared += entry.shared;
        sum.lanes += entry.lanes;
        sum.sectors += entry.sectors;
        sum.unique_bytes += entry.unique_bytes;
        sum.ideal_sectors += entry.ideal_sectors;
        sum.not_low = sum.not_low.max(entry.not_low);
        sum.end = sum.end.max(entry.end);
    }
    sums
}

/// The ordinal of an owner's launch.
pub(super) fn ordinal(owner: u64) -> u64 {
    owner >> 32
}

/// The shape that an owner names.
fn shape(owner: u64) -> Option<u32> {
    let position = u32::try_from(owner & u64::from(u32::MAX)).ok()?;
    (position & SHAPE != 0 && position != NO_BLOCK).then_some(position & !SHAPE)
}

/// One row for the requests of each launch, place and block, in this order.
pub(super) fn rows(sums: &CountSums, blocks: &[DeviceRange]) -> Vec<AccessCount> {
    let of_blocks = sums.iter().filter(|((owner, _), _)| shape(*owner).is_none());
    of_blocks.map(|((owner, site), sum)| row(*owner, *site, sum, blocks)).collect()
}

/// One row for the requests of each launch, place and shape.
pub(super) fn shapes(sums: &CountSums) -> Vec<ShapeCount> {
    let row = |((owner, site), sum): (&(u64, u64), &CountEntry)| {
        let shape = shape(*owner)?;
        Some(ShapeCount {
            kernel_id: KernelId(ordinal(*owner)),
            pc_address: Address(site & 0xffff_ffff_ffff),
            flags: u8::try_from(site >> 48 & 0xf).unwrap_or(0),
            space: u8::try_from(site >> 52 & 3).unwrap_or(0),
            access_bytes: u8::try_from(shape >> 16 & 0xff).unwrap_or(0),
            class: *LanePattern::ALL.get((shape >> 8 & 0xff) as usize)?,
            is_misaligned: shape >> 7 & 1 == 1,
            sectors: shape & 0x7f,
            request_count: sum.requests,
            lane_count: sum.lanes,
            line_count: sum.shared,
            unique_bytes: sum.unique_bytes,
            ideal_sectors: sum.ideal_sectors,
        })
    };
    sums.iter().filter_map(row).collect()
}

fn row(owner: u64, site: u64, sum: &CountEntry, blocks: &[DeviceRange]) -> AccessCount {
    let address = !sum.not_low;
    // Behind the last block for lanes in none.
    let position = usize::try_from(owner & u64::from(NO_BLOCK)).unwrap_or(usize::MAX);
    let block = position.checked_sub(1).and_then(|position| blocks.get(position));
    AccessCount {
        kernel_id: KernelId(ordinal(owner)),
        pc_address: Address(site & 0xffff_ffff_ffff),
        flags: u8::try_from(site >> 48 & 0xf).unwrap_or(0),
        space: u8::try_from(site >> 52 & 3).unwrap_or(0),
        block_address: block.map(|block| Address(block.start)),
        address: Address(address),
        span_bytes: sum.end.saturating_sub(address),
        request_count: sum.requests,
        shared_request_count: sum.shared,
        lane_count: sum.lanes,
        sectors: sum.sectors,
        unique_bytes: sum.unique_bytes,
        ideal_sectors: sum.ideal_sectors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_site_are_one_row_and_blocks_have_their_address() {
        let site = |pc: u64, copy: u64| 1 << 63 | copy << 54 | 1 << 48 | pc;
        let entry = |site, owner, low: u64, end| CountEntry {
            site,
            owner,
            requests: 2,
            shared: 1,
            lanes: 64,
            sectors: 8,
            unique_bytes: 256,
            ideal_sectors: 8,
            not_low: !low,
            end,
        };
        let entries = [
            CountEntry::default(),
            entry(site(0x7f10, 0), 5 << 32 | 2, 0x210, 0x300),
            entry(site(0x7f10, 3), 5 << 32 | 2, 0x200, 0x280),
            entry(site(0x7f10, 3), 5 << 32 | u64::from(NO_BLOCK), 0x900, 0x980),
            entry(site(0x7f10, 0), 6 << 32 | 1, 0x100, 0x180),
        ];
        let blocks = [DeviceRange { start: 0x100, end: 0x200 }, DeviceRange { start: 0x200, end: 0x400 }];
        let rows = rows(&sums(&entries), &blocks);
        let facts = |row: &AccessCount| {
            let block = row.block_address.map(|address| address.0);
            (row.kernel_id.0, block, row.address.0, row.span_bytes, row.request_count)
        };
        let expected =
            [(5, Some(0x200), 0x200, 0x100, 4), (5, None, 0x900, 0x80, 2), (6, Some(0x100), 0x100, 0x80, 2)];
        assert_eq!(rows.iter().map(facts).collect::<Vec<_>>(), expected);
        assert_eq!((rows[0].pc_address.0, rows[0].flags, rows[0].space), (0x7f10, 1, 0));
    }

    #[test]
    fn shapes_are_rows_of_their_own() {
        let site = 1 << 63 | 2 << 54 | 1 << 52 | 1 << 48 | 0x7f10;
        // 16 bytes a lane, unit, misaligned, 17 sectors.
        let shape = SHAPE | 16 << 16 | 1 << 8 | 1 << 7 | 0x11;
        let entry =
            |owner| CountEntry { site, owner, requests: 3, shared: 15, lanes: 96, ..CountEntry::default() };
        let sums = sums(&[
            entry(5 << 32 | u64::from(shape)),
            entry(5 << 32 | 1),
            entry(5 << 32 | u64::from(NO_BLOCK)),
        ]);
        let rows = shapes(&sums);
        let facts = |row: &ShapeCount| (row.access_bytes, row.class, row.is_misaligned, row.sectors);
        let expected = (16, LanePattern::Unit, true, 17);
        assert_eq!(rows.iter().map(facts).collect::<Vec<_>>(), [expected]);
        assert_eq!((rows[0].kernel_id.0, rows[0].space, rows[0].line_count), (5, 1, 15));
        assert_eq!(super::rows(&sums, &[]).len(), 2);
    }
}

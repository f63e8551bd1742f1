//! The record of one warp request as the GPU writes it: the payload of access frames in segments.
//!
//! A record is a [`RequestHeader`] header of 32 bytes, followed, where lanes are irregular, by each active lane's signed
//! distance from `address`, lowest lane first: as i32 ([`OFFSETS_32`]) or i64 ([`OFFSETS_64`]), padded to whole
//! slots of 32 bytes. `address` is always that of the lowest-numbered active lane. All little endian.

/// Bytes of a slot: the unit in which the GPU reserves space.
pub const SLOT_BYTES: usize = 32;

/// Flag: the instruction reads.
pub const READ: u8 = 1;
/// Flag: the instruction writes.
pub const WRITE: u8 = 2;
/// Flag: the access is atomic.
pub const ATOMIC: u8 = 4;
/// Flag: the access is a prefetch.
pub const PREFETCH: u8 = 8;

/// Encoding: lane address = `address + stride * (lane - first)`.
pub const REGULAR: u8 = 0;
/// Encoding: i32 distances from `address`.
pub const OFFSETS_32: u8 = 1;
/// Encoding: i64 distances from `address`.
pub const OFFSETS_64: u8 = 2;

/// Space codes of `RequestHeader::space`.
pub const SPACE_GLOBAL: u8 = 0;
/// Device memory read by an asynchronous copy to shared memory.
pub const SPACE_GLOBAL_ASYNC: u8 = 1;
/// Shared memory.
pub const SPACE_SHARED: u8 = 2;
/// Local memory.
pub const SPACE_LOCAL: u8 = 3;

/// Header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The address of the lowest-numbered active lane.
    pub address: u64,
    /// Absolute address of the instruction (48 bits).
    pub pc: u64,
    /// Bytes that each lane accesses.
    pub access_bytes: u8,
    /// READ, WRITE, ATOMIC, PREFETCH.
    pub flags: u8,
    /// Active lanes.
    pub lane_mask: u32,
    /// Bytes from lane to lane; 0 unless regular.
    pub stride: i32,
    /// Linear block index (40 bits).
    pub block: u64,
    /// Warp in the block (0 to 31).
    pub warp: u8,
    /// SPACE_*.
    pub space: u8,
    /// REGULAR, OFFSETS_32, OFFSETS_64.
    pub encoding: u8,
}

impl RequestHeader {
    /// Reads the header at the start of a record.
    ///
    /// Words: 0-1 address; 2 pc low; 3 pc high (16 bits), access_bytes, flags; 4 lane mask; 5 stride;
    /// 6 block low; 7 block high (8 bits), warp, space, encoding.
    #[inline]
    pub fn read(slot: &[u8; SLOT_BYTES]) -> Self {
        let word = |index: usize| {
            u32::from_le_bytes([
                slot[index * 4],
                slot[index * 4 + 1],
                slot[index * 4 + 2],
                slot[index * 4 + 3],
            ])
        };
        Self {
            address: u64::from(word(0)) | u64::from(word(1)) << 32,
            pc: u64::from(word(2)) | u64::from(word(3) & 0xffff) << 32,
            access_bytes: slot[14],
            flags: slot[15],
            lane_mask: word(4),
            stride: word(5).cast_signed(),
            block: u64::from(word(6)) | u64::from(slot[28]) << 32,
            warp: slot[29],
            space: slot[30],
            encoding: slot[31],
        }
    }

    /// The header's bytes. The inverse of [`RequestHeader::read`].
    pub fn write(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&self.address.to_le_bytes());
        slot[8..14].copy_from_slice(&self.pc.to_le_bytes()[..6]);
        slot[14] = self.access_bytes;
        slot[15] = self.flags;
        slot[16..20].copy_from_slice(&self.lane_mask.to_le_bytes());
        slot[20..24].copy_from_slice(&self.stride.to_le_bytes());
        slot[24..29].copy_from_slice(&self.block.to_le_bytes()[..5]);
        slot[29] = self.warp;
        slot[30] = self.space;
        slot[31] = self.encoding;
        slot
    }

    /// Slots of the record, header and distances.
    #[inline]
    pub fn slots(&self) -> usize {
        let width = match self.encoding {
            OFFSETS_32 => 4,
            OFFSETS_64 => 8,
            // Most requests. To count the lanes takes longer than all else here.
            _ => return 1,
        };
        1 + (self.lane_mask.count_ones() as usize * width).div_ceil(SLOT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives() {
        let request = RequestHeader {
            address: 0x7f0e_9880_0004,
            pc: 0x7fff_1234_5670,
            access_bytes: 16,
            flags: READ | ATOMIC,
            lane_mask: 0xffff_fffe,
            stride: -64,
            block: 0xab_0102_0304,
            warp: 31,
            space: SPACE_SHARED,
            encoding: OFFSETS_32,
        };
        assert_eq!(RequestHeader::read(&request.write()), request);
        assert_eq!(request.slots(), 5);
    }
}

//! The hybrid of run lengths and bit-packing, in which levels and positions in a dictionary are written.

/// Values of a bit-packed group.
const GROUP: usize = 8;
/// Most groups behind one header: then it has one byte.
const MAX_GROUPS: u8 = 63;

/// Encodes values of so many bits, up to 32.
pub(super) struct HybridEncoder {
    bytes: Vec<u8>,
    width: u32,
    /// Values that make no group yet.
    pending: [u32; GROUP],
    count: usize,
    /// Groups of the bit-packed run at the end, and where its header is.
    groups: u8,
    header: usize,
}

/// The bits that numbers up to this one need.
pub(super) fn width(most: usize) -> u32 {
    usize::BITS - most.leading_zeros()
}

impl HybridEncoder {
    pub(super) fn new(width: u32) -> Self {
        Self { bytes: Vec::new(), width, pending: [0; GROUP], count: 0, groups: 0, header: 0 }
    }

    /// Adds a value so many times.
    #[inline]
    pub(super) fn put(&mut self, value: u32, times: usize) {
        let mut left = times;
        while left > 0 && (self.count > 0 || left < GROUP) {
            self.pending[self.count] = value;
            self.count += 1;
            left -= 1;
            if self.count == GROUP {
                self.pack();
            }
        }
        if left > 0 {
            self.groups = 0;
            let width = self.width.div_ceil(u8::BITS) as usize;
            put_run(&mut self.bytes, left, value.to_le_bytes().get(..width).unwrap_or_default());
        }
    }

    /// Adds the group to the bit-packed run at the end.
    fn pack(&mut self) {
        if self.groups == 0 || self.groups == MAX_GROUPS {
            self.groups = 0;
            self.header = self.bytes.len();
            self.bytes.push(0);
        }
        self.groups += 1;
        self.bytes[self.header] = self.groups << 1 | 1;
        let (mut word, mut used) = (0_u64, 0);
        for value in self.pending {
            word |= u64::from(value) << used;
            used += self.width;
            while used >= u8::BITS {
                self.bytes.push(word.to_le_bytes()[0]);
                word >>= u8::BITS;
                used -= u8::BITS;
            }
        }
        self.count = 0;
    }

    /// All bytes. A group that is not full is filled up, and readers know how many values there are.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.pending[self.count..].fill(0);
            self.pack();
        }
        self.bytes
    }
}

/// A run of equal values, which are given as whole bytes.
pub(super) fn put_run(bytes: &mut Vec<u8>, rows: usize, value: &[u8]) {
    let mut header = rows << 1;
    while header >= 0x80 {
        bytes.push(u8::try_from(header & 0x7f).unwrap_or(0) | 0x80);
        header >>= 7;
    }
    bytes.push(u8::try_from(header).unwrap_or(0));
    bytes.extend_from_slice(value);
}

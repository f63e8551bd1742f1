//! The 128 bits of an instruction, and the architecture that defines their meaning.

/// Bytes of an instruction.
pub const INSTRUCTION_BYTES: u32 = 16;

/// An instruction's bits: bit 0 is the lowest of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionWord(pub u128);

impl InstructionWord {
    /// The instruction that sixteen bytes hold.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// `width` bits from bit `start` on, up to 64.
    pub const fn bits(self, start: u32, width: u32) -> u64 {
        let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
        #[expect(clippy::cast_possible_truncation, reason = "masked to the width")]
        let low = (self.0 >> start) as u64;
        low & mask
    }

    /// True if a bit is set.
    pub const fn bit(self, position: u32) -> bool {
        self.0 >> position & 1 == 1
    }

    /// Eight bits from bit `start` on.
    pub const fn byte(self, start: u32) -> u8 {
        #[expect(clippy::cast_possible_truncation, reason = "eight bits were requested")]
        let byte = self.bits(start, 8) as u8;
        byte
    }

    /// `width` bits from bit `start` on, as a number in two's complement.
    pub const fn signed(self, start: u32, width: u32) -> i64 {
        let shift = 64 - width;
        self.bits(start, width).cast_signed() << shift >> shift
    }

    /// The operation: bits 0 to 11 (family and form), and bit 91 as bit 12.
    pub const fn opcode(self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "thirteen bits")]
        let opcode = (self.bits(0, 12) | self.bits(91, 1) << 12) as u16;
        opcode
    }

    /// The bits that say what is computed: all but the destination register and the scheduling.
    pub const fn computation(self) -> u128 {
        const DESTINATION: u128 = 0xff << 16;
        const SCHEDULING: u128 = !0 << 105;
        self.0 & !(DESTINATION | SCHEDULING)
    }

    /// The operation's family: bits 0 to 8.
    pub const fn family(self) -> u16 {
        self.opcode() & 0x1ff
    }
}

/// An architecture by its number, such as 90 for sm_90 and sm_90a.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sm(pub u32);

impl Sm {
    /// True if instructions of this architecture are 128 bits in the layout that this crate reads.
    pub const fn is_known(self) -> bool {
        self.0 >= 70 && self.0 <= 121
    }
}

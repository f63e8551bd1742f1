//! The control word: an instruction's scheduling with the scoreboard barriers that it sets or waits for.

use crate::word::InstructionWord;

/// Barriers of the scoreboard, 0 to 5: counters, each in the hands of the compiler.
pub const BARRIERS: u8 = 6;
/// The index that says "no barrier".
const NONE: u8 = 7;

/// The scheduling of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IssueControl {
    /// Cycles until the warp's next instruction may issue, 0 to 15.
    pub stall_cycles: u8,
    /// The bit that hints whether to yield to another warp. As stored, since its polarity is disputed.
    pub yield_hint: bool,
    /// The barrier that is held until the result is written.
    pub write_barrier: Option<u8>,
    /// The barrier that is held until the sources are read.
    pub read_barrier: Option<u8>,
    /// Bit n: the instruction issues only when barrier n is zero.
    pub wait_mask: u8,
    /// Bits of operands in the register cache. Some memory instructions use them as cache hints.
    pub reuse: u8,
}

impl IssueControl {
    /// The control word of an instruction.
    pub const fn from_word(word: InstructionWord) -> Self {
        Self {
            stall_cycles: word.byte(105) & 0xf,
            yield_hint: word.bit(109),
            write_barrier: barrier(word.byte(110) & 7),
            read_barrier: barrier(word.byte(113) & 7),
            wait_mask: word.byte(116) & 0x3f,
            reuse: word.byte(122) & 0xf,
        }
    }
}

const fn barrier(index: u8) -> Option<u8> {
    if index == NONE { None } else { Some(index) }
}

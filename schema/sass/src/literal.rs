//! Operands that are no registers: values in the instruction's bits, and constant banks.

use std::fmt;

use crate::instruction::{ExecutionUnit, SassInstruction};
use crate::word::InstructionWord;

/// The operand of an instruction that is no register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// 32 bits of the instruction: an integer, or two floats of 16 bits.
    Immediate(u32),
    /// A float of 32 bits, or one of 64 bits of which the instruction has the upper half.
    Float(f64),
    /// 64 bits of the instruction, the first source among them.
    Wide(u64),
    /// An offset in a constant bank.
    Constant {
        /// The bank. The parameters of a kernel are in bank 0.
        bank: u8,
        /// Bytes from its start. Where a register is added, from there.
        offset: u16,
    },
}

impl Literal {
    /// The literal of an instruction. Its position is the same in all classes of arithmetic: the form (bits 9 to 11)
    /// decides which of the last two sources it is.
    pub(crate) fn from_instruction(instruction: &SassInstruction) -> Option<Self> {
        let word = instruction.word;
        match instruction.class {
            // LDCU's field begins a bit lower.
            ExecutionUnit::Constant => {
                Some(constant(word, if instruction.mnemonic == Some("LDCU") { 37 } else { 38 }))
            }
            ExecutionUnit::Alu
            | ExecutionUnit::Fma
            | ExecutionUnit::Half
            | ExecutionUnit::Double
            | ExecutionUnit::Special
            | ExecutionUnit::Uniform
                if !has_none(instruction.mnemonic?) =>
            {
                match (word.bits(9, 3), instruction.mnemonic?) {
                    (2, "MOV") => Some(Self::Wide(word.bits(24, 64))),
                    // SEL.64 has its second pair there.
                    (3, "SEL") => None,
                    (2 | 4, name) => Some(immediate(word, name)),
                    (3 | 5, _) => Some(constant(word, 38)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Instructions whose form means something else.
fn has_none(mnemonic: &str) -> bool {
    matches!(
        mnemonic,
        "CS2R" | "S2R" | "S2UR" | "VOTE" | "VOTEU" | "P2R" | "NOP" | "ELECT" | "PLOP3" | "QSPC"
    )
}

fn immediate(word: InstructionWord, mnemonic: &str) -> Literal {
    let bits = u32::try_from(word.bits(32, 32)).unwrap_or_default();
    match mnemonic {
        "FADD" | "FMUL" | "FFMA" | "FSETP" | "FSET" | "FSEL" | "FMNMX" | "MUFU" => {
            Literal::Float(f32::from_bits(bits).into())
        }
        "DADD" | "DMUL" | "DFMA" | "DSETP" => Literal::Float(f64::from_bits(u64::from(bits) << 32)),
        _ => Literal::Immediate(bits),
    }
}

/// The bank is behind the address, which is read from the bit on at which it counts bytes.
fn constant(word: InstructionWord, start: u32) -> Literal {
    let offset = u16::try_from(word.bits(start, 16)).unwrap_or_default();
    Literal::Constant { bank: word.byte(54) & 0x1f, offset }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Immediate(value) => write!(f, "{value:#x}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Wide(value) => write!(f, "{value:#x}"),
            Self::Constant { bank, offset } => write!(f, "c[{bank:#x}][{offset:#x}]"),
        }
    }
}

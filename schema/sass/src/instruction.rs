//! Dependencies of an instruction: its reads, writes, waits and control flow.

use std::fmt;

use crate::control::IssueControl;
use crate::literal::Literal;
use crate::modifiers;
use crate::register::{Register, RegisterFile, Registers};
use crate::word::{InstructionWord, Sm};

/// The handle of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextureHandle {
    /// A word of constant bank 0, by its offset.
    Bank(u32),
    /// In a uniform register.
    Register(Register),
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SassInstruction {
    /// Its bits.
    pub word: InstructionWord,
    /// The architecture that it is of.
    pub sm: Sm,
    /// Its name without modifiers, such as LDG; `None` where the operation is not known, and then it reads and writes
    /// no known register.
    pub mnemonic: Option<&'static str>,
    /// The unit that executes it.
    pub class: ExecutionUnit,
    /// The predicate that lets it execute; `None` where it always does.
    pub guard: Option<Guard>,
    /// Registers that it writes.
    pub writes: Registers,
    /// Registers that it reads, its guard among them.
    pub reads: Registers,
    /// Its memory access, if it has one.
    pub memory: Option<MemoryOperand>,
    /// The control flow after it.
    pub flow: WarpFlow,
    /// Its scheduling.
    pub control: IssueControl,
}

impl SassInstruction {
    /// True if the guard lets it execute always: its writes then replace earlier ones.
    pub const fn is_unconditional(&self) -> bool {
        self.guard.is_none()
    }

    /// Its name with modifiers, as nvdisasm prints it, such as LDG.E.128.CONSTANT. Its opcode where it is not known.
    pub fn full_name(&self) -> String {
        match self.mnemonic {
            Some(name) => name.to_owned() + &modifiers::for_instruction(self),
            None => format!("?{:04x}", self.word.opcode()),
        }
    }

    /// The predicate of lanes from which it computes whether that of any of them is true: VOTE.ANY.
    pub fn any_lane(&self) -> Option<Register> {
        const ANY: u64 = 1;
        const NEGATED: u32 = 90;
        let is_any = matches!(self.mnemonic, Some("VOTE" | "VOTEU")) && self.word.bits(72, 2) == ANY;
        let mut lanes = self.reads.iter();
        let (register, None) = (lanes.next()?, lanes.next()) else { return None };
        (is_any && !self.word.bit(NEGATED) && register.file == RegisterFile::Predicate).then_some(register)
    }

    /// Its wait in addition to the barriers of its wait mask: DEPBAR and WARPGROUP.DEPBAR.
    pub fn barrier_wait(&self) -> Option<BarrierWait> {
        let word = self.word;
        match self.mnemonic? {
            "DEPBAR" => Some(BarrierWait::Scoreboard {
                counted: word.bit(47).then(|| (word.byte(44) & 7, word.byte(38) & 0x3f)),
                empty: word.byte(32) & 0x3f,
            }),
            "WARPGROUP" if word.bits(79, 2) == 2 => {
                Some(BarrierWait::Warpgroup { pending: word.byte(72) & 7 })
            }
            _ => None,
        }
    }

    /// The uniform register with the address of the mbarrier that a copy to shared memory signals: the second one in
    /// a pair whose first holds the shared address (UTMALDG, UBLKCP). `None` for instructions that signal none.
    pub fn copy_mbarrier(&self) -> Option<Register> {
        let copies_in = self.memory.is_some_and(|memory| memory.kind == MemoryEffect::CopyIn);
        let is_bulk = matches!(self.mnemonic, Some("UTMALDG" | "UBLKCP" | "UBLKRED"));
        let first = Register { file: RegisterFile::Uniform, index: self.word.byte(32) };
        let second = Register { index: first.index.checked_add(1)?, ..first };
        (copies_in && is_bulk && self.reads.contains(second)).then_some(second)
    }

    /// The handle of the texture or surface that it accesses. `None` for other instructions, and where the handle is packed
    /// with coordinates.
    pub fn texture_handle(&self) -> Option<TextureHandle> {
        const BANK: u64 = 5;
        const UNIFORM: u64 = 7;
        self.memory.filter(|memory| memory.space == MemorySpace::Texture)?;
        match self.word.bits(9, 3) {
            BANK if self.word.bits(54, 5) == 0 => {
                u32::try_from(4 * self.word.bits(40, 14)).ok().map(TextureHandle::Bank)
            }
            UNIFORM => {
                let handle = self.reads.iter().find(|register| register.file == RegisterFile::Uniform);
                handle.map(TextureHandle::Register)
            }
            _ => None,
        }
    }

    /// The shared address that a copy from device memory fills: a register, and the bytes that are added to it.
    /// `None` for other instructions.
    pub fn copy_destination(&self) -> Option<(Option<Register>, i32)> {
        let memory = self.memory.filter(|memory| memory.kind == MemoryEffect::CopyIn)?;
        match (self.mnemonic?, memory.space) {
            ("LDGSTS", _) => {
                let general = Register { file: RegisterFile::General, index: self.word.byte(16) };
                let offset = i32::try_from(self.word.signed(44, 20)).ok()?;
                Some((Some(general).filter(|register| self.reads.contains(*register)), offset))
            }
            ("UTMALDG" | "UBLKCP", MemorySpace::Global) => {
                Some((Some(Register { file: RegisterFile::Uniform, index: self.word.byte(32) }), 0))
            }
            _ => None,
        }
    }

    /// The registers that say which part of a tensor a copy brings: a coordinate for each dimension of a tensor map, or
    /// the address of a bulk copy. None for other instructions.
    pub fn copy_coordinates(&self) -> impl Iterator<Item = Register> {
        let copies = self.memory.filter(|memory| memory.kind == MemoryEffect::CopyIn);
        let (first, count) = match (self.mnemonic, copies) {
            // Behind the shared address and the mbarrier.
            (Some("UTMALDG"), Some(_)) => {
                (self.word.byte(32).saturating_add(2), (self.word.byte(79) & 7) + 1)
            }
            (Some("UBLKCP"), Some(MemoryOperand { space: MemorySpace::Global, .. })) => {
                (self.word.byte(24), 2)
            }
            _ => (0, 0),
        };
        (first..first.saturating_add(count)).map(|index| Register { file: RegisterFile::Uniform, index })
    }

    /// The dimension of the grid whose index it reads, from 0: S2R and S2UR of it. An error for other values that differ
    /// between blocks. `None` for all other instructions.
    pub fn block_index(&self) -> Option<Result<u8, OtherSpecialValue>> {
        const FIRST_INDEX: u8 = 0x25;
        /// The thread's index, and its lane in the warp: equal in each block.
        const IN_BLOCK: [u8; 4] = [0x00, 0x21, 0x22, 0x23];
        if !matches!(self.mnemonic, Some("S2R" | "S2UR")) {
            return None;
        }
        match self.word.byte(72) {
            name if IN_BLOCK.contains(&name) => None,
            name => Some(match name.wrapping_sub(FIRST_INDEX) {
                dimension @ 0..3 => Ok(dimension),
                _ => Err(OtherSpecialValue),
            }),
        }
    }

    /// Its operand that is no register, if it has one.
    pub fn literal(&self) -> Option<Literal> {
        Literal::from_instruction(self)
    }

    /// Signed bytes from the next instruction to the target of a branch or call. `None` where a register says.
    pub fn displacement(&self) -> Option<i64> {
        match self.flow {
            WarpFlow::Branch { displacement, .. } => Some(displacement),
            WarpFlow::Call { displacement, .. } => displacement,
            _ => None,
        }
    }

    /// True if a warp arrives at an mbarrier by it: it changes one, and does not give it its count (SYNCS.EXCH).
    pub fn arrives_at_mbarrier(&self) -> bool {
        const EXCHANGE: u64 = 0x1b2;
        self.memory.is_some_and(|memory| memory.kind == MemoryEffect::Atomic)
            && matches!(self.mnemonic, Some("SYNCS" | "ARRIVES" | "UTCBAR"))
            && self.word.bits(0, 9) != EXCHANGE
    }

    /// True if a warp says by it how many bytes copies bring to an mbarrier: an arrival with a count of bytes.
    pub fn expects_bytes(&self) -> bool {
        /// Bit of `.A1T0`: one arrival, and no bytes.
        const NO_BYTES: u32 = 84;
        self.arrives_at_mbarrier() && self.mnemonic == Some("SYNCS") && !self.word.bit(NO_BYTES)
    }
}

/// A value of a special register that may differ between blocks, and is no index of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherSpecialValue;

/// Waits that an instruction is there for. LDGDEPBAR closes the group of copies (LDGSTS) before it, and counts one up
/// on its write barrier until they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierWait {
    /// DEPBAR waits for barriers of the scoreboard.
    Scoreboard {
        /// DEPBAR.LE: a barrier, and the count that it may still have: all but so many of the newest are done.
        counted: Option<(u8, u8)>,
        /// Bit n: barrier n must be zero.
        empty: u8,
    },
    /// WARPGROUP.DEPBAR waits for groups of matrix multiplications.
    Warpgroup {
        /// The groups that may still run: the newest.
        pending: u8,
    },
}

/// `@!P0 LDG.E.128 R4-R7 <- R2-R3 UR4-UR5`: name with modifiers, registers written and read.
impl fmt::Display for SassInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(guard) = self.guard {
            write!(f, "{guard} ")?;
        }
        f.write_str(&self.full_name())?;
        if !self.writes.is_empty() {
            write!(f, " {}", self.writes)?;
        }
        let guard = self.guard.map(|guard| guard.register).into_iter().collect();
        let reads = self.reads.without(&guard);
        let literal = self.literal().map(|literal| literal.to_string());
        let offset =
            self.memory.map(|memory| memory.offset).filter(|offset| *offset != 0 && literal.is_none());
        if !reads.is_empty() || literal.is_some() || offset.is_some() {
            f.write_str(" <-")?;
        }
        if !reads.is_empty() {
            write!(f, " {reads}")?;
        }
        if let Some(literal) = literal {
            write!(f, " {literal}")?;
        }
        if let Some(offset) = offset {
            let sign = if offset < 0 { '-' } else { '+' };
            write!(f, " {sign}{:#x}", offset.unsigned_abs())?;
        }
        Ok(())
    }
}

/// A predicate before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// P or UP. Never PT or UPT without a negation.
    pub register: Register,
    /// True if the instruction executes where the predicate is false.
    pub negated: bool,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}{}", if self.negated { "!" } else { "" }, self.register)
    }
}

/// The unit that executes an instruction: a function of its operation's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExecutionUnit {
    /// Integers, logic, comparisons, moves.
    Alu,
    /// Multiplications and additions of 32 bits.
    Fma,
    /// Arithmetic of 16 bits.
    Half,
    /// Arithmetic of 64-bit floats.
    Double,
    /// Matrix multiplications.
    Tensor,
    /// Special functions, conversions, special registers, reductions over a warp.
    Special,
    /// The uniform datapath.
    Uniform,
    /// Loads of constants.
    Constant,
    /// Loads, stores and atomics of device memory by global or generic addresses.
    Global,
    /// Loads and stores of local memory.
    Local,
    /// Loads, stores and atomics of shared memory, loads and stores of tensor memory.
    Shared,
    /// Textures and surfaces.
    Texture,
    /// Asynchronous copies: LDGSTS, tensor-map and bulk copies.
    Async,
    /// Exchanges between the lanes of a warp.
    Shuffle,
    /// Barriers, fences, mbarriers, waits.
    Sync,
    /// Branches, calls, convergence.
    Control,
    /// NOP and the like.
    Misc,
    /// An operation that is not known.
    Unknown,
}

impl ExecutionUnit {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alu => "alu",
            Self::Fma => "fma",
            Self::Half => "half",
            Self::Double => "double",
            Self::Tensor => "tensor",
            Self::Special => "special",
            Self::Uniform => "uniform",
            Self::Constant => "constant",
            Self::Global => "global",
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Texture => "texture",
            Self::Async => "async",
            Self::Shuffle => "shuffle",
            Self::Sync => "sync",
            Self::Control => "control",
            Self::Misc => "misc",
            Self::Unknown => "unknown",
        }
    }
}

/// A memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryOperand {
    /// The address space.
    pub space: MemorySpace,
    /// The kind of access.
    pub kind: MemoryEffect,
    /// Bytes per lane, 0 where the instruction does not encode it.
    pub bytes: u32,
    /// The first general register of the address. `None` where the address has none. LDGSTS: of the address in device
    /// memory. SYNCS and ARRIVES: of the mbarrier's address.
    pub address: Option<Register>,
    /// The first uniform register of the address, or of the descriptor of an LDG. For a tensor-map copy (UTMALDG,
    /// UTMASTG, UTMAREDG, UTMAPF) the tensor map. For a bulk copy (UBLKCP, UBLKRED, UBLKPF) the address in device
    /// memory. For SYNCS, ARRIVES and UTCBAR the mbarrier's address. A copy to shared memory has the pair of its shared
    /// address and its mbarrier's at bit 32: see [`SassInstruction::copy_mbarrier`].
    pub uniform: Option<Register>,
    /// Offset added to the address, in bytes. For LDGSTS, added to the address in device memory.
    pub offset: i32,
    /// True if it asks L2, whatever L1 holds: a load that must see stores of other multiprocessors, an atomic, a copy
    /// that says so.
    pub is_past_l1: bool,
}

/// The memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySpace {
    /// Device memory.
    Global,
    /// Device, local or shared memory, as the address says.
    Generic,
    /// A lane's own memory.
    Local,
    /// A block's memory.
    Shared,
    /// Constant banks.
    Constant,
    /// Textures and surfaces.
    Texture,
    /// The tensor memory of sm_100.
    TensorMemory,
}

impl MemorySpace {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Generic => "generic",
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Constant => "constant",
            Self::Texture => "texture",
            Self::TensorMemory => "tensor memory",
        }
    }
}

/// The effect of an instruction on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryEffect {
    /// Reads into registers.
    Read,
    /// Writes from registers.
    Write,
    /// Reads and writes, and gives the old value.
    Atomic,
    /// Reads and writes, and gives nothing.
    Reduction,
    /// Copies from device to shared memory: LDGSTS, UTMALDG, UBLKCP.
    CopyIn,
    /// Copies from shared to device memory: UTMASTG, UBLKCP.
    CopyOut,
    /// Brings data nearer, and gives nothing.
    Prefetch,
}

impl MemoryEffect {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
            Self::Reduction => "reduction",
            Self::CopyIn => "copy in",
            Self::CopyOut => "copy out",
            Self::Prefetch => "prefetch",
        }
    }
}

/// The control flow of a warp after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarpFlow {
    /// To the next instruction.
    Next,
    /// To `displacement` bytes from the next instruction. To that too, where it is conditional.
    Branch {
        /// Signed bytes from the next instruction.
        displacement: i64,
        /// True if the branch may not be taken: guarded, with a second predicate, or by divergence.
        conditional: bool,
    },
    /// To where a register says (BRX, JMX, BRXU).
    IndirectBranch {
        /// True if it may not be taken.
        conditional: bool,
    },
    /// Into a function, and back behind the call.
    Call {
        /// Signed bytes from the next instruction; `None` where a register says.
        displacement: Option<i64>,
        /// True if it may not be made.
        conditional: bool,
    },
    /// Back to the caller.
    Return {
        /// True if it may not happen.
        conditional: bool,
    },
    /// The warp's end (EXIT, KILL), for the lanes that execute it.
    Exit {
        /// True if some lanes may continue.
        conditional: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;

    /// Words that ptxas wrote.
    #[track_caller]
    fn check(sm: u32, low: u64, high: u64, expected: Option<TextureHandle>) {
        let instruction = decode(InstructionWord(u128::from(high) << 64 | u128::from(low)), Sm(sm));
        assert_eq!(instruction.texture_handle(), expected, "{}", instruction.full_name());
    }

    #[test]
    fn handles_of_textures_are_in_a_bank_or_a_uniform_register() {
        let uniform = |index| Some(TextureHandle::Register(Register { file: RegisterFile::Uniform, index }));
        // TEX.SCR.LL RZ, R0, R4, R11, 0x0, 0x58, 2D, 0x1
        check(80, 0x3000_580b_0400_7b60, 0x101f_4200_019e_01ff, Some(TextureHandle::Bank(0x160)));
        // SULD.D.BA.2D.STRONG.SM.TRAP R8, [R12], 0x0, 0x5c
        check(80, 0x7000_5c00_0c08_7b99, 0x000f_6200_001e_a900, Some(TextureHandle::Bank(0x170)));
        // TEX.SCR.B.LL RZ, R9, R4, R10, 2D, 0x1
        check(80, 0x3800_000a_0409_7361, 0x004f_4200_019e_01ff, None);
        // TEX.LL RZ, R0, R6, R12, UR4, 0x0, 2D, 0x1
        check(90, 0x2000_040c_0600_7f60, 0x000f_6200_099e_01ff, uniform(4));
        // SULD.D.BA.2D.STRONG.SM.TRAP R10, [R2], UR10, 0x0
        check(90, 0x7000_0a00_020a_7f99, 0x000f_6600_081e_a900, uniform(10));
    }
}

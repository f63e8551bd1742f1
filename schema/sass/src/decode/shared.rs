//! Loads, stores and atomics of shared memory, loads and stores of tensor memory.

use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace};
use crate::word::InstructionWord;

use super::atomic;
use super::family::{OpFamily, family};
use super::memory::{LaneWidth, OFFSET, access};
use super::operand::{
    A, D, FamilyOperand, OperandCondition, OperandRole, P, RegisterCount, read, uniform_read,
};

const SIZE: RegisterCount = RegisterCount::Size(73);
const ADDRESS: FamilyOperand = A.role(OperandRole::Address);
const BASE_OF_LOAD: FamilyOperand = uniform_read(32).role(OperandRole::Base).when(OperandCondition::Set(91));
const BASE_OF_STORE: FamilyOperand = uniform_read(64).role(OperandRole::Base).when(OperandCondition::Set(91));

const fn shared(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
    bytes: LaneWidth,
) -> OpFamily {
    family(code, name, ExecutionUnit::Shared, operands).memory(access(
        MemorySpace::Shared,
        kind,
        bytes,
        OFFSET,
    ))
}

const BYTES: LaneWidth = LaneWidth::Size(73);
/// Matrices of LDSM and STSM: one, two or four, a register each.
const MATRICES: RegisterCount = RegisterCount::Rule(matrices);

fn matrices(word: InstructionWord) -> u16 {
    // Matrices of 16x16 take two registers each.
    let each = if word.bits(78, 3) == 4 { 2 } else { 1 };
    each << word.bits(72, 2).min(2)
}

fn matrix_bytes(word: InstructionWord) -> u32 {
    u32::from(matrices(word)) * 4
}

pub(super) static FAMILIES: &[OpFamily] = &[
    shared(0x184, "LDS", &[D.width(SIZE), ADDRESS, BASE_OF_LOAD], MemoryEffect::Read, BYTES),
    shared(0x188, "STS", &[ADDRESS, read(32).width(SIZE), BASE_OF_STORE], MemoryEffect::Write, BYTES),
    shared(
        0x03b,
        "LDSM",
        &[D.width(MATRICES), ADDRESS, BASE_OF_LOAD],
        MemoryEffect::Read,
        LaneWidth::Rule(matrix_bytes),
    ),
    shared(
        0x044,
        "STSM",
        &[ADDRESS, read(32).width(MATRICES), BASE_OF_STORE],
        MemoryEffect::Write,
        LaneWidth::Rule(matrix_bytes),
    ),
    shared(0x18c, "ATOMS", &[D.wide(2), ADDRESS, BASE_OF_STORE], MemoryEffect::Atomic, LaneWidth::Fixed(8))
        .forms(1 << 7),
    shared(0x18c, "ATOMS", &COMBINE_EARLY, MemoryEffect::Atomic, EARLY_BYTES).until(89),
    shared(0x18c, "ATOMS", &COMBINE_LATE, MemoryEffect::Atomic, LATE_BYTES),
    shared(0x18d, "ATOMS", &TRY_SWAP, MemoryEffect::Atomic, LATE_BYTES).forms(1 << 2),
    shared(0x18d, "ATOMS", &SWAP_EARLY, MemoryEffect::Atomic, EARLY_BYTES).until(89),
    shared(0x18d, "ATOMS", &SWAP_LATE, MemoryEffect::Atomic, LATE_BYTES),
    tensor_memory(
        0x1ed,
        "STTM",
        &[uniform_read(64).role(OperandRole::Base), read(32).width(LANES)],
        MemoryEffect::Write,
    ),
    tensor_memory(
        0x1ee,
        "LDTM",
        &[D.width(LANES), uniform_read(32).role(OperandRole::Base)],
        MemoryEffect::Read,
    ),
];

const EARLY: RegisterCount = RegisterCount::Rule(atomic::early);
const LATE: RegisterCount = RegisterCount::Rule(atomic::late);
const EARLY_BYTES: LaneWidth = LaneWidth::Rule(atomic::early_bytes);
const LATE_BYTES: LaneWidth = LaneWidth::Rule(atomic::late_bytes);

const fn combine(width: RegisterCount) -> [FamilyOperand; 4] {
    [D.width(width), ADDRESS, read(32).width(width), BASE_OF_STORE]
}

const fn swap(result: FamilyOperand, width: RegisterCount) -> [FamilyOperand; 4] {
    [result, ADDRESS, read(32).width(width), read(64).width(width)]
}

static COMBINE_EARLY: [FamilyOperand; 4] = combine(EARLY);
static COMBINE_LATE: [FamilyOperand; 4] = combine(LATE);
static SWAP_EARLY: [FamilyOperand; 4] = swap(D.width(EARLY), EARLY);
static SWAP_LATE: [FamilyOperand; 4] = swap(D.width(LATE), LATE);
/// True if it swapped.
static TRY_SWAP: [FamilyOperand; 4] = swap(P, LATE);

/// Registers of LDTM and STTM: a power of two.
const LANES: RegisterCount = RegisterCount::Rule(lanes);

fn lanes(word: InstructionWord) -> u16 {
    // Rows of 128 and 256 bits take two and four registers. A whole row of lanes and halves of it take one.
    let row = match (word.bit(87), word.bits(81, 2)) {
        (false, 0) => 2,
        (false, 1) => 4,
        _ => 1,
    };
    (row << word.bits(83, 3)).min(128)
}

const fn tensor_memory(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
) -> OpFamily {
    let rule = access(MemorySpace::TensorMemory, kind, LaneWidth::Rule(lane_bytes), OFFSET);
    family(code, name, ExecutionUnit::Shared, operands).memory(rule)
}

fn lane_bytes(word: InstructionWord) -> u32 {
    u32::from(lanes(word)) * 4
}

//! Loads, stores and atomics of device, local and generic memory, and loads of constants.

use super::atomic;
use super::family::{OpFamily, family};
use super::memory::{AddressOffset, LaneWidth, OFFSET, access};
use super::operand::{
    A, D, FamilyOperand, OperandCondition, OperandRole, P, RegisterCount, UA, UD, flipped_read,
    predicate_write, read, uniform_read, write,
};
use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace};
use crate::word::InstructionWord;

const SIZE: RegisterCount = RegisterCount::Size(73);
const BYTES: LaneWidth = LaneWidth::Size(73);
/// An instruction with a descriptor, or with a uniform register added to the address.
const UNIFORM: OperandCondition = OperandCondition::Set(91);

/// The address of a load: a pair where bit 72 says `.E`, where bit 90 does if there is a descriptor.
const ADDRESS: FamilyOperand = A.role(OperandRole::Address).width(RegisterCount::Rule(address_width));
const BASE_OF_LOAD: FamilyOperand = uniform_read(32).wide(2).role(OperandRole::Base).when(UNIFORM);
const BASE_OF_STORE: FamilyOperand = uniform_read(64).wide(2).role(OperandRole::Base).when(UNIFORM);
/// An offset or a window in a local access.
const LOCAL_ADDRESS: FamilyOperand = A.role(OperandRole::Address);

const BASE_OF_LOCAL_LOAD: FamilyOperand = uniform_read(32).role(OperandRole::Base).when(UNIFORM);
const BASE_OF_LOCAL_STORE: FamilyOperand = uniform_read(64).role(OperandRole::Base).when(UNIFORM);

fn address_width(word: InstructionWord) -> u16 {
    let wide = if word.bit(91) { word.bit(90) } else { word.bit(72) };
    1 + u16::from(wide)
}

const fn global(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
) -> OpFamily {
    family(code, name, ExecutionUnit::Global, operands).memory(access(
        MemorySpace::Global,
        kind,
        BYTES,
        OFFSET,
    ))
}

const fn generic(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
) -> OpFamily {
    family(code, name, ExecutionUnit::Global, operands).memory(access(
        MemorySpace::Generic,
        kind,
        BYTES,
        AddressOffset::Generic,
    ))
}

const fn local(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
) -> OpFamily {
    family(code, name, ExecutionUnit::Local, operands).memory(access(MemorySpace::Local, kind, BYTES, OFFSET))
}

const fn constant(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    let rule = access(MemorySpace::Constant, MemoryEffect::Read, BYTES, AddressOffset::Signed(38, 16));
    family(code, name, ExecutionUnit::Constant, operands).memory(rule)
}

/// Atomics of floats since sm_90: the type takes the place of the size, and `.E` is by bit 72 alone.
const ATOMIC_ADDRESS: FamilyOperand = A.role(OperandRole::Address).width(RegisterCount::PairIf(72));
const DATA: FamilyOperand = D.width(SIZE);
const STORED: FamilyOperand = read(32).width(SIZE);

/// A type of atomics: registers and bytes.
#[derive(Clone, Copy)]
struct AtomicType {
    width: RegisterCount,
    bytes: LaneWidth,
}

const EARLY: AtomicType =
    AtomicType { width: RegisterCount::Rule(atomic::early), bytes: LaneWidth::Rule(atomic::early_bytes) };
const LATE: AtomicType =
    AtomicType { width: RegisterCount::Rule(atomic::late), bytes: LaneWidth::Rule(atomic::late_bytes) };
const FLOATS: AtomicType =
    AtomicType { width: RegisterCount::Rule(atomic::floats), bytes: LaneWidth::Rule(atomic::floats_bytes) };
const MULTICAST: AtomicType = AtomicType {
    width: RegisterCount::Rule(atomic::multicast),
    bytes: LaneWidth::Rule(atomic::multicast_bytes),
};

/// The old value, and the one that is combined with it.
const fn combine(width: RegisterCount) -> [FamilyOperand; 5] {
    [P, D.width(width), ATOMIC_ADDRESS, read(32).width(width), BASE_OF_STORE]
}

/// The old value, the one that it is compared with, and the one that is stored then.
const fn swap(width: RegisterCount) -> [FamilyOperand; 5] {
    [P, D.width(width), ATOMIC_ADDRESS, read(32).width(width), read(64).width(width)]
}

/// The operand that is combined. There is no result.
const fn reduce(width: RegisterCount) -> [FamilyOperand; 3] {
    [ADDRESS, read(32).width(width), BASE_OF_STORE]
}

const fn multicast(width: RegisterCount) -> [FamilyOperand; 3] {
    [D.width(width), A.wide(2).role(OperandRole::Address), BASE_OF_STORE]
}

static COMBINE_EARLY: [FamilyOperand; 5] = combine(EARLY.width);
static COMBINE_LATE: [FamilyOperand; 5] = combine(LATE.width);
static COMBINE_FLOATS: [FamilyOperand; 5] = combine(FLOATS.width);
static SWAP_EARLY: [FamilyOperand; 5] = swap(EARLY.width);
static SWAP_LATE: [FamilyOperand; 5] = swap(LATE.width);
static REDUCE_EARLY: [FamilyOperand; 3] = reduce(EARLY.width);
static REDUCE_LATE: [FamilyOperand; 3] = reduce(LATE.width);
static REDUCE_FLOATS: [FamilyOperand; 3] = reduce(FLOATS.width);
static MULTICAST_LATE: [FamilyOperand; 3] = multicast(LATE.width);
static MULTICAST_FLOATS: [FamilyOperand; 3] = multicast(MULTICAST.width);

const fn atomic(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
    bytes: LaneWidth,
) -> OpFamily {
    let space =
        if matches!(code, 0x18a | 0x18b | 0x1a2) { MemorySpace::Generic } else { MemorySpace::Global };
    let offset = if matches!(code, 0x18a | 0x1a2 | 0x1a3 | 0x1a8) { AddressOffset::Combined } else { OFFSET };
    family(code, name, ExecutionUnit::Global, operands).memory(access(space, kind, bytes, offset))
}

pub(super) static FAMILIES: &[OpFamily] =
    &[
        atomic(0x18a, "ATOM", &COMBINE_EARLY, MemoryEffect::Atomic, EARLY.bytes).until(89),
        atomic(0x18a, "ATOM", &COMBINE_LATE, MemoryEffect::Atomic, LATE.bytes),
        atomic(0x18b, "ATOM", &SWAP_EARLY, MemoryEffect::Atomic, EARLY.bytes).until(89),
        atomic(0x18b, "ATOM", &SWAP_LATE, MemoryEffect::Atomic, LATE.bytes),
        atomic(0x18e, "RED", &REDUCE_EARLY, MemoryEffect::Reduction, EARLY.bytes).until(89),
        atomic(0x18e, "REDG", &REDUCE_LATE, MemoryEffect::Reduction, LATE.bytes),
        atomic(0x1a2, "ATOM", &COMBINE_FLOATS, MemoryEffect::Atomic, FLOATS.bytes),
        atomic(0x1a3, "ATOMG", &COMBINE_FLOATS, MemoryEffect::Atomic, FLOATS.bytes),
        atomic(0x1a4, "LDGMC", &MULTICAST_LATE, MemoryEffect::Read, LATE.bytes),
        atomic(0x1a5, "LDGMC", &MULTICAST_FLOATS, MemoryEffect::Read, MULTICAST.bytes),
        atomic(0x1a6, "REDG", &REDUCE_FLOATS, MemoryEffect::Reduction, FLOATS.bytes),
        atomic(0x1a8, "ATOMG", &COMBINE_EARLY, MemoryEffect::Atomic, EARLY.bytes).until(89),
        atomic(0x1a8, "ATOMG", &COMBINE_LATE, MemoryEffect::Atomic, LATE.bytes),
        atomic(0x1a9, "ATOMG", &SWAP_EARLY, MemoryEffect::Atomic, EARLY.bytes).until(89),
        atomic(0x1a9, "ATOMG", &SWAP_LATE, MemoryEffect::Atomic, LATE.bytes),
        generic(0x180, "LD", &[DATA, ADDRESS, BASE_OF_LOAD], MemoryEffect::Read),
        global(
            0x181,
            "LDG",
            &[DATA, predicate_write(81), ADDRESS, BASE_OF_LOAD, flipped_read(64)],
            MemoryEffect::Read,
        ),
        // 256 bits in two groups of registers.
        family(
            0x17e,
            "LDG",
            ExecutionUnit::Global,
            &[D.wide(4), write(64).wide(4), A.wide(2).role(OperandRole::Address), BASE_OF_LOAD],
        )
        .memory(access(
            MemorySpace::Global,
            MemoryEffect::Read,
            LaneWidth::Fixed(32),
            AddressOffset::Wide(40, 17),
        )),
        family(
            0x17f,
            "STG",
            ExecutionUnit::Global,
            &[
                A.wide(2).role(OperandRole::Address),
                read(32).wide(4),
                D.wide(4).role(OperandRole::Read),
                BASE_OF_STORE,
            ],
        )
        .memory(access(
            MemorySpace::Global,
            MemoryEffect::Write,
            LaneWidth::Fixed(32),
            AddressOffset::Wide(40, 19),
        )),
        constant(0x182, "LDC", &[DATA, LOCAL_ADDRESS]),
        local(0x183, "LDL", &[DATA, LOCAL_ADDRESS, BASE_OF_LOCAL_LOAD], MemoryEffect::Read),
        generic(0x185, "ST", &[ADDRESS, read(64).width(SIZE)], MemoryEffect::Write).forms(1 << 1),
        generic(0x185, "ST", &[ADDRESS, STORED, BASE_OF_STORE], MemoryEffect::Write),
        global(0x186, "STG", &[ADDRESS, STORED, BASE_OF_STORE], MemoryEffect::Write),
        local(0x187, "STL", &[LOCAL_ADDRESS, STORED, BASE_OF_LOCAL_STORE], MemoryEffect::Write),
        constant(0x0b9, "ULDC", &[UD.width(SIZE)]).uniform_guard(),
        constant(0x0bb, "ULDC", &[UD.width(SIZE), UA.role(OperandRole::Base)]).uniform_guard(),
        constant(0x1ac, "LDCU", &[UD.width(SIZE), UA.role(OperandRole::Base)])
            .uniform_guard()
            .memory(access(MemorySpace::Constant, MemoryEffect::Read, BYTES, AddressOffset::Signed(37, 17))),
    ];

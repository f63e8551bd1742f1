//! Loads, stores and atomics of device, local and generic memory, and loads of constants.

use super::atomic;
use super::family::{Family, family};
use super::memory::{Bytes, OFFSET, Offset, access};
use super::operand::{
    A, D, Operand, P, Role, UA, UD, When, Width, flipped_read, predicate_write, read, uniform_read, write,
};
use crate::instruction::{Access, Class, Space};
use crate::word::Word;

const SIZE: Width = Width::Size(73);
const BYTES: Bytes = Bytes::Size(73);
/// An instruction with a descriptor, or with a uniform register added to the address.
const UNIFORM: When = When::Set(91);

/// The address of a load: a pair if bit 72 is set (`.E`), or bit 90 with a descriptor.
const ADDRESS: Operand = A.role(Role::Address).width(Width::Rule(address_width));
const BASE_OF_LOAD: Operand = uniform_read(32).wide(2).role(Role::Base).when(UNIFORM);
const BASE_OF_STORE: Operand = uniform_read(64).wide(2).role(Role::Base).when(UNIFORM);
/// An offset or a window in a local access.
const LOCAL_ADDRESS: Operand = A.role(Role::Address);

const BASE_OF_LOCAL_LOAD: Operand = uniform_read(32).role(Role::Base).when(UNIFORM);
const BASE_OF_LOCAL_STORE: Operand = uniform_read(64).role(Role::Base).when(UNIFORM);

fn address_width(word: Word) -> u16 {
    let wide = if word.bit(91) { word.bit(90) } else { word.bit(72) };
    1 + u16::from(wide)
}

const fn global(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    family(code, name, Class::Global, operands).memory(access(Space::Global, kind, BYTES, OFFSET))
}

const fn generic(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    family(code, name, Class::Global, operands).memory(access(Space::Generic, kind, BYTES, Offset::Generic))
}

const fn local(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    family(code, name, Class::Local, operands).memory(access(Space::Local, kind, BYTES, OFFSET))
}

const fn constant(code: u16, name: &'static str, operands: &'static [Operand]) -> Family {
    let rule = access(Space::Constant, Access::Read, BYTES, Offset::Signed(38, 16));
    family(code, name, Class::Constant, operands).memory(rule)
}

/// Atomics of floats since sm_90: the type replaces the size, and `.E` is bit 72 alone.
const ATOMIC_ADDRESS: Operand = A.role(Role::Address).width(Width::PairIf(72));
const DATA: Operand = D.width(SIZE);
const STORED: Operand = read(32).width(SIZE);

/// A type of atomics: registers and bytes.
#[derive(Clone, Copy)]
struct Type {
    width: Width,
    bytes: Bytes,
}

const EARLY: Type = Type { width: Width::Rule(atomic::early), bytes: Bytes::Rule(atomic::early_bytes) };
const LATE: Type = Type { width: Width::Rule(atomic::late), bytes: Bytes::Rule(atomic::late_bytes) };
const FLOATS: Type = Type { width: Width::Rule(atomic::floats), bytes: Bytes::Rule(atomic::floats_bytes) };
const MULTICAST: Type =
    Type { width: Width::Rule(atomic::multicast), bytes: Bytes::Rule(atomic::multicast_bytes) };

/// The old value, and the value to combine with it.
const fn combine(width: Width) -> [Operand; 5] {
    [P, D.width(width), ATOMIC_ADDRESS, read(32).width(width), BASE_OF_STORE]
}

/// The old value, the value to compare, and the value to store.
const fn swap(width: Width) -> [Operand; 5] {
    [P, D.width(width), ATOMIC_ADDRESS, read(32).width(width), read(64).width(width)]
}

/// The combined value, without a result.
const fn reduce(width: Width) -> [Operand; 3] {
    [ADDRESS, read(32).width(width), BASE_OF_STORE]
}

const fn multicast(width: Width) -> [Operand; 3] {
    [D.width(width), A.wide(2).role(Role::Address), BASE_OF_STORE]
}

static COMBINE_EARLY: [Operand; 5] = combine(EARLY.width);
static COMBINE_LATE: [Operand; 5] = combine(LATE.width);
static COMBINE_FLOATS: [Operand; 5] = combine(FLOATS.width);
static SWAP_EARLY: [Operand; 5] = swap(EARLY.width);
static SWAP_LATE: [Operand; 5] = swap(LATE.width);
static REDUCE_EARLY: [Operand; 3] = reduce(EARLY.width);
static REDUCE_LATE: [Operand; 3] = reduce(LATE.width);
static REDUCE_FLOATS: [Operand; 3] = reduce(FLOATS.width);
static MULTICAST_LATE: [Operand; 3] = multicast(LATE.width);
static MULTICAST_FLOATS: [Operand; 3] = multicast(MULTICAST.width);

const fn atomic(
    code: u16,
    name: &'static str,
    operands: &'static [Operand],
    kind: Access,
    bytes: Bytes,
) -> Family {
    let space = if matches!(code, 0x18a | 0x18b | 0x1a2) { Space::Generic } else { Space::Global };
    let offset = if matches!(code, 0x18a | 0x1a2 | 0x1a3 | 0x1a8) { Offset::Combined } else { OFFSET };
    family(code, name, Class::Global, operands).memory(access(space, kind, bytes, offset))
}

pub(super) static FAMILIES: &[Family] = &[
    atomic(0x18a, "ATOM", &COMBINE_EARLY, Access::Atomic, EARLY.bytes).until(89),
    atomic(0x18a, "ATOM", &COMBINE_LATE, Access::Atomic, LATE.bytes),
    atomic(0x18b, "ATOM", &SWAP_EARLY, Access::Atomic, EARLY.bytes).until(89),
    atomic(0x18b, "ATOM", &SWAP_LATE, Access::Atomic, LATE.bytes),
    atomic(0x18e, "RED", &REDUCE_EARLY, Access::Reduction, EARLY.bytes).until(89),
    atomic(0x18e, "REDG", &REDUCE_LATE, Access::Reduction, LATE.bytes),
    atomic(0x1a2, "ATOM", &COMBINE_FLOATS, Access::Atomic, FLOATS.bytes),
    atomic(0x1a3, "ATOMG", &COMBINE_FLOATS, Access::Atomic, FLOATS.bytes),
    atomic(0x1a4, "LDGMC", &MULTICAST_LATE, Access::Read, LATE.bytes),
    atomic(0x1a5, "LDGMC", &MULTICAST_FLOATS, Access::Read, MULTICAST.bytes),
    atomic(0x1a6, "REDG", &REDUCE_FLOATS, Access::Reduction, FLOATS.bytes),
    atomic(0x1a8, "ATOMG", &COMBINE_EARLY, Access::Atomic, EARLY.bytes).until(89),
    atomic(0x1a8, "ATOMG", &COMBINE_LATE, Access::Atomic, LATE.bytes),
    atomic(0x1a9, "ATOMG", &SWAP_EARLY, Access::Atomic, EARLY.bytes).until(89),
    atomic(0x1a9, "ATOMG", &SWAP_LATE, Access::Atomic, LATE.bytes),
    generic(0x180, "LD", &[DATA, ADDRESS, BASE_OF_LOAD], Access::Read),
    global(0x181, "LDG", &[DATA, predicate_write(81), ADDRESS, BASE_OF_LOAD, flipped_read(64)], Access::Read),
    // 256 bits in two groups of registers.
    family(
        0x17e,
        "LDG",
        Class::Global,
        &[D.wide(4), write(64).wide(4), A.wide(2).role(Role::Address), BASE_OF_LOAD],
    )
    .memory(access(Space::Global, Access::Read, Bytes::Fixed(32), Offset::Wide(40, 17))),
    family(
        0x17f,
        "STG",
        Class::Global,
        &[A.wide(2).role(Role::Address), read(32).wide(4), D.wide(4).role(Role::Read), BASE_OF_STORE],
    )
    .memory(access(Space::Global, Access::Write, Bytes::Fixed(32), Offset::Wide(40, 19))),
    constant(0x182, "LDC", &[DATA, LOCAL_ADDRESS]),
    local(0x183, "LDL", &[DATA, LOCAL_ADDRESS, BASE_OF_LOCAL_LOAD], Access::Read),
    generic(0x185, "ST", &[ADDRESS, read(64).width(SIZE)], Access::Write).forms(1 << 1),
    generic(0x185, "ST", &[ADDRESS, STORED, BASE_OF_STORE], Access::Write),
    global(0x186, "STG", &[ADDRESS, STORED, BASE_OF_STORE], Access::Write),
    local(0x187, "STL", &[LOCAL_ADDRESS, STORED, BASE_OF_LOCAL_STORE], Access::Write),
    constant(0x0b9, "ULDC", &[UD.width(SIZE)]).uniform_guard(),
    constant(0x0bb, "ULDC", &[UD.width(SIZE), UA.role(Role::Base)]).uniform_guard(),
    constant(0x1ac, "LDCU", &[UD.width(SIZE), UA.role(Role::Base)]).uniform_guard().memory(access(
        Space::Constant,
        Access::Read,
        BYTES,
        Offset::Signed(37, 17),
    )),
];

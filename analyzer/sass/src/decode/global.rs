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

/// The address of a load: a pair where bit 72 says `.E`, where bit 90 does if there is a descriptor.
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
    family(code, name, Class::Global, operands).memory(access(Space::Generic, kind, BYTES, OFFSET))
}

const fn local(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    family(code, name, Class::Local, operands).memory(access(Space::Local, kind, BYTES, OFFSET))
}

const fn constant(code: u16, name: &'static str, operands: &'static [Operand]) -> Family {
    let rule = access(Space::Constant, Access::Read, BYTES, Offset::Signed(38, 16));
    family(code, name, Class::Constant, operands).memory(rule)
}

/// Atomics of floats since sm_90: the type takes the place of the size, and `.E` is by bit 72 alone.
const ATOMIC_ADDRESS: Operand = A.role(Role::Address).width(Width::PairIf(72));
const DATA: Operand = D.width(SIZE);
const STORED: Operand = read(32).width(SIZE);

/// The value of an atomic, and of the one that a compare-and-swap stores.
const VALUE: Operand = read(32).width(TYPE);
const TYPE: Width = Width::Rule(atomic::registers);
const OLD: Operand = D.width(TYPE);

/// Types of floats, several a lane, since sm_90.
const FLOATS: Width = Width::Rule(atomic::float_registers);

const fn multimem(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    let rule = access(Space::Global, kind, Bytes::Rule(atomic::float_bytes), OFFSET);
    family(code, name, Class::Global, operands).memory(rule)
}

const fn atomic(
    code: u16,
    name: &'static str,
    operands: &'static [Operand],
    space: Space,
    kind: Access,
) -> Family {
    let rule = access(space, kind, Bytes::Rule(atomic::bytes), OFFSET);
    family(code, name, Class::Global, operands).memory(rule)
}

pub(super) const FAMILIES: &[Family] = &[
    generic(0x180, "LD", &[DATA, ADDRESS, BASE_OF_LOAD], Access::Read),
    global(0x181, "LDG", &[DATA, predicate_write(81), ADDRESS, BASE_OF_LOAD, flipped_read(64)], Access::Read),
    // 256 bits in two groups of registers.
    family(
        0x17e,
        "LDG",
        Class::Global,
        &[D.wide(4), write(64).wide(4), A.wide(2).role(Role::Address), BASE_OF_LOAD],
    )
    .memory(access(Space::Global, Access::Read, Bytes::Fixed(32), OFFSET)),
    family(
        0x17f,
        "STG",
        Class::Global,
        &[A.wide(2).role(Role::Address), read(32).wide(4), D.wide(4).role(Role::Read), BASE_OF_STORE],
    )
    .memory(access(Space::Global, Access::Write, Bytes::Fixed(32), OFFSET)),
    constant(0x182, "LDC", &[DATA, LOCAL_ADDRESS]),
    local(0x183, "LDL", &[DATA, LOCAL_ADDRESS, BASE_OF_LOCAL_LOAD], Access::Read),
    generic(0x185, "ST", &[ADDRESS, read(64).width(SIZE)], Access::Write).forms(1 << 1),
    generic(0x185, "ST", &[ADDRESS, STORED, BASE_OF_STORE], Access::Write),
    global(0x186, "STG", &[ADDRESS, STORED, BASE_OF_STORE], Access::Write),
    local(0x187, "STL", &[LOCAL_ADDRESS, STORED, BASE_OF_LOCAL_STORE], Access::Write),
    atomic(0x18a, "ATOM", &[P, OLD, ATOMIC_ADDRESS, VALUE, BASE_OF_STORE], Space::Generic, Access::Atomic),
    atomic(
        0x18b,
        "ATOM",
        &[P, OLD, ATOMIC_ADDRESS, VALUE, read(64).width(TYPE)],
        Space::Generic,
        Access::Atomic,
    ),
    atomic(0x18e, "REDG", &[ADDRESS, VALUE, BASE_OF_STORE], Space::Global, Access::Reduction),
    multimem(
        0x1a3,
        "ATOMG",
        &[P, D.width(FLOATS), ATOMIC_ADDRESS, read(32).width(FLOATS), BASE_OF_STORE],
        Access::Atomic,
    ),
    multimem(0x1a5, "LDGMC", &[D.width(FLOATS), A.wide(2).role(Role::Address), BASE_OF_STORE], Access::Read),
    atomic(0x1a8, "ATOMG", &[P, OLD, ATOMIC_ADDRESS, VALUE, BASE_OF_STORE], Space::Global, Access::Atomic),
    atomic(
        0x1a9,
        "ATOMG",
        &[P, OLD, ATOMIC_ADDRESS, VALUE, read(64).width(TYPE)],
        Space::Global,
        Access::Atomic,
    ),
    constant(0x0b9, "ULDC", &[UD.width(SIZE)]).uniform_guard(),
    constant(0x0bb, "ULDC", &[UD.width(SIZE), UA.role(Role::Base)]).uniform_guard(),
    constant(0x1ac, "LDCU", &[UD.width(SIZE), UA.role(Role::Base)]).uniform_guard(),
];

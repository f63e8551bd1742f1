//! Loads, stores and atomics of shared memory, loads and stores of tensor memory.

use crate::instruction::{Access, Class, Space};
use crate::word::Word;

use super::atomic;
use super::family::{Family, family};
use super::memory::{Bytes, OFFSET, access};
use super::operand::{A, D, Operand, P, Role, When, Width, read, uniform_read};

const SIZE: Width = Width::Size(73);
const ADDRESS: Operand = A.role(Role::Address);
const BASE_OF_LOAD: Operand = uniform_read(32).role(Role::Base).when(When::Set(91));
const BASE_OF_STORE: Operand = uniform_read(64).role(Role::Base).when(When::Set(91));

const fn shared(
    code: u16,
    name: &'static str,
    operands: &'static [Operand],
    kind: Access,
    bytes: Bytes,
) -> Family {
    family(code, name, Class::Shared, operands).memory(access(Space::Shared, kind, bytes, OFFSET))
}

const BYTES: Bytes = Bytes::Size(73);
/// Matrices of LDSM and STSM: one, two or four, a register each.
const MATRICES: Width = Width::Rule(matrices);

fn matrices(word: Word) -> u16 {
    1 << word.bits(72, 2).min(2)
}

fn matrix_bytes(word: Word) -> u32 {
    u32::from(matrices(word)) * 4
}

pub(super) const FAMILIES: &[Family] = &[
    shared(0x184, "LDS", &[D.width(SIZE), ADDRESS, BASE_OF_LOAD], Access::Read, BYTES),
    shared(0x188, "STS", &[ADDRESS, read(32).width(SIZE), BASE_OF_STORE], Access::Write, BYTES),
    shared(
        0x03b,
        "LDSM",
        &[D.width(MATRICES), ADDRESS, BASE_OF_LOAD],
        Access::Read,
        Bytes::Rule(matrix_bytes),
    ),
    shared(
        0x044,
        "STSM",
        &[ADDRESS, read(32).width(MATRICES), BASE_OF_STORE],
        Access::Write,
        Bytes::Rule(matrix_bytes),
    ),
    shared(
        0x18c,
        "ATOMS",
        &[D.width(TYPE), ADDRESS, read(32).width(TYPE), BASE_OF_STORE],
        Access::Atomic,
        TYPE_BYTES,
    ),
    shared(0x18d, "ATOMS", &[P, ADDRESS, COMPARED, SWAPPED], Access::Atomic, TYPE_BYTES).forms(1 << 2),
    shared(0x18d, "ATOMS", &[D.width(TYPE), ADDRESS, COMPARED, SWAPPED], Access::Atomic, TYPE_BYTES),
    tensor_memory(0x1ed, "STTM", &[uniform_read(64).role(Role::Base), read(32).width(LANES)], Access::Write),
    tensor_memory(0x1ee, "LDTM", &[D.width(LANES), uniform_read(32).role(Role::Base)], Access::Read),
];

const TYPE: Width = Width::Rule(atomic::registers);
const TYPE_BYTES: Bytes = Bytes::Rule(atomic::bytes);
const COMPARED: Operand = read(32).width(TYPE);
const SWAPPED: Operand = read(64).width(TYPE);

/// Registers of LDTM and STTM: a power of two.
const LANES: Width = Width::Rule(lanes);

fn lanes(word: Word) -> u16 {
    1 << word.bits(83, 3)
}

const fn tensor_memory(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    let rule = access(Space::TensorMemory, kind, Bytes::Rule(lane_bytes), OFFSET);
    family(code, name, Class::Shared, operands).memory(rule)
}

fn lane_bytes(word: Word) -> u32 {
    u32::from(lanes(word)) * 4
}

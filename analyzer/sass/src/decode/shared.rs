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
    // Matrices of 16x16 take two registers each.
    let each = if word.bits(78, 3) == 4 { 2 } else { 1 };
    each << word.bits(72, 2).min(2)
}

fn matrix_bytes(word: Word) -> u32 {
    u32::from(matrices(word)) * 4
}

pub(super) static FAMILIES: &[Family] = &[
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
    shared(0x18c, "ATOMS", &[D.wide(2), ADDRESS, BASE_OF_STORE], Access::Atomic, Bytes::Fixed(8))
        .forms(1 << 7),
    shared(0x18c, "ATOMS", &COMBINE_EARLY, Access::Atomic, EARLY_BYTES).until(89),
    shared(0x18c, "ATOMS", &COMBINE_LATE, Access::Atomic, LATE_BYTES),
    shared(0x18d, "ATOMS", &TRY_SWAP, Access::Atomic, LATE_BYTES).forms(1 << 2),
    shared(0x18d, "ATOMS", &SWAP_EARLY, Access::Atomic, EARLY_BYTES).until(89),
    shared(0x18d, "ATOMS", &SWAP_LATE, Access::Atomic, LATE_BYTES),
    tensor_memory(0x1ed, "STTM", &[uniform_read(64).role(Role::Base), read(32).width(LANES)], Access::Write),
    tensor_memory(0x1ee, "LDTM", &[D.width(LANES), uniform_read(32).role(Role::Base)], Access::Read),
];

const EARLY: Width = Width::Rule(atomic::early);
const LATE: Width = Width::Rule(atomic::late);
const EARLY_BYTES: Bytes = Bytes::Rule(atomic::early_bytes);
const LATE_BYTES: Bytes = Bytes::Rule(atomic::late_bytes);

const fn combine(width: Width) -> [Operand; 4] {
    [D.width(width), ADDRESS, read(32).width(width), BASE_OF_STORE]
}

const fn swap(result: Operand, width: Width) -> [Operand; 4] {
    [result, ADDRESS, read(32).width(width), read(64).width(width)]
}

static COMBINE_EARLY: [Operand; 4] = combine(EARLY);
static COMBINE_LATE: [Operand; 4] = combine(LATE);
static SWAP_EARLY: [Operand; 4] = swap(D.width(EARLY), EARLY);
static SWAP_LATE: [Operand; 4] = swap(D.width(LATE), LATE);
/// Result: whether it swapped.
static TRY_SWAP: [Operand; 4] = swap(P, LATE);

/// Registers of LDTM and STTM: a power of two.
const LANES: Width = Width::Rule(lanes);

fn lanes(word: Word) -> u16 {
    // Rows of 128 and 256 bits take two and four registers. A complete row of lanes, and halves of it, take one.
    let row = match (word.bit(87), word.bits(81, 2)) {
        (false, 0) => 2,
        (false, 1) => 4,
        _ => 1,
    };
    (row << word.bits(83, 3)).min(128)
}

const fn tensor_memory(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    let rule = access(Space::TensorMemory, kind, Bytes::Rule(lane_bytes), OFFSET);
    family(code, name, Class::Shared, operands).memory(rule)
}

fn lane_bytes(word: Word) -> u32 {
    u32::from(lanes(word)) * 4
}

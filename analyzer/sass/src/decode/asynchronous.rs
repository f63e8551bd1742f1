//! Copies that run beside the warp: LDGSTS, tensor-map copies, bulk copies.

use crate::instruction::{Access, Class, Space};
use crate::word::Word;

use super::family::{Family, family};
use super::memory::{Bytes, OFFSET, Offset, access};
use super::operand::{A, D, Operand, Q, Role, UA, When, Width, read, uniform_read};

const fn tensor_map(code: u16, name: &'static str, operands: &'static [Operand], kind: Access) -> Family {
    let rule = access(Space::Global, kind, Bytes::Unknown, Offset::None);
    family(code, name, Class::Async, operands).memory(rule).uniform_guard()
}

/// The address of the tensor map.
const MAP: Operand = uniform_read(24).wide(2).role(Role::Base);
/// Shared address, mbarrier, then a coordinate a dimension.
const LOADED_BOX: Operand = uniform_read(32).width(Width::Rule(loaded_box));
/// Shared address, then a coordinate a dimension.
const STORED_BOX: Operand = uniform_read(32).width(Width::Rule(stored_box));
const MULTICAST: Operand = uniform_read(64).when(When::Form(1 << 1));

fn loaded_box(word: Word) -> u16 {
    dimensions(word) + 2
}

fn stored_box(word: Word) -> u16 {
    dimensions(word) + 1
}

fn dimensions(word: Word) -> u16 {
    u16::from(word.byte(79) & 7) + 1
}

/// A cache policy.
const POLICY: Operand = uniform_read(40).wide(2).when(When::Set(76));

fn coordinates(word: Word) -> u16 {
    dimensions(word)
}

/// To shared memory at the destination's register, from device memory at the pair of the first source.
const COPY: &[Operand] = &[
    D.role(Role::Read),
    A.role(Role::Address).wide(2),
    uniform_read(64).wide(2).role(Role::Base).when(When::Set(91)),
    Q,
];

const BYTES: Bytes = Bytes::Size(73);

/// LDGSTS. The offset is the one in device memory; the one in shared memory is at bit 44.
const fn copy(bytes: Bytes) -> Family {
    let rule = access(Space::Global, Access::CopyIn, bytes, Offset::Signed(32, 12));
    family(0x1ae, "LDGSTS", Class::Async, COPY).memory(rule)
}

/// 4, 8 or 16 bytes.
fn copied_bytes(word: Word) -> u32 {
    4 << word.bits(74, 2).min(2)
}

pub(super) const FAMILIES: &[Family] = &[
    copy(Bytes::Rule(copied_bytes)).since(100),
    copy(BYTES),
    tensor_map(0x1b4, "UTMALDG", &[MAP, LOADED_BOX, MULTICAST, POLICY], Access::CopyIn),
    tensor_map(0x1b5, "UTMASTG", &[MAP, STORED_BOX, POLICY], Access::CopyOut),
    tensor_map(0x1b6, "UTMAREDG", &[MAP, STORED_BOX, POLICY], Access::CopyOut),
    family(0x1b7, "UTMACMDFLUSH", Class::Async, &[]).uniform_guard(),
    tensor_map(
        0x1b8,
        "UTMAPF",
        &[MAP, uniform_read(32).width(Width::Rule(coordinates)), POLICY],
        Access::Prefetch,
    ),
    tensor_map(0x1b9, "UTMACCTL", &[MAP], Access::Prefetch),
    family(0x1ba, "UBLKCP", Class::Async, &[UA, uniform_read(32).wide(2).role(Role::Base), uniform_read(64)])
        .uniform_guard()
        .memory(access(Space::Global, Access::CopyOut, Bytes::Unknown, Offset::None)),
    family(0x1bd, "STAS", Class::Async, &[A.wide(2).role(Role::Address), read(32).width(Width::Size(73))])
        .memory(access(Space::Shared, Access::Write, BYTES, OFFSET)),
];

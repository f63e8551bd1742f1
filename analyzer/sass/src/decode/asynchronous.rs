//! Asynchronous copies: LDGSTS, tensor-map copies, bulk copies, stores to other blocks.

use crate::instruction::{Access, Class, Space};
use crate::word::Word;

use super::atomic;
use super::family::{Family, family};
use super::memory::{Bytes, OFFSET, Offset, access};
use super::operand::{A, D, Operand, Q, Role, UA, When, Width, read, uniform_read};

const BYTES: Bytes = Bytes::Size(73);
/// A cache policy.
const POLICY: Operand = uniform_read(40).wide(2).when(When::Set(76));

pub(super) static FAMILIES: &[Family] = &[
    copy(Bytes::Rule(copied_bytes)).since(100),
    copy(BYTES),
    tensor_map(0x1b4, "UTMALDG", &[MAP, LOADED_BOX, MULTICAST, POLICY], Access::CopyIn),
    tensor_map(0x1b5, "UTMASTG", &[MAP, STORED_BOX, POLICY], Access::CopyOut),
    tensor_map(0x1b6, "UTMAREDG", &[MAP, STORED_BOX, POLICY], Access::CopyOut),
    family(0x1b7, "UTMACMDFLUSH", Class::Async, &[]).uniform_guard(),
    tensor_map(0x1b8, "UTMAPF", &[MAP, FETCHED_BOX, MULTICAST, POLICY], Access::Prefetch),
    tensor_map(0x1b9, "UTMACCTL", &[MAP], Access::Prefetch),
    bulk(0x1ba, "UBLKCP", &STORE, Space::Global, Access::CopyOut).select(SHARED_TO_DEVICE),
    bulk(0x1ba, "UBLKCP", &SEND, Space::Shared, Access::CopyIn).select(SHARED_TO_SHARED),
    bulk(0x1ba, "UBLKCP", &LOAD, Space::Global, Access::CopyIn),
    bulk(0x1bb, "UBLKRED", &STORE, Space::Global, Access::CopyOut).select(SHARED_TO_DEVICE),
    bulk(0x1bb, "UBLKRED", &SEND, Space::Shared, Access::CopyIn),
    bulk(0x1bc, "UBLKPF", &[FROM_DEVICE, BYTE_COUNT, POLICY], Space::Global, Access::Prefetch),
    remote(0x1bd, "STAS", &REMOTE_STORE, Access::Write, BYTES),
    remote(0x1be, "REDAS", &REMOTE_REDUCTION, Access::Reduction, Bytes::Rule(atomic::late_bytes)),
];

/// LDGSTS. The offset is that in device memory. The offset in shared memory is at bit 44.
const fn copy(bytes: Bytes) -> Family {
    let rule = access(Space::Global, Access::CopyIn, bytes, Offset::Signed(32, 12));
    family(0x1ae, "LDGSTS", Class::Async, COPY).memory(rule)
}

/// To shared memory at the destination's register, from device memory at the pair of the first source.
const COPY: &[Operand] = &[
    D.role(Role::Read),
    A.role(Role::Address).wide(2),
    uniform_read(64).wide(2).role(Role::Base).when(When::Set(91)),
    Q,
];

/// 4, 8 or 16 bytes.
fn copied_bytes(word: Word) -> u32 {
    4 << word.bits(74, 2).min(2)
}

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
/// Only coordinates.
const FETCHED_BOX: Operand = uniform_read(32).width(Width::Rule(coordinates));
/// Blocks that get the data, or offsets within a window of coordinates.
const MULTICAST: Operand = uniform_read(64).when(When::Form(1 << 1));

fn loaded_box(word: Word) -> u16 {
    coordinates(word) + 2
}

fn stored_box(word: Word) -> u16 {
    // SCATTER4: one of the dimensions has four coordinates.
    let rows = if word.bits(82, 3) == 2 { 3 } else { 0 };
    dimensions(word) + 1 + rows
}

fn coordinates(word: Word) -> u16 {
    // GATHER4: one of the dimensions has four coordinates.
    let rows = if word.bits(82, 3) == 4 { 3 } else { 0 };
    dimensions(word) + rows
}

fn dimensions(word: Word) -> u16 {
    u16::from(word.byte(79) & 7) + 1
}

/// Bulk copies: an address in shared memory is one register, or two with its mbarrier. An address in device memory is
/// two.
const fn bulk(
    code: u16,
    name: &'static str,
    operands: &'static [Operand],
    space: Space,
    kind: Access,
) -> Family {
    let rule = access(space, kind, Bytes::Unknown, Offset::None);
    family(code, name, Class::Async, operands).memory(rule).uniform_guard()
}

const SHARED_TO_DEVICE: When = When::Is(73, 2, 2);
const SHARED_TO_SHARED: When = When::Is(73, 2, 3);
static LOAD: [Operand; 4] = [FROM_DEVICE, TO_SHARED, BYTE_COUNT, POLICY];
static STORE: [Operand; 4] = [UA, TO_DEVICE, BYTE_COUNT, POLICY];
static SEND: [Operand; 4] = [UA, TO_SHARED, BYTE_COUNT, POLICY];
const FROM_DEVICE: Operand = uniform_read(24).wide(2).role(Role::Base);
const TO_DEVICE: Operand = uniform_read(32).wide(2).role(Role::Base);
/// The address in shared memory, then its mbarrier's.
const TO_SHARED: Operand = uniform_read(32).wide(2);
const BYTE_COUNT: Operand = uniform_read(64);

/// Stores and reductions in the shared memory of another block: the address, then its mbarrier's.
const fn remote(
    code: u16,
    name: &'static str,
    operands: &'static [Operand],
    kind: Access,
    bytes: Bytes,
) -> Family {
    family(code, name, Class::Async, operands).memory(access(Space::Shared, kind, bytes, OFFSET))
}

const REMOTE_ADDRESS: Operand = A.wide(2).role(Role::Address);
static REMOTE_STORE: [Operand; 2] = [REMOTE_ADDRESS, read(32).width(Width::Size(73))];
static REMOTE_REDUCTION: [Operand; 2] = [REMOTE_ADDRESS, read(32).width(Width::Rule(atomic::late))];

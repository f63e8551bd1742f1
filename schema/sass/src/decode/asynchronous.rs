//! Asynchronous copies: LDGSTS, tensor-map copies, bulk copies, stores to other blocks.

use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace};
use crate::word::InstructionWord;

use super::atomic;
use super::family::{OpFamily, family};
use super::memory::{AddressOffset, LaneWidth, OFFSET, access};
use super::operand::{
    A, D, FamilyOperand, OperandCondition, OperandRole, Q, RegisterCount, UA, read, uniform_read,
};

const BYTES: LaneWidth = LaneWidth::Size(73);
/// A cache policy.
const POLICY: FamilyOperand = uniform_read(40).wide(2).when(OperandCondition::Set(76));

pub(super) static FAMILIES: &[OpFamily] = &[
    copy(LaneWidth::Rule(copied_bytes)).since(100),
    copy(BYTES),
    tensor_map(0x1b4, "UTMALDG", &[MAP, LOADED_BOX, MULTICAST, POLICY], MemoryEffect::CopyIn),
    tensor_map(0x1b5, "UTMASTG", &[MAP, STORED_BOX, POLICY], MemoryEffect::CopyOut),
    tensor_map(0x1b6, "UTMAREDG", &[MAP, STORED_BOX, POLICY], MemoryEffect::CopyOut),
    family(0x1b7, "UTMACMDFLUSH", ExecutionUnit::Async, &[]).uniform_guard(),
    tensor_map(0x1b8, "UTMAPF", &[MAP, FETCHED_BOX, MULTICAST, POLICY], MemoryEffect::Prefetch),
    tensor_map(0x1b9, "UTMACCTL", &[MAP], MemoryEffect::Prefetch),
    bulk(0x1ba, "UBLKCP", &STORE, MemorySpace::Global, MemoryEffect::CopyOut).select(SHARED_TO_DEVICE),
    bulk(0x1ba, "UBLKCP", &SEND, MemorySpace::Shared, MemoryEffect::CopyIn).select(SHARED_TO_SHARED),
    bulk(0x1ba, "UBLKCP", &LOAD, MemorySpace::Global, MemoryEffect::CopyIn),
    bulk(0x1bb, "UBLKRED", &STORE, MemorySpace::Global, MemoryEffect::CopyOut).select(SHARED_TO_DEVICE),
    bulk(0x1bb, "UBLKRED", &SEND, MemorySpace::Shared, MemoryEffect::CopyIn),
    bulk(0x1bc, "UBLKPF", &[FROM_DEVICE, BYTE_COUNT, POLICY], MemorySpace::Global, MemoryEffect::Prefetch),
    remote(0x1bd, "STAS", &REMOTE_STORE, MemoryEffect::Write, BYTES),
    remote(0x1be, "REDAS", &REMOTE_REDUCTION, MemoryEffect::Reduction, LaneWidth::Rule(atomic::late_bytes)),
];

/// LDGSTS. The offset is the one in device memory. The one in shared memory is at bit 44.
const fn copy(bytes: LaneWidth) -> OpFamily {
    let rule = access(MemorySpace::Global, MemoryEffect::CopyIn, bytes, AddressOffset::Signed(32, 12));
    family(0x1ae, "LDGSTS", ExecutionUnit::Async, COPY).memory(rule)
}

/// To shared memory at the destination's register, from device memory at the pair of the first source.
const COPY: &[FamilyOperand] = &[
    D.role(OperandRole::Read),
    A.role(OperandRole::Address).wide(2),
    uniform_read(64).wide(2).role(OperandRole::Base).when(OperandCondition::Set(91)),
    Q,
];

/// 4, 8 or 16 bytes.
fn copied_bytes(word: InstructionWord) -> u32 {
    4 << word.bits(74, 2).min(2)
}

const fn tensor_map(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
) -> OpFamily {
    let rule = access(MemorySpace::Global, kind, LaneWidth::Unknown, AddressOffset::None);
    family(code, name, ExecutionUnit::Async, operands).memory(rule).uniform_guard()
}

/// The address of the tensor map.
const MAP: FamilyOperand = uniform_read(24).wide(2).role(OperandRole::Base);
/// Shared address, mbarrier, then a coordinate a dimension.
const LOADED_BOX: FamilyOperand = uniform_read(32).width(RegisterCount::Rule(loaded_box));
/// Shared address, then a coordinate a dimension.
const STORED_BOX: FamilyOperand = uniform_read(32).width(RegisterCount::Rule(stored_box));
/// Coordinates alone.
const FETCHED_BOX: FamilyOperand = uniform_read(32).width(RegisterCount::Rule(coordinates));
/// Blocks that get the data, or offsets within a window of coordinates.
const MULTICAST: FamilyOperand = uniform_read(64).when(OperandCondition::Form(1 << 1));

fn loaded_box(word: InstructionWord) -> u16 {
    coordinates(word) + 2
}

fn stored_box(word: InstructionWord) -> u16 {
    // SCATTER4: one of the dimensions has four coordinates.
    let rows = if word.bits(82, 3) == 2 { 3 } else { 0 };
    dimensions(word) + 1 + rows
}

fn coordinates(word: InstructionWord) -> u16 {
    // GATHER4: one of the dimensions has four coordinates.
    let rows = if word.bits(82, 3) == 4 { 3 } else { 0 };
    dimensions(word) + rows
}

fn dimensions(word: InstructionWord) -> u16 {
    u16::from(word.byte(79) & 7) + 1
}

/// Bulk copies: an address in shared memory is one register, or two with its mbarrier. One in device memory is two.
const fn bulk(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    space: MemorySpace,
    kind: MemoryEffect,
) -> OpFamily {
    let rule = access(space, kind, LaneWidth::Unknown, AddressOffset::None);
    family(code, name, ExecutionUnit::Async, operands).memory(rule).uniform_guard()
}

const SHARED_TO_DEVICE: OperandCondition = OperandCondition::Is(73, 2, 2);
const SHARED_TO_SHARED: OperandCondition = OperandCondition::Is(73, 2, 3);
static LOAD: [FamilyOperand; 4] = [FROM_DEVICE, TO_SHARED, BYTE_COUNT, POLICY];
static STORE: [FamilyOperand; 4] = [UA, TO_DEVICE, BYTE_COUNT, POLICY];
static SEND: [FamilyOperand; 4] = [UA, TO_SHARED, BYTE_COUNT, POLICY];
const FROM_DEVICE: FamilyOperand = uniform_read(24).wide(2).role(OperandRole::Base);
const TO_DEVICE: FamilyOperand = uniform_read(32).wide(2).role(OperandRole::Base);
/// The address in shared memory, then its mbarrier's.
const TO_SHARED: FamilyOperand = uniform_read(32).wide(2);
const BYTE_COUNT: FamilyOperand = uniform_read(64);

/// Stores and reductions in the shared memory of another block: the address, then its mbarrier's.
const fn remote(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
    bytes: LaneWidth,
) -> OpFamily {
    family(code, name, ExecutionUnit::Async, operands).memory(access(
        MemorySpace::Shared,
        kind,
        bytes,
        OFFSET,
    ))
}

const REMOTE_ADDRESS: FamilyOperand = A.wide(2).role(OperandRole::Address);
static REMOTE_STORE: [FamilyOperand; 2] = [REMOTE_ADDRESS, read(32).width(RegisterCount::Size(73))];
static REMOTE_REDUCTION: [FamilyOperand; 2] =
    [REMOTE_ADDRESS, read(32).width(RegisterCount::Rule(atomic::late))];

//! Storages with their tensors, allocations and copies, and accesses.

use super::python::outer_state;
use super::{ACCESSES, POOL, REUSED, STRAY, TABLE, add, at, gather, kernel, op, storage, tensor};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::{Address, AllocationId, Pc};
use stallmap_schema::tables::memory::{
    AccessSummary, AllocationFailure, DeviceAllocation, Memcpy, MemoryAccess, Memset, StorageRequest,
};
use stallmap_schema::tables::tensor::{Storage, Tensor};
use stallmap_schema::word::{AccessKind, CopyKind, Space, StorageOrigin};
use stallmap_write::CaptureWriter;

/// Storages and their tensors.
pub(super) fn storages(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let block = |number, address, size_bytes| Storage {
        storage_id: storage(number),
        run_id: ACCESSES,
        address: Address(address),
        size_bytes,
        alloc_ns: at(9),
        origin: StorageOrigin::Allocator,
        op_id: Some(op(2)),
        ..Storage::default()
    };
    writer.append_rows([
        Storage {
            alloc_ns: at(1),
            origin: StorageOrigin::Tensor,
            op_id: None,
            ..block(1, TABLE, 1024 * 16 * 4)
        },
        Storage { free_ns: Some(at(27)), free_ordinal: Some(2), ..block(2, REUSED, 512) },
        Storage { alloc_ns: at(29), alloc_ordinal: 2, op_id: Some(op(4)), ..block(3, REUSED, 512) },
    ])?;
    writer.append_rows([StorageRequest { storage_id: storage(2), requested_bytes: 256 }])?;
    writer.append_rows([AllocationFailure {
        run_id: ACCESSES,
        device_id: 0,
        time_ns: at(30),
        ordinal: 3,
        requested_bytes: Some(1 << 40),
        free_bytes: Some(1 << 30),
        op_id: Some(op(4)),
    }])?;
    let view = |number, storage_number, address, sizes: [i64; 2]| Tensor {
        tensor_id: tensor(number),
        run_id: ACCESSES,
        storage_id: storage(storage_number),
        address: Address(address),
        dtype: "float32".to_owned(),
        element_bytes: 4,
        sizes: sizes.to_vec(),
        strides: vec![sizes[1], 1],
        span_bytes: (sizes[0] * sizes[1]).unsigned_abs() * 4,
        is_contiguous: true,
        ..Tensor::default()
    };
    writer.append_rows([
        Tensor {
            name: Some("embedding.weight".to_owned()),
            role: Some("parameter".to_owned()),
            ..view(1, 1, TABLE, [1024, 16])
        },
        Tensor { op_id: Some(op(2)), ..view(2, 2, REUSED, [4, 16]) },
        Tensor { op_id: Some(op(4)), ..view(3, 3, REUSED, [4, 16]) },
        // The transpose of `y`.
        Tensor {
            base_tensor_id: Some(tensor(3)),
            strides: vec![1, 16],
            is_contiguous: false,
            ..view(4, 3, REUSED, [16, 4])
        },
    ])
}

pub(super) fn memory(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([DeviceAllocation {
        allocation_id: AllocationId(1),
        run_id: ACCESSES,
        address: Address(POOL),
        size_bytes: 2 << 20,
        pystates_hash: Some(outer_state()),
        alloc_ns: at(0),
        ..DeviceAllocation::default()
    }])?;
    writer.append_rows([Memcpy {
        run_id: ACCESSES,
        kind: CopyKind::HostToDevice,
        source: Address(0x5500_0000_0000),
        destination: Address(TABLE),
        size_bytes: 1024 * 16 * 4,
        stream_id: 0,
        ordinal: 0,
        begin_ns: at(2),
        op_id: None,
        ..Memcpy::default()
    }])?;
    writer.append_rows([Memset {
        run_id: ACCESSES,
        address: Address(REUSED),
        size_bytes: 256,
        value: 0,
        element_bytes: 4,
        stream_id: 0,
        ordinal: 2,
        begin_ns: at(29),
        op_id: Some(op(4)),
    }])
}

/// Two warps of 32 lanes gather rows of the table and write `x`. The other warps read and write in order.
pub(super) fn accesses() -> Vec<MemoryAccess> {
    let access = |ordinal, function_id, pc, warp, sequence, kind| MemoryAccess {
        kernel_id: kernel(ordinal),
        function_id,
        pc: Pc(pc),
        block: 0,
        warp,
        sequence,
        kind,
        space: Space::Global,
        access_bytes: 4,
        lane_mask: u32::MAX,
        address: Address(REUSED + 128 * u64::from(warp)),
        span_bytes: 128,
        stride_bytes: Some(4),
        offsets: None,
        offset_shift: 0,
    };
    // Row numbers that a text might have: frequent ones are small. Lane 5 has row 0, the lowest address.
    let rows = |lane: u32, warp: u32| if lane == 5 { 0 } else { (lane * lane * 31 + warp * 7) % 1024 };
    let gathered = |warp: u16| {
        let offsets: Vec<u32> = (0..32).map(|lane| rows(lane, warp.into()) * 16).collect();
        let last = offsets.iter().max().copied().unwrap_or(0);
        MemoryAccess {
            address: Address(TABLE),
            span_bytes: u64::from(last) * 4 + 4,
            stride_bytes: None,
            offsets: Some(offsets),
            offset_shift: 2,
            ..access(0, gather(), 0xd0, warp, u64::from(warp), AccessKind::Read)
        }
    };
    vec![
        gathered(0),
        gathered(1),
        access(0, gather(), 0x100, 0, 2, AccessKind::Write),
        access(0, gather(), 0x100, 1, 3, AccessKind::Write),
        access(1, add(), 0x90, 0, 0, AccessKind::Read),
        access(1, add(), 0x90, 1, 1, AccessKind::Read),
        access(1, add(), 0xb0, 0, 2, AccessKind::Write),
        access(1, add(), 0xb0, 1, 3, AccessKind::Write),
        MemoryAccess { stride_bytes: Some(-4), ..access(2, add(), 0x90, 0, 0, AccessKind::Read) },
        MemoryAccess {
            lane_mask: 1,
            address: Address(STRAY),
            span_bytes: 4,
            stride_bytes: Some(0),
            ..access(2, add(), 0x90, 1, 1, AccessKind::Read)
        },
        access(2, add(), 0xb0, 1, 2, AccessKind::Write),
    ]
}

/// The accesses of the second launch: the GPU counted them too.
pub(super) fn counted() -> Vec<MemoryAccess> {
    accesses().into_iter().filter(|row| row.kernel_id == kernel(1)).collect()
}

/// Their counts by block of memory: one block of 64 floats, read and written.
pub(super) fn summaries() -> [AccessSummary; 2] {
    [(0x90, AccessKind::Read), (0xb0, AccessKind::Write)].map(|(pc, kind)| AccessSummary {
        kernel_id: kernel(1),
        function_id: add(),
        pc: Pc(pc),
        kind,
        space: Space::Global,
        block_address: Some(Address(REUSED)),
        address: Address(REUSED),
        span_bytes: 256,
        request_count: 2,
        shared_request_count: 0,
        lane_count: 64,
        sectors: 8,
        unique_bytes: 256,
        ideal_sectors: 8,
    })
}

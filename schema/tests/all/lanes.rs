//! A row of accesses gives back every lane's address.

use stallmap_schema::id::{Address, FunctionId, KernelId};
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};

fn row(lane_mask: u32, stride_bytes: Option<i32>, offsets: Option<Vec<u32>>) -> MemoryAccess {
    MemoryAccess {
        kernel_id: KernelId(1),
        function_id: FunctionId(1),
        kind: AccessKind::Read,
        space: Space::Global,
        access_bytes: 4,
        lane_mask,
        address: Address(1000),
        stride_bytes,
        offsets,
        offset_shift: 2,
        ..MemoryAccess::default()
    }
}

fn lanes(row: &MemoryAccess) -> Vec<(u8, u64)> {
    row.lanes().map(|(lane, address)| (lane, address.0)).collect()
}

#[test]
fn regular_lanes_count_from_the_lowest_address() {
    assert_eq!(lanes(&row(0b1010, Some(8), None)), [(1, 1000), (3, 1016)]);
    assert_eq!(lanes(&row(0b1010, Some(-8), None)), [(1, 1016), (3, 1000)]);
    assert_eq!(lanes(&row(0b110, Some(0), None)), [(1, 1000), (2, 1000)]);
    assert_eq!(lanes(&row(u32::MAX, Some(4), None)).last(), Some(&(31, 1124)));
}

#[test]
fn irregular_lanes_have_their_own_distance() {
    assert_eq!(lanes(&row(1 << 31 | 0b100, None, Some(vec![5, 0]))), [(2, 1020), (31, 1000)]);
}

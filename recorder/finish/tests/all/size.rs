//! Size of accesses: bytes of `memory_access` per lane access, on launches like those of real kernels.

use stallmap_finish::finish;
use stallmap_schema::capture::request::{OFFSETS_32, READ, REGULAR, RequestHeader};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::memory::MemoryAccess;

use crate::recording::{self, CODE};

const BLOCKS: u64 = 1024;
const WARPS: u64 = 8;
const TABLE: u64 = 0x7f0e_a000_0000;

/// A generator of numbers that look random and are the same each time.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn request(warp: u64, instruction: u64) -> RequestHeader {
    RequestHeader {
        address: 0x7f0e_9880_0000 + instruction * 0x200_0000 + warp * 128,
        pc: CODE + 0x40 + instruction * 16,
        access_bytes: 4,
        flags: READ,
        lane_mask: u32::MAX,
        stride: 4,
        block: warp / WARPS,
        warp: (warp % WARPS) as u8,
        space: 0,
        encoding: REGULAR,
    }
}

fn unit_stride(warp: u64, instruction: u64, _: &mut PseudoRandom) -> Vec<u8> {
    request(warp, instruction).write().to_vec()
}

/// 32 random elements of 4 bytes from a table of 64 MiB.
fn gather(warp: u64, instruction: u64, numbers: &mut PseudoRandom) -> Vec<u8> {
    if instruction != 1 {
        return unit_stride(warp, instruction, numbers);
    }
    let element = |_| u32::try_from(numbers.next() % (1 << 24)).unwrap();
    let elements: Vec<u32> = (0..32).map(element).collect();
    let header = RequestHeader {
        address: TABLE + u64::from(elements[0]) * 4,
        stride: 0,
        encoding: OFFSETS_32,
        ..request(warp, 1)
    };
    let mut record = header.write().to_vec();
    let distance = |element: &u32| element.wrapping_sub(elements[0]).wrapping_mul(4).to_le_bytes();
    record.extend(elements.iter().flat_map(distance));
    record
}

/// Rows of a matrix: 8 rows of 4 lanes of 16 bytes.
fn tile(warp: u64, instruction: u64, _: &mut PseudoRandom) -> Vec<u8> {
    let address = 0x7f0e_9880_0000 + warp / 16 * 0x2_0000 + warp % 16 * 64 + instruction * 0x1_0000;
    let header = RequestHeader {
        address,
        access_bytes: 16,
        stride: 0,
        encoding: OFFSETS_32,
        ..request(warp, instruction)
    };
    let mut record = header.write().to_vec();
    record.extend((0..32_u32).flat_map(|lane| (lane / 4 * 2048 + lane % 4 * 16).to_le_bytes()));
    record
}

/// Bytes per lane access of a launch of which each warp makes three requests, in the order in which a GPU might.
fn bytes_per_lane(record: fn(u64, u64, &mut PseudoRandom) -> Vec<u8>) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write(folder.path());
    let mut numbers = PseudoRandom(7);
    let mut requests: Vec<(u64, u64, u64)> = Vec::new();
    for warp in 0..BLOCKS * WARPS {
        let mut time = warp / WARPS * 16 + numbers.next() % 4000;
        for instruction in 0..3 {
            time += 100 + numbers.next() % 200;
            requests.push((time, warp, instruction));
        }
    }
    requests.sort_unstable();
    let records: Vec<u8> = requests
        .iter()
        .flat_map(|(_, warp, instruction)| record(*warp, *instruction, &mut numbers))
        .collect();
    recording::with_requests(&partial, &records);
    let output = folder.path().join("size.stallmap");
    let summary = finish(&partial, &output, &|_| ()).unwrap();
    let tables = &summary.manifest.tables;
    let table = tables.iter().find(|table| table.name == MemoryAccess::TABLE.name).unwrap();
    assert_eq!(summary.runs[0].request_count, BLOCKS * WARPS * 3);
    table.bytes as f64 / summary.runs[0].lane_access_count as f64
}

#[test]
fn regular_accesses_are_far_below_a_third_of_a_byte() {
    let bytes = bytes_per_lane(unit_stride);
    assert!(bytes < 0.1, "{bytes}");
}

#[test]
fn tiles_are_as_compact_as_regular_accesses() {
    let bytes = bytes_per_lane(tile);
    assert!(bytes < 0.15, "{bytes}");
}

#[test]
fn a_gather_costs_what_its_randomness_costs() {
    let bytes = bytes_per_lane(gather);
    // One of three requests has 24 random bits a lane.
    assert!(bytes < 1.25, "{bytes}");
}

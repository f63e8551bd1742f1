//! Round trip from the GPU's records to rows: every lane's address, bit for bit, in memory and on disk.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stallmap_schema::capture::request::{
    ATOMIC, OFFSETS_32, OFFSETS_64, READ, REGULAR, RequestHeader, SLOT_BYTES, WRITE,
};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::memory::MemoryAccess;

use super::*;

const CODE: u64 = 0x7000_0000;

/// A request with the addresses of its lanes.
#[derive(Clone, Debug)]
struct SampleRequest {
    request: RequestHeader,
    lanes: Vec<(u8, u64)>,
}

impl SampleRequest {
    fn new(request: RequestHeader, distance: impl Fn(u8) -> i64) -> Self {
        let active = (0..32_u8).filter(|lane| request.lane_mask >> lane & 1 == 1);
        let lane = |lane| (lane, request.address.wrapping_add(distance(lane).cast_unsigned()));
        Self { request, lanes: active.map(lane).collect() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.request.write().to_vec();
        for (_, address) in &self.lanes {
            let distance = address.wrapping_sub(self.request.address).to_le_bytes();
            match self.request.encoding {
                OFFSETS_32 => bytes.extend(&distance[..4]),
                OFFSETS_64 => bytes.extend(&distance),
                _ => {}
            }
        }
        bytes.resize(bytes.len().next_multiple_of(SLOT_BYTES), 0xee);
        bytes
    }
}

/// Any request that a GPU can make: regular or not, near or far apart, whatever its mask.
fn request() -> impl Strategy<Value = SampleRequest> {
    let header = (
        // So high that no lane's address is below zero, which no GPU has.
        1_u64 << 46..1 << 47,
        (0..16_u64).prop_map(|index| CODE + index * 16),
        prop_oneof![Just(1_u8), Just(4), Just(16)],
        prop_oneof![Just(READ), Just(WRITE), Just(READ | WRITE | ATOMIC)],
        any::<u32>().prop_filter("a lane is active", |mask| *mask != 0),
        (0..4_u64, 0..3_u8),
    );
    let distances = proptest::collection::vec(any::<i64>(), 32);
    (header, any::<i32>(), distances, 0..3_u8, 0..40_u32).prop_map(
        |(header, stride, distances, encoding, shift)| {
            let (address, pc, access_bytes, flags, lane_mask, (block, warp)) = header;
            let stride = if encoding == REGULAR { stride } else { 0 };
            let request = RequestHeader {
                address,
                pc,
                access_bytes,
                flags,
                lane_mask,
                stride,
                block,
                warp,
                space: 0,
                encoding,
            };
            let first = lane_mask.trailing_zeros();
            SampleRequest::new(request, |lane| {
                let lane = u32::from(lane);
                let distance = distances[lane as usize];
                match encoding {
                    REGULAR => i64::from(stride) * (i64::from(lane) - i64::from(first)),
                    _ if lane == first => 0,
                    OFFSETS_32 => distance >> 32 >> (shift % 32) << (shift % 8) >> 8,
                    // Up to 2^46 away, often near each other, often aligned.
                    _ => distance >> 18 >> shift << (shift % 8),
                }
            })
        },
    )
}

struct RequestExample {
    _folder: tempfile::TempDir,
    segment: SegmentReader,
}

fn example(requests: &[SampleRequest]) -> RequestExample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    let mut writer = SegmentWriter::create(&path).unwrap();
    for requests in requests.chunks(7) {
        let records: Vec<u8> = requests.iter().flat_map(SampleRequest::bytes).collect();
        writer.append_requests(3, &records).unwrap();
    }
    RequestExample { _folder: folder, segment: SegmentReader::open(&path).unwrap() }
}

/// The code of one function.
fn find(pc: u64, _: u64) -> Option<(FunctionId, Pc)> {
    let offset = pc.checked_sub(CODE).filter(|offset| *offset < 256)?;
    Some((FunctionId(9), Pc(u32::try_from(offset).unwrap())))
}

impl RequestExample {
    fn source(&self) -> LaunchSource<'_> {
        LaunchSource {
            kernel_id: KernelId(5),
            ordinal: 3,
            segment: &self.segment,
            frames: self.segment.frames(),
            find: &find,
        }
    }
}

fn rows(
    convert: impl FnOnce(
        &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), ArrowError>,
    ) -> Result<ConvertedLaunch, ArrowError>,
) -> (Vec<MemoryAccess>, ConvertedLaunch) {
    let mut rows = Vec::new();
    let converted = convert(&mut |batches| {
        for batch in batches {
            rows.extend(MemoryAccess::read_all(&batch)?);
        }
        Ok(())
    });
    (rows, converted.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_lane_comes_back(requests in proptest::collection::vec(request(), 1..40)) {
        let example = example(&requests);
        let (rows, converted) = rows(|emit| convert(&example.source(), emit));

        let mut lanes: BTreeMap<u64, Vec<(u8, u64)>> = BTreeMap::new();
        for row in &rows {
            let request = &requests[usize::try_from(row.sequence).unwrap()].request;
            prop_assert_eq!(u64::from(row.pc.0), request.pc - CODE);
            prop_assert_eq!((row.block, row.warp), (request.block, u16::from(request.warp)));
            prop_assert_eq!(row.access_bytes, request.access_bytes);
            let ends = row.lanes().map(|(_, address)| address.0 - row.address.0 + u64::from(row.access_bytes));
            prop_assert_eq!(ends.max().unwrap(), row.span_bytes);
            lanes.entry(row.sequence).or_default().extend(row.lanes().map(|(lane, address)| (lane, address.0)));
        }
        for (sequence, request) in (0..).zip(&requests) {
            let mut lanes = lanes.remove(&sequence).unwrap_or_default();
            lanes.sort_unstable();
            prop_assert_eq!(&lanes, &request.lanes);
        }
        let lane_count: u64 = requests.iter().map(|request| request.lanes.len() as u64).sum();
        prop_assert_eq!(converted.request_count, requests.len() as u64);
        prop_assert_eq!(converted.lane_access_count, lane_count);
        prop_assert!(converted.lost.is_empty());
    }

    #[test]
    fn rounds_and_parts_give_the_same_rows(
        requests in proptest::collection::vec(request(), 1..60),
        (held_bytes, piece_bytes, part_rows) in (32..4000_u64, 32..1000_u64, 1..40_usize),
    ) {
        let example = example(&requests);
        let (at_once, counted) = rows(|emit| convert(&example.source(), emit));
        let order = |row: &MemoryAccess| (row.function_id, row.pc, row.block, row.warp, row.sequence);
        prop_assert!(at_once.is_sorted_by_key(order));
        let limits = ConversionLimits { held_bytes, piece_bytes, part_rows };
        let (in_parts, again) = rows(|emit| convert_within(&example.source(), limits, emit));
        prop_assert_eq!(&at_once, &in_parts);
        prop_assert_eq!(format!("{counted:?}"), format!("{again:?}"));
        let (small, again) = rows(|emit| {
            let (mut converted, batch) = convert_small(&[example.source()], &mut ConversionMemory::default())?;
            emit(vec![batch])?;
            Ok(converted.remove(0))
        });
        prop_assert_eq!(at_once, small);
        prop_assert_eq!(format!("{counted:?}"), format!("{again:?}"));
    }
}

#[test]
fn requests_of_unknown_code_are_counted() {
    let far = RequestHeader {
        address: 1,
        pc: 5,
        access_bytes: 4,
        flags: READ,
        lane_mask: 1,
        stride: 0,
        block: 0,
        warp: 0,
        space: 0,
        encoding: REGULAR,
    };
    let example = example(&[SampleRequest::new(far, |_| 0)]);
    let (rows, converted) = rows(|emit| convert(&example.source(), emit));
    assert_eq!((rows.len(), converted.request_count), (0, 0));
    assert_eq!(converted.lost, BTreeMap::from([("code of the instruction is not known", 1)]));
}

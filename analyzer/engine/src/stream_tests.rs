//! Analyses of streams of requests against naive recomputations of their definitions.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use proptest::prelude::*;
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc};
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};

use super::analysis::AccessAnalysis;
use super::derived::{BlockFootprint, InstructionReuse, LoadRedundancy, ReuseDistance, SectorSharing};
use super::redundancy::RedundancyAnalysis;
use super::reuse::{ReuseAnalysis, ReuseGrain};
use super::sharing::{self, SharingAnalysis};

/// A request, in queue order.
#[derive(Clone, Debug)]
struct MadeRequest {
    pc: u32,
    block: u64,
    warp: u16,
    mask: u32,
    address: u64,
    size: u8,
    stride: i32,
}

impl MadeRequest {
    fn kind(&self) -> AccessKind {
        match self.pc % 4 {
            0 | 1 => AccessKind::Read,
            2 => AccessKind::Write,
            _ => AccessKind::Atomic,
        }
    }

    /// Lanes with the bytes that they access.
    fn lanes(&self) -> Vec<(u32, std::ops::Range<u64>)> {
        let active: Vec<u32> = (0..32).filter(|lane| self.mask >> lane & 1 == 1).collect();
        let base = if self.stride < 0 { active.last() } else { active.first() };
        let base = i64::from(base.copied().unwrap_or(0));
        let address = |lane: u32| {
            self.address.checked_add_signed((i64::from(lane) - base) * i64::from(self.stride)).unwrap()
        };
        active.into_iter().map(|lane| (lane, address(lane)..address(lane) + u64::from(self.size))).collect()
    }

    fn units(&self, unit: u64) -> BTreeSet<u64> {
        self.lanes().into_iter().flat_map(|(_, bytes)| bytes.start / unit..=(bytes.end - 1) / unit).collect()
    }
}

fn made() -> impl Strategy<Value = Vec<MadeRequest>> {
    let size = prop_oneof![Just(1_u8), Just(2), Just(4), Just(4), Just(4), Just(8), Just(16)];
    let request = (0..4_u32, 0..3_u64, 0..2_u16, 1..256_u32, 0..40_u64, size, -2..3_i32, any::<bool>());
    let request = request.prop_map(|(pc, block, warp, mask, place, size, stride, is_odd)| MadeRequest {
        pc,
        block,
        warp,
        mask,
        address: 4096 + place * u64::from(size) + u64::from(is_odd && place % 7 == 0),
        size,
        stride: stride * i32::from(size),
    });
    proptest::collection::vec(request, 0..60)
}

/// The requests as a capture stores them: sorted by instruction, block and warp.
fn batch(requests: &[MadeRequest]) -> RecordBatch {
    let mut rows: Vec<(u64, &MadeRequest)> = (0..).zip(requests).collect();
    rows.sort_by_key(|(sequence, made)| (made.pc, made.block, made.warp, *sequence));
    let rows = rows.into_iter().map(|(sequence, made)| MemoryAccess {
        kernel_id: KernelId(7),
        function_id: FunctionId(1),
        pc: Pc(made.pc),
        block: made.block,
        warp: made.warp,
        sequence,
        kind: made.kind(),
        space: Space::Global,
        access_bytes: made.size,
        lane_mask: made.mask,
        address: Address(made.address),
        span_bytes: made.lanes().iter().map(|(_, bytes)| bytes.end).max().unwrap_or(0) - made.address,
        stride_bytes: Some(made.stride),
        offsets: None,
        offset_shift: 0,
    });
    MemoryAccess::batch(rows).unwrap()
}

/// All rows of an analysis for one launch, with input in pieces.
fn rows(mut analysis: impl AccessAnalysis, requests: &[MadeRequest]) -> Vec<RecordBatch> {
    let batch = batch(requests);
    for start in (0..batch.num_rows()).step_by(17) {
        analysis.add(&batch.slice(start, 17.min(batch.num_rows() - start))).unwrap();
    }
    analysis.end_launch();
    finish(&mut analysis, 1);
    analysis.end();
    analysis.take(1).unwrap().into_iter().collect()
}

/// Does the work on a launch, one part after the other.
fn finish(analysis: &mut impl AccessAnalysis, most: usize) {
    loop {
        let jobs = analysis.jobs(most);
        if jobs.is_empty() {
            return;
        }
        for mut job in jobs {
            while job.step() {}
        }
    }
}

fn read<R: stallmap_schema::table::TableRow>(batches: &[RecordBatch]) -> Vec<R> {
    batches.iter().flat_map(|batch| R::read_all(batch).unwrap()).collect()
}

/// For each read instruction: loads, and redundant ones by thread, warp, block and grid.
fn naive_redundancy(requests: &[MadeRequest]) -> BTreeMap<u32, [u64; 5]> {
    /// Sequence, block, warp, lane.
    type WarpLoad = (usize, u64, u16, u32);
    let mut loaded: BTreeMap<u64, Vec<WarpLoad>> = BTreeMap::new();
    let mut counts: BTreeMap<u32, [u64; 5]> = BTreeMap::new();
    for (sequence, made) in requests.iter().enumerate() {
        let (block, warp) = (made.block, made.warp);
        for (lane, bytes) in made.lanes() {
            if made.kind() != AccessKind::Read {
                bytes.for_each(|byte| {
                    loaded.remove(&byte);
                });
                continue;
            }
            let was_loaded = |by: &dyn Fn(&WarpLoad) -> bool| {
                let earlier = |byte: &u64| {
                    let loads = loaded.get(byte).map(Vec::as_slice).unwrap_or_default();
                    loads.iter().any(|load| load.0 < sequence && by(load))
                };
                bytes.clone().all(|byte| earlier(&byte))
            };
            let redundant = [
                was_loaded(&|load| (load.1, load.2, load.3) == (block, warp, lane)),
                was_loaded(&|load| (load.1, load.2) == (block, warp)),
                was_loaded(&|load| load.1 == block),
                was_loaded(&|_| true),
            ];
            let count = counts.entry(made.pc).or_default();
            count[0] += 1;
            for (sum, redundant) in count[1..].iter_mut().zip(redundant) {
                *sum += u64::from(redundant);
            }
            for byte in bytes {
                loaded.entry(byte).or_default().push((sequence, block, warp, lane));
            }
        }
    }
    counts
}

/// Cold touches, and the number and sum of the distances by power of two, of one stream.
fn naive_reuse(touches: &[u64], found: &mut BTreeMap<Option<u64>, (u64, u64)>) {
    for (now, unit) in touches.iter().enumerate() {
        let before = touches[..now].iter().rposition(|other| other == unit);
        let distance =
            before.map(|before| touches[before + 1..now].iter().collect::<BTreeSet<_>>().len() as u64);
        let from = distance.map(|distance| if distance == 0 { 0 } else { 1 << distance.ilog2() });
        let (count, sum) = found.entry(from).or_default();
        *count += 1;
        *sum += distance.unwrap_or(0);
    }
}

/// The stream of a block, or of all.
fn stream(requests: &[MadeRequest], block: Option<u64>, unit: u64) -> Vec<u64> {
    let held = requests.iter().filter(|made| block.is_none_or(|block| made.block == block));
    held.flat_map(|made| made.units(unit)).collect()
}

proptest! {
    #[test]
    fn redundant_loads_are_those_of_the_definition(requests in made()) {
        let found: BTreeMap<u32, [u64; 5]> = read::<LoadRedundancy>(&rows(RedundancyAnalysis::new(usize::MAX), &requests))
            .into_iter()
            .map(|row| {
                let of = |count: Option<u64>| count.unwrap();
                let counts = [row.loads, of(row.thread_loads), of(row.warp_loads), of(row.block_loads), of(row.grid_loads)];
                (row.pc.0, counts)
            })
            .collect();
        prop_assert_eq!(found, naive_redundancy(&requests));
    }

    #[test]
    fn reuse_distances_are_those_of_the_definition(requests in made()) {
        let found = read::<ReuseDistance>(&rows(ReuseAnalysis::new(ReuseGrain::Launch, usize::MAX), &requests));
        for (word, unit) in [("block", 32), ("block", 128), ("launch", 32), ("launch", 128)] {
            let mut expected = BTreeMap::new();
            if word == "launch" {
                naive_reuse(&stream(&requests, None, unit), &mut expected);
            } else {
                (0..3).for_each(|block| naive_reuse(&stream(&requests, Some(block), unit), &mut expected));
            }
            let mine: BTreeMap<Option<u64>, (u64, u64)> = found
                .iter()
                .filter(|row| (row.stream.0.as_ref(), row.unit_bytes) == (word, unit))
                .map(|row| {
                    let sum = row.mean_distance.unwrap_or(0.0) * row.touches as f64;
                    (row.distance_from, (row.touches, sum.round().to_string().parse().unwrap()))
                })
                .collect();
            prop_assert_eq!(mine, expected);
        }
    }

    #[test]
    fn reuse_by_instruction_is_that_of_the_definition(requests in made(), count in 1..4_u64) {
        let found = read::<InstructionReuse>(&rows(ReuseAnalysis::new(ReuseGrain::Instruction(count), usize::MAX), &requests));
        for (word, streams) in [("launch", 1), ("multiprocessor", count)] {
            // Per instruction and bucket, the touches of all streams.
            let mut expected: BTreeMap<(u32, Option<u64>), u64> = BTreeMap::new();
            for number in 0..streams {
                let mut touched: Vec<u64> = Vec::new();
                for made in requests.iter().filter(|made| made.block % streams == number) {
                    for sector in made.units(32) {
                        let last = touched.iter().rposition(|&known| known == sector);
                        let between = last.map(|last| touched[last + 1..].iter().collect::<BTreeSet<_>>().len() as u64);
                        let from = between.map(|between| if between == 0 { 0 } else { 1 << between.ilog2() });
                        *expected.entry((made.pc, from)).or_default() += 1;
                        touched.push(sector);
                    }
                }
            }
            let mine = found.iter().filter(|row| row.stream.0.as_ref() == word);
            let mine: BTreeMap<_, _> = mine.map(|row| ((row.pc.0, row.distance_from), row.touches)).collect();
            prop_assert_eq!(mine, expected);
        }
        for row in &found {
            let of_it = || requests.iter().filter(|made| made.pc == row.pc.0);
            prop_assert_eq!(row.requests, of_it().count() as u64);
            prop_assert_eq!(row.lines, of_it().map(|made| made.units(128).len() as u64).sum::<u64>());
        }
    }

    #[test]
    fn sharing_is_that_of_sets(requests in made()) {
        let mut blocks: BTreeMap<(&str, u64), BTreeSet<u64>> = BTreeMap::new();
        for made in &requests {
            for sector in made.units(32) {
                blocks.entry((made.kind().word(), sector)).or_default().insert(made.block);
            }
        }
        let (mut shared, mut footprints) = (BTreeMap::new(), BTreeMap::new());
        for ((kind, _), blocks) in &blocks {
            *shared.entry(((*kind).to_owned(), blocks.len() as u64)).or_insert(0_u64) += 1;
            for block in blocks {
                *footprints.entry(((*kind).to_owned(), *block)).or_insert(0_u64) += 1;
            }
        }
        let found = rows(SharingAnalysis::new(sharing::SharingGrain::Sharing, usize::MAX), &requests);
        let found = read::<SectorSharing>(&found).into_iter().map(|row| ((row.kind.0.to_string(), row.block_count), row.sectors));
        prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), shared);
        let found = rows(SharingAnalysis::new(sharing::SharingGrain::Block, usize::MAX), &requests);
        let found = read::<BlockFootprint>(&found).into_iter().map(|row| ((row.kind.0.to_string(), row.block), row.sectors));
        prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), footprints);
    }
}

/// One warp that reads lines in order, repeatedly.
fn sweeps(lines: u64, times: u64) -> Vec<MadeRequest> {
    let line = |place| MadeRequest {
        pc: 0,
        block: 0,
        warp: 0,
        mask: u32::MAX,
        address: (1 << 20) + place * 128,
        size: 4,
        stride: 4,
    };
    (0..times).flat_map(|_| (0..lines).map(line)).collect()
}

#[test]
fn a_sample_of_lines_estimates_distances() {
    let exact =
        read::<ReuseDistance>(&rows(ReuseAnalysis::new(ReuseGrain::Launch, usize::MAX), &sweeps(2000, 3)));
    let sampled =
        read::<ReuseDistance>(&rows(ReuseAnalysis::with_room(ReuseGrain::Launch, 6000), &sweeps(2000, 3)));
    let reused = |found: &[ReuseDistance]| {
        let lines = found.iter().filter(|row| row.stream.0.as_ref() == "block" && row.unit_bytes == 128);
        let lines = lines.filter(|row| row.reuse.0.as_ref() == "reused");
        lines.fold((0, 0.0, 1.0), |(touches, sum, _), row| {
            (touches + row.touches, sum + row.mean_distance.unwrap() * row.touches as f64, row.line_rate)
        })
    };
    let (touches, sum, rate) = reused(&exact);
    assert_eq!((touches, sum, rate), (4000, 4000.0 * 1999.0, 1.0));
    let (touches, sum, rate) = reused(&sampled);
    assert!(rate < 1.0, "{rate}");
    assert!((touches as f64 / 4000.0 - 1.0).abs() < 0.02, "{touches}");
    assert!((sum / touches as f64 / 1999.0 - 1.0).abs() < 0.15, "{}", sum / touches as f64);
}

#[test]
fn a_small_table_that_the_sample_misses_has_a_distance() {
    // A table of 2 sectors, one of which is read between two lines of a large array.
    let table = |place: u64| MadeRequest {
        pc: 16,
        address: (1 << 30) + place % 2 * 32,
        mask: 1,
        ..sweeps(1, 1).remove(0)
    };
    let requests: Vec<MadeRequest> =
        sweeps(2000, 3).into_iter().zip(0..).flat_map(|(line, place)| [line, table(place)]).collect();
    let of_table = |most| {
        let found = read::<InstructionReuse>(&rows(
            ReuseAnalysis::with_room(ReuseGrain::Instruction(1), most),
            &requests,
        ));
        let found = found.into_iter().filter(|row| row.pc.0 == 16 && row.stream.0.as_ref() == "launch");
        found.map(|row| (row.distance_from, row.touches)).collect::<Vec<_>>()
    };
    assert_eq!(of_table(usize::MAX), [(None, 2), (Some(8), 5998)]);
    let is_missed = |most: &usize| {
        let found = read::<InstructionReuse>(&rows(
            ReuseAnalysis::with_room(ReuseGrain::Instruction(1), *most),
            &requests,
        ));
        found.iter().all(|row| row.line_rate < 1.0) && of_table(*most) == [(None, 2), (Some(8), 5998)]
    };
    assert!([12_000, 6_000, 3_000, 1_500, 750].iter().all(is_missed));
}

#[test]
fn a_sample_of_sectors_estimates_redundancy_and_sharing() {
    let found = read::<LoadRedundancy>(&rows(RedundancyAnalysis::with_room(50_000), &sweeps(1000, 3)));
    assert_eq!(found.len(), 1);
    assert!(found[0].sector_rate < 1.0);
    assert_eq!((found[0].loads, found[0].load_bytes), (96_000, 384_000));
    assert_eq!(found[0].thread_loads, Some(64_000));
    // Adjacent lines would be one run.
    let apart: Vec<MadeRequest> =
        sweeps(1000, 1).into_iter().map(|made| MadeRequest { address: 2 * made.address, ..made }).collect();
    let found =
        read::<SectorSharing>(&rows(SharingAnalysis::with_room(sharing::SharingGrain::Sharing, 800), &apart));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].sector_rate < 1.0 && (found[0].sectors as f64 / 4000.0 - 1.0).abs() < 0.15,
        "{:?}",
        found[0]
    );
}

#[test]
fn nothing_is_lost_where_a_sample_is_empty() {
    let found = read::<LoadRedundancy>(&rows(RedundancyAnalysis::with_room(0), &sweeps(1, 2)));
    assert_eq!((found.len(), found[0].loads, found[0].thread_loads), (1, 64, None));
    let found = read::<ReuseDistance>(&rows(ReuseAnalysis::with_room(ReuseGrain::Launch, 0), &sweeps(1, 2)));
    assert!(found.iter().all(|row| row.reuse.0.as_ref() == "unknown"));
    assert_eq!(found.iter().map(|row| row.touches).collect::<Vec<_>>(), [8, 2, 8, 2]);
}

/// Requests of many blocks to more memory than one part of the work has.
fn many() -> Vec<MadeRequest> {
    let request = |row: u64| {
        let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let size = [4_u8, 4, 8, 16][usize::try_from(mixed >> 20 & 3).unwrap()];
        MadeRequest {
            pc: u32::try_from(row * 8 / 30_000).unwrap(),
            block: mixed >> 30 & 63,
            warp: u16::try_from(mixed >> 40 & 3).unwrap(),
            mask: u32::MAX >> (mixed >> 50 & 7),
            address: (1 << 20) + (mixed >> 8 & 0xfff) * 96 + (row & 1) * u64::from(size),
            size,
            stride: i32::try_from(mixed >> 55 & 3).unwrap() * i32::from(size),
        }
    };
    (0..30_000).map(request).collect()
}

#[test]
fn any_number_of_parts_has_the_rows_of_one() {
    let kinds: [fn() -> Box<dyn AccessAnalysis>; 5] = [
        || Box::new(RedundancyAnalysis::new(usize::MAX)),
        || Box::new(ReuseAnalysis::new(ReuseGrain::Launch, usize::MAX)),
        || Box::new(ReuseAnalysis::new(ReuseGrain::Instruction(5), usize::MAX)),
        || Box::new(SharingAnalysis::new(sharing::SharingGrain::Block, usize::MAX)),
        || Box::new(SharingAnalysis::new(sharing::SharingGrain::Sharing, usize::MAX)),
    ];
    let batch = batch(&many());
    for kind in kinds {
        let rows = |most: usize| {
            let mut analysis = kind();
            analysis.add(&batch).unwrap();
            analysis.end_launch();
            let mut most_jobs = 0;
            loop {
                let jobs = analysis.jobs(most);
                most_jobs = most_jobs.max(jobs.len());
                if jobs.is_empty() {
                    return (analysis.take(1).unwrap().unwrap(), most_jobs);
                }
                // In any order.
                for mut job in jobs.into_iter().rev() {
                    while job.step() {}
                }
            }
        };
        let (one, _) = rows(1);
        assert!(one.num_rows() > 0);
        for most in [2, 3, 7] {
            let (several, jobs) = rows(most);
            assert!(jobs > 1, "one part alone");
            assert_eq!(several, one, "{most} parts");
        }
    }
}

#[test]
fn a_sampled_sector_stands_for_no_more_than_an_instruction_touches() {
    let request = |pc, address| MadeRequest { pc, block: 0, warp: 0, mask: 1, address, size: 4, stride: 0 };
    for line in 0..64 {
        let hot = (0..100).map(|_| request(3, 4096 + 128 * line));
        let many = (0..4000).map(|other| request(0, (1 << 20) + 128 * other));
        let requests: Vec<MadeRequest> = hot.chain(many).collect();
        let found =
            read::<InstructionReuse>(&rows(ReuseAnalysis::new(ReuseGrain::Instruction(1), 400), &requests));
        assert!(found.iter().all(|row| row.line_rate < 1.0));
        let cold = found.iter().filter(|row| row.pc.0 == 3 && row.reuse.0.as_ref() == "cold");
        assert!(cold.map(|row| row.touches).all(|touches| touches == 1), "line {line}");
    }
}

//! Counts of accesses by instruction and range of memory: rows of `access_summary`, and rows of `memory_access` summed
//! by target where a launch has no better ones.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::UInt64Type;
use datafusion::error::Result;
use stallmap_schema::word::Space;

use super::access::{AccessBatch, InstructionColumns};
use super::index::column;
use super::request::{SECTOR_BYTES, WarpRequest};
use super::resolve::{AddressResolver, AddressTarget, LaneShare};
use stallmap_tables::words::InternedWords;

/// The columns of `access_summary` that are needed, in the order of the table.
pub(super) const COLUMNS: [&str; 12] = [
    "kernel_id",
    "function_id",
    "pc",
    "kind",
    "space",
    "address",
    "span_bytes",
    "request_count",
    "lane_count",
    "sectors",
    "unique_bytes",
    "ideal_sectors",
];

/// Requests, lanes, sectors, unique bytes, ideal sectors.
pub(super) type SummaryCounts = [u64; 5];

/// One instruction, and one kind of its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SummaryInstruction {
    pub(super) function_id: u64,
    pub(super) pc: u32,
    /// Numbers of the values.
    pub(super) kind: u8,
    pub(super) space: u8,
}

/// Accesses of an instruction to a range of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedRange {
    pub(super) instruction: SummaryInstruction,
    /// True for device memory.
    pub(super) is_global: bool,
    /// The lowest address that a lane accesses.
    pub(super) low: u64,
    /// The last byte that a lane accesses.
    pub(super) last: u64,
    pub(super) counts: SummaryCounts,
    /// The parameter of the launch, in words of 8 bytes, that points into the block of memory from nearest below `low`.
    pub(super) word: Option<u32>,
}

impl CountedRange {
    /// True if both share addresses.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.low <= other.last && other.low <= self.last
    }

    /// Lanes.
    pub(super) fn lanes(&self) -> u64 {
        self.counts[1]
    }
}

/// The range of the rows of each launch.
pub(super) type LaunchRowRanges = BTreeMap<u64, Range<usize>>;

/// The rows of `access_summary`, launch by launch.
pub(super) fn read(
    batch: &RecordBatch,
    words: &mut InternedWords,
) -> Result<(Vec<CountedRange>, LaunchRowRanges)> {
    let instructions = InstructionColumns::new(batch)?;
    let number = |name: &str| column::<UInt64Type>(batch, name);
    let (kernels, lows, spans) = (number("kernel_id")?, number("address")?, number("span_bytes")?);
    let [requests, lanes, sectors, unique, ideal] =
        ["request_count", "lane_count", "sectors", "unique_bytes", "ideal_sectors"].map(number);
    let counts = [requests?, lanes?, sectors?, unique?, ideal?];
    let (kinds, spaces) = (
        words.codes(instructions.kind.words.iter().copied()),
        words.codes(instructions.space.words.iter().copied()),
    );
    let mut rows: Vec<(u64, CountedRange)> = (0..batch.num_rows())
        .map(|row| {
            let instruction = instruction(&instructions, row, &kinds, &spaces);
            let low = lows.value(row);
            let counted = CountedRange {
                instruction,
                is_global: is_global(&words.word(instruction.space).0),
                low,
                last: low.saturating_add(spans.value(row).max(1) - 1),
                counts: counts.map(|count| count.value(row)),
                word: None,
            };
            (kernels.value(row), counted)
        })
        .collect();
    rows.sort_by_key(|(kernel_id, _)| *kernel_id);
    let mut ranges = BTreeMap::new();
    for launch in rows.chunk_by(|(one, _), (other, _)| one == other) {
        let start = ranges.last_key_value().map_or(0, |(_, last): (_, &Range<usize>)| last.end);
        if let Some((kernel_id, _)) = launch.first() {
            ranges.insert(*kernel_id, start..start + launch.len());
        }
    }
    Ok((rows.into_iter().map(|(_, counted)| counted).collect(), ranges))
}

fn is_global(space: &str) -> bool {
    matches!(Space::from_word(space), Some(Space::Global | Space::GlobalAsync))
}

fn instruction(of: &InstructionColumns<'_>, row: usize, kinds: &[u8], spaces: &[u8]) -> SummaryInstruction {
    SummaryInstruction {
        function_id: of.function_id[row],
        pc: of.pc[row],
        kind: kinds.get(of.kind.code(row)).copied().unwrap_or(u8::MAX),
        space: spaces.get(of.space.code(row)).copied().unwrap_or(u8::MAX),
    }
}

/// Rows of `memory_access`, summed by launch, instruction and target. Rows of one instruction are neighbours in a
/// capture, otherwise each run of them has sums of its own.
pub(super) struct SummaryPieces {
    resolver: AddressResolver,
    open: Vec<(AddressTarget, CountedRange)>,
    kernel_id: u64,
    shares: Vec<LaneShare>,
    done: BTreeMap<u64, Vec<CountedRange>>,
}

impl SummaryPieces {
    pub(super) fn new(resolver: AddressResolver) -> Self {
        Self { resolver, open: Vec::new(), kernel_id: 0, shares: Vec::new(), done: BTreeMap::new() }
    }

    /// Adds the rows of launches that are wanted.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        words: &mut InternedWords,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<()> {
        let (accesses, instructions) = (AccessBatch::new(batch)?, InstructionColumns::new(batch)?);
        let (kinds, spaces) = (
            words.codes(instructions.kind.words.iter().copied()),
            words.codes(instructions.space.words.iter().copied()),
        );
        for row in (0..batch.num_rows()).filter(|&row| is_wanted(accesses.kernel_id[row])) {
            let instruction = instruction(&instructions, row, &kinds, &spaces);
            let kernel_id = accesses.kernel_id[row];
            let is_same = self.open.first().is_some_and(|(_, open)| open.instruction == instruction);
            if kernel_id != self.kernel_id || !is_same {
                self.close();
                self.kernel_id = kernel_id;
                self.resolver.move_to(kernel_id);
            }
            self.add_request(&accesses.request(row), instruction, accesses.is_global(row));
        }
        Ok(())
    }

    fn add_request(&mut self, request: &WarpRequest<'_>, instruction: SummaryInstruction, is_global: bool) {
        if is_global {
            self.resolver.resolve(request, &mut self.shares);
        } else {
            self.shares.clear();
            self.shares.push(LaneShare { target: AddressTarget::NotGlobal, lane_mask: request.lane_mask });
        }
        for &LaneShare { target, lane_mask } in &self.shares {
            let touched = request.touched_in(lane_mask);
            let ideal = touched.unique_bytes.div_ceil(SECTOR_BYTES);
            let counts = [1, lane_mask.count_ones().into(), touched.sectors, touched.unique_bytes, ideal];
            let (low, last) = ends(request, lane_mask);
            if let Some((_, open)) = self.open.iter_mut().find(|(known, _)| *known == target) {
                (open.low, open.last) = (open.low.min(low), open.last.max(last));
                add(&mut open.counts, counts);
            } else {
                let counted = CountedRange { instruction, is_global, low, last, counts, word: None };
                self.open.push((target, counted));
            }
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let open = self.open.drain(..).map(|(_, counted)| counted);
            self.done.entry(self.kernel_id).or_default().extend(open);
        }
    }

    /// The sums of each launch, by instruction.
    pub(super) fn finish(mut self) -> BTreeMap<u64, Vec<CountedRange>> {
        self.close();
        for pieces in self.done.values_mut() {
            pieces.sort_by_key(|piece| piece.instruction);
        }
        self.done
    }
}

/// The first and the last byte that some lanes access.
fn ends(request: &WarpRequest<'_>, lane_mask: u32) -> (u64, u64) {
    if lane_mask == request.lane_mask {
        return (request.address, request.address.saturating_add(request.span_bytes.max(1) - 1));
    }
    let lanes = request.addresses().filter(|(lane, _)| lane_mask >> lane & 1 == 1);
    let (low, high) = lanes.fold((u64::MAX, 0), |(low, high), (_, at)| (at.min(low), at.max(high)));
    (low, high.saturating_add(request.access_bytes.max(1) - 1))
}

/// Adds counts, which a capture from elsewhere may have made too large.
pub(super) fn add(sums: &mut SummaryCounts, counts: SummaryCounts) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(count);
    }
}

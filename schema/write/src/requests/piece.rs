//! Pieces: some frames of a launch, which one thread reads.

use stallmap_schema::capture::segment::{FrameBuffer, FrameRef};

use super::by_pc::ByPc;
use super::chunk::{FillingChunk, InstructionRef, RequestChunk, RowBorder, warp_number};
use super::record::{self, RequestRecord};
use super::{ConvertedLaunch, LaunchSource};

/// Patterns of an instruction that a record is compared with. Tiles of a matrix repeat a few.
const RECENT: usize = 4;

/// The records that become entries.
#[derive(Clone, Copy, Debug)]
pub enum RecordFilter {
    /// All.
    All,
    /// One in so many.
    Every(u64),
    /// Records from one border to the next, both before the first record of a warp.
    Between(Option<RowBorder>, Option<RowBorder>),
}

/// Frames that were read.
#[derive(Debug, Default)]
pub struct FramePiece {
    pub(super) chunks: Vec<RequestChunk>,
    /// Number of records.
    pub(super) count: u64,
    executed: Vec<(Option<InstructionRef>, ExecutedRequests)>,
    lost: Vec<&'static str>,
}

/// Requests of one instruction.
#[derive(Clone, Copy, Debug, Default)]
struct ExecutedRequests {
    requests: u64,
    lanes: u64,
}

/// Memory that a thread uses for one piece after the other.
#[derive(Default)]
pub(super) struct PieceMemory {
    frame: FrameBuffer,
    filling: FillingChunk,
}

impl FramePiece {
    /// Reads frames. Positions of records are counted from the first of them.
    pub(super) fn read(
        source: &LaunchSource<'_>,
        frames: &[FrameRef],
        keep: RecordFilter,
        memory: &mut PieceMemory,
    ) -> Self {
        let PieceMemory { frame: buffer, filling } = memory;
        let mut reading = PieceReader {
            source,
            keep,
            filling,
            codes: ByPc::default(),
            order: PieceOrder::default(),
            chunks: Vec::new(),
        };
        let mut sequence = 0;
        let mut lost = Vec::new();
        for frame in frames {
            let Ok(records) = source.segment.requests(frame, buffer) else {
                lost.push("damaged frame");
                continue;
            };
            for record in record::records(records) {
                let Ok((_, record)) = record else {
                    lost.push("malformed record");
                    break;
                };
                reading.add(&record, sequence);
                sequence += 1;
            }
        }
        reading.close();
        let executed = reading.codes.values.iter().map(|code| (code.instruction, code.executed)).collect();
        Self { chunks: reading.chunks, count: sequence, executed, lost }
    }

    /// Moves its records to their position in the launch.
    pub(super) fn follow(&mut self, first_sequence: u64) {
        for chunk in &mut self.chunks {
            chunk.first_sequence += first_sequence;
        }
    }

    /// Adds its number of records that become rows, and of those that do not.
    pub(super) fn count(&self, converted: &mut ConvertedLaunch) {
        for (instruction, executed) in &self.executed {
            if let Some((function_id, _)) = instruction {
                converted.request_count += executed.requests;
                converted.lane_access_count += executed.lanes;
                converted.functions.insert(*function_id);
            } else {
                let reason = "code of the instruction is not known";
                *converted.lost.entry(reason).or_default() += executed.requests;
            }
        }
        for reason in &self.lost {
            // How many requests a damaged frame held is not known: at least one.
            *converted.lost.entry(reason).or_default() += 1;
        }
    }
}

/// A piece while it is read.
struct PieceReader<'r, 's> {
    source: &'r LaunchSource<'s>,
    keep: RecordFilter,
    filling: &'r mut FillingChunk,
    codes: ByPc<PieceInstruction>,
    order: PieceOrder,
    chunks: Vec<RequestChunk>,
}

/// One instruction.
struct PieceInstruction {
    /// `None` for code that is not known.
    instruction: Option<InstructionRef>,
    executed: ExecutedRequests,
    recent: [RecentPattern; RECENT],
    /// The one of these that the next pattern replaces.
    oldest: usize,
}

/// A pattern that records had.
#[derive(Default)]
struct RecentPattern {
    /// Number of the chunk that holds it, from 1 on.
    chunk: usize,
    pattern: u16,
    shape: (u64, u32),
    distances: Vec<u8>,
    /// Distances of the lowest and the highest lane address from the record's.
    reach: (i64, i64),
}

impl RecentPattern {
    /// The address of the row of a record, if it has this pattern.
    #[inline]
    fn address(&self, chunk: usize, record: &RequestRecord<'_>, shape: (u64, u32)) -> Option<u64> {
        if self.chunk != chunk || self.shape != shape {
            return None;
        }
        let distances = record.lane_distances();
        if !distances.is_empty() && self.distances != distances {
            return None;
        }
        let address = record.request.address;
        address.checked_add_signed(self.reach.1)?;
        address.checked_add_signed(self.reach.0)
    }
}

impl PieceReader<'_, '_> {
    #[inline]
    fn add(&mut self, record: &RequestRecord<'_>, sequence: u64) {
        let request = &record.request;
        let make = || PieceInstruction {
            instruction: (self.source.find)(request.pc, self.source.ordinal),
            executed: ExecutedRequests::default(),
            recent: Default::default(),
            oldest: 0,
        };
        let position = self.codes.position_or(request.pc, make);
        let code = &mut self.codes.values[position];
        code.executed.requests += 1;
        code.executed.lanes += record.lanes();
        let Some(instruction) = code.instruction else { return };
        let warp = warp_number(request);
        let is_kept = match self.keep {
            RecordFilter::All => true,
            RecordFilter::Every(step) => sequence.is_multiple_of(step),
            RecordFilter::Between(from, to) => {
                let border = RowBorder { instruction, warp, sequence };
                from.is_none_or(|from| from <= border) && to.is_none_or(|to| border < to)
            }
        };
        if !is_kept {
            return;
        }
        if !self.filling.has_room(sequence, warp) {
            self.close();
        }
        let chunk = self.chunks.len() + 1;
        let shape = record.shape();
        let code = &mut self.codes.values[position];
        let found = code
            .recent
            .iter()
            .find_map(|recent| recent.address(chunk, record, shape).map(|address| (address, recent.pattern)));
        match found {
            Some((address, pattern)) => self.filling.add(address, warp, sequence, pattern),
            None => add_new(self.filling, (position, code), record, (chunk, warp, sequence)),
        }
    }

    /// Sorts the chunk, and begins the next one.
    fn close(&mut self) {
        self.order.update(&self.codes.values);
        self.chunks.extend(self.filling.take(&self.order.ranks, &self.order.instructions));
    }
}

/// Adds the rows of a record with a pattern that is not among the recent ones.
fn add_new(
    filling: &mut FillingChunk,
    (position, code): (usize, &mut PieceInstruction),
    record: &RequestRecord<'_>,
    (chunk, warp, sequence): (usize, u64, u64),
) {
    let address = record.request.address;
    let mut alone = None;
    let mut pieces = 0;
    record.for_each_piece(|piece| {
        let pattern = filling.add_pattern(position, record, &piece);
        filling.add(piece.address, warp, sequence, pattern);
        pieces += 1;
        let low = piece.address.wrapping_sub(address).cast_signed();
        let length = piece.span_bytes.saturating_sub(record.request.access_bytes.into());
        let high = i64::try_from(length).ok().and_then(|length| low.checked_add(length));
        alone = high.map(|high| (pattern, (low, high)));
    });
    let Some((pattern, reach)) = alone.filter(|_| pieces == 1) else { return };
    // Where addresses wrap around, another record's would not.
    if address.checked_add_signed(reach.0).and(address.checked_add_signed(reach.1)).is_none() {
        return;
    }
    let recent = &mut code.recent[code.oldest];
    code.oldest = (code.oldest + 1) % RECENT;
    (recent.chunk, recent.pattern, recent.shape, recent.reach) = (chunk, pattern, record.shape(), reach);
    recent.distances.clear();
    recent.distances.extend_from_slice(record.lane_distances());
}

/// The instructions of a piece in the table's order.
#[derive(Default)]
struct PieceOrder {
    instructions: Vec<InstructionRef>,
    /// Position among them, by instruction. Code that is not known has none, and no entries.
    ranks: Vec<u32>,
}

impl PieceOrder {
    fn update(&mut self, codes: &[PieceInstruction]) {
        if self.ranks.len() == codes.len() {
            return;
        }
        self.instructions = codes.iter().filter_map(|code| code.instruction).collect();
        self.instructions.sort_unstable();
        self.instructions.dedup();
        let rank = |code: &PieceInstruction| self.instructions.binary_search(&code.instruction?).ok();
        let ranks = codes.iter().map(|code| rank(code).and_then(|rank| u32::try_from(rank).ok()));
        self.ranks = ranks.map(Option::unwrap_or_default).collect();
    }
}

//! Accesses of several parties to the same bytes, of which one writes: blocks of a launch, or warps of a block.

use std::collections::BTreeMap;
use std::ops::Range;

use super::pieces::PieceUse;
use super::request::SECTOR_BYTES;
use super::sampler::HashSampler;

/// Parties of one instruction that are compared in one sector. A conflict of many has one of few.
const MAX_PARTIES: usize = 8;
/// Sectors between two writes that count as written: few long spans are found sooner.
const WRITE_GAP: u64 = 32;
/// Maximum of touches. Beyond it, sectors are sampled.
const MAX_TOUCHES: usize = 1 << 23;

/// Bytes of one sector that one request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PartyTouch {
    group: u64,
    sector: u64,
    instruction: u32,
    party: u64,
    /// One bit for each byte.
    bytes: u32,
    /// The request, by the caller's number.
    request: u32,
}

/// The origin of accesses: who makes them, and by which instruction and request, by the caller's numbers.
#[derive(Clone, Copy, Debug)]
pub struct AccessOrigin {
    /// Only accesses of one group can conflict.
    pub group: u64,
    /// Accesses of one party never conflict.
    pub party: u64,
    /// The instruction.
    pub instruction: u32,
    /// The request.
    pub request: u32,
}

/// Two instructions whose accesses conflict. The first writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionConflict {
    /// The two instructions.
    pub instructions: [u32; 2],
    /// A warp request of each: the one that is found first.
    pub requests: [u32; 2],
    /// The first byte that both of these touch.
    pub address: u64,
    /// Bytes that both instructions touch, each once in its group.
    pub bytes: u64,
}

/// Collects accesses, and finds conflicts.
#[derive(Debug)]
pub struct ConflictSearch {
    touches: Vec<PartyTouch>,
    sampler: HashSampler,
    most_touches: usize,
}

impl ConflictSearch {
    /// With some bytes of memory.
    pub fn new(room_bytes: usize) -> Self {
        let most_touches = MAX_TOUCHES.min(room_bytes / size_of::<PartyTouch>() / 2).max(1);
        Self { touches: Vec::new(), sampler: HashSampler::default(), most_touches }
    }

    /// Adds an access to some bytes.
    pub fn push(&mut self, origin: AccessOrigin, address: u64, bytes: u64) {
        let (mut low, high) = (address, address.saturating_add(bytes));
        while low < high {
            let (sector, start) = (low / SECTOR_BYTES, low % SECTOR_BYTES);
            let count = (SECTOR_BYTES - start).min(high - low);
            let mask = u32::try_from(u64::MAX >> (64 - count) << start).unwrap_or(u32::MAX);
            self.touch(origin, sector, mask);
            low += count;
        }
    }

    fn touch(&mut self, origin: AccessOrigin, sector: u64, bytes: u32) {
        let AccessOrigin { group, party, instruction, request } = origin;
        if !self.sampler.keeps(sector) {
            return;
        }
        let touch = PartyTouch { group, sector, instruction, party, bytes, request };
        if let Some(last) = self.touches.last_mut() {
            let key = |touch: &PartyTouch| (touch.group, touch.sector, touch.instruction, touch.party);
            if key(last) == key(&touch) {
                last.bytes |= bytes;
                return;
            }
        }
        self.touches.push(touch);
        while self.touches.len() > self.most_touches {
            self.sampler.halve();
            let sampler = self.sampler;
            self.touches.retain(|touch| sampler.keeps(touch.sector));
        }
    }

    /// Moves the touches of requests to the groups that a function names, each to all of them. Those of none are left out.
    pub fn regroup(&mut self, groups: impl Fn(u32) -> Range<u64>) {
        let mut others = Vec::new();
        self.touches.retain_mut(|touch| {
            let mut named = groups(touch.request);
            let first = named.next();
            touch.group = first.unwrap_or_default();
            others.extend(named.map(|group| PartyTouch { group, ..*touch }));
            first.is_some()
        });
        self.touches.append(&mut others);
    }

    /// The sampled part of all sectors.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.touches.capacity() * size_of::<PartyTouch>()
    }

    /// The conflicts, by the use of each instruction. Starts again.
    pub fn take(&mut self, uses: &[PieceUse]) -> Vec<InstructionConflict> {
        let mut found = BTreeMap::new();
        let is_read = |touch: &PartyTouch| use_of(uses, touch.instruction) == PieceUse::Read;
        if !self.touches.iter().all(is_read) {
            let written = written_spans(self.touches.iter().filter(|touch| !is_read(touch)));
            self.touches.retain(|touch| is_in(&written, touch));
            self.touches.sort_unstable();
            let same = |a: &PartyTouch, b: &PartyTouch| (a.group, a.sector) == (b.group, b.sector);
            for touches in self.touches.chunk_by(same).filter(|touches| !touches.iter().all(is_read)) {
                compare(touches, uses, &mut found);
            }
        }
        let sampler = std::mem::take(&mut self.sampler);
        self.touches.clear();
        self.touches.shrink_to(self.most_touches / 8);
        let scaled = |conflict: InstructionConflict| InstructionConflict {
            bytes: sampler.scale(conflict.bytes),
            ..conflict
        };
        found.into_values().map(scaled).collect()
    }
}

/// Sectors of a group, from the first to the last.
type SectorSpan = (u64, u64, u64);

/// Spans of sectors that hold all of some touches, in order, with gaps of less than [`WRITE_GAP`] sectors.
fn written_spans<'a>(touches: impl Iterator<Item = &'a PartyTouch>) -> Vec<SectorSpan> {
    // Neighbours come one after the other, so most touches join the span before.
    let mut spans: Vec<SectorSpan> = Vec::new();
    for touch in touches {
        match spans.last_mut() {
            Some((group, first, last))
                if *group == touch.group
                    && (first.saturating_sub(WRITE_GAP)..=last.saturating_add(WRITE_GAP))
                        .contains(&touch.sector) =>
            {
                (*first, *last) = ((*first).min(touch.sector), (*last).max(touch.sector));
            }
            _ => spans.push((touch.group, touch.sector, touch.sector)),
        }
    }
    spans.sort_unstable();
    spans.dedup_by(|next, (group, _, last)| {
        let is_near = next.0 == *group && next.1 <= last.saturating_add(WRITE_GAP);
        if is_near {
            *last = (*last).max(next.2);
        }
        is_near
    });
    spans
}

/// True for a touch of a sector in one of some spans.
fn is_in(spans: &[SectorSpan], touch: &PartyTouch) -> bool {
    let behind = spans.partition_point(|(group, first, _)| (*group, *first) <= (touch.group, touch.sector));
    let before = behind.checked_sub(1).and_then(|at| spans.get(at));
    before.is_some_and(|(group, _, last)| *group == touch.group && touch.sector <= *last)
}

fn use_of(uses: &[PieceUse], instruction: u32) -> PieceUse {
    uses.get(instruction as usize).copied().unwrap_or(PieceUse::Read)
}

/// Adds the conflicts of a sector, whose touches are sorted.
fn compare(touches: &[PartyTouch], uses: &[PieceUse], found: &mut BTreeMap<(u32, u32), InstructionConflict>) {
    let mut parties: Vec<PartyTouch> = Vec::new();
    for touch in touches {
        match parties.last_mut() {
            Some(last) if (last.instruction, last.party) == (touch.instruction, touch.party) => {
                last.bytes |= touch.bytes;
            }
            _ => {
                let known = parties.iter().rev().take(MAX_PARTIES);
                if known.filter(|known| known.instruction == touch.instruction).count() < MAX_PARTIES {
                    parties.push(*touch);
                }
            }
        }
    }
    let mut common = BTreeMap::<(u32, u32), (u32, InstructionConflict)>::new();
    for (index, a) in parties.iter().enumerate() {
        for b in &parties[index + 1..] {
            let (first, second) = (use_of(uses, a.instruction), use_of(uses, b.instruction));
            let conflicts = match (first, second) {
                (PieceUse::Read, PieceUse::Read) | (PieceUse::Both, PieceUse::Both) => false,
                _ => a.party != b.party && a.bytes & b.bytes != 0,
            };
            if !conflicts {
                continue;
            }
            // A write comes first, then an atomic.
            let rank = |kind| match kind {
                PieceUse::Write => 0,
                PieceUse::Both => 1,
                PieceUse::Read => 2,
            };
            let (a, b) = if rank(second) < rank(first) { (b, a) } else { (a, b) };
            let both = a.bytes & b.bytes;
            let conflict = InstructionConflict {
                instructions: [a.instruction, b.instruction],
                requests: [a.request, b.request],
                address: a.sector * SECTOR_BYTES + u64::from(both.trailing_zeros()),
                bytes: 0,
            };
            common.entry((a.instruction, b.instruction)).or_insert((0, conflict)).0 |= both;
        }
    }
    for (key, (bytes, conflict)) in common {
        found.entry(key).or_insert(conflict).bytes += u64::from(bytes.count_ones());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USES: [PieceUse; 3] = [PieceUse::Read, PieceUse::Write, PieceUse::Both];

    fn conflicts(accesses: &[(u64, u64, u32, u64, u64)]) -> Vec<([u32; 2], u64, u64)> {
        let mut search = ConflictSearch::new(usize::MAX);
        for (request, &(group, party, instruction, address, bytes)) in (0..).zip(accesses) {
            search.push(AccessOrigin { group, party, instruction, request }, address, bytes);
        }
        let found = search.take(&USES);
        found.iter().map(|found| (found.instructions, found.address, found.bytes)).collect()
    }

    #[test]
    fn bytes_that_two_parties_touch_and_one_writes_conflict() {
        assert_eq!(conflicts(&[(0, 1, 1, 100, 8), (0, 2, 0, 104, 8)]), [([1, 0], 104, 4)]);
        assert_eq!(conflicts(&[(0, 1, 1, 100, 8), (0, 2, 1, 96, 5)]), [([1, 1], 100, 1)]);
        assert_eq!(conflicts(&[(0, 1, 2, 0, 4), (0, 2, 1, 0, 4)]), [([1, 2], 0, 4)]);
        assert_eq!(conflicts(&[(0, 1, 1, 0, 128), (0, 2, 0, 0, 128)]), [([1, 0], 0, 128)]);
    }

    #[test]
    fn accesses_that_cannot_conflict_do_not() {
        assert_eq!(conflicts(&[(0, 1, 1, 100, 4), (0, 2, 0, 104, 8)]), [], "other bytes of the sector");
        assert_eq!(conflicts(&[(0, 1, 1, 100, 4), (0, 1, 0, 100, 4)]), [], "one party");
        assert_eq!(conflicts(&[(0, 1, 0, 100, 4), (0, 2, 0, 100, 4)]), [], "reads");
        assert_eq!(conflicts(&[(0, 1, 2, 100, 4), (0, 2, 2, 100, 4)]), [], "atomics");
        assert_eq!(conflicts(&[(0, 1, 1, 100, 4), (1, 2, 1, 100, 4)]), [], "groups");
    }

    #[test]
    fn spans_hold_every_write_and_no_distant_sector() {
        let touch =
            |group, sector| PartyTouch { group, sector, instruction: 0, party: 0, bytes: 1, request: 0 };
        let touches = [(0, 900), (0, 10), (0, 931), (1, 10), (0, 20), (0, 868), (0, 5000)];
        let touches = touches.map(|(group, sector)| touch(group, sector));
        let spans = written_spans(touches.iter());
        assert_eq!(spans, [(0, 10, 20), (0, 868, 931), (0, 5000, 5000), (1, 10, 10)]);
        assert!(touches.iter().all(|touch| is_in(&spans, touch)));
        let others = [(0, 9), (0, 21), (0, 932), (1, 9), (1, 868), (2, 10), (0, 4999), (0, 5001)];
        assert!(!others.into_iter().any(|(group, sector)| is_in(&spans, &touch(group, sector))));
    }

    #[test]
    fn many_parties_of_a_read_do_not_hide_a_write() {
        let mut accesses: Vec<_> = (0..1000).map(|party| (0, party, 0, 64, 4)).collect();
        accesses.push((0, 3, 1, 64, 4));
        assert_eq!(conflicts(&accesses), [([1, 0], 64, 4)]);
    }

    #[test]
    fn little_memory_samples_sectors() {
        let mut search = ConflictSearch::new(size_of::<PartyTouch>() * 2000);
        for block in 0..8000 {
            let origin = AccessOrigin { group: 0, party: block, instruction: 1, request: 0 };
            search.push(origin, block * 32, 33);
        }
        assert!(search.rate() < 0.5);
        let found = search.take(&USES);
        assert_eq!(found.len(), 1);
        assert!((4000..16000).contains(&found[0].bytes), "{found:?}");
    }
}

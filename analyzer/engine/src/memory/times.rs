//! The times at which the requests of one launch touch pieces of memory.

use std::ops::Range;

use super::numbers::{NumberMap, position};
use super::pieces::{CHUNK, MemoryObject, PieceUse};
use super::sampler::HashSampler;

/// Adjacent pieces with an entry.
pub(super) const ROW: usize = 8;
const ROWS_OF_CHUNK: usize = 8;
const _: () = assert!(CHUNK == (ROWS_OF_CHUNK * ROW) as u64);

/// Memory that stays for the next launch.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Adjacent pieces that a launch touches: the first and last requests that read and wrote each. The last are counted
/// from 1, 0 for never. Requests past the 4 billionth are one.
#[derive(Clone, Copy, Debug)]
pub(super) struct TouchedPieces {
    pub(super) first_read: [u32; ROW],
    pub(super) last_read: [u32; ROW],
    pub(super) first_write: [u32; ROW],
    pub(super) last_write: [u32; ROW],
    /// One bit for each piece.
    pub(super) touched: u8,
}

/// The first request of pieces that none touches.
const NEVER: [u32; ROW] = [!0; ROW];

/// A row that no request touches.
const UNTOUCHED: TouchedPieces = TouchedPieces {
    first_read: NEVER,
    last_read: [0; ROW],
    first_write: NEVER,
    last_write: [0; ROW],
    touched: 0,
};

impl TouchedPieces {
    /// Touches some pieces. Returns the number of those that are touched for the first time.
    fn touch(&mut self, pieces: Range<usize>, kind: PieceUse, sequence: u32) -> usize {
        if kind != PieceUse::Write {
            touch(&mut self.first_read, &mut self.last_read, &pieces, sequence);
        }
        if kind != PieceUse::Read {
            touch(&mut self.first_write, &mut self.last_write, &pieces, sequence);
        }
        let bits = (1_u16 << pieces.end) - (1_u16 << pieces.start);
        let new = u8::try_from(bits).unwrap_or(u8::MAX) & !self.touched;
        self.touched |= new;
        new.count_ones() as usize
    }
}

/// Extends the times of some pieces to a request.
fn touch(first: &mut [u32; ROW], last: &mut [u32; ROW], pieces: &Range<usize>, sequence: u32) {
    if pieces.len() == ROW {
        // With a known number, the compiler makes one instruction of each.
        *first = first.map(|first| sequence.min(first));
        *last = last.map(|last| (sequence + 1).max(last));
        return;
    }
    for (first, last) in first.iter_mut().zip(last).take(pieces.end).skip(pieces.start) {
        (*first, *last) = (sequence.min(*first), (sequence + 1).max(*last));
    }
}

/// A chunk of an object: the object's number, and that of the chunk.
type ChunkKey = (u64, u64);

/// The pieces that a launch touches.
#[derive(Debug, Default)]
pub(super) struct TouchedRows {
    /// Positions in `chunks`.
    indexes: NumberMap<ChunkKey, u32>,
    /// The rows of each chunk, from 1. 0 before a row is touched.
    pub(super) chunks: Vec<(MemoryObject, u64, [u32; ROWS_OF_CHUNK])>,
    pub(super) all: Vec<TouchedPieces>,
    /// The chunk that was touched last. The next lane mostly touches it, too.
    last: Option<(ChunkKey, usize)>,
    /// Touched pieces of all rows.
    pub(super) count: usize,
}

impl TouchedRows {
    /// Touches pieces of one chunk, counted from its first.
    pub(super) fn touch(
        &mut self,
        object: MemoryObject,
        chunk: u64,
        pieces: Range<usize>,
        kind: PieceUse,
        sequence: u32,
    ) {
        let key = (object.number(), chunk);
        let index = match self.last {
            Some((last, index)) if last == key => index,
            _ => self.index(key, object),
        };
        let Some((_, _, numbers)) = self.chunks.get_mut(index) else { return };
        let (first, past) = (pieces.start / ROW, pieces.end.div_ceil(ROW));
        for (number, row) in numbers.iter_mut().zip(0..).take(past).skip(first) {
            if *number == 0 {
                self.all.push(UNTOUCHED);
                *number = position(self.all.len());
            }
            let Some(known) = self.all.get_mut(*number as usize - 1) else { continue };
            let begin = row * ROW;
            let own = pieces.start.max(begin) - begin..pieces.end.min(begin + ROW) - begin;
            self.count += known.touch(own, kind, sequence);
        }
    }

    fn index(&mut self, key: ChunkKey, object: MemoryObject) -> usize {
        let next = position(self.chunks.len());
        let index = *self.indexes.entry(key).or_insert(next);
        if index == next {
            self.chunks.push((object, key.1, [0; ROWS_OF_CHUNK]));
        }
        self.last = Some((key, index as usize));
        index as usize
    }

    /// Keeps only the sample.
    pub(super) fn retain(&mut self, sampler: HashSampler) {
        let before = std::mem::take(self);
        for (object, chunk, numbers) in before.chunks.into_iter().filter(|known| sampler.keeps(known.1)) {
            let index = self.index((object.number(), chunk), object);
            for (row, number) in numbers.into_iter().enumerate().filter(|(_, number)| *number > 0) {
                let Some(known) = before.all.get(number as usize - 1) else { continue };
                self.all.push(*known);
                self.count += known.touched.count_ones() as usize;
                if let Some((_, _, numbers)) = self.chunks.get_mut(index) {
                    numbers[row] = position(self.all.len());
                }
            }
        }
        self.last = None;
    }

    /// Empties them for another launch. Memory stays where it is not much.
    pub(super) fn clear(&mut self) {
        if self.bytes() > MAX_KEPT_BYTES {
            *self = Self::default();
        }
        self.indexes.clear();
        self.chunks.clear();
        self.all.clear();
        (self.last, self.count) = (None, 0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.indexes.capacity() * size_of::<(ChunkKey, u32)>()
            + self.chunks.capacity() * size_of::<(MemoryObject, u64, [u32; ROWS_OF_CHUNK])>()
            + self.all.capacity() * size_of::<TouchedPieces>()
    }
}

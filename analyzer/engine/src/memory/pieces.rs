//! Accesses of launches to each piece of memory, over a complete capture: reads and writes in order.

use super::numbers::NumberMap;
use super::sampler::HashSampler;
use super::times::{ROW, TouchedPieces, TouchedRows};
use super::view::TensorView;

/// Maximum of pieces of memory per launch, and of chunks of 64 pieces per capture. Beyond it, chunks are sampled.
const MAX_PIECES: usize = 1 << 22;
const MAX_CHUNKS: usize = 1 << 22;
/// Bytes of memory for a piece in a row of its own, or for a chunk.
const ENTRY_BYTES: usize = 512;
/// Maximum bytes of a piece, unless elements are smaller.
pub const PIECE_BYTES: u64 = 4;
/// Pieces of a chunk.
pub(super) const CHUNK: u64 = 64;

/// A range of memory with a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryObject {
    /// A storage.
    Storage(u32),
    /// An allocation of the driver.
    Allocation(u32),
}

impl MemoryObject {
    /// A number that no other object has.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Storage(position) => u64::from(position) << 1,
            Self::Allocation(position) => u64::from(position) << 1 | 1,
        }
    }
}

/// Kind of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceUse {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads, then writes.
    Both,
}

/// One bit for each piece of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct PieceChunk {
    read: u64,
    written: u64,
    /// Set if a launch read it before any wrote it.
    read_first: u64,
    /// Set if a memcpy or memset had written it before a launch touched it.
    filled: u64,
    /// Set if no launch has read it since one wrote it.
    unread: u64,
    /// The same of launches and copies.
    unused: u64,
}

impl PieceChunk {
    /// Adds a launch's accesses to a row of pieces, of which it is the `at`th.
    fn settle(&mut self, at: usize, row: &TouchedPieces, is_filled: impl Fn(u64) -> bool) {
        for piece in (0..ROW).filter(|piece| row.touched >> piece & 1 == 1) {
            let position = (at * ROW + piece) as u64;
            let bit = 1 << position;
            let (reads, writes) = (row.last_read[piece] > 0, row.last_write[piece] > 0);
            if (self.read | self.written) & bit == 0 {
                if is_filled(position) {
                    self.filled |= bit;
                }
                if reads && row.first_read[piece] <= row.first_write[piece] {
                    self.read_first |= bit;
                }
            }
            self.read |= if reads { bit } else { 0 };
            self.written |= if writes { bit } else { 0 };
            let is_unread = writes && row.last_write[piece] >= row.last_read[piece];
            (self.unread, self.unused) = if is_unread {
                (self.unread | bit, self.unused | bit)
            } else {
                (self.unread & !bit, self.unused & !bit)
            };
        }
    }
}

/// Bytes of a target by their accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessedBytes {
    /// Read or written.
    pub touched: u64,
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
    /// Read by a launch before any wrote them, and written later.
    pub read_before_written: u64,
    /// Read by a launch before anything wrote them.
    pub uninitialized: u64,
    /// Written by a launch, and read by none since.
    pub unread: u64,
    /// The same for launches and copies.
    pub unused: u64,
}

/// Memory as launches left it.
#[derive(Debug, Default)]
pub struct MemoryState {
    /// Bytes of a piece of each storage: the size of its smallest elements.
    piece_bytes: Vec<u64>,
    rows: TouchedRows,
    chunks: NumberMap<(MemoryObject, u64), PieceChunk>,
    /// Per object, ranges written by memcpys and memsets.
    filled: NumberMap<MemoryObject, Vec<(u64, u64)>>,
    /// The chunks in order, after the end.
    sorted: Vec<((MemoryObject, u64), PieceChunk)>,
    sampler: HashSampler,
    most_pieces: usize,
    most_chunks: usize,
}

impl MemoryState {
    /// With some bytes of memory, and the bytes of a piece of each storage: powers of two.
    pub fn new(piece_bytes: Vec<u64>, room_bytes: usize) -> Self {
        Self {
            piece_bytes,
            most_pieces: MAX_PIECES.min(room_bytes / ENTRY_BYTES),
            most_chunks: MAX_CHUNKS.min(room_bytes / ENTRY_BYTES),
            ..Self::default()
        }
    }

    fn piece_bytes(&self, object: MemoryObject) -> u64 {
        match object {
            MemoryObject::Storage(storage) => {
                self.piece_bytes.get(storage as usize).copied().unwrap_or(PIECE_BYTES)
            }
            MemoryObject::Allocation(_) => PIECE_BYTES,
        }
    }

    /// The part of memory that is looked at.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// Scales a count of the sample.
    pub fn scale(&self, count: u64) -> u64 {
        self.sampler.scale(count)
    }

    /// Adjacent bytes that a request of the launch at hand accesses.
    pub fn touch(&mut self, object: MemoryObject, address: u64, bytes: u64, kind: PieceUse, sequence: u64) {
        let size = self.piece_bytes(object);
        let (mut piece, last) = (address / size, address.saturating_add(bytes.max(1) - 1) / size);
        let sequence = u32::try_from(sequence).unwrap_or(u32::MAX).min(u32::MAX - 1);
        while piece <= last {
            let chunk = piece / CHUNK;
            let end = last.min(chunk * CHUNK + CHUNK - 1);
            if self.sampler.keeps(chunk) {
                self.rows.touch(object, chunk, within(piece)..within(end) + 1, kind, sequence);
            }
            piece = end + 1;
        }
        while self.rows.count > self.most_pieces {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.sampler.halve();
        let sampler = self.sampler;
        self.rows.retain(sampler);
        self.chunks.retain(|(_, chunk), _| sampler.keeps(*chunk));
    }

    /// Ends the current launch.
    pub fn end_launch(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        for (object, chunk, numbers) in &rows.chunks {
            let size = self.piece_bytes(*object);
            let known = self.chunks.entry((*object, *chunk)).or_default();
            let filled = self.filled.get(object).map(Vec::as_slice).unwrap_or_default();
            for (at, number) in numbers.iter().enumerate().filter(|(_, number)| **number > 0) {
                let Some(row) = rows.all.get(*number as usize - 1) else { continue };
                known.settle(at, row, |position| {
                    let address = (chunk * CHUNK + position).saturating_mul(size);
                    filled.iter().any(|range| range.0 <= address && address < range.1)
                });
            }
        }
        rows.clear();
        self.rows = rows;
        while self.chunks.len() > self.most_chunks {
            self.halve();
        }
    }

    /// A copy from a range of an object, or to it, or a fill, between launches.
    pub fn copy(&mut self, object: MemoryObject, address: u64, bytes: u64, is_write: bool) {
        let end = address.saturating_add(bytes);
        if is_write {
            self.filled.entry(object).or_default().push((address, end));
            return;
        }
        let size = self.piece_bytes(object);
        let span = size * CHUNK;
        let (first, last) = (address / span, end.saturating_sub(1) / span);
        let read = |chunk: u64, known: &mut PieceChunk| {
            let start = chunk * CHUNK;
            let held = (0..CHUNK).filter(|bit| {
                let position = (start + bit).saturating_mul(size);
                address <= position && position < end
            });
            known.unused &= !held.fold(0, |mask, bit| mask | 1 << bit);
        };
        if last - first < self.chunks.len() as u64 {
            for chunk in first..=last {
                if let Some(known) = self.chunks.get_mut(&(object, chunk)) {
                    read(chunk, known);
                }
            }
        } else {
            let within = |of: MemoryObject, chunk: u64| of == object && first <= chunk && chunk <= last;
            let held = self.chunks.iter_mut().filter(|((of, chunk), _)| within(*of, *chunk));
            held.for_each(|((_, chunk), known)| read(*chunk, known));
        }
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
            + (self.chunks.capacity() + self.sorted.capacity())
                * size_of::<((MemoryObject, u64), PieceChunk)>()
    }

    /// Ends the input. Only results are requested from now on.
    pub fn end(&mut self) {
        self.sorted = self.chunks.drain().collect();
        self.sorted.sort_unstable_by_key(|&(key, _)| key);
    }

    /// Accesses to the bytes of an object, or of a view of it.
    pub fn found(&self, object: MemoryObject, view: Option<&TensorView>) -> AccessedBytes {
        let size = self.piece_bytes(object);
        let (low, high) = view.map_or((0, u64::MAX), |view| (view.low, view.high));
        let first = (object, low / (size * CHUNK));
        let start = self.sorted.partition_point(|(key, _)| *key < first);
        let chunks = self.sorted.get(start..).unwrap_or_default();
        let end = (object, high.saturating_sub(1) / (size * CHUNK));
        let mut found = AccessedBytes::default();
        for ((_, position), chunk) in chunks.iter().take_while(|(key, _)| *key <= end) {
            let touched = chunk.read | chunk.written;
            let holds = |bit: &u64| {
                let address = (position * CHUNK + bit).saturating_mul(size);
                touched >> bit & 1 == 1 && view.is_none_or(|view| view.holds(address))
            };
            let held = (0..CHUNK).filter(holds).fold(0_u64, |mask, bit| mask | 1 << bit);
            let bytes = |mask: u64| u64::from((mask & held).count_ones()) * size;
            found.touched += bytes(touched);
            found.read += bytes(chunk.read);
            found.written += bytes(chunk.written);
            found.read_before_written += bytes(chunk.read_first & chunk.written);
            found.uninitialized += bytes(chunk.read_first & !chunk.filled);
            found.unread += bytes(chunk.unread);
            found.unused += bytes(chunk.unused);
        }
        found
    }
}

/// The position of a piece in its chunk.
fn within(piece: u64) -> usize {
    usize::try_from(piece % CHUNK).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (MemoryState, MemoryObject) {
        (MemoryState::new(Vec::new(), usize::MAX), MemoryObject::Allocation(0))
    }

    #[test]
    fn the_order_of_reads_and_writes_is_that_of_requests() {
        let (mut memory, object) = memory();
        memory.touch(object, 0, 4, PieceUse::Write, 2);
        memory.touch(object, 0, 4, PieceUse::Read, 1);
        memory.touch(object, 4, 4, PieceUse::Write, 1);
        memory.touch(object, 4, 4, PieceUse::Read, 2);
        memory.touch(object, 8, 4, PieceUse::Both, 3);
        memory.end_launch();
        memory.end();
        let found = memory.found(object, None);
        assert_eq!((found.touched, found.read, found.written), (12, 12, 12));
        assert_eq!((found.read_before_written, found.unread), (8, 8));
        assert_eq!((found.uninitialized, found.unused), (8, 8));
    }

    #[test]
    fn copies_fill_and_use() {
        let (mut memory, object) = memory();
        memory.copy(object, 0, 8, true);
        memory.touch(object, 0, 16, PieceUse::Read, 0);
        memory.touch(object, 256, 16, PieceUse::Write, 1);
        memory.end_launch();
        memory.copy(object, 256, 4, false);
        memory.copy(object, 260, u64::MAX, false);
        memory.end();
        let found = memory.found(object, None);
        assert_eq!((found.read, found.written, found.uninitialized), (16, 16, 8));
        assert_eq!((found.unread, found.unused), (16, 0));
    }

    #[test]
    fn a_range_is_its_pieces_one_by_one() {
        let touches = [
            (0, 4000, PieceUse::Read, 3),
            (700, 90, PieceUse::Write, 2),
            (61, 5, PieceUse::Both, 4),
            (2047, 1, PieceUse::Read, 1),
        ];
        let (mut ranges, object) = memory();
        let mut bytes = memory().0;
        for (address, count, kind, sequence) in touches {
            ranges.touch(object, address, count, kind, sequence);
            (address..address + count).for_each(|byte| bytes.touch(object, byte, 1, kind, sequence));
        }
        for memory in [&mut ranges, &mut bytes] {
            memory.end_launch();
            memory.end();
        }
        let found = ranges.found(object, None);
        assert_eq!(found, bytes.found(object, None));
        assert_eq!((found.touched, found.written, found.read_before_written), (4000, 100, 8));
    }

    #[test]
    fn only_the_elements_of_a_view_are_found() {
        let (mut memory, object) = memory();
        memory.touch(object, 1024, 64, PieceUse::Write, 0);
        memory.end_launch();
        memory.end();
        let view = TensorView::new(1024, 4, &[4, 2], &[8, 1]).unwrap();
        assert_eq!(memory.found(object, Some(&view)).written, 16);
    }
}

//! Accesses of launches to each piece of memory, over a complete capture: reads and writes in order.

use datafusion::common::HashMap;

use super::copies::Copy;
use super::index::TensorIndex;
use super::resolve::Target;
use super::sampler::Sampler;
use super::view::View;

/// Maximum of pieces of memory per launch, and of chunks of 64 pieces per capture. Beyond it, chunks are sampled.
const MOST_PIECES: usize = 1 << 22;
const MOST_CHUNKS: usize = 1 << 22;
/// Bytes of memory for a piece in a row of its own, or for a chunk.
const ENTRY_BYTES: usize = 512;
/// Maximum bytes of a piece, unless elements are smaller.
const PIECE_BYTES: u64 = 4;
/// Pieces of a chunk.
const CHUNK: u64 = 64;
/// Pieces that share an entry of the current launch. Divides a chunk.
const ROW: u64 = 8;
const _: () = assert!(CHUNK.is_multiple_of(ROW));
/// Maximum of pieces per access: no instruction accesses more bytes.
const MOST_BYTES: u64 = 64;

/// A range of memory with a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Object {
    /// A storage.
    Storage(u32),
    /// An allocation of the driver.
    Allocation(u32),
}

impl Object {
    /// Range of a target.
    pub(super) fn of(index: &TensorIndex, target: Target) -> Option<Self> {
        match target {
            Target::Tensor(view) => index.views.get(view as usize).map(|view| Self::Storage(view.storage)),
            Target::Storage(storage) => Some(Self::Storage(storage)),
            Target::Allocation(allocation) => Some(Self::Allocation(allocation)),
            Target::Unknown | Target::NotGlobal => None,
        }
    }
}

/// Kind of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads, then writes.
    Both,
}

/// First and last requests of one launch that read and wrote a piece. The last are counted from 1, 0 for never. Requests
/// past the 4 billionth are one.
#[derive(Clone, Copy, Debug)]
struct Times {
    first_read: u32,
    last_read: u32,
    first_write: u32,
    last_write: u32,
}

const NEVER: Times = Times { first_read: u32::MAX, last_read: 0, first_write: u32::MAX, last_write: 0 };

impl Times {
    fn is_touched(&self) -> bool {
        self.last_read > 0 || self.last_write > 0
    }

    fn touch(&mut self, kind: Use, sequence: u32) {
        if kind != Use::Write {
            self.first_read = self.first_read.min(sequence);
            self.last_read = self.last_read.max(sequence + 1);
        }
        if kind != Use::Read {
            self.first_write = self.first_write.min(sequence);
            self.last_write = self.last_write.max(sequence + 1);
        }
    }
}

/// Adjacent pieces that a launch touches.
type Row = [Times; 8];

/// The rows of a launch, by object and number.
#[derive(Debug, Default)]
struct Rows {
    places: HashMap<(Object, u64), usize>,
    all: Vec<((Object, u64), Row)>,
    /// The row that was touched last. Its neighbours in a warp mostly touch it, too.
    last: Option<((Object, u64), usize)>,
    /// Touched pieces of all rows.
    touched: usize,
}

impl Rows {
    fn touch(&mut self, object: Object, piece: u64, kind: Use, sequence: u32) {
        let key = (object, piece / ROW);
        let place = match self.last {
            Some((last, place)) if last == key => place,
            _ => self.place(key),
        };
        let within = usize::try_from(piece % ROW).unwrap_or(0);
        let Some(times) = self.all.get_mut(place).and_then(|(_, row)| row.get_mut(within)) else { return };
        self.touched += usize::from(!times.is_touched());
        times.touch(kind, sequence);
    }

    fn place(&mut self, key: (Object, u64)) -> usize {
        let next = self.all.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.all.push((key, [NEVER; 8]));
        }
        self.last = Some((key, place));
        place
    }

    /// Keeps only the sample.
    fn retain(&mut self, sampler: Sampler) {
        for ((object, number), row) in std::mem::take(self).all {
            if sampler.keeps(number * ROW / CHUNK) {
                let key = (object, number);
                self.places.insert(key, self.all.len());
                self.all.push((key, row));
                self.touched += row.iter().filter(|times| times.is_touched()).count();
            }
        }
    }

    fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<((Object, u64), usize)>()
            + self.all.capacity() * size_of::<((Object, u64), Row)>()
    }
}

/// One bit for each piece of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
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

impl Chunk {
    /// Adds a launch's accesses to a piece.
    fn settle(&mut self, piece: u64, times: &Times, is_filled: impl FnOnce() -> bool) {
        let bit = 1 << (piece % CHUNK);
        let (reads, writes) = (times.last_read > 0, times.last_write > 0);
        if (self.read | self.written) & bit == 0 {
            if is_filled() {
                self.filled |= bit;
            }
            if reads && times.first_read <= times.first_write {
                self.read_first |= bit;
            }
        }
        self.read |= if reads { bit } else { 0 };
        self.written |= if writes { bit } else { 0 };
        let is_unread = writes && times.last_write >= times.last_read;
        (self.unread, self.unused) = if is_unread {
            (self.unread | bit, self.unused | bit)
        } else {
            (self.unread & !bit, self.unused & !bit)
        };
    }
}

/// Bytes of a target by their accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) touched: u64,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) read_before_written: u64,
    pub(super) uninitialized: u64,
    pub(super) unread: u64,
    pub(super) unused: u64,
}

/// Memory as launches left it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Bytes of a piece of each storage: the size of its smallest elements.
    piece_bytes: Vec<u64>,
    rows: Rows,
    chunks: HashMap<(Object, u64), Chunk>,
    /// Per object, ranges written by memcpys and memsets.
    filled: HashMap<Object, Vec<(u64, u64)>>,
    /// The chunks in order, after the end.
    sorted: Vec<((Object, u64), Chunk)>,
    sampler: Sampler,
    most_pieces: usize,
    most_chunks: usize,
    /// Per run, the processed memcpys.
    pub(super) copied: HashMap<usize, usize>,
}

impl Memory {
    /// With some bytes of memory.
    pub(super) fn new(index: &TensorIndex, room_bytes: usize) -> Self {
        let mut piece_bytes = vec![PIECE_BYTES; index.storage_ids.len()];
        for view in &index.views {
            if let Some(bytes) = piece_bytes.get_mut(view.storage as usize) {
                // A power of two that divides the element.
                let element = view.view.element_bytes().max(1);
                *bytes = (*bytes).min(1 << element.trailing_zeros().min(2));
            }
        }
        Self {
            piece_bytes,
            most_pieces: MOST_PIECES.min(room_bytes / ENTRY_BYTES),
            most_chunks: MOST_CHUNKS.min(room_bytes / ENTRY_BYTES),
            ..Self::default()
        }
    }

    fn piece_bytes(&self, object: Object) -> u64 {
        match object {
            Object::Storage(storage) => {
                self.piece_bytes.get(storage as usize).copied().unwrap_or(PIECE_BYTES)
            }
            Object::Allocation(_) => PIECE_BYTES,
        }
    }

    /// The part of memory that is looked at.
    pub(super) fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// Scales a count of the sample.
    pub(super) fn scale(&self, count: u64) -> u64 {
        self.sampler.scale(count)
    }

    /// An access of some bytes in the launch at hand.
    pub(super) fn touch(&mut self, object: Object, address: u64, bytes: u64, kind: Use, sequence: u64) {
        let size = self.piece_bytes(object);
        let last = address.saturating_add(bytes.clamp(1, MOST_BYTES) - 1);
        let sequence = u32::try_from(sequence).unwrap_or(u32::MAX).min(u32::MAX - 1);
        for piece in address / size..=last / size {
            if !self.sampler.keeps(piece / CHUNK) {
                continue;
            }
            self.rows.touch(object, piece, kind, sequence);
        }
        while self.rows.touched > self.most_pieces {
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
    pub(super) fn end_launch(&mut self) {
        for (key, row) in std::mem::take(&mut self.rows).all {
            self.settle(key, &row);
        }
        while self.chunks.len() > self.most_chunks {
            self.halve();
        }
    }

    fn settle(&mut self, (object, number): (Object, u64), row: &Row) {
        let size = self.piece_bytes(object);
        let chunk = self.chunks.entry((object, number * ROW / CHUNK)).or_default();
        let filled = self.filled.get(&object).map(Vec::as_slice).unwrap_or_default();
        for (piece, times) in (number * ROW..).zip(row).filter(|(_, times)| times.is_touched()) {
            chunk.settle(piece, times, || {
                let address = piece * size;
                filled.iter().any(|range| range.0 <= address && address < range.1)
            });
        }
    }

    /// A copy from or to an object, or a fill, between launches.
    pub(super) fn copy(&mut self, object: Object, copy: &Copy) {
        let end = copy.address.saturating_add(copy.bytes);
        if copy.is_write {
            self.filled.entry(object).or_default().push((copy.address, end));
            return;
        }
        let size = self.piece_bytes(object);
        let span = size * CHUNK;
        let (first, last) = (copy.address / span, end.saturating_sub(1) / span);
        let read = |chunk: u64, known: &mut Chunk| {
            let start = chunk * CHUNK;
            let held = (0..CHUNK).filter(|bit| {
                let address = (start + bit).saturating_mul(size);
                copy.address <= address && address < end
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
            let within = |of: Object, chunk: u64| of == object && first <= chunk && chunk <= last;
            let held = self.chunks.iter_mut().filter(|((of, chunk), _)| within(*of, *chunk));
            held.for_each(|((_, chunk), known)| read(*chunk, known));
        }
    }

    /// Bytes of memory that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes()
            + (self.chunks.capacity() + self.sorted.capacity()) * size_of::<((Object, u64), Chunk)>()
    }

    /// Ends the input. Only results are requested from now on.
    pub(super) fn end(&mut self) {
        self.sorted = self.chunks.drain().collect();
        self.sorted.sort_unstable_by_key(|&(key, _)| key);
    }

    /// Accesses to the bytes of an object, or of a view of it.
    pub(super) fn found(&self, object: Object, view: Option<&View>) -> Found {
        let size = self.piece_bytes(object);
        let (low, high) = view.map_or((0, u64::MAX), |view| (view.low, view.high));
        let first = (object, low / (size * CHUNK));
        let start = self.sorted.partition_point(|(key, _)| *key < first);
        let chunks = self.sorted.get(start..).unwrap_or_default();
        let end = (object, high.saturating_sub(1) / (size * CHUNK));
        let mut found = Found::default();
        for ((_, place), chunk) in chunks.iter().take_while(|(key, _)| *key <= end) {
            let touched = chunk.read | chunk.written;
            let holds = |bit: &u64| {
                let address = (place * CHUNK + bit).saturating_mul(size);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (Memory, Object) {
        (Memory::new(&TensorIndex::default(), usize::MAX), Object::Allocation(0))
    }

    #[test]
    fn the_order_of_reads_and_writes_is_that_of_requests() {
        let (mut memory, object) = memory();
        memory.touch(object, 0, 4, Use::Write, 2);
        memory.touch(object, 0, 4, Use::Read, 1);
        memory.touch(object, 4, 4, Use::Write, 1);
        memory.touch(object, 4, 4, Use::Read, 2);
        memory.touch(object, 8, 4, Use::Both, 3);
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
        let copy = |address, bytes, is_write| Copy {
            ordinal: 0,
            begin_ns: 0,
            address,
            bytes,
            is_write,
            owner: Some(object),
        };
        memory.copy(object, &copy(0, 8, true));
        memory.touch(object, 0, 16, Use::Read, 0);
        memory.touch(object, 256, 16, Use::Write, 1);
        memory.end_launch();
        memory.copy(object, &copy(256, 4, false));
        memory.copy(object, &copy(260, u64::MAX, false));
        memory.end();
        let found = memory.found(object, None);
        assert_eq!((found.read, found.written, found.uninitialized), (16, 16, 8));
        assert_eq!((found.unread, found.unused), (16, 0));
    }

    #[test]
    fn only_the_elements_of_a_view_are_found() {
        let (mut memory, object) = memory();
        memory.touch(object, 1024, 64, Use::Write, 0);
        memory.end_launch();
        memory.end();
        let view = View::new(1024, 4, &[4, 2], &[8, 1]).unwrap();
        assert_eq!(memory.found(object, Some(&view)).written, 16);
    }
}

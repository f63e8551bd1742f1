//! Reads of bytes that nothing wrote since their memory was allocated.

use super::numbers::NumberMap;
use super::pieces::MemoryObject;

/// Bytes of a page: one bit each.
const PAGE_BYTES: u64 = 64 * WORDS as u64;
const WORDS: usize = 64;
/// Maximum of pages that are written in part, of waiting reads, and of writes of a launch that keep their times.
const MAX_PAGES: usize = 1 << 18;
const MAX_WAITING: usize = 1 << 16;
const MAX_WRITES: usize = 1 << 22;

/// A read whose bytes nothing wrote before its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwrittenAccess {
    /// The memory.
    pub object: MemoryObject,
    /// First byte of the access.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Position among the launch's requests.
    pub sequence: u64,
    /// The caller's number.
    pub request: u32,
}

#[derive(Clone, Copy, Debug)]
struct LaunchWrite {
    object: MemoryObject,
    low: u64,
    high: u64,
    /// The first of its requests.
    sequence: u64,
}

/// Bytes of a page that were written. None if all were.
type WrittenPage = Option<Box<[u64; WORDS]>>;

/// Written bytes of memory objects, over a capture.
#[derive(Debug, Default)]
pub struct WrittenMemory {
    pages: NumberMap<(MemoryObject, u64), WrittenPage>,
    waiting: Vec<UnwrittenAccess>,
    writes: Vec<LaunchWrite>,
    most_pages: usize,
    partial_pages: usize,
    /// True once memory did not suffice: nothing is found from then on.
    is_full: bool,
}

impl WrittenMemory {
    /// With some bytes of memory.
    pub fn new(room_bytes: usize) -> Self {
        let most_pages = MAX_PAGES.min(room_bytes / (16 * WORDS));
        Self { most_pages, ..Self::default() }
    }

    /// Reads of the current launch that wait for its end.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.partial_pages * size_of::<[u64; WORDS]>()
            + self.pages.capacity() * 40
            + self.waiting.capacity() * size_of::<UnwrittenAccess>()
            + self.writes.capacity() * size_of::<LaunchWrite>()
    }

    /// A write between launches.
    pub fn fill(&mut self, object: MemoryObject, address: u64, bytes: u64) {
        if self.is_full {
            return;
        }
        let (mut low, high) = (address, address.saturating_add(bytes));
        while low < high {
            let end = high.min((low / PAGE_BYTES + 1) * PAGE_BYTES);
            self.fill_page((object, low / PAGE_BYTES), low % PAGE_BYTES, end - low);
            low = end;
        }
        if self.partial_pages > self.most_pages {
            self.is_full = true;
            self.pages = NumberMap::default();
            self.partial_pages = 0;
        }
    }

    fn fill_page(&mut self, key: (MemoryObject, u64), start: u64, count: u64) {
        if count == PAGE_BYTES {
            if let Some(Some(_)) = self.pages.insert(key, None) {
                self.partial_pages -= 1;
            }
            return;
        }
        let partial_pages = &mut self.partial_pages;
        let page = self.pages.entry(key).or_insert_with(|| {
            *partial_pages += 1;
            Some(Box::new([0; WORDS]))
        });
        let Some(words) = page else { return };
        for_words(start, count, |index, bits| words[index] |= bits);
        if words.iter().all(|word| *word == u64::MAX) {
            *page = None;
            *partial_pages -= 1;
        }
    }

    fn is_written(&self, object: MemoryObject, address: u64, bytes: u64) -> bool {
        let (mut low, high) = (address, address.saturating_add(bytes));
        while low < high {
            let end = high.min((low / PAGE_BYTES + 1) * PAGE_BYTES);
            match self.pages.get(&(object, low / PAGE_BYTES)) {
                None => return false,
                Some(None) => (),
                Some(Some(words)) => {
                    let mut has_all = true;
                    for_words(low % PAGE_BYTES, end - low, |index, bits| {
                        has_all &= words[index] & bits == bits;
                    });
                    if !has_all {
                        return false;
                    }
                }
            }
            low = end;
        }
        true
    }

    /// A read of the current launch.
    pub fn read(&mut self, access: UnwrittenAccess) {
        let UnwrittenAccess { object, address, bytes, .. } = access;
        if !self.is_full && self.waiting.len() < MAX_WAITING && !self.is_written(object, address, bytes) {
            self.waiting.push(access);
        }
    }

    /// A write of the current launch.
    pub fn write(&mut self, object: MemoryObject, address: u64, bytes: u64, sequence: u64) {
        if self.is_full {
            return;
        }
        let high = address.saturating_add(bytes);
        // While reads wait, each write keeps its time.
        let joins = self.waiting.is_empty() || self.writes.len() > MAX_WRITES;
        if let Some(last) = self.writes.last_mut().filter(|last| joins && last.object == object)
            && last.low <= address
            && address <= last.high
        {
            last.high = last.high.max(high);
            last.sequence = last.sequence.min(sequence);
            return;
        }
        self.writes.push(LaunchWrite { object, low: address, high, sequence });
    }

    /// Ends the launch: its reads that no write came before. Of each, the first byte that nothing wrote, and their number.
    pub fn end_launch(&mut self) -> Vec<(UnwrittenAccess, u64, u64)> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut writes = std::mem::take(&mut self.writes);
        let mut found = Vec::new();
        if !waiting.is_empty() && !self.is_full {
            waiting.sort_unstable_by_key(|read| (read.object, read.address));
            let first = first_writes(&waiting, &writes);
            for read in &waiting {
                let is_unwritten = |address: &u64| {
                    !self.is_written(read.object, *address, 1)
                        && first.get(&(read.object, *address)).is_none_or(|write| read.sequence <= *write)
                };
                let range = read.address..read.address.saturating_add(read.bytes);
                let mut unwritten = range.filter(is_unwritten);
                if let Some(address) = unwritten.next() {
                    found.push((*read, address, 1 + unwritten.count() as u64));
                }
            }
        }
        for write in writes.drain(..) {
            self.fill(write.object, write.low, write.high - write.low);
        }
        self.writes = writes;
        waiting.clear();
        self.waiting = waiting;
        found
    }
}

/// The first write of the launch to each byte that a waiting read touches.
fn first_writes(waiting: &[UnwrittenAccess], writes: &[LaunchWrite]) -> NumberMap<(MemoryObject, u64), u64> {
    let mut wanted: Vec<(MemoryObject, u64, u64)> = Vec::new();
    for read in waiting {
        let high = read.address.saturating_add(read.bytes);
        match wanted.last_mut() {
            Some((object, _, end)) if *object == read.object && read.address <= *end => {
                *end = high.max(*end);
            }
            _ => wanted.push((read.object, read.address, high)),
        }
    }
    let mut first = NumberMap::default();
    for write in writes {
        let start = wanted.partition_point(|(object, _, high)| (*object, *high) <= (write.object, write.low));
        for (object, low, high) in &wanted[start..] {
            if *object != write.object || *low >= write.high {
                break;
            }
            for address in write.low.max(*low)..write.high.min(*high) {
                let known = first.entry((*object, address)).or_insert(write.sequence);
                *known = write.sequence.min(*known);
            }
        }
    }
    first
}

/// The words of a page that hold some bytes, each with their bits.
fn for_words(start: u64, count: u64, mut visit: impl FnMut(usize, u64)) {
    let (mut low, high) = (start, start + count);
    while low < high {
        let end = high.min((low / 64 + 1) * 64);
        let bits = u64::MAX >> (64 - (end - low)) << (low % 64);
        visit(usize::try_from(low / 64).unwrap_or_default(), bits);
        low = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: MemoryObject = MemoryObject::Storage(1);

    fn read(address: u64, bytes: u64, sequence: u64) -> UnwrittenAccess {
        UnwrittenAccess { object: OBJECT, address, bytes, sequence, request: 0 }
    }

    fn found(memory: &mut WrittenMemory) -> Vec<(u64, u64, u64)> {
        let found = memory.end_launch();
        found.iter().map(|(read, address, bytes)| (read.address, *address, *bytes)).collect()
    }

    #[test]
    fn bytes_are_exact() {
        let mut memory = WrittenMemory::new(usize::MAX);
        memory.fill(OBJECT, 4000, 1003);
        for address in [3999, 4000, 4999, 5002] {
            memory.read(read(address, 4, 0));
        }
        assert_eq!(found(&mut memory), [(3999, 3999, 1), (5002, 5003, 3)]);
        memory.fill(OBJECT, 0, 3 * 4096);
        memory.read(read(5002, 4, 0));
        assert_eq!(found(&mut memory), []);
    }

    #[test]
    fn the_writes_of_a_launch_count_from_their_time_on() {
        let mut memory = WrittenMemory::new(usize::MAX);
        memory.read(read(100, 4, 5));
        memory.read(read(104, 4, 5));
        memory.write(OBJECT, 100, 4, 4);
        memory.write(OBJECT, 104, 4, 6);
        assert_eq!(found(&mut memory), [(104, 104, 4)]);
        memory.read(read(100, 8, 0));
        assert_eq!(found(&mut memory), [], "the next launch sees both");
    }

    #[test]
    fn an_atomic_reads_before_it_writes() {
        let mut memory = WrittenMemory::new(usize::MAX);
        memory.read(read(100, 4, 5));
        memory.write(OBJECT, 100, 4, 5);
        assert_eq!(found(&mut memory), [(100, 100, 4)]);
    }

    #[test]
    fn without_room_nothing_is_found() {
        let mut memory = WrittenMemory::new(0);
        memory.fill(OBJECT, 1, 2);
        memory.read(read(100, 4, 5));
        assert!(memory.is_full);
        assert_eq!(found(&mut memory), []);
    }
}

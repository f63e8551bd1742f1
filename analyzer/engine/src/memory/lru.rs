//! An LRU stack, and a histogram of the distances in it.

/// Distances are counted by their powers of two, the first for 0.
const BUCKETS: usize = 65;

/// Touches by their distance.
#[derive(Clone, Debug)]
pub struct ReuseHistogram {
    /// Touches by the bucket of their distance.
    pub counts: [u64; BUCKETS],
    /// Sums of their distances.
    pub sums: [u64; BUCKETS],
    /// First touches.
    pub cold: u64,
}

impl Default for ReuseHistogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sums: [0; BUCKETS], cold: 0 }
    }
}

impl ReuseHistogram {
    /// The numbers of touches by the range of their distances, `None` for first touches.
    pub fn rows(&self) -> impl Iterator<Item = (Option<(u64, Option<u64>)>, u64)> {
        let reused = (0..).zip(&self.counts).map(|(bucket, &count)| (Some(Self::range(bucket)), count));
        std::iter::once((None, self.cold)).chain(reused).filter(|(_, count)| *count > 0)
    }

    /// The first distance of a bucket, and the first that is beyond it.
    pub fn range(bucket: u32) -> (u64, Option<u64>) {
        (if bucket == 0 { 0 } else { 1 << (bucket - 1) }, 1_u64.checked_shl(bucket))
    }

    /// Adds the touches of another one.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, other)| *own += other);
        self.sums.iter_mut().zip(other.sums).for_each(|(own, other)| *own = own.saturating_add(other));
        self.cold += other.cold;
    }

    /// Counts a touch by its distance. `None` is the first of its unit.
    pub fn count(&mut self, distance: Option<u64>) {
        match distance {
            Some(distance) => self.count_many(distance, 1),
            None => self.cold += 1,
        }
    }

    /// Counts touches of one distance.
    pub fn count_many(&mut self, distance: u64, touches: u64) {
        let bucket = usize::try_from(u64::BITS - distance.leading_zeros()).unwrap_or(0);
        if let (Some(count), Some(sum)) = (self.counts.get_mut(bucket), self.sums.get_mut(bucket)) {
            *count += touches;
            *sum = sum.saturating_add(distance.saturating_mul(touches));
        }
    }
}

/// An LRU stack without its order: per unit the time of its last touch, and the number of those times in a range
/// (Olken's algorithm). Times are counted by words of bits, and the words by a Fenwick tree.
#[derive(Debug, Default)]
pub struct LruStack {
    /// By unit, from 1. Times up to `begun` are of earlier streams.
    last: Vec<u64>,
    begun: u64,
    now: u64,
    /// One bit for each time since then that is the last touch of a unit.
    times: Vec<u64>,
    /// Over the words of `times`, from 1.
    tree: Vec<u32>,
    units: u32,
}

/// Times of a word.
const WORD: u64 = 64;

impl LruStack {
    /// Begins a stream of up to so many touches of so many units.
    pub fn begin(&mut self, touches: usize, units: usize) {
        self.last.resize(units, 0);
        self.begun = self.now;
        let words = word(touches as u64) + 1;
        self.times.clear();
        self.times.resize(words, 0);
        self.tree.clear();
        self.tree.resize(words + 1, 0);
        self.units = 0;
    }

    /// The distinct other units since the last touch of this one. `None` for the first touch.
    pub fn touch(&mut self, unit: u32) -> Option<u64> {
        let time = self.now - self.begun;
        self.now += 1;
        let last = self.last.get_mut(unit as usize)?;
        let before = std::mem::replace(last, self.now);
        let before = before.checked_sub(self.begun + 1);
        let distance = before.map(|before| {
            let distance = self.units - self.up_to(before);
            self.flip(before, u32::MAX);
            u64::from(distance)
        });
        self.units += u32::from(distance.is_none());
        self.flip(time, 1);
        distance
    }

    /// Sets or clears a time. The largest number subtracts 1.
    fn flip(&mut self, time: u64, number: u32) {
        let mut index = word(time);
        if let Some(word) = self.times.get_mut(index) {
            *word ^= 1 << (time % WORD);
        }
        index += 1;
        while let Some(count) = self.tree.get_mut(index) {
            *count = count.wrapping_add(number);
            index += index & index.wrapping_neg();
        }
    }

    /// The times that are set up to one, inclusive.
    fn up_to(&self, time: u64) -> u32 {
        let mut index = word(time);
        let bits = self.times.get(index).map_or(0, |word| word << (WORD - 1 - time % WORD));
        let mut sum = bits.count_ones();
        while index > 0 {
            sum = sum.wrapping_add(self.tree.get(index).copied().unwrap_or(0));
            index &= index - 1;
        }
        sum
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.last.capacity() * 8 + self.times.capacity() * 8 + self.tree.capacity() * 4
    }
}

/// The word of a time.
fn word(time: u64) -> usize {
    usize::try_from(time / WORD).unwrap_or(usize::MAX)
}

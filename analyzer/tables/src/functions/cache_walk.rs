//! An L2 cache that launches share: the bytes that each finds of launches before, and the bytes that it writes back.
//!
//! Two clocks count bytes: those that came in, and those that were stored, with a part of those that other launches read.
//! A line is replaced when a part of the cache came in since its last touch, and written back when a part of the cache was
//! stored since it was stored to: at the earliest `from`, at the latest `to`, each time between with the same probability.
//! A launch goes through its ranges of addresses side by side, from begin to end. Where launches touch parts of a range,
//! these are taken to be independent of each other.

use std::collections::BTreeMap;

/// The time of a line's replacement, in parts of the cache.
#[derive(Clone, Copy, Debug)]
struct ReplacementSpan {
    from: f64,
    to: f64,
}

/// All lines. Measured on an H200: what was read is there to half of L2, and most of it is gone at four fifths.
const READ: ReplacementSpan = ReplacementSpan { from: 0.5, to: 0.9 };
/// Lines that were stored to. Measured on an H100: a quarter of L2 stays until the launch has ended (18 outputs of 8 to 96
/// MiB).
const STORED: ReplacementSpan = ReplacementSpan { from: 0.1, to: 0.4 };
/// The part of the bytes read from device memory that the clock of stores counts.
const READ_PART: f64 = 0.2;
/// Stores within this part of the latest time until they are written back count as one.
const MERGED_PART: f64 = 1.0 / 64.0;
/// As many ranges, or twice those that hold something, before those that hold nothing are left out.
const MIN_RANGES: usize = 1 << 14;

/// A range of addresses that a launch touches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TouchedRange {
    pub(super) address: u64,
    pub(super) span_bytes: u64,
    /// Distinct bytes that it reads.
    pub(super) read_bytes: f64,
    /// Distinct bytes that it stores.
    pub(super) written_bytes: f64,
}

/// Traffic of one range of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RangeTraffic {
    /// The part of its bytes that the cache held.
    pub(super) held_share: f64,
    /// Bytes of its stores that are written back meanwhile.
    pub(super) written_back_bytes: f64,
    /// Bytes of stores before that are written back for its lines.
    pub(super) displaced_bytes: f64,
}

/// A clock when a launch began, and when it ended.
#[derive(Clone, Copy, Debug)]
struct ClockSpan {
    begin: f64,
    end: f64,
}

/// Both clocks while a launch runs.
#[derive(Clone, Copy, Debug)]
struct LaunchTime {
    came: ClockSpan,
    stored: ClockSpan,
}

/// A range as the last launch on it left it.
#[derive(Clone, Copy, Debug)]
struct CachedRange {
    end: u64,
    launch: u64,
    time: LaunchTime,
    /// Bytes touched, of each byte.
    density: f64,
    /// Bytes stored that were not written back before the launch, of each byte.
    stored: f64,
}

/// The bytes that a launch finds, over the ranges that one of its own covers.
#[derive(Clone, Copy, Debug, Default)]
struct MetBytes {
    held: f64,
    /// Stored, and not written back.
    stored: f64,
    /// The part of these that the launch itself stored.
    own: f64,
    /// Stored, and written back before the launch comes to them.
    replaced: f64,
}

/// The cache.
#[derive(Debug)]
pub(super) struct CacheWalk {
    read: ReplacementSpan,
    stored: ReplacementSpan,
    launch: u64,
    came: f64,
    stored_bytes: f64,
    ranges: BTreeMap<u64, CachedRange>,
    most_ranges: usize,
    /// Bytes that launches stored and that no other stored to since, by the last of these launches.
    dirty: BTreeMap<u64, (ClockSpan, f64)>,
}

impl ReplacementSpan {
    fn of(self, cache_bytes: f64) -> Self {
        Self { from: self.from * cache_bytes, to: self.to * cache_bytes }
    }

    /// The replaced part, summed over the bytes that came in.
    fn sum(self, came: f64) -> f64 {
        let (past, ramp) = ((came - self.from).max(0.0), self.to - self.from);
        if past < ramp { past * past / (2.0 * ramp) } else { past - ramp / 2.0 }
    }

    /// The replaced part of lines that between two numbers of bytes came in after.
    fn mean(self, one: f64, other: f64) -> f64 {
        let low = one.min(other).max(0.0);
        let high = one.max(other).max(low + 1.0);
        (self.sum(high) - self.sum(low)) / (high - low)
    }

    /// The replaced part of the lines that a launch touched.
    fn gone(self, touched: ClockSpan, now: f64) -> f64 {
        self.mean(now - touched.end, now - touched.begin)
    }

    /// The replaced part of lines that a launch touched, when another comes to them.
    fn reached(self, touched: ClockSpan, now: ClockSpan) -> f64 {
        self.mean(now.begin - touched.begin, now.end - touched.end)
    }
}

impl ClockSpan {
    fn of(begin: f64, bytes: f64) -> Self {
        Self { begin, end: begin + bytes }
    }
}

impl TouchedRange {
    /// Distinct bytes.
    fn bytes(&self) -> f64 {
        self.read_bytes.max(self.written_bytes)
    }

    /// Bytes read by the clock of stores, where so many did not come from the cache.
    fn clocked_read(&self, missed: f64) -> f64 {
        if self.read_bytes > self.written_bytes { READ_PART * missed } else { 0.0 }
    }

    fn end(&self) -> u64 {
        self.address.saturating_add(self.span_bytes)
    }

    /// The part of each byte.
    fn part(&self, bytes: f64) -> f64 {
        (bytes / (self.span_bytes as f64).max(1.0)).min(1.0)
    }
}

impl CacheWalk {
    /// An empty cache.
    pub(super) fn new(cache_bytes: f64) -> Self {
        let (read, stored) = (READ.of(cache_bytes), STORED.of(cache_bytes));
        let (ranges, dirty) = (BTreeMap::new(), BTreeMap::new());
        Self { read, stored, launch: 0, came: 0.0, stored_bytes: 0.0, ranges, most_ranges: MIN_RANGES, dirty }
    }

    /// The traffic of each range of the next launch.
    pub(super) fn launch(&mut self, touched: &[TouchedRange]) -> Vec<RangeTraffic> {
        self.launch += 1;
        let written = touched.iter().map(|range| range.written_bytes).sum();
        let all = touched.iter().map(TouchedRange::bytes).sum();
        let most =
            self.time(all, touched.iter().map(|range| range.clocked_read(range.bytes())).sum(), written);
        let (mut parts, mut sum, mut read) = (Vec::new(), (0.0, 0.0, 0.0), 0.0);
        for range in touched {
            let met = self.take(range, most);
            let missed = (range.bytes() - met.held).max(0.0);
            let stored = range.written_bytes + met.stored * (1.0 - range.part(range.written_bytes));
            self.put(range, stored, most);
            sum = (sum.0 + missed, sum.1 + stored - met.own, sum.2 + met.replaced);
            read += range.clocked_read(missed);
            parts.push((met.held, missed, stored));
        }
        let (came, own, replaced) = sum;
        let time = self.time(came, read, written);
        let others: f64 =
            self.dirty.values().map(|(at, bytes)| bytes * self.replaced(*at, time.stored)).sum();
        // Its own stores leave by its stores alone.
        let own_time = ClockSpan { begin: time.stored.end - written, ..time.stored };
        let gone = own * self.stored.gone(own_time, time.stored.end);
        self.store(own_time, own);
        self.end(touched, LaunchTime { stored: own_time, ..time });
        self.forget();
        let share = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
        let traffic = touched.iter().zip(parts).map(|(range, (held, missed, stored))| RangeTraffic {
            held_share: share(held, range.bytes()).min(1.0),
            written_back_bytes: gone * share(stored, own),
            displaced_bytes: (others + replaced)
                * if came > 0.0 { missed / came } else { share(range.bytes(), all) },
        });
        traffic.collect()
    }

    /// The time of a launch that begins now.
    fn time(&self, came: f64, read: f64, written: f64) -> LaunchTime {
        LaunchTime {
            came: ClockSpan::of(self.came, came),
            stored: ClockSpan::of(self.stored_bytes, read + written),
        }
    }

    /// Adds the launch's stores to those that are not written back, together with the last ones if these are as recent.
    fn store(&mut self, mut time: ClockSpan, mut bytes: f64) {
        if bytes <= 0.0 {
            return;
        }
        if let Some(last) = self.dirty.last_entry()
            && time.end - last.get().0.begin < self.stored.to * MERGED_PART
        {
            let (before, more) = last.remove();
            time.begin = before.begin;
            bytes += more;
        }
        self.dirty.insert(self.launch, (time, bytes));
    }

    /// The part of a launch's stores that is written back in a time.
    fn replaced(&self, stored_at: ClockSpan, time: ClockSpan) -> f64 {
        self.stored.gone(stored_at, time.end) - self.stored.gone(stored_at, time.begin)
    }

    /// Takes a range out, with the bytes that are found there by a launch that may touch until a time.
    fn take(&mut self, range: &TouchedRange, now: LaunchTime) -> MetBytes {
        let (begin, end) = (range.address, range.end());
        let first = self.ranges.range(..begin).next_back().filter(|(_, known)| known.end > begin);
        let first = first.map_or(begin, |(&address, _)| address);
        let known: Vec<(u64, CachedRange)> =
            self.ranges.range(first..end).map(|(&at, &known)| (at, known)).collect();
        let mut met = MetBytes::default();
        for (address, known) in known {
            self.ranges.remove(&address);
            if address < begin {
                self.ranges.insert(address, CachedRange { end: begin, ..known });
            }
            if known.end > end {
                self.ranges.insert(end, known);
            }
            let bytes = (known.end.min(end) - address.max(begin)) as f64;
            self.meet(&mut met, known, bytes, range.part(range.bytes()), now);
        }
        met
    }

    /// Adds what is found in some bytes of a range.
    fn meet(&mut self, met: &mut MetBytes, known: CachedRange, bytes: f64, density: f64, now: LaunchTime) {
        let stored = known.stored * bytes;
        if known.launch == self.launch {
            // Parts of one launch are taken to differ until they fill the range.
            met.held += (known.density + density - 1.0).max(0.0) * bytes;
            met.stored += stored;
            met.own += stored;
            return;
        }
        met.held += known.density * density * bytes * (1.0 - self.read.reached(known.time.came, now.came));
        let left = 1.0 - self.stored.gone(known.time.stored, now.stored.begin);
        let reached = (1.0 - self.stored.reached(known.time.stored, now.stored)).min(left);
        met.stored += stored * reached;
        met.replaced += stored * (left - reached);
        if left > 0.0
            && let Some((_, (_, bytes))) = self.dirty.range_mut(known.launch..).next()
        {
            *bytes -= stored;
        }
    }

    /// Puts a range that was taken out back, as the launch leaves it.
    fn put(&mut self, range: &TouchedRange, stored: f64, time: LaunchTime) {
        if range.span_bytes == 0 {
            return;
        }
        let (density, stored) = (range.part(range.bytes()), range.part(stored));
        let launch = self.launch;
        self.ranges.insert(range.address, CachedRange { end: range.end(), launch, time, density, stored });
    }

    /// Ends the launch, which took a time.
    fn end(&mut self, touched: &[TouchedRange], time: LaunchTime) {
        (self.came, self.stored_bytes) = (time.came.end, time.stored.end);
        let mut spans: Vec<(u64, u64)> = touched.iter().map(|range| (range.address, range.end())).collect();
        spans.sort_unstable();
        // Ranges that lie in each other are passed once.
        let mut passed = 0;
        for (begin, end) in spans {
            let own = self.ranges.range_mut(begin.max(passed)..end.max(passed));
            own.filter(|(_, known)| known.launch == self.launch).for_each(|(_, known)| known.time = time);
            passed = passed.max(end);
        }
    }

    /// Leaves out what was written back, and many ranges without anything in the cache.
    fn forget(&mut self) {
        let (stored, came, now) = (self.stored.to, self.came - self.read.to, self.stored_bytes);
        self.dirty.retain(|_, (clock, bytes)| *bytes > 1.0 && clock.end + stored > now);
        if self.ranges.len() > self.most_ranges {
            let is_known =
                |range: &CachedRange| range.time.came.end > came || range.time.stored.end + stored > now;
            self.ranges.retain(|_, range| is_known(range));
            self.most_ranges = MIN_RANGES.max(2 * self.ranges.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn range(address_mib: u64, mib: u64, read_mib: f64, written_mib: f64) -> TouchedRange {
        let (address, span_bytes) = (address_mib << 20, mib << 20);
        TouchedRange { address, span_bytes, read_bytes: read_mib * MIB, written_bytes: written_mib * MIB }
    }

    fn written_back(traffic: &[RangeTraffic]) -> f64 {
        traffic.iter().map(|range| range.written_back_bytes + range.displaced_bytes).sum::<f64>() / MIB
    }

    #[track_caller]
    fn is_held(walk: &mut CacheWalk, launch: &[TouchedRange], part: f64) {
        let held = walk.launch(launch)[0].held_share;
        assert!((held - part).abs() < 1e-12, "{held}");
    }

    #[test]
    fn a_small_range_is_held_and_a_large_one_is_not() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let small = [range(0, 8, 8.0, 0.0)];
        is_held(&mut walk, &small, 0.0);
        is_held(&mut walk, &small, 1.0);
        walk.launch(&[range(1000, 100, 100.0, 0.0)]);
        is_held(&mut walk, &small, 0.0);
        is_held(&mut walk, &[range(4, 8, 8.0, 0.0)], 0.5);
    }

    #[test]
    fn parts_of_a_range_are_independent_of_those_of_other_launches() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let part = [range(0, 1024, 1.0, 0.0)];
        walk.launch(&part);
        is_held(&mut walk, &part, 1.0 / 1024.0);
    }

    #[test]
    fn many_small_stores_are_as_one() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let mut all: f64 =
            (0..2000).map(|place| written_back(&walk.launch(&[range(place, 1, 0.0, 0.0625)]))).sum();
        assert!(walk.dirty.len() < 200, "{}", walk.dirty.len());
        all += written_back(&walk.launch(&[range(100_000, 400, 400.0, 0.0)]));
        assert!((all - 125.0).abs() < 1.0, "{all}");
    }

    #[test]
    fn what_is_stored_is_written_back_once() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let mut all = 0.0;
        for place in 0..20 {
            let (stored, read) = (range(1000 * place, 16, 0.0, 16.0), range(1000 * place + 500, 8, 8.0, 0.0));
            all += written_back(&walk.launch(&[stored, read]));
            all += written_back(&walk.launch(&[range(1000 * place, 16, 16.0, 0.0)]));
        }
        all += written_back(&walk.launch(&[range(100_000, 200, 200.0, 0.0)]));
        assert!((all - 320.0).abs() < 0.1, "{all}");
    }

    #[test]
    fn a_small_read_of_what_was_stored_loses_nothing() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let mut all = written_back(&walk.launch(&[range(0, 4, 0.0, 4.0)]));
        all += written_back(&walk.launch(&[range(0, 4, 0.25, 0.0)]));
        all += written_back(&walk.launch(&[range(1000, 200, 200.0, 0.0)]));
        assert!((all - 4.0).abs() < 0.01, "{all}");
    }

    #[test]
    fn stores_to_the_same_range_meet_in_the_cache() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let all: f64 = (0..10).map(|_| written_back(&walk.launch(&[range(0, 4, 0.0, 4.0)]))).sum();
        assert!(all < 4.0, "{all}");
        let flush = written_back(&walk.launch(&[range(1000, 200, 200.0, 0.0)]));
        assert!((all + flush - 4.0).abs() < 0.5, "{all} {flush}");
    }

    #[test]
    fn parts_of_one_range_differ_until_they_fill_it() {
        let mut walk = CacheWalk::new(50.0 * MIB);
        let third = range(0, 9, 3.0, 0.0);
        let held: Vec<f64> = walk.launch(&[third, third, third]).iter().map(|one| one.held_share).collect();
        assert_eq!(held, [0.0, 0.0, 0.0]);
        let whole = range(100, 9, 9.0, 0.0);
        let held: Vec<f64> = walk.launch(&[whole, whole]).iter().map(|one| one.held_share).collect();
        assert_eq!(held, [0.0, 1.0]);
    }
}

//! Address ranges with lifetimes, and those allocated at one time.
//!
//! Times are launch ordinals, half-open like the addresses. A capture of a node of a graph takes an ordinal too.

/// An address range with a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLife {
    /// First address.
    pub low: u64,
    /// Past the last address.
    pub high: u64,
    /// Ordinal of the first launch that can use it.
    pub begin_ordinal: u64,
    /// Ordinal of the first launch after its free. The largest number if it is never freed.
    pub dead: u64,
}

impl MemoryLife {
    /// True if it is allocated at a time.
    pub fn lives_at(&self, time: u64) -> bool {
        self.begin_ordinal <= time && time < self.dead
    }
}

/// A piece of the address space that belongs to one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPiece {
    /// First address.
    pub low: u64,
    /// Past the last address.
    pub high: u64,
    /// The range's position in [`MemoryLives`].
    pub life: u32,
}

/// A piece of the address space without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressGap {
    /// First address.
    pub low: u64,
    /// Past the last address.
    pub high: u64,
}

/// Address ranges with lifetimes, in the given order.
#[derive(Debug, Default)]
pub struct MemoryLives {
    all: Vec<MemoryLife>,
    by_begin: Vec<u32>,
    by_death: Vec<u32>,
}

impl MemoryLives {
    /// Ranges with lifetimes. Those without bytes or time never match.
    pub fn new(lives: Vec<MemoryLife>) -> Self {
        let mut by_begin: Vec<u32> = (0..u32::try_from(lives.len()).unwrap_or(u32::MAX)).collect();
        by_begin.retain(|&life| {
            let life = &lives[life as usize];
            life.low < life.high && life.begin_ordinal < life.dead
        });
        let mut by_death = by_begin.clone();
        by_begin.sort_by_key(|&life| lives[life as usize].begin_ordinal);
        by_death.sort_by_key(|&life| lives[life as usize].dead);
        Self { all: lives, by_begin, by_death }
    }

    /// The range at a position.
    pub fn get(&self, life: u32) -> &MemoryLife {
        &self.all[life as usize]
    }
}

/// Ranges allocated at one time. A small move in time, forward or back, costs only the changes.
#[derive(Debug, Default)]
pub struct LiveSet {
    /// The time, unless none was looked at yet.
    time: Option<u64>,
    /// Processed entries of `by_begin` and `by_death`.
    begun_lives: usize,
    deaths: usize,
    /// By address.
    live: Vec<AddressPiece>,
    /// The same without overlaps, if there are any.
    flat: Option<Vec<AddressPiece>>,
}

/// If more than one of this many lifetimes begins or ends on the way, a full scan is cheaper.
const WALKED_SHARE: usize = 16;

impl LiveSet {
    /// Moves to a time.
    pub fn move_to(&mut self, lives: &MemoryLives, time: u64) {
        if self.time == Some(time) {
            return;
        }
        let begun_lives = lives.by_begin.partition_point(|&life| lives.get(life).begin_ordinal <= time);
        let deaths = lives.by_death.partition_point(|&life| lives.get(life).dead <= time);
        let events = begun_lives.abs_diff(self.begun_lives) + deaths.abs_diff(self.deaths);
        if self.time.is_some() && events <= WALKED_SHARE + begun_lives / WALKED_SHARE {
            self.walk(lives, (begun_lives, deaths), time);
        } else {
            self.rebuild(lives, begun_lives, time);
        }
        (self.begun_lives, self.deaths, self.time) = (begun_lives, deaths, Some(time));
        let overlap = self.live.windows(2).any(|pair| pair[1].low < pair[0].high);
        self.flat = overlap.then(|| flatten(lives, &self.live));
    }

    /// The piece that holds an address, or the gap between its neighbours.
    #[inline]
    pub fn find(&self, address: u64) -> Result<AddressPiece, AddressGap> {
        let pieces = self.flat.as_deref().unwrap_or(&self.live);
        let after = pieces.partition_point(|piece| piece.low <= address);
        let before = pieces[..after].last();
        match before {
            Some(piece) if address < piece.high => Ok(*piece),
            _ => Err(AddressGap {
                low: before.map_or(0, |piece| piece.high),
                high: pieces.get(after).map_or(u64::MAX, |piece| piece.low),
            }),
        }
    }

    /// True if some of the ranges overlap.
    pub fn has_overlaps(&self) -> bool {
        self.flat.is_some()
    }

    fn rebuild(&mut self, lives: &MemoryLives, begun_lives: usize, time: u64) {
        self.live.clear();
        let begun = lives.by_begin[..begun_lives].iter();
        self.live
            .extend(begun.filter(|&&life| lives.get(life).lives_at(time)).map(|&life| piece(lives, life)));
        self.live.sort_unstable_by_key(key);
    }

    /// Checks each lifetime that begins or ends between two times, in either order.
    fn walk(&mut self, lives: &MemoryLives, (begun_lives, deaths): (usize, usize), time: u64) {
        let begun = begun_lives.min(self.begun_lives)..begun_lives.max(self.begun_lives);
        let dead = deaths.min(self.deaths)..deaths.max(self.deaths);
        for &life in lives.by_begin[begun].iter().chain(&lives.by_death[dead]) {
            let piece = piece(lives, life);
            match (self.live.binary_search_by_key(&key(&piece), key), lives.get(life).lives_at(time)) {
                (Err(index), true) => self.live.insert(index, piece),
                (Ok(index), false) => drop(self.live.remove(index)),
                _ => {}
            }
        }
    }
}

fn piece(lives: &MemoryLives, life: u32) -> AddressPiece {
    let MemoryLife { low, high, .. } = *lives.get(life);
    AddressPiece { low, high, life }
}

fn key(piece: &AddressPiece) -> (u64, u32) {
    (piece.low, piece.life)
}

/// Pieces without overlaps: of overlapping ranges, the smallest wins, then the newest.
fn flatten(lives: &MemoryLives, live: &[AddressPiece]) -> Vec<AddressPiece> {
    let mut bounds: Vec<u64> = live.iter().flat_map(|piece| [piece.low, piece.high]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let rank = |piece: &AddressPiece| {
        let MemoryLife { low, high, begin_ordinal, .. } = *lives.get(piece.life);
        (high - low, std::cmp::Reverse((begin_ordinal, piece.life)))
    };
    let (mut flat, mut open, mut next) = (Vec::<AddressPiece>::new(), Vec::<AddressPiece>::new(), 0);
    for bound in bounds.windows(2) {
        open.retain(|piece| piece.high > bound[0]);
        while let Some(piece) = live.get(next).filter(|piece| piece.low <= bound[0]) {
            open.push(*piece);
            next += 1;
        }
        let Some(best) = open.iter().min_by_key(|piece| rank(piece)) else { continue };
        match flat.last_mut().filter(|last| last.life == best.life && last.high == bound[0]) {
            Some(last) => last.high = bound[1],
            None => flat.push(AddressPiece { low: bound[0], high: bound[1], life: best.life }),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn life(low: u64, high: u64, begin_ordinal: u64, dead: u64) -> MemoryLife {
        MemoryLife { low, high, begin_ordinal, dead }
    }

    #[test]
    fn an_address_is_reused_by_another_life() {
        let lives =
            MemoryLives::new(vec![life(100, 200, 0, 5), life(100, 150, 5, 9), life(150, 160, 7, u64::MAX)]);
        let mut live = LiveSet::default();
        let found: Vec<_> = [0, 4, 5, 6, 7, 9, 20, 4]
            .map(|ordinal| {
                live.move_to(&lives, ordinal);
                [120, 155, 199].map(|address| live.find(address).ok().map(|piece| piece.life))
            })
            .into();
        let old = [Some(0), Some(0), Some(0)];
        let young = [Some(1), None, None];
        let late = [None, Some(2), None];
        assert_eq!(found, [old, old, young, young, [Some(1), Some(2), None], late, late, old]);
    }

    #[test]
    fn of_overlapping_ranges_the_smallest_has_the_address() {
        let lives = MemoryLives::new(vec![
            life(0, 100, 0, 9),
            life(20, 40, 0, 9),
            life(30, 50, 1, 9),
            life(10, 10, 0, 9),
        ]);
        let mut live = LiveSet::default();
        live.move_to(&lives, 3);
        let owner = |address| live.find(address).ok().map(|piece| piece.life);
        assert_eq!([0, 19, 20, 29, 30, 49, 50, 99].map(owner), [0, 0, 1, 1, 2, 2, 0, 0].map(Some));
        assert_eq!(live.find(100), Err(AddressGap { low: 100, high: u64::MAX }));
    }
    proptest! {
        #[test]
        fn walking_comes_to_what_lives(
            lives in vec((0..20_u64, 0..5_u64, 0..30_u64, 0..30_u64), 0..200),
            times in vec(0..30_u64, 1..60),
        ) {
            let lives: Vec<MemoryLife> = lives
                .into_iter()
                .map(|(low, size, begin_ordinal, dead)| MemoryLife { low, high: low + size, begin_ordinal, dead })
                .collect();
            let known = MemoryLives::new(lives.clone());
            let mut live = LiveSet::default();
            for time in times {
                live.move_to(&known, time);
                let mut held: Vec<u32> = live.live.iter().map(|piece| piece.life).collect();
                held.sort_unstable();
                let wanted = (0..).zip(&lives).filter(|(_, life)| life.low < life.high && life.lives_at(time));
                prop_assert_eq!(held, wanted.map(|(life, _)| life).collect::<Vec<u32>>());
            }
        }
    }
}

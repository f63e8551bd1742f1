//! The few sectors that an instruction touches again and again, such as a table in a loop.

use super::lru::ReuseHistogram;
use super::request::SECTOR_BYTES;
use super::shape::LINE_BYTES;
use super::streams::line;

/// Maximum number of lines. Of more lines, a sample that a launch of a real program needs contains some.
const MAX_LINES: usize = 64;
const SECTORS_OF_LINE: u64 = LINE_BYTES / SECTOR_BYTES;

/// The lines that an instruction touches, each with a bit for each of its sectors. `None` if they are many.
#[derive(Clone, Debug)]
pub struct FewSectors(Option<Vec<(u64, u8)>>);

impl Default for FewSectors {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl FewSectors {
    /// Adds adjacent sectors.
    pub fn add(&mut self, first: u64, last: u64) {
        let Some(lines) = &mut self.0 else { return };
        if line(last) - line(first) >= MAX_LINES as u64 {
            self.0 = None;
            return;
        }
        for sector in first..=last {
            let bit = 1 << (sector % SECTORS_OF_LINE);
            match lines.binary_search_by_key(&line(sector), |(line, _)| *line) {
                Ok(index) => lines[index].1 |= bit,
                Err(index) => lines.insert(index, (line(sector), bit)),
            }
        }
        if lines.len() > MAX_LINES {
            self.0 = None;
        }
    }

    /// True if they are many: more change nothing.
    pub fn are_many(&self) -> bool {
        self.0.is_none()
    }

    /// The number of sectors, where these are few.
    pub fn sectors(&self) -> Option<u64> {
        let lines = self.0.as_ref()?;
        Some(lines.iter().map(|(_, sectors)| u64::from(sectors.count_ones())).sum())
    }

    /// The distances of an instruction's touches in some streams, if it touches its sectors evenly. A sector is touched
    /// again after its share of `all` touches, which are no more than `distinct` sectors. `None` for many sectors.
    pub fn distances(&self, own: u64, all: u64, distinct: u64, streams: u64) -> Option<ReuseHistogram> {
        let sectors = self.sectors().filter(|_| own > 0)?;
        let between = u128::from(all) * u128::from(sectors) / u128::from(own);
        let distance = u64::try_from(between).unwrap_or(u64::MAX).saturating_sub(1).min(distinct);
        let cold = sectors.saturating_mul(streams).min(own);
        let mut distances = ReuseHistogram { cold, ..ReuseHistogram::default() };
        distances.count_many(distance, own - cold);
        Some(distances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sectors_are_known_and_many_are_not() {
        let mut few = FewSectors::default();
        few.add(8, 9);
        few.add(9, 12);
        assert_eq!(few.sectors(), Some(5));
        (0..65).for_each(|line| few.add(4 * line, 4 * line));
        assert_eq!(few.sectors(), None);
        let mut wide = FewSectors::default();
        wide.add(0, u64::MAX);
        assert_eq!(wide.sectors(), None);
    }
}

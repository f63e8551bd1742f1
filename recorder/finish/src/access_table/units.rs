//! Units of work: small launches together, large ones alone.

use std::ops::Range;

use stallmap_write::encoding::ROW_GROUP_ROWS;

/// Most bytes of records that one thread converts at once.
const SMALL_BYTES: u64 = 16 << 20;

/// Launches that are converted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LaunchUnit {
    /// By one thread, to a row group, or a few where their number of rows was not known.
    Small(Range<usize>),
    /// By all threads.
    Large(usize),
}

impl LaunchUnit {
    /// Positions of its launches.
    pub(super) fn launches(&self) -> Range<usize> {
        match self {
            Self::Small(launches) => launches.clone(),
            Self::Large(launch) => *launch..launch + 1,
        }
    }
}

/// The size of a launch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaunchSize {
    /// Requests, about.
    pub(super) requests: u64,
    /// Bytes of their records.
    pub(super) bytes: u64,
}

impl LaunchSize {
    fn is_small(self) -> bool {
        self.requests <= ROW_GROUP_ROWS as u64 && self.bytes <= SMALL_BYTES
    }
}

/// Launches in units, in their order.
pub(super) fn units(sizes: impl Iterator<Item = LaunchSize>) -> Vec<LaunchUnit> {
    let mut units = Vec::new();
    let (mut begin, mut sum) = (0, LaunchSize::default());
    let mut end = 0;
    for (at, size) in sizes.enumerate() {
        let all = LaunchSize { requests: sum.requests + size.requests, bytes: sum.bytes + size.bytes };
        if all.is_small() {
            sum = all;
        } else {
            if at > begin {
                units.push(LaunchUnit::Small(begin..at));
            }
            if size.is_small() {
                (begin, sum) = (at, size);
            } else {
                units.push(LaunchUnit::Large(at));
                (begin, sum) = (at + 1, LaunchSize::default());
            }
        }
        end = at + 1;
    }
    if end > begin {
        units.push(LaunchUnit::Small(begin..end));
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_launches_share_a_unit_and_a_large_one_is_alone() {
        let most = ROW_GROUP_ROWS as u64;
        let sizes =
            [1, 2, most, most + 1, 5, most - 5, 0, 1].map(|requests| LaunchSize { requests, bytes: 1 });
        let expected = [
            LaunchUnit::Small(0..2),
            LaunchUnit::Small(2..3),
            LaunchUnit::Large(3),
            LaunchUnit::Small(4..7),
            LaunchUnit::Small(7..8),
        ];
        assert_eq!(units(sizes.into_iter()), expected);
        let large = LaunchSize { requests: 1, bytes: SMALL_BYTES + 1 };
        assert_eq!(units([large, large].into_iter()), [LaunchUnit::Large(0), LaunchUnit::Large(1)]);
        assert_eq!(units(std::iter::empty()), []);
    }
}

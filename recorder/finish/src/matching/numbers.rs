//! Numbers of likenesses, which are much smaller than they.

use std::collections::BTreeMap;

use super::{Described, Likeness};

/// Distinct likenesses, numbered from 0 as they come.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<Likeness, u32>);

impl Numbers {
    pub(super) fn number(&mut self, likeness: Likeness) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(likeness).or_insert(next)
    }

    /// The numbers of a part of each likeness of a run. Several may share that part.
    pub(super) fn of(&mut self, run: &Described, part: impl Fn(&Likeness) -> Likeness) -> Vec<u32> {
        run.likenesses.iter().map(|likeness| self.number(part(likeness))).collect()
    }

    /// The likenesses by their numbers.
    pub(super) fn into_likenesses(self) -> Vec<Likeness> {
        let mut likenesses: Vec<(Likeness, u32)> = self.0.into_iter().collect();
        likenesses.sort_unstable_by_key(|(_, number)| *number);
        likenesses.into_iter().map(|(likeness, _)| likeness).collect()
    }
}

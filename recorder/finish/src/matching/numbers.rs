//! Numbers of likenesses, which are much smaller than they.

use std::collections::BTreeMap;

use super::{DescribedLaunches, LaunchLikeness};

/// Distinct likenesses, numbered from 0 as they come.
#[derive(Debug, Default)]
pub(super) struct LikenessNumbers(BTreeMap<LaunchLikeness, u32>);

impl LikenessNumbers {
    pub(super) fn number(&mut self, likeness: LaunchLikeness) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(likeness).or_insert(next)
    }

    /// The numbers of a part of each likeness of a run. Several may share that part.
    pub(super) fn for_run(
        &mut self,
        run: &DescribedLaunches,
        part: impl Fn(&LaunchLikeness) -> LaunchLikeness,
    ) -> Vec<u32> {
        run.likenesses.iter().map(|likeness| self.number(part(likeness))).collect()
    }

    /// The likenesses by their numbers.
    pub(super) fn into_likenesses(self) -> Vec<LaunchLikeness> {
        let mut likenesses: Vec<(LaunchLikeness, u32)> = self.0.into_iter().collect();
        likenesses.sort_unstable_by_key(|(_, number)| *number);
        likenesses.into_iter().map(|(likeness, _)| likeness).collect()
    }
}

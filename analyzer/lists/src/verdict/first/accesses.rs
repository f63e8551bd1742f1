//! Accesses of a pair of launches: lanes of each instruction.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{FirstDifference, LaunchAspect};
use super::row::InstructionAccess;
use super::side::ComparedRun;
use super::walk::LaunchPair;

/// Lanes by function, pc and kind of access.
type InstructionLanes<'a> = BTreeMap<(u64, u64, &'a str), u64>;

/// Compares the accesses of pairs.
pub(super) struct AccessComparison<'a> {
    a: &'a ComparedRun<'a>,
    b: &'a ComparedRun<'a>,
    /// Spaces of memory that both runs recorded.
    spaces: BTreeSet<&'a str>,
    /// Pairs that were compared.
    pub(super) compared: u64,
}

impl<'a> AccessComparison<'a> {
    pub(super) fn for_runs(a: &'a ComparedRun<'a>, b: &'a ComparedRun<'a>) -> Self {
        let spaces = a.spaces.intersection(&b.spaces).map(String::as_str).collect();
        Self { a, b, spaces, compared: 0 }
    }

    /// The first instruction of a pair that differs.
    pub(super) fn difference(&mut self, (a, b): LaunchPair<'_>) -> Option<FirstDifference> {
        let (ours, others) = (self.a.accesses(a.kernel_id)?, self.b.accesses(b.kernel_id)?);
        if a.function_id != b.function_id {
            return None;
        }
        self.compared += 1;
        let (ours, others) = (self.lanes(ours), self.lanes(others));
        let keys: BTreeSet<_> = ours.keys().chain(others.keys()).collect();
        let key = keys.into_iter().find(|key| ours.get(*key) != others.get(*key))?;
        let count = |lanes: &InstructionLanes<'_>| lanes.get(key).copied().unwrap_or_default();
        let detail = format!(
            "{} at +{:#x} by {} lanes, by {} in the other",
            key.2,
            key.1,
            count(&ours),
            count(&others)
        );
        Some(FirstDifference::for_pair(LaunchAspect::Accesses, a, b, detail))
    }

    /// Lanes of each instruction, in the spaces that both runs recorded. Requests that meet several pieces of memory count
    /// once for each, so their number depends on addresses.
    fn lanes<'b>(&self, accesses: &'b [InstructionAccess]) -> InstructionLanes<'b> {
        let mut lanes = InstructionLanes::new();
        for access in accesses.iter().filter(|access| self.spaces.contains(access.space.as_str())) {
            *lanes.entry((access.function_id, access.pc, access.kind.as_str())).or_default() += access.lanes;
        }
        lanes
    }
}

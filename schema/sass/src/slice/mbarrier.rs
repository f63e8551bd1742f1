//! Places of mbarriers in shared memory, and whether two of them may be one.

use std::collections::BTreeSet;

use crate::slice::value::{BasedConstant, ConstantBase, LoopWalk};

/// Shared addresses have 24 bits. Above them may stand the rank of a block in its cluster.
pub(crate) const ADDRESS_BITS: u32 = 24;
const ADDRESS_MASK: i64 = (1 << ADDRESS_BITS) - 1;
/// Maximum number of stages of a ring.
const MAX_STAGES: i64 = 64;

/// The address of an mbarrier, or those of a ring of them that a loop walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mbarrier {
    /// The address of the first of them begins at this.
    base: ConstantBase,
    /// The number that is added to it.
    pub(crate) start: i64,
    walk: LoopWalk,
}

/// The evidence that two mbarriers are one, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MbarrierEvidence {
    /// Their bases are one, and so are their addresses or some of those of their rings.
    Address,
    /// Their bases may differ, what is added to them does not.
    Offset,
    /// One lies in the other's ring if that is long enough, so many bytes from its start.
    Ring(i64),
    /// Nothing is known of either.
    Nothing,
}

impl From<BasedConstant> for Mbarrier {
    fn from(value: BasedConstant) -> Self {
        Self { base: value.base, start: value.constant & ADDRESS_MASK, walk: value.walk }
    }
}

impl Mbarrier {
    /// The evidence that two addresses may be of one mbarrier. None if they are not.
    fn evidence(&self, other: &Self) -> Option<MbarrierEvidence> {
        let is_open = || [self.base, other.base].iter().any(|base| matches!(base, ConstantBase::Unknown(_)));
        if self.base != other.base && !is_open() {
            return None;
        }
        if self.meets(other) {
            return Some(match self.base == other.base {
                true => MbarrierEvidence::Address,
                false if (self.start, other.start) == (0, 0) => MbarrierEvidence::Nothing,
                false => MbarrierEvidence::Offset,
            });
        }
        let may_be_one = self.may_hold(other.start) || other.may_hold(self.start);
        may_be_one.then(|| MbarrierEvidence::Ring((self.start - other.start).abs()))
    }

    /// Number of stages: one of a single mbarrier. None where the end of the ring is not known.
    fn stages(&self) -> Option<i64> {
        let LoopWalk { step, bytes } = self.walk;
        match (step, bytes) {
            (0, _) => Some(1),
            (step, bytes) if step > 0 && bytes > 0 && bytes % step == 0 && bytes / step <= MAX_STAGES => {
                Some(bytes / step)
            }
            _ => None,
        }
    }

    /// True if both begin alike, or are known to their ends and have an address in common, the bases apart.
    fn meets(&self, other: &Self) -> bool {
        if self.start == other.start {
            return true;
        }
        let (Some(stages), Some(_)) = (self.stages(), other.stages()) else { return false };
        (0..stages).any(|stage| other.holds(self.address(stage), other.stages()))
    }

    fn address(&self, stage: i64) -> i64 {
        self.start.saturating_add(stage.saturating_mul(self.walk.step))
    }

    fn may_hold(&self, address: i64) -> bool {
        self.stages().is_none() && self.holds(address, Some(MAX_STAGES))
    }

    fn holds(&self, address: i64, stages: Option<i64>) -> bool {
        let distance = address - self.start;
        match self.walk.step {
            0 => distance == 0,
            step => distance % step == 0 && (0..stages.unwrap_or(0)).contains(&(distance / step)),
        }
    }
}

/// The best evidence that one of several mbarriers is one of others.
pub(crate) fn evidence(some: &BTreeSet<Mbarrier>, others: &BTreeSet<Mbarrier>) -> Option<MbarrierEvidence> {
    some.iter().flat_map(|one| others.iter().filter_map(|other| one.evidence(other))).min()
}

/// The mbarriers whose addresses are of others too.
pub(crate) fn common(some: &BTreeSet<Mbarrier>, others: &BTreeSet<Mbarrier>) -> BTreeSet<Mbarrier> {
    let is_common =
        |one: &Mbarrier| others.iter().any(|other| one.evidence(other) == Some(MbarrierEvidence::Address));
    some.iter().filter(|one| is_common(one)).copied().collect()
}

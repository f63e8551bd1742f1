//! The additions of a loop to a value: the step from one stage of a ring to the next, and the way back at the end.

/// A step, and the bytes after which it begins again. Zero stands for none, or for what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LoopWalk {
    pub(crate) step: i64,
    pub(crate) bytes: i64,
}

impl LoopWalk {
    /// No loop adds anything.
    pub(crate) const NONE: Self = Self { step: 0, bytes: 0 };

    /// The walk of one addition that adds one of several numbers. A number below zero leads back to the ring's start,
    /// alone or with the step in it.
    pub(super) fn of_added(added: impl IntoIterator<Item = i64>) -> Self {
        let (mut least, mut most, mut step) = (0, 0, 0);
        for one in added {
            (least, most) = (one.min(least), one.max(most));
            if one > 0 && (step == 0 || one < step) {
                step = one;
            }
        }
        Self { step, bytes: if least < 0 { most.saturating_sub(least) } else { 0 } }
    }

    /// Both walks: of a sum, or of several additions of one loop.
    pub(super) fn with(self, other: Self) -> Self {
        let step = match (self.step, other.step) {
            (0, step) | (step, 0) => step,
            (one, other) => one.min(other),
        };
        Self { step, bytes: self.bytes.max(other.bytes) }
    }

    pub(super) const fn scaled(self, factor: i64) -> Self {
        Self { step: self.step.wrapping_mul(factor), bytes: self.bytes.wrapping_mul(factor) }
    }
}

//! A bound on the work of an analysis, counted in steps.
//!
//! The analysis of compiled code takes some steps an instruction, however long the code is. Crafted code can have
//! answers that grow with the square of its length: thousands of loads that nothing waits for, before thousands of
//! ends of the warp. Such code is refused.

use std::cell::Cell;

/// Steps that every section may take: some 0.3 s. Of 17,509 sections of cuDNN 9.28 for sm_90, the largest need is 5.7
/// million, in 8,520 instructions: kernels of convolutions with many mbarriers, and unrolled recurrent networks.
const STEPS: u64 = 1 << 23;
/// Steps that a section may take in addition for each of its instructions. Long code needs up to 60.
const STEPS_PER_INSTRUCTION: u64 = 160;

/// The steps that an analysis may still take.
#[derive(Debug)]
pub struct AnalysisBudget {
    most: u64,
    left: Cell<u64>,
}

/// The reason why code is not analyzed: its answers are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its analysis takes more than {steps} steps")]
pub struct TooMuchWork {
    /// The steps that it may take.
    pub steps: u64,
}

impl AnalysisBudget {
    /// The steps for a number of instructions.
    pub fn for_instructions(instruction_count: usize) -> Self {
        let most = (instruction_count as u64).saturating_mul(STEPS_PER_INSTRUCTION).saturating_add(STEPS);
        Self { most, left: Cell::new(most) }
    }

    /// The steps so far.
    pub const fn spent(&self) -> u64 {
        self.most - self.left.get()
    }

    pub(crate) fn spend(&self, steps: usize) -> Result<(), TooMuchWork> {
        match self.left.get().checked_sub(steps as u64) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(TooMuchWork { steps: self.most }),
        }
    }
}

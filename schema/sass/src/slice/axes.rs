//! The dimensions of the grid that say which part of its tensor a block copies.
//!
//! The coordinates of a copy are followed back through all that they are computed from. Where they meet the index of the
//! block in x, blocks with another x copy another part, and blocks with the same x may copy the same one.

use std::collections::BTreeSet;

use crate::instruction::{MemorySpace, SassInstruction};
use crate::register::Register;
use crate::slice::value::ValueQuery;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Definitions that a copy's coordinates are followed to. Behind them the dimensions are not known.
const MAX_DEFINITIONS: usize = 1 << 10;

/// Dimensions of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GridAxes(u8);

impl GridAxes {
    /// The names of the dimensions, in order.
    const NAMES: [&str; 3] = ["x", "y", "z"];
    const ALL: u8 = 7;

    /// The dimensions of a set of bits. `None` for other bits.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits <= Self::ALL { Some(Self(bits)) } else { None }
    }

    /// Bit n stands for dimension n.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Their names, such as `xz`.
    pub fn name(self) -> String {
        let has = |dimension: &usize| self.0 & 1 << dimension != 0;
        (0..Self::NAMES.len()).filter(has).map(|dimension| Self::NAMES[dimension]).collect()
    }
}

/// The dimensions that say what a copy brings. `None` where that depends on something else: content of memory, the
/// index of a block in its cluster.
pub(crate) fn copy_axes(
    instructions: &[SassInstruction],
    question: &mut ValueQuery<'_>,
    copy: usize,
    work: &AnalysisBudget,
) -> Result<Option<GridAxes>, TooMuchWork> {
    let mut open: Vec<(usize, Register)> = Vec::new();
    open.extend(instructions[copy].copy_coordinates().map(|register| (copy, register)));
    if open.is_empty() {
        return Ok(None);
    }
    let (mut axes, mut seen) = (0, BTreeSet::new());
    while let Some((index, register)) = open.pop() {
        for definition in question.definitions_before(index, register)? {
            work.spend(1)?;
            if !seen.insert(definition) {
                continue;
            }
            let instruction = &instructions[definition];
            let reads_memory = instruction.memory.is_some_and(|memory| memory.space != MemorySpace::Constant);
            if instruction.mnemonic.is_none() || reads_memory || seen.len() > MAX_DEFINITIONS {
                return Ok(None);
            }
            match instruction.block_index() {
                Some(Ok(dimension)) => axes |= 1 << dimension,
                Some(Err(_)) => return Ok(None),
                None => {}
            }
            // Its guard says if, not what.
            let guard = instruction.guard.map(|guard| guard.register);
            let sources = instruction.reads.iter().filter(|source| Some(*source) != guard);
            open.extend(sources.map(|source| (definition, source)));
        }
    }
    Ok(GridAxes::from_bits(axes))
}

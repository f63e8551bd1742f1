//! The instructions that write each register.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::instruction::SassInstruction;
use crate::register::Register;

/// By register: instructions that write it, in order.
#[derive(Debug, Default)]
pub(crate) struct RegisterWrites(BTreeMap<Register, Vec<usize>>);

impl RegisterWrites {
    pub(crate) fn new(instructions: &[SassInstruction]) -> Self {
        let mut definitions = Self::default();
        for (index, instruction) in instructions.iter().enumerate() {
            for register in instruction.writes.iter() {
                definitions.0.entry(register).or_default().push(index);
            }
        }
        definitions
    }

    /// Instructions of a range that write a register, in order.
    pub(crate) fn within(&self, range: Range<usize>, register: Register) -> &[usize] {
        let all = self.0.get(&register).map_or(&[][..], Vec::as_slice);
        let position = |index: usize| all.partition_point(|known| *known < index);
        all.get(position(range.start)..position(range.end)).unwrap_or_default()
    }
}

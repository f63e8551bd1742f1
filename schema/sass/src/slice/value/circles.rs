//! Circles of definitions: those that depend on themselves, and through each other.

use std::collections::BTreeMap;

use crate::register::Register;
use petgraph::unionfind::UnionFind;

/// An instruction, and a register that it writes.
pub(super) type RegisterDefinition = (usize, Register);

/// Definitions that depend on themselves, by the circle that they are in.
#[derive(Debug, Default)]
pub(super) struct DefinitionCycles {
    /// A number of each definition that is in a circle.
    numbers: BTreeMap<RegisterDefinition, usize>,
    joined: UnionFind<usize>,
    /// Counts the changes.
    changes: usize,
}

impl DefinitionCycles {
    /// Each of some definitions leads to the next, and the last to the first.
    pub(super) fn join(&mut self, circle: &[RegisterDefinition]) {
        let mut first = None;
        for definition in circle {
            let number = *self.numbers.entry(*definition).or_insert_with(|| {
                self.changes += 1;
                self.joined.new_set()
            });
            let first = *first.get_or_insert(number);
            self.changes += usize::from(self.joined.union(first, number));
        }
    }

    /// True if a definition is in a circle.
    pub(super) fn contains(&self, definition: RegisterDefinition) -> bool {
        self.numbers.contains_key(&definition)
    }

    /// True if two definitions are in one circle.
    pub(super) fn are_joined(&self, one: RegisterDefinition, other: RegisterDefinition) -> bool {
        let number = |definition| self.numbers.get(&definition);
        matches!((number(one), number(other)), (Some(one), Some(other)) if self.joined.equiv(*one, *other))
    }

    /// Grows with every change.
    pub(super) const fn changes(&self) -> usize {
        self.changes
    }
}

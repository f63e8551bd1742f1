//! The instructions of a launch's records, found by absolute address.

use std::collections::BTreeMap;

use stallmap_schema::id::{FunctionId, Pc};

/// Entries of the table in front of the map. Instructions have 16 bytes.
const RECENT: usize = 256;
const INSTRUCTION_BITS: u32 = 4;

/// Values by the absolute address of an instruction. A loop executes few of them, so most look-ups end in a small table.
pub(super) struct ByPc<T> {
    values: Vec<T>,
    positions: BTreeMap<u64, usize>,
    recent: Box<[(u64, usize); RECENT]>,
}

impl<T> Default for ByPc<T> {
    fn default() -> Self {
        Self { values: Vec::new(), positions: BTreeMap::new(), recent: Box::new([(u64::MAX, 0); RECENT]) }
    }
}

impl<T> ByPc<T> {
    /// The value of an instruction, which is made if it is new.
    pub(super) fn get_or(&mut self, pc: u64, make: impl FnOnce() -> T) -> &mut T {
        let recent = &mut self.recent[(pc >> INSTRUCTION_BITS) as usize % RECENT];
        if recent.0 != pc {
            let next = self.values.len();
            let position = *self.positions.entry(pc).or_insert(next);
            if position == next {
                self.values.push(make());
            }
            *recent = (pc, position);
        }
        &mut self.values[recent.1]
    }

    /// Instructions with their values, by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.positions.iter().map(|(pc, position)| (*pc, &self.values[*position]))
    }
}

/// Functions and offsets of a launch's instructions.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// In the table's order.
    known: Vec<(FunctionId, Pc)>,
    /// Position among them, by absolute address. `None` for code that is not known.
    ranks: BTreeMap<u64, Option<u32>>,
}

impl Places {
    /// Finds instructions.
    pub(super) fn new(
        pcs: impl Iterator<Item = u64>,
        find: impl Fn(u64) -> Option<(FunctionId, Pc)>,
    ) -> Self {
        let places: BTreeMap<u64, _> = pcs.map(|pc| (pc, find(pc))).collect();
        let mut known: Vec<_> = places.values().copied().flatten().collect();
        known.sort_unstable();
        known.dedup();
        let rank = |place: Option<_>| u32::try_from(known.binary_search(&place?).ok()?).ok();
        let ranks = places.iter().map(|(pc, place)| (*pc, rank(*place))).collect();
        Self { known, ranks }
    }

    /// Position of an instruction in the table's order. `None` for code that is not known.
    pub(super) fn rank(&self, pc: u64) -> Option<u32> {
        self.ranks.get(&pc).copied().flatten()
    }

    /// Number of instructions whose code is known.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The instruction at a position.
    pub(super) fn at(&self, rank: u32) -> Option<(FunctionId, Pc)> {
        self.known.get(rank as usize).copied()
    }
}

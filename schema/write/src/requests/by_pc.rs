//! The instructions of a launch's records, found by absolute address.

use std::collections::BTreeMap;

/// Entries of the table in front of the map. Instructions have 16 bytes.
const RECENT: usize = 256;
const INSTRUCTION_BITS: u32 = 4;

/// Values by the absolute address of an instruction. A loop executes few of them, so most look-ups end in a small table.
pub(super) struct ByPc<T> {
    pub(super) values: Vec<T>,
    positions: BTreeMap<u64, usize>,
    recent: Box<[(u64, usize); RECENT]>,
}

impl<T> Default for ByPc<T> {
    fn default() -> Self {
        Self { values: Vec::new(), positions: BTreeMap::new(), recent: Box::new([(u64::MAX, 0); RECENT]) }
    }
}

impl<T> ByPc<T> {
    /// The position of an instruction's value, which is made if it is new.
    #[inline]
    pub(super) fn position_or(&mut self, pc: u64, make: impl FnOnce() -> T) -> usize {
        let recent = &mut self.recent[(pc >> INSTRUCTION_BITS) as usize % RECENT];
        if recent.0 != pc {
            let next = self.values.len();
            let position = *self.positions.entry(pc).or_insert(next);
            if position == next {
                self.values.push(make());
            }
            *recent = (pc, position);
        }
        recent.1
    }
}

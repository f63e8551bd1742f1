//! XLA's own NVTX ranges: one around each execution of a module, one around each thunk.

use std::collections::BTreeMap;

use stallmap_schema::id::OpId;
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::OpKind;

/// Maximum number of ranges in each other.
const MAX_DEPTH: usize = 64;
const MODULE: &str = "XlaModule:#";
const THUNK: &str = "Thunk:#";

/// The ops of a run, by their number.
pub struct XlaRanges<'o>(BTreeMap<OpId, &'o Op>);

impl<'o> XlaRanges<'o> {
    /// The ranges among a run's ops.
    pub fn new(ops: &'o [Op]) -> Self {
        Self(ops.iter().map(|op| (op.op_id, op)).collect())
    }

    /// True for an op of another framework.
    pub fn is_of_a_framework(&self, op: OpId) -> bool {
        self.0.get(&op).is_some_and(|op| op.kind != OpKind::Region)
    }

    /// The instruction and the module that the ranges around a launch name.
    pub fn around(&self, op: OpId) -> (Option<u64>, Option<&'o str>) {
        let (mut instruction, mut module) = (None, None);
        for name in self.chain(op).map(|op| op.name.as_str()) {
            if name.starts_with(THUNK) {
                instruction = instruction.or_else(|| value(name, "unique_hlo_op_id")?.parse().ok());
            } else if name.starts_with(MODULE) {
                module = module.or_else(|| value(name, "hlo_module"));
            }
        }
        (instruction, module)
    }

    /// The innermost op or range around a launch that is not one of XLA's.
    pub fn outer(&self, op: OpId) -> Option<OpId> {
        let is_own = |op: &&Op| op.name.starts_with(THUNK) || op.name.starts_with(MODULE);
        self.chain(op).find(|op| !is_own(op)).map(|op| op.op_id)
    }

    fn chain(&self, op: OpId) -> impl Iterator<Item = &'o Op> {
        let first = self.0.get(&op).copied();
        std::iter::successors(first, |op| self.0.get(&op.parent_op_id?).copied()).take(MAX_DEPTH)
    }
}

/// A value of a range's text, such as Thunk:#hlo_op=copy.1,unique_hlo_op_id=7#.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let fields = text.split_once('#')?.1.trim_end_matches('#').split(',');
    fields.filter_map(|field| field.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_between_commas() {
        let text = "Thunk:#name=jit(f)/mul,hlo_op=loop_fusion,unique_hlo_op_id=4294967297#";
        assert_eq!(value(text, "unique_hlo_op_id"), Some("4294967297"));
        assert_eq!(value(text, "hlo_op"), Some("loop_fusion"));
        assert_eq!(value("Thunk:#hlo_op=command_buffer#", "unique_hlo_op_id"), None);
        assert_eq!(value("Thunk", "hlo_op"), None);
    }
}

//! Which instructions share a kernel: XLA emits one kernel for fusions that compute the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::module::{CompiledModule, HloOperation};

/// Maximum depth of computations that call each other.
const MAX_DEPTH: usize = 8;

/// Hash of all that an instruction computes: its operation, types, attributes, and those of what it fuses. Names and
/// places in the program do not count.
pub fn fingerprint(module: &CompiledModule<'_>, instruction: &HloOperation<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    add(module, instruction, 0, &mut hasher);
    for operand in &instruction.operands {
        module.instruction(*operand).map(|(_, operand)| operand.shape).hash(&mut hasher);
    }
    hasher.finish()
}

fn add(module: &CompiledModule<'_>, instruction: &HloOperation<'_>, depth: usize, hasher: &mut impl Hasher) {
    (instruction.opcode, instruction.shape, instruction.call_target).hash(hasher);
    (instruction.attributes, instruction.parameter, instruction.calls.len()).hash(hasher);
    if depth == MAX_DEPTH {
        return;
    }
    for computation in instruction.calls.iter().filter_map(|id| module.computation(*id)) {
        let positions: BTreeMap<u64, usize> =
            computation.instructions.iter().enumerate().map(|(at, called)| (called.id, at)).collect();
        positions.get(&computation.root_id).hash(hasher);
        for called in &computation.instructions {
            add(module, called, depth + 1, hasher);
            let operands = called.operands.iter().map(|id| positions.get(id));
            operands.collect::<Vec<_>>().hash(hasher);
        }
    }
}

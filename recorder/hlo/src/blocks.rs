//! Blocks of a program's memory, and the names of what lies in them.

use std::collections::BTreeMap;

use crate::executable::{XlaAllocation, XlaExecutable};
use crate::module::{CompiledModule, HloOperation};
use crate::plan::LaunchPlan;
use crate::thunk::BufferSlice;

/// Maximum number of steps from a value to the instruction that made it.
const MAX_STEPS: usize = 64;

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferRole {
    /// An argument of the program. It may become a result.
    Argument,
    /// A result.
    Result,
    /// Everything else.
    Temporary,
}

/// The blocks of a program.
#[derive(Debug, Default)]
pub struct ProgramBlocks {
    allocations: BTreeMap<u64, XlaAllocation>,
    arguments: BTreeMap<u64, String>,
    results: Vec<String>,
}

impl BufferRole {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Argument => "argument",
            Self::Result => "result",
            Self::Temporary => "temporary",
        }
    }
}

impl ProgramBlocks {
    /// The blocks of a program, with the names of its results.
    pub fn new(executable: &XlaExecutable, module: &CompiledModule<'_>, results: &[String]) -> Self {
        let entry = module.computation(module.entry_id);
        let parameters = entry.into_iter().flat_map(|entry| &entry.instructions);
        let arguments =
            parameters.filter(|instruction| instruction.opcode == "parameter").map(|instruction| {
                let name =
                    if instruction.op_name.is_empty() { instruction.name } else { instruction.op_name };
                (instruction.parameter, name.to_owned())
            });
        let arguments = arguments.collect();
        Self { allocations: executable.allocations(), arguments, results: results.to_vec() }
    }

    /// Bytes of a block.
    pub fn size(&self, allocation: u64) -> u64 {
        self.allocations.get(&allocation).map_or(0, |allocation| allocation.size)
    }

    /// Name and role of a block. `None` for one of temporaries.
    pub fn named(&self, allocation: u64) -> Option<(Option<String>, BufferRole)> {
        let allocation = self.allocations.get(&allocation)?;
        if let Some(parameter) = allocation.parameter {
            return Some((self.arguments.get(&parameter).cloned(), BufferRole::Argument));
        }
        let result = usize::try_from(allocation.result?).ok()?;
        Some((self.results.get(result).filter(|name| !name.is_empty()).cloned(), BufferRole::Result))
    }
}

impl LaunchPlan<'_, '_> {
    /// The name of a temporary that is an argument of a step: the instruction that makes it.
    pub fn value_name(&self, step: usize, index: usize, slice: &BufferSlice<'_>) -> Option<String> {
        let (_, instruction) = self.steps.get(step)?;
        if slice.is_written {
            return Some(instruction.name.to_owned());
        }
        let operand = instruction.operands.get(index)?;
        Some(made_by(self.module, *operand)?.name.to_owned())
    }
}

/// The instruction that made a value: not one that only looks at it.
fn made_by<'m, 'a>(module: &'m CompiledModule<'a>, id: u64) -> Option<&'m HloOperation<'a>> {
    let (_, mut instruction) = module.instruction(id)?;
    for _ in 0..MAX_STEPS {
        if !matches!(instruction.opcode, "bitcast" | "get-tuple-element" | "copy-done" | "async-done") {
            break;
        }
        let operand = instruction.operands.first().and_then(|id| module.instruction(*id));
        let Some((_, operand)) = operand else { break };
        if instruction.opcode == "get-tuple-element" && operand.opcode == "parameter" {
            break;
        }
        instruction = operand;
    }
    // A copy that runs while others do is an instruction of its own computation.
    let wrapped = instruction.calls.first().filter(|_| instruction.opcode == "async-start");
    let wrapped =
        wrapped.and_then(|id| module.computation(*id)).and_then(|inner| module.instruction(inner.root_id));
    Some(wrapped.map_or(instruction, |(_, root)| root))
}

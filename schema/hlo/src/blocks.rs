//! Blocks of a program's memory, and the names of what lies in them.

use std::collections::BTreeMap;

use crate::executable::{XlaAllocation, XlaExecutable};
use crate::module::{CompiledModule, HloOperation};
use crate::plan::LaunchPlan;
use crate::shape::ArrayShape;
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
    /// The instruction that makes each result.
    makers: Vec<String>,
}

/// The origin of a value that a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueMaker<'n> {
    /// An argument of the program.
    Argument(u64),
    /// An instruction.
    Instruction(&'n str),
    /// Not known, such as a value that a loop carries. What names it, if anything.
    Unknown(Option<&'n str>),
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
        let arguments = parameters
            .filter(|instruction| instruction.opcode == "parameter")
            .map(|instruction| (instruction.parameter, instruction.path().to_owned()));
        let arguments = arguments.collect();
        let root = entry.and_then(|entry| module.instruction(entry.root_id)).map(|(_, root)| root);
        let made =
            root.map(|root| if root.opcode == "tuple" { root.operands.clone() } else { vec![root.id] });
        let maker = |id: u64| made_by(module, id).map_or(String::new(), |maker| maker.name.to_owned());
        let makers = made.unwrap_or_default().into_iter().map(maker).collect();
        Self { allocations: executable.allocations(), arguments, results: results.to_vec(), makers }
    }

    /// The path of an argument.
    pub fn argument(&self, parameter: u64) -> Option<&str> {
        self.arguments.get(&parameter).map(String::as_str)
    }

    /// Name and role of a block that a slice fills. `None` for a part of a block, and for blocks of temporaries.
    pub fn whole(&self, slice: &BufferSlice<'_>) -> Option<(Option<String>, BufferRole)> {
        let allocation = self.allocations.get(&slice.allocation)?;
        if slice.offset != 0 || slice.size != allocation.size {
            return None;
        }
        if let Some(parameter) = allocation.parameter {
            return Some((self.arguments.get(&parameter).cloned(), BufferRole::Argument));
        }
        let result = usize::try_from(allocation.result?).ok()?;
        Some((self.results.get(result).filter(|name| !name.is_empty()).cloned(), BufferRole::Result))
    }

    /// The same for what an instruction writes: before a block has its result, it may hold temporaries.
    pub fn written(
        &self,
        slice: &BufferSlice<'_>,
        instruction: &str,
    ) -> Option<(Option<String>, BufferRole)> {
        let result = usize::try_from(self.allocations.get(&slice.allocation)?.result?).ok()?;
        let is_maker = self.makers.get(result).is_some_and(|maker| maker == instruction);
        self.whole(slice).filter(|_| is_maker)
    }
}

impl<'m> LaunchPlan<'m, '_> {
    /// The origin of an argument of a step's kernel or library call.
    pub fn maker(&self, step: usize, index: usize) -> ValueMaker<'m> {
        let Some((_, instruction)) = self.steps.get(step) else { return ValueMaker::Unknown(None) };
        let maker = instruction.operands.get(index).and_then(|id| made_by(self.module, *id));
        let Some(maker) = maker.filter(|_| self.has_operands(step, instruction)) else {
            return ValueMaker::Unknown(None);
        };
        let is_entry =
            || self.module.instruction(maker.id).is_some_and(|(inner, _)| inner.id == self.module.entry_id);
        match maker.opcode {
            "parameter" if is_entry() => ValueMaker::Argument(maker.parameter),
            "get-tuple-element" => {
                let value = carried(self.module, maker);
                let name = if value.opcode == "parameter" { value.path() } else { value.name };
                ValueMaker::Unknown(Some(name))
            }
            "parameter" | "while" | "conditional" | "call" | "tuple" => ValueMaker::Unknown(Some(maker.name)),
            _ => ValueMaker::Instruction(maker.name),
        }
    }

    /// True if the first arguments of a step are its operands, by their sizes: XLA passes a buffer once.
    fn has_operands(&self, step: usize, instruction: &HloOperation<'_>) -> bool {
        let slices = self.buffers(step);
        let fits = |(id, slice): (&u64, &BufferSlice<'_>)| {
            let operand =
                self.module.instruction(*id).and_then(|(_, operand)| ArrayShape::read(operand.shape));
            operand.is_some_and(|operand| operand.bytes() == slice.size)
        };
        instruction.operands.len() <= slices.len() && instruction.operands.iter().zip(slices).all(fits)
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

/// The value that a loop began with, of one that it carries: an argument of the program, or what an instruction made.
/// Copies of it are it.
fn carried<'m, 'a>(module: &'m CompiledModule<'a>, element: &'m HloOperation<'a>) -> &'m HloOperation<'a> {
    let mut value = element;
    for _ in 0..MAX_STEPS {
        let next = match value.opcode {
            "get-tuple-element" => initial(module, value),
            "copy" => value.operands.first().and_then(|id| made_by(module, *id)),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    value
}

/// The value that an element of a loop's tuple had before the loop.
fn initial<'m, 'a>(
    module: &'m CompiledModule<'a>,
    element: &HloOperation<'a>,
) -> Option<&'m HloOperation<'a>> {
    let mut tuple = *element.operands.first()?;
    for _ in 0..MAX_STEPS {
        let (computation, holder) = module.instruction(tuple)?;
        tuple = match holder.opcode {
            "tuple" => {
                return made_by(module, *holder.operands.get(usize::try_from(element.tuple_index).ok()?)?);
            }
            "while" => *holder.operands.first()?,
            "parameter" => *module.loop_of(computation.id)?.operands.first()?,
            _ => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use stallmap_testkit::protobuf::{field, value};

    use super::*;

    /// An instruction: name, operation, number, operands, and what else it has.
    fn instruction(name: &str, opcode: &str, id: u64, operands: &[u64], more: &[u8]) -> Vec<u8> {
        let operands = operands.iter().flat_map(|operand| value(36, *operand));
        let bytes = [field(1, name), field(2, opcode), value(35, id)].concat();
        field(2, bytes.into_iter().chain(operands).chain(more.iter().copied()).collect::<Vec<u8>>())
    }

    fn computation(id: u64, instructions: &[Vec<u8>]) -> Vec<u8> {
        field(3, [instructions.concat(), value(5, id)].concat())
    }

    #[test]
    fn what_loops_carry_has_the_name_of_its_first_value() {
        let element = |index| value(13, index);
        let inner = [
            instruction("p.2", "parameter", 30, &[], &[]),
            instruction("gte.30", "get-tuple-element", 31, &[30], &element(1)),
            instruction("gte.31", "get-tuple-element", 32, &[30], &element(0)),
            instruction("gte.32", "get-tuple-element", 33, &[30], &element(7)),
        ];
        let outer = [
            instruction("p.1", "parameter", 20, &[], &[]),
            instruction("gte.20", "get-tuple-element", 21, &[20], &element(0)),
            instruction("zeros", "fusion", 22, &[], &[]),
            instruction("tuple.2", "tuple", 23, &[21, 22], &[]),
            instruction("while.2", "while", 24, &[23], &value(38, 3)),
            instruction("gte.21", "get-tuple-element", 25, &[24], &element(0)),
        ];
        let cache = field(7, field(2, "cache[0]"));
        let entry = [
            instruction("p.0", "parameter", 10, &[], &cache),
            instruction("copy.1", "copy", 11, &[10], &[]),
            instruction("tuple.1", "tuple", 12, &[11], &[]),
            instruction("while.1", "while", 13, &[12], &value(38, 2)),
        ];
        let bytes =
            [computation(3, &inner), computation(2, &outer), computation(1, &entry), value(6, 1)].concat();
        let module = CompiledModule::read(&bytes).unwrap();
        let name = |id| carried(&module, module.instruction(id).unwrap().1).path();
        assert_eq!(name(32), "cache[0]", "through two loops and a copy");
        assert_eq!(name(31), "zeros");
        assert_eq!(name(25), "cache[0]", "what a loop returns");
        assert_eq!(name(33), "gte.32", "an element that the tuple does not have");
    }
}

//! Sources of an instruction: the operations of its fused computations, by the line at which they were traced.

use std::collections::BTreeMap;

use crate::module::{CompiledModule, HloOperation};

/// Maximum depth of computations that call each other.
const MAX_DEPTH: usize = 8;
/// Maximum number of sources of an instruction. The rest counts in the last one.
pub const MAX_SOURCES: usize = 16;
/// Maximum number of instructions around one that are looked at.
const MAX_NEIGHBORS: usize = 64;
/// Operations that compute nothing.
const SILENT: [&str; 7] =
    ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "broadcast", "iota"];

/// The place of an instruction in the program.
#[derive(Clone, Copy, Debug)]
pub struct InstructionOrigin<'m, 'a> {
    /// The operation that was traced there.
    pub operation: &'m HloOperation<'a>,
    /// The operation that the instruction computes last.
    pub root: &'m HloOperation<'a>,
    /// True if the operation is the instruction, or a part of it. False for a neighbor of what XLA added.
    pub is_own: bool,
}

/// The operations of an instruction that were traced at one place.
#[derive(Clone, Debug)]
pub struct InstructionSource<'m, 'a> {
    /// The first of them.
    pub operation: &'m HloOperation<'a>,
    /// Their number.
    pub operation_count: u32,
    /// Their share of all of the instruction's operations.
    pub weight: f64,
}

impl<'a> CompiledModule<'a> {
    /// The operation whose place in the program is the instruction's: itself, or the root of what it fuses. For what
    /// XLA added, the nearest that uses its value, or that it uses.
    pub fn origin<'m>(&'m self, instruction: &'m HloOperation<'a>) -> InstructionOrigin<'m, 'a> {
        let operations = self.operations(instruction);
        let root = operations.first().copied().unwrap_or(instruction);
        let own = std::iter::once(instruction).chain(operations);
        let own = own.into_iter().find(|operation| operation.frame != 0);
        let neighbor = || {
            let users = |operation: &HloOperation<'a>| self.users(operation.id).to_vec();
            let used = |operation: &HloOperation<'a>| operation.operands.clone();
            self.nearest(instruction, &users).or_else(|| self.nearest(instruction, &used))
        };
        let is_own = own.is_some();
        InstructionOrigin { operation: own.or_else(neighbor).unwrap_or(instruction), root, is_own }
    }

    /// The nearest instruction with a stack, by some relation.
    fn nearest<'m>(
        &'m self,
        instruction: &'m HloOperation<'a>,
        related: &dyn Fn(&HloOperation<'a>) -> Vec<u64>,
    ) -> Option<&'m HloOperation<'a>> {
        let mut seen = vec![instruction.id];
        let mut at = 0;
        while let Some(id) = seen.get(at).copied() {
            let (_, operation) = self.instruction(id)?;
            if operation.frame != 0 {
                return Some(operation);
            }
            for next in related(operation) {
                if seen.len() < MAX_NEIGHBORS && !seen.contains(&next) {
                    seen.push(next);
                }
            }
            at += 1;
        }
        None
    }

    /// The sources of an instruction: the root's first, then by weight. Their weights add up to 1.
    pub fn sources<'m>(&'m self, instruction: &'m HloOperation<'a>) -> Vec<InstructionSource<'m, 'a>> {
        let operations = self.operations(instruction);
        let first = self.origin(instruction).operation.frame;
        let mut by_frame: BTreeMap<u64, InstructionSource<'m, 'a>> = BTreeMap::new();
        for operation in &operations {
            // What XLA added belongs to the instruction's own place.
            let frame = if operation.frame == 0 { first } else { operation.frame };
            let source = by_frame.entry(frame).or_insert(InstructionSource {
                operation,
                operation_count: 0,
                weight: 0.0,
            });
            if source.operation.frame == 0 && operation.frame != 0 {
                source.operation = operation;
            }
            source.operation_count += 1;
        }
        let total: u32 = by_frame.values().map(|source| source.operation_count).sum();
        let mut sources: Vec<(u64, InstructionSource<'m, 'a>)> = by_frame.into_iter().collect();
        sources.sort_by_key(|(frame, source)| (*frame != first, std::cmp::Reverse(source.operation_count)));
        let mut sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
        let rest: u32 = sources.iter().skip(MAX_SOURCES).map(|source| source.operation_count).sum();
        sources.truncate(MAX_SOURCES);
        if let Some(last) = sources.last_mut() {
            last.operation_count += rest;
        }
        for source in &mut sources {
            source.weight = f64::from(source.operation_count) / f64::from(total.max(1));
        }
        sources
    }

    /// The operations of an instruction, the root first: itself, or those that it fuses.
    fn operations<'m>(&'m self, instruction: &'m HloOperation<'a>) -> Vec<&'m HloOperation<'a>> {
        let mut operations = Vec::new();
        self.add_operations(instruction, 0, &mut operations);
        if operations.is_empty() {
            operations.push(instruction);
        }
        operations
    }

    fn add_operations<'m>(
        &'m self,
        instruction: &'m HloOperation<'a>,
        depth: usize,
        operations: &mut Vec<&'m HloOperation<'a>>,
    ) {
        if instruction.opcode != "fusion" || depth == MAX_DEPTH {
            operations.push(instruction);
            return;
        }
        for computation in instruction.calls.iter().filter_map(|id| self.computation(*id)) {
            let root = |operation: &&HloOperation<'_>| operation.id == computation.root_id;
            let (roots, others): (Vec<_>, Vec<_>) = computation.instructions.iter().partition(root);
            for operation in roots.into_iter().chain(others.into_iter().rev()) {
                if !SILENT.contains(&operation.opcode) {
                    self.add_operations(operation, depth + 1, operations);
                }
            }
        }
    }
}

/// The kernel's name that XLA makes of an instruction's.
pub fn kernel_name(instruction: &str) -> String {
    instruction.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

/// The layer of an operation by its path: the scopes that the program named, joined by dots. `None` outside scopes.
///
/// jit(step)/transpose(jvp(Model))/while/body/Dense_0/dot_general is Model.Dense_0: the last part is the operation,
/// transformations stand around the name that they transform, and loops add parts of their own.
pub fn layer(op_name: &str) -> Option<String> {
    let mut parts = split_path(op_name);
    parts.pop();
    let names = parts.into_iter().filter_map(scope);
    let layer = names.collect::<Vec<_>>().join(".");
    (!layer.is_empty()).then_some(layer)
}

impl CompiledModule<'_> {
    /// The layer of an instruction outside scopes by its parameters: `params['Block_0']['kernel']` is of `Block_0`. Of
    /// several, what they have in common. So the update of a parameter belongs to the parameter's layer.
    pub fn parameter_layer(&self, instruction: &HloOperation<'_>) -> Option<String> {
        let mut common: Option<Vec<&str>> = None;
        for operand in instruction.operands.iter().filter_map(|id| self.instruction(*id)) {
            let mut operand = operand.1;
            while let ("bitcast" | "copy", [id]) = (operand.opcode, operand.operands.as_slice()) {
                let Some((_, next)) = self
                    .instruction(*id)
                    .filter(|(_, next)| next.id < operand.id || next.opcode == "parameter")
                else {
                    break;
                };
                operand = next;
            }
            let keys = parameter_keys(operand.op_name);
            if operand.opcode != "parameter" || keys.is_empty() {
                continue;
            }
            common = Some(match common {
                None => keys,
                Some(known) => {
                    known.into_iter().zip(keys).take_while(|(a, b)| a == b).map(|(key, _)| key).collect()
                }
            });
        }
        common.map(|keys| keys.join(".")).filter(|layer| !layer.is_empty())
    }
}

/// The keys in the path of a parameter but the last: from the first name on, because numbers before it choose a part of
/// the training state.
fn parameter_keys(path: &str) -> Vec<&str> {
    // Attributes follow a key, as in `opt_state[0].mu['Block_0']['kernel']`.
    let keys = path.split('[').skip(1).filter_map(|part| part.split(']').next());
    let keys = keys.map(|key| key.trim_matches('\''));
    let mut keys: Vec<&str> = keys.skip_while(|key| key.bytes().all(|byte| byte.is_ascii_digit())).collect();
    keys.pop();
    keys
}

/// The last part of an operation's path. The instruction's own operation where XLA added it, or where the path is that of
/// an argument.
pub fn title<'a>(op_name: &'a str, opcode: &'a str) -> &'a str {
    op_name.rsplit_once('/').map(|(_, name)| name).filter(|name| !name.is_empty()).unwrap_or(opcode)
}

/// True if an operation computes a gradient.
pub fn is_backward(op_name: &str) -> bool {
    op_name.contains("transpose(")
}

/// Parts of a path that JAX adds.
const ADDED: [&str; 14] = [
    "while",
    "body",
    "cond",
    "scan",
    "eval_jaxpr",
    "closed_call",
    "core_call",
    "checkpoint",
    "remat",
    "rematted_computation",
    "custom_jvp_call",
    "custom_vjp_call",
    "shard_map",
    "pjit",
];
/// Transformations, whose name in parentheses is the program's. A function's that jit names is not a layer.
const TRANSFORMED: [&str; 4] = ["jvp", "transpose", "vmap", "linearize"];

fn scope(part: &str) -> Option<&str> {
    let mut part = part;
    while let Some((outer, inner)) = part.split_once('(') {
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        if !TRANSFORMED.contains(&outer) {
            return None;
        }
        part = inner;
    }
    // The subscripts of einsum.
    let is_equation = part.contains("->");
    let is_branch = part.starts_with("branch_") && part.ends_with("_fun");
    (!part.is_empty() && !ADDED.contains(&part) && !is_branch && !is_equation).then_some(part)
}

/// The parts of a path. A slash in parentheses separates nothing.
fn split_path(path: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, c) in path.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '/' if depth == 0 => {
                parts.extend(path.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(path.get(start..));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_what_the_program_named() {
        let layers = [
            ("jit(step)/transpose(jvp(Model))/while/body/Dense_0/dot_general", Some("Model.Dense_0")),
            (
                "jit(step)/jvp()/while/body/eval_jaxpr/Block/Attention_0/qkv/dot_general",
                Some("Block.Attention_0.qkv"),
            ),
            ("jit(step)/vmap(jit(f))/sin", None),
            ("jit(main)/Mlp_0/jit(gelu)/tanh", Some("Mlp_0")),
            ("params['dense']['kernel']", None),
            ("", None),
        ];
        for (path, expected) in layers {
            assert_eq!(layer(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn the_layer_of_a_parameter_is_its_path_without_the_last_key() {
        assert_eq!(parameter_keys("state[0]['layers'][2]['up']['kernel']"), ["layers", "2", "up"]);
        assert_eq!(parameter_keys("opt_state[0].mu['up'].value['kernel'].value"), ["up"]);
        assert_eq!(parameter_keys("params['kernel']"), [""; 0]);
        assert_eq!(parameter_keys("x"), [""; 0]);
    }

    #[test]
    fn a_slash_in_parentheses_separates_nothing() {
        assert_eq!(split_path("jit(a/b)/c"), ["jit(a/b)", "c"]);
        assert_eq!(split_path(")(/"), [")(/"]);
    }

    #[test]
    fn kernels_are_named_after_instructions() {
        assert_eq!(kernel_name("loop_add_fusion.3"), "loop_add_fusion_3");
        assert_eq!(kernel_name("wrapped_reduce-window"), "wrapped_reduce_window");
    }
}

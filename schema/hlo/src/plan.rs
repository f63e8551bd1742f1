//! The plan of a module: the instructions that it runs, in the order in which they launch.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::fingerprint::fingerprint;
use crate::module::{CompiledModule, HloComputation, HloOperation, MAX_INSTRUCTIONS};
use crate::sources::kernel_name;
use crate::thunk::{BufferSlice, LaunchThunk};

/// Maximum depth of loops and branches in each other.
const MAX_DEPTH: usize = 32;
/// Operations that launch nothing.
const SILENT: [&str; 8] =
    ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call"];
/// Operations whose kernels are a library's.
const LIBRARY: [&str; 12] = [
    "custom-call",
    "convolution",
    "fft",
    "cholesky",
    "triangular-solve",
    "dot",
    "all-reduce",
    "all-gather",
    "all-to-all",
    "reduce-scatter",
    "collective-permute",
    "collective-broadcast",
];

/// The instructions of a module, in order, with loops and branches in their place.
#[derive(Clone, Debug)]
pub struct LaunchPlan<'m, 'a> {
    /// The module.
    pub module: &'m CompiledModule<'a>,
    /// Computation and instruction of each step.
    pub steps: Vec<(&'m HloComputation<'a>, &'m HloOperation<'a>)>,
    /// Steps of loops: each loop's condition and body.
    loops: Vec<Range<usize>>,
    /// Steps that launch a kernel of the module, by its name.
    kernels: BTreeMap<String, Vec<usize>>,
    /// Steps of each instruction, by its number.
    by_instruction: BTreeMap<u64, Vec<usize>>,
    /// Steps that launch kernels of libraries.
    libraries: Vec<usize>,
    /// Arguments of kernels and library calls, by step.
    buffers: BTreeMap<usize, &'m [BufferSlice<'a>]>,
}

impl<'m, 'a> LaunchPlan<'m, 'a> {
    /// The plan of a module: its thunks, or where these are not known its instructions in order.
    pub fn new(module: &'m CompiledModule<'a>, thunks: &'m [LaunchThunk<'a>]) -> Self {
        let mut plan = Self {
            module,
            steps: Vec::new(),
            loops: Vec::new(),
            kernels: BTreeMap::new(),
            by_instruction: BTreeMap::new(),
            libraries: Vec::new(),
            buffers: BTreeMap::new(),
        };
        plan.add_thunks(thunks);
        if plan.steps.is_empty()
            && let Some(entry) = module.computation(module.entry_id)
        {
            plan.add(entry, 0);
            plan.name_steps();
        }
        for (step, (_, instruction)) in plan.steps.iter().enumerate() {
            plan.by_instruction.entry(instruction.id).or_default().push(step);
        }
        plan
    }

    /// Steps that may have launched a kernel of the module.
    pub fn steps_of(&self, kernel: &str) -> &[usize] {
        let mut name = kernel;
        loop {
            if let Some(steps) = self.kernels.get(name) {
                return steps;
            }
            // XLA numbers the kernels of an instruction that has several.
            let shorter = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
            if shorter.len() == name.len() || shorter.is_empty() {
                return &[];
            }
            name = shorter;
        }
    }

    /// The steps of an instruction, by its number.
    pub fn steps_with(&self, instruction: u64) -> &[usize] {
        self.by_instruction.get(&instruction).map_or(&[], Vec::as_slice)
    }

    /// The arguments of a step's kernel or library call. Empty where they are not known.
    pub fn buffers(&self, step: usize) -> &'m [BufferSlice<'a>] {
        self.buffers.get(&step).copied().unwrap_or(&[])
    }

    /// True if a step's kernel is the module's own.
    pub fn is_own_kernel(&self, step: usize) -> bool {
        self.buffers.contains_key(&step) && self.libraries.binary_search(&step).is_err()
    }

    /// True if a step that follows another one is of a new execution: it does not come later, and no loop holds both. A
    /// library may launch several kernels in one step.
    pub fn starts_again(&self, last: usize, step: usize, is_library: bool) -> bool {
        let is_repeated = is_library && step == last;
        let holds = |range: &Range<usize>| range.contains(&last) && range.contains(&step);
        step <= last && !is_repeated && !self.loops.iter().any(holds)
    }

    /// True if every kernel that the module launches is a library's.
    pub fn is_only_library(&self) -> bool {
        self.kernels.is_empty() && !self.libraries.is_empty()
    }

    /// Library steps behind one step and before another, in the order in which they run. If the second does not come
    /// later, they are around a loop that holds both.
    pub fn libraries_between(&self, after: Option<usize>, before: Option<usize>) -> Vec<usize> {
        let first = after.map_or(0, |after| after + 1);
        let last = before.unwrap_or(self.steps.len());
        let between = self.libraries_in(first..last);
        match (after, before) {
            (Some(after), Some(before)) if before <= after || between.is_empty() => {
                let holds = |range: &&Range<usize>| range.contains(&after) && range.contains(&before);
                let whole = 0..self.steps.len();
                let around =
                    self.loops.iter().filter(holds).min_by_key(|range| range.len()).unwrap_or(&whole);
                let mut steps = self.libraries_in(first..around.end);
                steps.extend(self.libraries_in(around.start..before.min(after + 1)));
                steps
            }
            _ => between,
        }
    }

    fn libraries_in(&self, range: Range<usize>) -> Vec<usize> {
        let from = self.libraries.partition_point(|step| *step < range.start);
        let to = self.libraries.partition_point(|step| *step < range.end);
        self.libraries.get(from..to).unwrap_or(&[]).to_vec()
    }

    fn add_thunks(&mut self, thunks: &'m [LaunchThunk<'a>]) {
        for thunk in thunks {
            if let Some((computation, instruction)) = self.module.named(thunk.name) {
                let step = self.steps.len();
                self.steps.push((computation, instruction));
                if let Some(kernel) = &thunk.kernel {
                    self.kernels.entry(kernel.name.to_owned()).or_default().push(step);
                    self.buffers.insert(step, &thunk.buffers);
                } else if self.is_library(instruction, 0) {
                    self.libraries.push(step);
                    self.buffers.insert(step, &thunk.buffers);
                }
            }
            let start = self.steps.len();
            self.add_thunks(&thunk.children);
            if thunk.is_loop {
                self.loops.push(start..self.steps.len());
            }
        }
    }

    fn add(&mut self, computation: &'m HloComputation<'a>, depth: usize) {
        let instructions: Vec<&'m HloOperation<'a>> = match self.module.sequences.get(&computation.id) {
            Some(ids) => {
                let found = ids.iter().filter_map(|id| self.module.instruction(*id));
                found.map(|(_, instruction)| instruction).collect()
            }
            None => computation.instructions.iter().collect(),
        };
        for instruction in instructions {
            if self.steps.len() >= MAX_INSTRUCTIONS {
                return;
            }
            self.steps.push((computation, instruction));
            let is_async = instruction.opcode == "async-start";
            let runs = is_async || matches!(instruction.opcode, "while" | "conditional" | "call");
            if !runs || depth == MAX_DEPTH {
                continue;
            }
            let start = self.steps.len();
            let module = self.module;
            for called in instruction.calls.iter().filter_map(|id| module.computation(*id)) {
                self.add(called, depth + 1);
            }
            if instruction.opcode == "while" {
                self.loops.push(start..self.steps.len());
            }
        }
    }

    fn name_steps(&mut self) {
        let mut twins: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (step, (_, instruction)) in self.steps.iter().enumerate() {
            if SILENT.contains(&instruction.opcode) {
                continue;
            }
            if self.is_library(instruction, 0) {
                self.libraries.push(step);
            } else {
                twins.entry(fingerprint(self.module, instruction)).or_default().push(step);
            }
        }
        for steps in twins.into_values() {
            for step in &steps {
                if let Some((_, instruction)) = self.steps.get(*step) {
                    let named = self.kernels.entry(kernel_name(instruction.name)).or_default();
                    named.extend(&steps);
                    named.sort_unstable();
                    named.dedup();
                }
            }
        }
    }

    fn is_library(&self, instruction: &HloOperation<'_>, depth: usize) -> bool {
        let opcode = instruction.opcode.trim_end_matches("-start").trim_end_matches("-done");
        if LIBRARY.contains(&opcode) && (opcode != "dot" || depth == 0) {
            return true;
        }
        // A fusion around a library's call, which gives it a part of a buffer.
        let fused = instruction.calls.iter().filter_map(|id| self.module.computation(*id));
        instruction.opcode == "fusion"
            && depth < MAX_DEPTH
            && fused.flat_map(|computation| &computation.instructions).any(|called| {
                called.opcode == "custom-call"
                    && !called.call_target.is_empty()
                    && self.is_library(called, depth + 1)
            })
    }
}

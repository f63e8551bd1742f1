//! A module as XLA compiled it: its computations, instructions, and the Python frames at which they were traced.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::wire::{WireFields, WireValue};

/// Maximum number of instructions of a module that are read.
pub const MAX_INSTRUCTIONS: usize = 4 << 20;
/// Maximum number of frames of a stack.
const MAX_FRAMES: usize = 256;

/// A compiled module. Texts are those of the bytes that it was read from.
#[derive(Clone, Debug, Default)]
pub struct CompiledModule<'a> {
    /// Its name, such as jit_step.
    pub name: &'a str,
    /// Its computations.
    pub computations: Vec<HloComputation<'a>>,
    /// The computation that runs.
    pub entry_id: u64,
    /// The order of instructions of a computation, by its number.
    pub sequences: BTreeMap<u64, Vec<u64>>,
    frames: FrameIndex<'a>,
    by_id: BTreeMap<u64, (usize, usize)>,
    by_name: BTreeMap<&'a str, u64>,
    /// The instructions that use each instruction's value.
    users: BTreeMap<u64, Vec<u64>>,
    /// The loop of each computation that is the body or the condition of one.
    loops: BTreeMap<u64, u64>,
}

/// One computation.
#[derive(Clone, Debug, Default)]
pub struct HloComputation<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number.
    pub id: u64,
    /// The instruction whose value it returns.
    pub root_id: u64,
    /// Its instructions: operands come before their users.
    pub instructions: Vec<HloOperation<'a>>,
}

/// One instruction.
#[derive(Clone, Debug, Default)]
pub struct HloOperation<'a> {
    /// Its name, unique in the module.
    pub name: &'a str,
    /// Its operation.
    pub opcode: &'a str,
    /// Its type, encoded.
    pub shape: &'a [u8],
    /// JAX's path of the operation. Empty where XLA added it.
    pub op_name: &'a str,
    /// The innermost frame, counted from 1. 0 of none.
    pub frame: u64,
    /// File and line, where there is no frame.
    source: (&'a str, u64),
    /// Which parameter of the computation it is.
    pub parameter: u64,
    /// Which element of a tuple it takes.
    pub tuple_index: u64,
    /// The library that it calls. Empty where it calls none.
    pub call_target: &'a str,
    /// Its number, unique in the module.
    pub id: u64,
    /// Its operands.
    pub operands: Vec<u64>,
    /// The computations that it calls.
    pub calls: Vec<u64>,
    /// Hash of everything else that decides what it computes.
    pub attributes: u64,
}

/// A frame of the Python stack at which an instruction was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedFrame<'a> {
    /// The file, as Python names it.
    pub file: &'a str,
    /// The function.
    pub function: &'a str,
    /// The running line.
    pub line: u32,
}

#[derive(Clone, Debug, Default)]
struct FrameIndex<'a> {
    files: Vec<&'a str>,
    functions: Vec<&'a str>,
    /// File, function, line.
    locations: Vec<[u64; 3]>,
    /// Location, parent.
    frames: Vec<[u64; 2]>,
}

impl<'a> CompiledModule<'a> {
    /// Reads a module. `None` where it has no computation, or too many instructions.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut module = Self::default();
        let mut budget = MAX_INSTRUCTIONS;
        for (tag, value) in WireFields::new(bytes) {
            match tag {
                1 => module.name = value.text(),
                3 => module.computations.push(HloComputation::read(value, &mut budget)?),
                6 => module.entry_id = value.number(),
                7 => module.read_schedule(value),
                17 => module.frames = FrameIndex::read(value),
                _ => {}
            }
        }
        for (index, computation) in module.computations.iter().enumerate() {
            let ids = computation.instructions.iter().enumerate();
            module.by_id.extend(ids.map(|(at, instruction)| (instruction.id, (index, at))));
            let names = computation.instructions.iter().map(|instruction| (instruction.name, instruction.id));
            module.by_name.extend(names);
            for instruction in &computation.instructions {
                if instruction.opcode == "while" {
                    module.loops.extend(instruction.calls.iter().map(|called| (*called, instruction.id)));
                }
                for operand in &instruction.operands {
                    module.users.entry(*operand).or_default().push(instruction.id);
                }
            }
        }
        (!module.computations.is_empty()).then_some(module)
    }

    /// The computation of a number.
    pub fn computation(&self, id: u64) -> Option<&HloComputation<'a>> {
        self.computations.iter().find(|computation| computation.id == id)
    }

    /// The instruction of a number, with its computation.
    pub fn instruction(&self, id: u64) -> Option<(&HloComputation<'a>, &HloOperation<'a>)> {
        let &(computation, at) = self.by_id.get(&id)?;
        let computation = self.computations.get(computation)?;
        Some((computation, computation.instructions.get(at)?))
    }

    /// The instruction of a name, with its computation.
    pub fn named(&self, name: &str) -> Option<(&HloComputation<'a>, &HloOperation<'a>)> {
        self.instruction(*self.by_name.get(name)?)
    }

    /// The instructions that use an instruction's value.
    pub fn users(&self, id: u64) -> &[u64] {
        self.users.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The loop that runs a computation.
    pub fn loop_of(&self, computation: u64) -> Option<&HloOperation<'a>> {
        self.instruction(*self.loops.get(&computation)?).map(|(_, instruction)| instruction)
    }

    /// Instructions of all computations.
    pub fn instruction_count(&self) -> u64 {
        self.by_id.len() as u64
    }

    /// The frames of an instruction, innermost first. Empty where XLA added it.
    pub fn frames(&self, instruction: &HloOperation<'a>) -> Vec<TracedFrame<'a>> {
        let frames = self.frames.stack(instruction.frame);
        let (file, line) = instruction.source;
        if frames.is_empty() && !file.is_empty() {
            return vec![TracedFrame { file, function: "", line: u32::try_from(line).unwrap_or(0) }];
        }
        frames
    }

    fn read_schedule(&mut self, schedule: WireValue<'a>) {
        // A map: entries of a computation's number and its instructions.
        for (_, entry) in WireFields::new(schedule.bytes().unwrap_or(&[])) {
            let entry = entry.bytes().unwrap_or(&[]);
            let id = WireFields::new(entry).find(|(tag, _)| *tag == 1).map_or(0, |(_, id)| id.number());
            let mut numbers = Vec::new();
            for (_, value) in WireFields::new(WireFields::message(entry, 2).unwrap_or(&[])) {
                value.add_numbers(&mut numbers);
            }
            self.sequences.insert(id, numbers);
        }
    }
}

impl<'a> HloComputation<'a> {
    fn read(value: WireValue<'a>, budget: &mut usize) -> Option<Self> {
        let mut computation = Self::default();
        for (tag, value) in WireFields::new(value.bytes()?) {
            match tag {
                1 => computation.name = value.text(),
                2 => {
                    *budget = budget.checked_sub(1)?;
                    computation.instructions.push(HloOperation::read(value));
                }
                5 => computation.id = value.number(),
                6 => computation.root_id = value.number(),
                _ => {}
            }
        }
        Some(computation)
    }
}

impl<'a> HloOperation<'a> {
    /// Its path in the program, or its name where it has none.
    pub fn path(&self) -> &'a str {
        if self.op_name.is_empty() { self.name } else { self.op_name }
    }

    fn read(value: WireValue<'a>) -> Self {
        let mut instruction = Self::default();
        let mut attributes = DefaultHasher::new();
        for (tag, value) in WireFields::new(value.bytes().unwrap_or(&[])) {
            match tag {
                1 => instruction.name = value.text(),
                2 => instruction.opcode = value.text(),
                3 => instruction.shape = value.bytes().unwrap_or(&[]),
                7 => instruction.read_metadata(value),
                9 => instruction.parameter = value.number(),
                13 => {
                    instruction.tuple_index = value.number();
                    (tag, value).hash(&mut attributes);
                }
                28 => instruction.call_target = value.text(),
                35 => instruction.id = value.number(),
                36 => value.add_numbers(&mut instruction.operands),
                38 => value.add_numbers(&mut instruction.calls),
                _ => (tag, value).hash(&mut attributes),
            }
        }
        instruction.attributes = attributes.finish();
        instruction
    }

    fn read_metadata(&mut self, metadata: WireValue<'a>) {
        for (tag, value) in WireFields::new(metadata.bytes().unwrap_or(&[])) {
            match tag {
                2 => self.op_name = value.text(),
                3 => self.source.0 = value.text(),
                4 => self.source.1 = value.number(),
                15 => self.frame = value.number(),
                _ => {}
            }
        }
    }
}

impl<'a> FrameIndex<'a> {
    fn read(value: WireValue<'a>) -> Self {
        let mut index = Self::default();
        for (tag, value) in WireFields::new(value.bytes().unwrap_or(&[])) {
            match tag {
                1 => index.files.push(value.text()),
                2 => index.functions.push(value.text()),
                3 => index.locations.push(first_numbers(value)),
                4 => index.frames.push(first_numbers(value)),
                _ => {}
            }
        }
        index
    }

    /// A stack by its innermost frame. All numbers count from 1.
    fn stack(&self, mut frame: u64) -> Vec<TracedFrame<'a>> {
        let mut stack = Vec::new();
        while let Some(&[location, parent]) = at(&self.frames, frame) {
            // Frames of a damaged module may form a circle.
            if stack.len() == MAX_FRAMES {
                break;
            }
            if let Some(&[file, function, line]) = at(&self.locations, location) {
                stack.push(TracedFrame {
                    file: at(&self.files, file).copied().unwrap_or(""),
                    function: at(&self.functions, function).copied().unwrap_or(""),
                    line: u32::try_from(line).unwrap_or(0),
                });
            }
            frame = parent;
        }
        stack
    }
}

/// The element of a number that counts from 1.
fn at<T>(values: &[T], number: u64) -> Option<&T> {
    values.get(usize::try_from(number.checked_sub(1)?).ok()?)
}

/// The numbers of a message's first fields.
fn first_numbers<const N: usize>(value: WireValue<'_>) -> [u64; N] {
    let mut numbers = [0; N];
    for (tag, value) in WireFields::new(value.bytes().unwrap_or(&[])) {
        let slot = usize::try_from(tag).ok().and_then(|tag| numbers.get_mut(tag.wrapping_sub(1)));
        if let Some(slot) = slot {
            *slot = value.number();
        }
    }
    numbers
}

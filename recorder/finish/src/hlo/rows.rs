//! Rows of launches that have an instruction: ops, Python stacks, and the tables of modules and instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use stallmap_hlo::assign::{AssignedLaunch, AssignmentMeans};
use stallmap_hlo::blocks::ProgramBlocks;
use stallmap_hlo::buffers::{self, BufferLaunch, RunBuffers};
use stallmap_hlo::module::{HloOperation, TracedFrame};
use stallmap_hlo::plan::LaunchPlan;
use stallmap_hlo::ranges::XlaRanges;
use stallmap_hlo::sources;
use stallmap_schema::hash;
use stallmap_schema::id::{KernelId, OpId, PystatesHash, RunId};
use stallmap_schema::tables::hlo::{HloInstruction, HloLaunch, HloModule, HloSource};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::{HloMethod, LossKind, OpKind, Phase};

use super::files::ProgramFile;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// Maximum bytes of a text of a module.
const MAX_TEXT_BYTES: usize = 1_000;

/// Rows while they are made. Identifiers of ops are set last.
pub(super) struct HloRows<'f, 'm, 'a> {
    files: &'f [ProgramFile],
    plans: &'f [LaunchPlan<'m, 'a>],
    first_module: u64,
    /// Programs that have launches or trials, numbered in their order of use.
    used: BTreeMap<usize, u64>,
    instructions: BTreeMap<(u64, u64), (HloInstruction, Vec<HloSource>)>,
    frames: Vec<PythonFrame>,
    states: Vec<PythonState>,
    known_states: BTreeSet<PystatesHash>,
    launches: Vec<HloLaunch>,
    ops: Vec<Op>,
    /// The launch of each op.
    op_launches: Vec<KernelId>,
    /// Ordinal, launch and instruction of each launch.
    assigned: Vec<(u64, KernelId, AssignedLaunch)>,
}

impl<'f, 'm, 'a> HloRows<'f, 'm, 'a> {
    pub(super) fn new(files: &'f [ProgramFile], plans: &'f [LaunchPlan<'m, 'a>], first_module: u64) -> Self {
        Self {
            files,
            plans,
            first_module,
            used: BTreeMap::new(),
            instructions: BTreeMap::new(),
            frames: Vec::new(),
            states: Vec::new(),
            known_states: BTreeSet::new(),
            launches: Vec::new(),
            ops: Vec::new(),
            op_launches: Vec::new(),
            assigned: Vec::new(),
        }
    }

    /// Adds a launch of an instruction.
    pub(super) fn add(&mut self, launch: &mut Launch, assigned: AssignedLaunch, seen: Option<&LaunchRun>) {
        let Some(plan) = self.plans.get(assigned.program) else { return };
        let Some(&(computation, instruction)) = plan.steps.get(assigned.step) else { return };
        self.assigned.push((launch.ordinal, launch.kernel_id, assigned));
        let number = self.number(assigned.program);
        let origin = plan.module.origin(instruction);
        let op_name = if origin.is_own { origin.operation.op_name } else { instruction.op_name };
        let stack = self.stack(assigned.program, &plan.module.frames(origin.operation));
        // A function that runs as it is called is compiled once, at its first call: the launch's own stack is the call's.
        let is_own = launch.pystates_hash.is_some() && self.is_at_call(assigned.program, origin.operation);
        if !is_own {
            let call = if stack.is_some() { None } else { self.call_stack(assigned.program) };
            launch.pystates_hash = stack.or(call).or(launch.pystates_hash);
        }
        self.launches.push(HloLaunch {
            kernel_id: launch.kernel_id,
            hlo_module_id: number,
            instruction_id: Some(instruction.id),
            method: match assigned.means {
                AssignmentMeans::Kernel => HloMethod::Kernel,
                AssignmentMeans::Order => HloMethod::Order,
                AssignmentMeans::Range => HloMethod::Range,
            },
            candidate_count: u32::try_from(assigned.candidate_count).unwrap_or(u32::MAX),
        });
        if !self.instructions.contains_key(&(number, instruction.id)) {
            let row = HloInstruction {
                hlo_module_id: number,
                instruction_id: instruction.id,
                name: text(instruction.name),
                opcode: text(instruction.opcode),
                call_target: some_text(instruction.call_target),
                computation: text(computation.name),
                op_name: some_text(op_name),
                pystates_hash: stack,
            };
            let sources = self.sources(assigned.program, number, instruction);
            self.instructions.insert((number, instruction.id), (row, sources));
        }
        let op = Op {
            name: text(sources::title(op_name, origin.root.opcode)),
            phase: self.phase(assigned.program, origin.operation.op_name),
            module_path: sources::layer(origin.operation.op_name)
                .or_else(|| plan.module.parameter_layer(instruction))
                .map(|layer| text(&layer)),
            pystates_hash: launch.pystates_hash,
            ..bare_op(launch, seen)
        };
        self.ops.push(op);
        self.op_launches.push(launch.kernel_id);
    }

    /// Adds a launch that the compiler made to choose among kernels.
    pub(super) fn add_trial(&mut self, launch: &mut Launch, program: usize, seen: Option<&LaunchRun>) {
        let number = self.number(program);
        let stack = self.call_stack(program);
        launch.pystates_hash = stack.or(launch.pystates_hash);
        self.launches.push(HloLaunch {
            kernel_id: launch.kernel_id,
            hlo_module_id: number,
            instruction_id: None,
            method: HloMethod::Tuning,
            candidate_count: 1,
        });
        let name = self.files.get(program).map_or("", |file| &file.facts.name);
        let op = Op {
            name: format!("tune {}", text(name)),
            kind: OpKind::Tuning,
            phase: Phase::Other,
            pystates_hash: launch.pystates_hash,
            ..bare_op(launch, seen)
        };
        self.ops.push(op);
        self.op_launches.push(launch.kernel_id);
    }

    /// The buffers of the launches, in their order, where the run recorded parameters. `ops` are the launches' ops.
    fn buffers(&mut self, run: &RunState, ops: &BTreeMap<KernelId, OpId>) -> RunBuffers {
        let rows = &run.rows;
        let storages = rows.storages.iter().map(|row| row.storage_id.0);
        let storage = storages.chain(rows.storage_events.iter().map(|row| row.storage_id.0)).max();
        let tensor = rows.tensors.iter().map(|row| row.tensor_id.0).max();
        let mut buffers =
            RunBuffers::new(storage.map_or(0, |last| last + 1), tensor.map_or(0, |last| last + 1));
        let parameters = buffers::by_launch(&rows.parameters);
        if parameters.is_empty() {
            return buffers;
        }
        let launches: BTreeMap<KernelId, &Launch> =
            rows.launches.iter().map(|row| (row.kernel_id, row)).collect();
        let times: BTreeMap<OpId, i64> = rows.ops.iter().map(|op| (op.op_id, op.begin_ns)).collect();
        let mut blocks: BTreeMap<usize, ProgramBlocks> = BTreeMap::new();
        self.assigned.sort_unstable_by_key(|(ordinal, _, _)| *ordinal);
        for (_, kernel_id, assigned) in &self.assigned {
            let Some((plan, file)) = self.plans.get(assigned.program).zip(self.files.get(assigned.program))
            else {
                continue;
            };
            let Some((launch, op_id)) = launches.get(kernel_id).zip(ops.get(kernel_id)) else { continue };
            let own = parameters.get(kernel_id).copied();
            let program = assigned.program;
            let blocks = blocks
                .entry(program)
                .or_insert_with(|| ProgramBlocks::new(&file.executable, plan.module, &file.facts.results));
            buffers.add(&BufferLaunch {
                launch,
                op_id: *op_id,
                program,
                step: assigned.step,
                plan,
                blocks,
                parameters: own.filter(|_| plan.is_own_kernel(assigned.step)),
                time_ns: times.get(op_id).copied().unwrap_or(0),
            });
        }
        buffers.finish();
        buffers
    }

    /// Puts the rows among those of the run. Returns the number of modules.
    pub(super) fn finish(mut self, run: &mut RunState, losses: &mut LossTotals) -> u64 {
        let rows = &mut run.rows;
        let last = rows.ops.iter().map(|op| op.op_id.0).max().unwrap_or(0);
        let outer: Vec<Option<OpId>> = {
            let ranges = XlaRanges::new(&rows.ops);
            self.ops.iter().map(|op| ranges.outer(op.parent_op_id?)).collect()
        };
        for (op, outer) in self.ops.iter_mut().zip(outer) {
            op.parent_op_id = outer;
        }
        let mut ops = BTreeMap::new();
        for ((op_id, mut op), kernel_id) in
            (last + 1..).zip(take(&mut self.ops)).zip(take(&mut self.op_launches))
        {
            op.op_id = OpId(op_id);
            ops.insert(kernel_id, op.op_id);
            rows.ops.push(op);
        }
        for launch in &mut rows.launches {
            if let Some(op_id) = ops.get(&launch.kernel_id) {
                launch.op_id = Some(*op_id);
                // The op, the stack and the buffers are those of the launch.
                launch.capture_ordinal = None;
            }
        }
        let buffers = self.buffers(run, &ops);
        let unknown = buffers.unknown;
        losses.add(run.row.run_id, LossKind::Tensor, "buffers of a launch are not its parameters", unknown);
        let rows = &mut run.rows;
        rows.storages.extend(buffers.storages);
        rows.tensors.extend(buffers.tensors);
        rows.op_tensors.extend(buffers.op_tensors);
        for (program, number) in self.used.clone() {
            let pystates_hash = self.call_stack(program);
            let Some((file, plan)) = self.files.get(program).zip(self.plans.get(program)) else { continue };
            rows.hlo_modules.push(HloModule {
                hlo_module_id: number,
                run_id: RunId(0),
                name: text(&file.facts.name),
                begin_ns: file.facts.begin_ns,
                end_ns: file.facts.end_ns,
                instruction_count: plan.module.instruction_count(),
                pystates_hash,
            });
        }
        rows.hlo_modules.sort_by_key(|row| row.hlo_module_id);
        for (instruction, sources) in self.instructions.into_values() {
            rows.hlo_instructions.push(instruction);
            rows.hlo_sources.extend(sources);
        }
        rows.hlo_launches.extend(self.launches);
        rows.frames.extend(self.frames);
        rows.states.extend(self.states);
        self.used.len() as u64
    }

    fn number(&mut self, program: usize) -> u64 {
        let next = self.first_module + self.used.len() as u64;
        *self.used.entry(program).or_insert(next)
    }

    fn sources(&mut self, program: usize, number: u64, instruction: &HloOperation<'a>) -> Vec<HloSource> {
        let Some(plan) = self.plans.get(program) else { return Vec::new() };
        let sources = plan.module.sources(instruction);
        let row = |(position, source): (u32, sources::InstructionSource<'_, 'a>)| HloSource {
            hlo_module_id: number,
            instruction_id: instruction.id,
            position,
            weight: source.weight,
            operation_count: source.operation_count,
            op_name: some_text(source.operation.op_name),
            pystates_hash: self.stack(program, &plan.module.frames(source.operation)),
        };
        (0..).zip(sources).map(row).collect()
    }

    /// The part of a training step: JAX writes its transformations into the path.
    fn phase(&self, program: usize, op_name: &str) -> Phase {
        let has_gradient = || {
            let plan = self.plans.get(program);
            plan.is_some_and(|plan| plan.steps.iter().any(|(_, step)| sources::is_backward(step.op_name)))
        };
        if sources::is_backward(op_name) {
            Phase::Backward
        } else if op_name.contains("jvp(") || !has_gradient() {
            Phase::Forward
        } else {
            Phase::Other
        }
    }

    /// True if an instruction was traced at the line that compiled the program: a function called outside jit.
    fn is_at_call(&self, program: usize, origin: &HloOperation<'a>) -> bool {
        let Some((file, plan)) = self.files.get(program).zip(self.plans.get(program)) else { return false };
        let frames = plan.module.frames(origin);
        let traced = frames.iter().find(|frame| is_user(frame.file)).map(|frame| (frame.file, frame.line));
        let call = file.facts.stack.iter().find(|frame| is_user(&frame.1));
        let traced = traced.map(|(name, line)| {
            let named = file.facts.files.get(name).map_or(name, |(_, original_file)| original_file.as_str());
            (named, line)
        });
        traced.is_some() && traced == call.map(|frame| (frame.1.as_str(), frame.4))
    }

    /// The stack of the call that compiled a program.
    fn call_stack(&mut self, program: usize) -> Option<PystatesHash> {
        let stack = &self.files.get(program)?.facts.stack;
        let frame =
            |(file, original_file, function, first_line, line): &(String, String, String, u32, u32)| {
                python_frame(file, original_file, function, *first_line, *line)
            };
        let frames = stack.iter().map(frame).collect();
        self.state(frames)
    }

    fn stack(&mut self, program: usize, frames: &[TracedFrame<'a>]) -> Option<PystatesHash> {
        let files = &self.files.get(program)?.facts.files;
        let frame = |frame: &TracedFrame<'a>| {
            let (file, original_file) = match files.get(frame.file) {
                Some((file, original_file)) => (file.as_str(), original_file.as_str()),
                None => (frame.file, frame.file),
            };
            python_frame(file, original_file, frame.function, 0, frame.line)
        };
        let frames = frames.iter().map(frame).collect();
        self.state(frames)
    }

    fn state(&mut self, frames: Vec<PythonFrame>) -> Option<PystatesHash> {
        if frames.is_empty() {
            return None;
        }
        let ids: Vec<_> = frames.iter().map(|frame| frame.frame_id).collect();
        let pystates_hash = hash::pystates_hash(&ids);
        if self.known_states.insert(pystates_hash) {
            let state = |(depth, frame_id)| PythonState { pystates_hash, depth, frame_id, run_id: RunId(0) };
            self.states.extend((0..).zip(ids).map(state));
            self.frames.extend(frames);
        }
        Some(pystates_hash)
    }
}

/// The op of a launch, without what its instruction says.
fn bare_op(launch: &Launch, seen: Option<&LaunchRun>) -> Op {
    Op {
        kind: OpKind::Hlo,
        parent_op_id: launch.op_id,
        thread_id: seen.map_or(0, |row| row.thread_id),
        begin_ns: seen.map_or(0, |row| row.begin_ns),
        end_ns: seen.and_then(|row| row.end_ns),
        phase: Phase::Forward,
        ..Op::default()
    }
}

fn python_frame(file: &str, original_file: &str, function: &str, first_line: u32, line: u32) -> PythonFrame {
    PythonFrame {
        frame_id: hash::frame_id(file, function, first_line, line),
        file: file.to_owned(),
        original_file: original_file.to_owned(),
        function: function.to_owned(),
        first_line,
        line,
    }
}

/// True for files that neither a package nor Python itself installed, as in the view `python_line`.
fn is_user(file: &str) -> bool {
    !(file.contains("-packages/")
        || file.contains("/lib/python")
        || file.contains("/lib64/python")
        || file.starts_with('<'))
}

fn text(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text.get(..end).unwrap_or("").to_owned()
}

fn some_text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| text(value))
}

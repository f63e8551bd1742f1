//! Modules that XLA compiled, and the instruction that each kernel computes.

use std::collections::HashMap;
use std::rc::Rc;

use crate::formats::proto::ProtoReader;
use stallmap_hlo::module::{CompiledModule, HloOperation};
use stallmap_hlo::sources::{is_backward, kernel_name, layer, title};
use stallmap_schema::word::{OpKind, Phase};

use super::plane::{PlaneEvent, TracePlane};
use crate::model::{OpDetails, TraceCall, TraceFrame, TraceModel, TraceOp};

/// The name of a plane with the modules that XLA compiled.
pub(super) const PLANE: &str = "/host:metadata";

/// The instruction of a kernel, as its event names it.
#[derive(Clone, Debug)]
pub(super) struct KernelOrigin {
    module: Rc<str>,
    program: Option<u64>,
    /// The instruction. In a command buffer, that of the buffer.
    instruction: Rc<str>,
    /// JAX's path of the operation. None in a command buffer.
    path: Option<Rc<str>>,
    is_in_graph: bool,
}

impl KernelOrigin {
    /// None for kernels outside of modules and of operations.
    pub(super) fn from_event(
        event: &PlaneEvent<'_>,
        mut shared: impl FnMut(&str) -> Rc<str>,
    ) -> Option<Self> {
        let Some((module, instruction)) = event.module.zip(event.instruction) else {
            return Self::from_operation(event.operation?, shared);
        };
        Some(Self {
            module: shared(module),
            program: event.program,
            instruction: shared(instruction),
            path: event.path.filter(|path| !path.is_empty()).map(&mut shared),
            is_in_graph: event.is_in_graph,
        })
    }

    /// The operation of a kernel that TensorFlow launched by itself, from `model/dense/MatMul:MatMul`.
    fn from_operation(operation: &str, mut shared: impl FnMut(&str) -> Rc<str>) -> Option<Self> {
        let path = operation.split_once(':').map_or(operation, |(path, _)| path);
        Some(path).filter(|path| !path.is_empty()).map(|path| Self {
            module: shared(""),
            program: None,
            instruction: shared(path),
            path: Some(shared(path)),
            is_in_graph: false,
        })
    }
}

/// A module, with its instructions by the names of their kernels.
struct ProfiledModule<'a> {
    module: CompiledModule<'a>,
    kernels: HashMap<String, u64>,
}

/// The modules of a trace, by `name(program)`.
pub(super) struct ModuleTable<'a>(HashMap<&'a str, ProfiledModule<'a>>);

impl<'a> ModuleTable<'a> {
    /// Reads the modules that planes of metadata hold.
    pub(super) fn from_planes(planes: &[TracePlane<'a>]) -> Self {
        let modules = planes.iter().flat_map(TracePlane::attachments).filter_map(|(name, bytes)| {
            let module = ProtoReader::new(bytes, 0).message(1).ok().flatten()?;
            let module = CompiledModule::read(module.bytes)?;
            let instructions = module.computations.iter().flat_map(|computation| &computation.instructions);
            let kernels = instructions.map(|found| (kernel_name(found.name), found.id)).collect();
            Some((name, ProfiledModule { module, kernels }))
        });
        Self(modules.collect())
    }

    fn get(&self, origin: &KernelOrigin) -> Option<&ProfiledModule<'a>> {
        let name = match origin.program {
            Some(program) => format!("{}({program})", origin.module),
            None => origin.module.to_string(),
        };
        self.0.get(name.as_str())
    }
}

impl<'a> ProfiledModule<'a> {
    /// The instruction of a kernel: in a command buffer that of the kernel's name.
    fn instruction(&self, origin: &KernelOrigin, kernel: &str) -> Option<&HloOperation<'a>> {
        if !origin.is_in_graph {
            return self.module.named(&origin.instruction).map(|(_, instruction)| instruction);
        }
        let id = self.kernels.get(kernel)?;
        self.module.instruction(*id).map(|(_, instruction)| instruction)
    }
}

/// A module, its program, and the name of an instruction or of its kernel.
type KernelOriginKey = (Rc<str>, Option<u64>, Rc<str>);

/// The instruction of a kernel, as its module has it.
#[derive(Clone)]
struct FoundInstruction {
    name: Rc<str>,
    module: Option<Rc<str>>,
    phase: Phase,
    stack: Option<usize>,
    is_known: bool,
}

/// Finds the instruction of a kernel.
fn found(
    origin: &KernelOrigin,
    kernel: &str,
    modules: &ModuleTable<'_>,
    stacks: &mut SourceStacks<'_>,
) -> FoundInstruction {
    let module = modules.get(origin);
    let instruction = module.and_then(|module| module.instruction(origin, kernel));
    let own = instruction.map(|instruction| instruction.op_name).filter(|path| !path.is_empty());
    let inner = || {
        let origin = module?.module.origin(instruction?);
        Some(origin.operation.op_name).filter(|path| !path.is_empty())
    };
    let path = own.or_else(inner).or(origin.path.as_deref());
    let frames = module.zip(instruction).map(|(module, instruction)| {
        let frames = module.module.frames(instruction).into_iter();
        let frames = frames.map(|frame| TraceFrame {
            file: frame.file.to_owned(),
            function: frame.function.to_owned(),
            line: frame.line,
        });
        frames.collect::<Vec<_>>()
    });
    let name = instruction.map_or(&*origin.instruction, |instruction| instruction.name);
    let title = path.map_or(name, |path| title(path, name));
    let phase = match path {
        Some(path) if is_backward(path) => Phase::Backward,
        Some(path) if path.contains("jvp(") => Phase::Forward,
        _ => Phase::Other,
    };
    FoundInstruction {
        name: title.into(),
        module: path.and_then(layer).map(Into::into),
        phase,
        stack: frames.and_then(|frames| stacks.place(frames)),
        is_known: !origin.is_in_graph || instruction.is_some(),
    }
}

/// Stacks at which instructions were traced, behind those of a trace.
struct SourceStacks<'t> {
    trace: &'t mut TraceModel,
    frames: HashMap<TraceFrame, usize>,
}

impl<'t> SourceStacks<'t> {
    fn new(trace: &'t mut TraceModel) -> Self {
        let frames = trace.frames.iter().enumerate().map(|(place, frame)| (frame.clone(), place)).collect();
        Self { trace, frames }
    }

    /// The place of a stack. None for one without frames.
    fn place(&mut self, stack: Vec<TraceFrame>) -> Option<usize> {
        if stack.is_empty() {
            return None;
        }
        let place = |frame: TraceFrame| {
            let next = self.trace.frames.len();
            *self.frames.entry(frame.clone()).or_insert_with(|| {
                self.trace.frames.push(frame);
                next
            })
        };
        let stack = stack.into_iter().map(place).collect();
        self.trace.stacks.push(stack);
        Some(self.trace.stacks.len() - 1)
    }
}

/// Kernels whose operation is not known, or has no row.
#[derive(Debug, Default)]
pub(super) struct UnplacedKernels {
    /// In command buffers, without an instruction.
    pub(super) unknown: u64,
    /// Without a launch call: their operation has no time.
    pub(super) uncalled: u64,
}

/// Gives kernels the operation that they compute, as an op in their launch call.
pub(super) fn join(
    trace: &mut TraceModel,
    origins: &[(usize, KernelOrigin)],
    modules: &ModuleTable<'_>,
) -> UnplacedKernels {
    let mut unplaced = UnplacedKernels::default();
    let mut known: HashMap<KernelOriginKey, FoundInstruction> = HashMap::new();
    let mut ops: HashMap<(Option<u64>, Rc<str>), usize> = HashMap::new();
    let mut stacks = SourceStacks::new(trace);
    for (place, origin) in origins {
        let Some(kernel) = stacks.trace.kernels.get(*place) else { continue };
        let (call, outer, correlation) = (kernel.call, kernel.op, kernel.correlation);
        let name = Rc::clone(&kernel.name);
        let own = if origin.is_in_graph { Rc::clone(&name) } else { Rc::clone(&origin.instruction) };
        let key = (Rc::clone(&origin.module), origin.program, Rc::clone(&own));
        let found = known.entry(key).or_insert_with(|| found(origin, &name, modules, &mut stacks)).clone();
        unplaced.unknown += u64::from(!found.is_known);
        let Some(call) = call else {
            unplaced.uncalled += 1;
            continue;
        };
        let trace = &mut *stacks.trace;
        // Kernels of one instruction and one call are of one op.
        let op = *ops.entry((correlation, own)).or_insert_with(|| {
            trace.ops.push(op(trace, call, outer, &found));
            trace.ops.len() - 1
        });
        if let Some(kernel) = trace.kernels.get_mut(*place) {
            kernel.op = Some(op);
            // The stack of the call is that of the whole module.
            kernel.stack = found.stack.or(kernel.stack);
        }
    }
    unplaced
}

fn op(trace: &TraceModel, call: TraceCall, parent: Option<usize>, found: &FoundInstruction) -> TraceOp {
    let step = parent.and_then(|parent| trace.ops.get(parent)).map_or(0, |parent| parent.step);
    let op = TraceOp {
        parent: parent.into(),
        step,
        stack: found.stack.into(),
        phase: found.phase,
        ..TraceOp::for_call(call, OpKind::Hlo, Rc::clone(&found.name))
    };
    match &found.module {
        Some(module) => {
            op.with_details(OpDetails { module: Some(Rc::clone(module)), ..OpDetails::default() })
        }
        None => op,
    }
}

//! Bundles of the nodes of a CUDA graph.
//!
//! Before a graph is launched, its nodes run one by one on its stream, as launches of their own. Those that are to
//! become bundles are recorded. Then all device memory gets its contents back, and the graph runs as the program
//! launched it. A node that was recorded as a step is not recorded again.

use std::cell::Cell;

use stallmap_config::KernelShape;
use stallmap_schema::word::LossKind;
use stallmap_session::gpu::device;
use stallmap_session::gpu::graphs::{self, ExecNode, GraphStep, NodeOrigin};
use stallmap_session::guard::say;
use stallmap_session::{context, session};
use stallmap_sys::cuda::DriverHandle;

use super::super::graph::PlannedGraphLaunch;
use super::super::{AccessInstrument, own};
use super::recorder::SessionBundles;
use super::{MAX_VARIABLE_BYTES, is_whole};
use crate::accesses::bundle::candidates::words;
use crate::accesses::bundle::memory::{AllocationKind, AllocationMap};
use crate::accesses::bundle::refusal::BundleRefusal;
use crate::accesses::bundle::selection::LaunchKind;
use crate::accesses::bundle::symbols::ModuleVariable;

/// A launch call of this thread that is a step of a graph.
#[derive(Clone, Copy)]
pub(in crate::accesses::sanitizer) enum GraphStepLaunch {
    /// It is not recorded.
    Silent,
    /// It is recorded as the node: with its ordinal, the graph, the graph's launch, the node's number.
    Node(u64, (u64, u32, u32), Option<NodeOrigin>),
}

thread_local! {
    static STEPPED: Cell<Option<GraphStepLaunch>> = const { Cell::new(None) };
}

/// The step that this thread runs.
pub(in crate::accesses::sanitizer) fn stepped() -> Option<GraphStepLaunch> {
    STEPPED.get()
}

/// A launch of a graph that is to be run in steps.
struct GraphWalk<'a> {
    stream: DriverHandle,
    context: DriverHandle,
    device: i32,
    nodes: &'a [ExecNode],
    steps: &'a [GraphStep],
}

impl AccessInstrument {
    /// Makes bundles of the nodes of a graph whose launch is being called, where any is wanted.
    pub(in crate::accesses::sanitizer) fn step_graph(
        &self,
        exec: DriverHandle,
        stream: DriverHandle,
        planned: &mut PlannedGraphLaunch,
    ) {
        let Some(bundles) = &self.bundles else { return };
        let Some(launch) = planned.launch.clone() else { return };
        if !self.wants_any(bundles, &launch.nodes, planned) {
            return;
        }
        let steps = self.graphs.steps(exec).map_err(BundleRefusal::for_reason);
        let walked = steps.and_then(|steps| {
            let device =
                device::current().ok_or_else(|| BundleRefusal::for_reason("its device is not known"))?;
            let context = device::current_context()
                .ok_or_else(|| BundleRefusal::for_reason("its context is not known"))?;
            let walk = GraphWalk { stream, context, device, nodes: &launch.nodes, steps: &steps };
            self.walk(bundles, &walk, planned)
        });
        if let Err(BundleRefusal { reason, detail }) = walked {
            planned.refuse_steps(reason);
            // The next launch of the graph would only be refused again.
            self.graphs.refuse_steps(exec, reason);
            if !detail.is_empty() {
                session::lose(LossKind::Bundle, reason, 1, Some(detail));
            }
        }
    }

    /// True if any node is to become a bundle. Says of each other one why not.
    fn wants_any(
        &self,
        bundles: &SessionBundles,
        nodes: &[ExecNode],
        planned: &mut PlannedGraphLaunch,
    ) -> bool {
        let recorder = bundles.recorder();
        let mut is_wanted = false;
        for expected in planned.nodes.values_mut() {
            let node = nodes.get(expected.index as usize);
            let Some(node) = node.filter(|_| expected.decision.is_ok()) else { continue };
            match recorder.selection.decide(&kind_of(node)) {
                Ok(()) if is_whole(self.config) => is_wanted = true,
                Ok(()) => expected.step = Err("accesses are not recorded whole"),
                Err(reason) => expected.step = Err(reason),
            }
        }
        is_wanted
    }

    fn walk(
        &self,
        bundles: &SessionBundles,
        walk: &GraphWalk,
        planned: &mut PlannedGraphLaunch,
    ) -> Result<(), BundleRefusal> {
        // A copy: no driver call may run under the lock.
        let memory = bundles.memory().clone();
        let symbols = self.walkable(bundles, walk, &memory)?;
        self.walk_alone(bundles, walk, (memory, symbols), planned)
    }

    /// The variables of a graph's kernels. An error is the reason that it must not run twice.
    fn walkable(
        &self,
        bundles: &SessionBundles,
        walk: &GraphWalk,
        memory: &AllocationMap,
    ) -> Result<Vec<ModuleVariable>, BundleRefusal> {
        let mut symbols: Vec<ModuleVariable> = Vec::new();
        for node in walk.nodes {
            if self.selector.is_collective(&node.name) {
                return Err(BundleRefusal::for_reason("a kernel of its CUDA graph waits for other GPUs"));
            }
            let is_foreign = |address| {
                memory.at(address).is_some_and(|allocation| {
                    matches!(
                        allocation.kind,
                        AllocationKind::Host | AllocationKind::Managed | AllocationKind::Peer
                    ) || (allocation.kind == AllocationKind::Device && allocation.device != walk.device)
                })
            };
            if words(&node.parameters.bytes).any(is_foreign) {
                return Err(BundleRefusal::for_reason(
                    "a kernel of its CUDA graph uses memory that is not the device's own",
                ));
            }
            let module = device::module_of(DriverHandle::of_key(node.function));
            let code = module.and_then(|module| Self::code_of(&self.lock(), module).zip(Some(module)));
            let Some(((code, _), module)) = code else {
                return Err(BundleRefusal::for_reason(
                    "the module of a kernel of its CUDA graph was not seen",
                ));
            };
            bundles.find_variables(&code, module);
            let mut recorder = bundles.recorder();
            let uses = recorder.uses(&code, &node.name);
            if let Some(reason) = uses.refusal.or(uses.prints.then_some("prints")) {
                return Err(BundleRefusal::with("a kernel of its CUDA graph cannot run twice", reason));
            }
            let is_new =
                |symbol: &&ModuleVariable| !symbols.iter().any(|known| known.address == symbol.address);
            let variables = recorder.variables(module).unwrap_or_default();
            let new: Vec<ModuleVariable> = variables.iter().filter(is_new).cloned().collect();
            symbols.extend(new);
        }
        if symbols.iter().map(|symbol| symbol.bytes).sum::<usize>() > MAX_VARIABLE_BYTES {
            return Err(BundleRefusal::for_reason("the variables of its CUDA graph have more than 16 MiB"));
        }
        Ok(symbols)
    }

    /// Runs the steps between a snapshot of memory and its return.
    fn walk_alone(
        &self,
        bundles: &SessionBundles,
        walk: &GraphWalk,
        (memory, symbols): (AllocationMap, Vec<ModuleVariable>),
        planned: &mut PlannedGraphLaunch,
    ) -> Result<(), BundleRefusal> {
        let wait = || own(graphs::synchronize).map_err(failed);
        wait()?;
        let key = walk.context.key();
        let mut contents = std::mem::take(&mut bundles.recorder().buffers.entry(key).or_default().all);
        let snapshot = self.snapshot((walk.context, walk.device), memory, symbols, &mut contents);
        let walked = snapshot.and_then(|snapshot| {
            let walked = run_steps(bundles, walk, planned);
            let walked = walked.and(wait());
            let mut recorder = bundles.recorder();
            let window = &mut recorder.buffers.entry(key).or_default().window;
            if let Err(error) = self.restore(walk.context, &snapshot, (&mut contents, window)) {
                say(&format!("memory could not be given back after a CUDA graph was run in steps: {error}"));
                let reason = "memory could not be given back: the program has run on with other values";
                session::lose(LossKind::Source, reason, 1, Some(error));
            }
            walked
        });
        bundles.recorder().buffers.entry(key).or_default().all = contents;
        walked
    }
}

fn run_steps(
    bundles: &SessionBundles,
    walk: &GraphWalk,
    planned: &mut PlannedGraphLaunch,
) -> Result<(), BundleRefusal> {
    for step in walk.steps {
        let GraphStep::Kernel(number, _) = step else {
            own(|| step.run(walk.nodes, walk.stream)).map_err(failed)?;
            continue;
        };
        let Some(node) = walk.nodes.get(*number as usize).filter(|node| node.is_enabled) else {
            continue;
        };
        let decision = bundles.recorder().selection.decide(&kind_of(node));
        let place = planned.place();
        let expected = planned.nodes.values_mut().find(|expected| expected.index == *number);
        let expected = expected.filter(|expected| expected.decision.is_ok());
        let stepped = match (&expected, decision) {
            (Some(expected), Ok(())) => {
                GraphStepLaunch::Node(expected.ordinal, (place.0, place.1, *number), node.captured)
            }
            _ => GraphStepLaunch::Silent,
        };
        STEPPED.set(Some(stepped));
        let context = node.captured.and_then(|captured| captured.context);
        let run = context::within(context, || step.run(walk.nodes, walk.stream));
        STEPPED.set(None);
        run.map_err(failed)?;
        if let Some(expected) = expected {
            expected.step = decision;
        }
    }
    Ok(())
}

fn failed(code: i32) -> BundleRefusal {
    BundleRefusal::with("a node of its CUDA graph could not be run alone", format!("CUDA error {code}"))
}

/// The kind of a node, as that of its launch as a step.
fn kind_of(node: &ExecNode) -> LaunchKind {
    let context = node.captured.and_then(|captured| captured.context);
    LaunchKind {
        kernel: KernelShape { name: node.name.clone(), shape: node.shape },
        shared_bytes: node.shared_bytes,
        shapes_hash: context.map_or(0, |context| context.shapes_hash),
    }
}

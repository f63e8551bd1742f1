//! Cycles of scopes inside of kernels, which Proton's instrumentation measures: of a tree, and of a Chrome trace.
//!
//! A trace has one event for each scope of a warp. Its clock counts the cycles of one multiprocessor, and each block begins at
//! the same number: spans of blocks do not compare. So a launch has the sums of its scopes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::json::JsonStream;
use stallmap_schema::word::{Instrument, LossKind};

use super::ScopeNode;
use super::paths::TracePaths;
use crate::model::{TraceCounter, TraceKernel, TraceModel, TraceProcess};

/// A part of the processes' names in a trace of cycles, and since Triton 3.6 an argument.
const MARKS: [&[u8]; 2] = [b"[measure in clock cycle", b"Finalization Time (ns)"];
/// Bytes of a file in which that part is searched for.
const HEAD_BYTES: u64 = 1 << 16;
/// Names of counters, in front of that of the scope.
const CYCLES: &str = "proton__cycles.";
const WARP_CYCLES: &str = "proton__normalized_cycles.";
const COUNT: &str = "proton__scope_count.";
/// Most events of a trace.
const MAX_EVENTS: u64 = 1 << 24;
/// Most bytes of the names of all scopes in a tree, each with those around it.
const MAX_PATH_BYTES: usize = 256 << 20;
/// Most names of a call stack.
const MAX_CALLS: usize = 256;
/// Cycles in a microsecond of the trace.
const CYCLES_PER_UNIT: f64 = 1000.0;

/// Cycles of a scope, as a counter of its kernel.
pub(super) struct ScopeCycles {
    pub(super) metric: Rc<str>,
    pub(super) cycles: f64,
}

/// The scopes of kernels in a tree.
pub(super) struct KernelScopes {
    is_inside: Vec<bool>,
    by_kernel: HashMap<usize, Vec<ScopeCycles>>,
    /// Scopes outside of kernels.
    pub(super) lost: u64,
    /// Scopes whose names are too long.
    pub(super) unnamed: u64,
}

impl KernelScopes {
    /// The kernel of a scope with cycles is the innermost node around it without.
    pub(super) fn from_nodes(nodes: &[ScopeNode]) -> Self {
        let is_inside = Vec::with_capacity(nodes.len());
        let mut scopes = Self { is_inside, by_kernel: HashMap::new(), lost: 0, unnamed: 0 };
        let mut path_bytes = 0;
        let mut paths: HashMap<usize, (usize, String)> = HashMap::new();
        for (place, node) in nodes.iter().enumerate() {
            let outer = node.parent.and_then(|parent| paths.get(&parent));
            let is_measured = node.cycles.is_some() || node.normalized_cycles.is_some();
            // A root is no kernel.
            let is_inner = |parent: &usize| nodes.get(*parent).is_some_and(|parent| parent.parent.is_some());
            let kernel = outer.map(|(kernel, _)| *kernel).or(node.parent.filter(is_inner));
            let (true, Some(kernel)) = (is_measured, kernel) else {
                scopes.is_inside.push(outer.is_some());
                scopes.lost += u64::from(is_measured);
                continue;
            };
            let path =
                outer.map_or_else(|| node.name.to_string(), |(_, path)| format!("{path}/{}", node.name));
            path_bytes += path.len();
            if path_bytes > MAX_PATH_BYTES {
                scopes.is_inside.push(true);
                scopes.unnamed += 1;
                continue;
            }
            let numbers = [(CYCLES, node.cycles), (WARP_CYCLES, node.normalized_cycles)];
            let numbers = numbers.into_iter().filter_map(|(name, cycles)| {
                Some(ScopeCycles { metric: format!("{name}{path}").into(), cycles: cycles? })
            });
            scopes.by_kernel.entry(kernel).or_default().extend(numbers);
            scopes.is_inside.push(true);
            paths.insert(place, (kernel, path));
        }
        scopes
    }

    /// True for a scope inside of a kernel.
    pub(super) fn is_inside(&self, place: usize) -> bool {
        self.is_inside.get(place).copied().unwrap_or(false)
    }

    /// The cycles of a kernel's scopes.
    pub(super) fn for_kernel(&self, place: usize) -> &[ScopeCycles] {
        self.by_kernel.get(&place).map_or(&[], Vec::as_slice)
    }
}

/// True for a Chrome trace of cycles: its processes or arguments say it.
pub(crate) fn is_trace(input: &ImportInput) -> ReadResult<bool> {
    let mut head = Vec::new();
    // What cannot be read is for the reader to explain.
    let result = input.open()?.take(HEAD_BYTES).read_to_end(&mut head);
    let has = |mark: &&[u8]| head.windows(mark.len()).any(|part| part == *mark);
    Ok(result.is_ok() && MARKS.iter().any(has))
}

/// An event: a scope of a warp.
#[derive(Default)]
struct WarpScope {
    kernel: String,
    scope: String,
    process: String,
    begin: Option<f64>,
    length: Option<f64>,
    /// Cycles between the begins of launches.
    gap: Option<f64>,
    /// Cycles in a microsecond, where the trace says it.
    rate: Option<f64>,
    /// Scopes and frames around the launch, outermost first.
    call_stack: Vec<String>,
}

/// A launch: its kernel, and scopes with their number and cycles.
struct ScopedLaunch {
    kernel: String,
    /// Its number, where launches begin at multiples of a gap.
    number: Option<u64>,
    call_stack: Vec<String>,
    blocks: HashSet<String>,
    scopes: BTreeMap<String, (u64, f64)>,
}

/// Launches of a trace, in the order of the file.
#[derive(Default)]
struct ScopedLaunches {
    all: Vec<ScopedLaunch>,
    events: u64,
    unread: u64,
    /// The block of the last event.
    block: String,
}

/// Reads a Chrome trace of cycles. Each launch has counters: number and cycles of its scopes.
pub(crate) fn read_trace(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut launches = ScopedLaunches::default();
    json.document(|json| {
        json.object(|json, key| match key {
            "traceEvents" => json.array(|json| {
                let event = WarpScope::read(json)?;
                launches.add(event)
            }),
            _ => json.skip(),
        })
    })?;
    if launches.all.is_empty() {
        let message = format!("`{}` has no scopes of kernels", json.path().display());
        return Err(ReadError::message(message)
            .hint("Proton writes them with `backend=\"instrumentation\"` and `data=\"trace\"`".to_owned()));
    }
    Ok(launches.finish())
}

impl WarpScope {
    fn read(json: &mut JsonStream<impl Read>) -> ReadResult<Self> {
        let mut event = Self::default();
        let number = |text: Option<String>| {
            text.and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite())
        };
        json.object(|json, key| {
            match key {
                "name" => event.scope = json.scalar()?.unwrap_or_default(),
                "cat" => event.kernel = json.scalar()?.unwrap_or_default(),
                "pid" => event.process = json.scalar()?.unwrap_or_default(),
                "ts" => event.begin = number(json.scalar()?),
                "dur" => event.length = number(json.scalar()?),
                "args" => json.object(|json, key| {
                    if key == "Kernel Gap" {
                        let text = json.scalar()?.unwrap_or_default();
                        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
                        event.gap = number(Some(digits.to_owned())).filter(|gap| *gap > 0.0);
                    } else if key == "Frequency (MHz)" {
                        event.rate = number(json.scalar()?).filter(|rate| *rate > 0.0);
                    } else if key == "call_stack" {
                        event.call_stack = call_stack(json)?;
                    } else {
                        json.skip()?;
                    }
                    Ok(())
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(event)
    }

    /// The number of its launch, as the bits of a double: the writer puts launches a gap apart.
    fn number(&self) -> Option<u64> {
        let (begin, gap) = self.begin.zip(self.gap)?;
        Some((begin * CYCLES_PER_UNIT / gap).floor().to_bits())
    }
}

impl ScopedLaunches {
    fn add(&mut self, event: WarpScope) -> ReadResult<()> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            let message = format!("the trace has more than {MAX_EVENTS} events");
            return Err(ReadError::message(message).hint("profile fewer launches".to_owned()));
        }
        let Some(length) = event.length.filter(|length| *length >= 0.0 && !event.kernel.is_empty()) else {
            self.unread += 1;
            return Ok(());
        };
        let number = event.number();
        // Without a gap, a block that comes again is of the next launch.
        let is_same = self.all.last().is_some_and(|last| {
            let is_again = event.process != self.block && last.blocks.contains(&event.process);
            let is_one = (&last.kernel, &last.call_stack) == (&event.kernel, &event.call_stack);
            is_one && last.number == number && (number.is_some() || !is_again)
        });
        if !is_same {
            let (blocks, scopes) = (HashSet::new(), BTreeMap::new());
            let (kernel, call_stack) = (event.kernel, event.call_stack);
            self.all.push(ScopedLaunch { kernel, number, call_stack, blocks, scopes });
        }
        if let Some(launch) = self.all.last_mut() {
            launch.blocks.insert(event.process.clone());
            let (count, cycles) = launch.scopes.entry(event.scope).or_default();
            *count += 1;
            *cycles += (length * event.rate.unwrap_or(CYCLES_PER_UNIT)).round();
        }
        self.block = event.process;
        Ok(())
    }

    fn finish(self) -> TraceModel {
        let trace = TraceModel { tool: "proton", ..TraceModel::default() };
        let mut paths = TracePaths::for_trace(trace);
        paths.trace.processes.push(TraceProcess::with_number(0, Instrument::Counters));
        for launch in self.all {
            let context = paths.within(&launch.call_stack, &launch.kernel, None);
            let trace = &mut paths.trace;
            let kernel = trace.kernels.len();
            // A program has one GPU for each of these files.
            trace.kernels.push(TraceKernel {
                name: launch.kernel.into(),
                device: -1,
                op: context.op,
                stack: context.stack,
                ..TraceKernel::default()
            });
            for (scope, (count, cycles)) in launch.scopes {
                let numbers = [(CYCLES, cycles, "cycle"), (COUNT, count as f64, "")];
                trace.counters.extend(numbers.map(|(name, value, unit)| TraceCounter {
                    kernel,
                    metric: format!("{name}{scope}").into(),
                    value: Some(value),
                    unit: unit.to_owned(),
                }));
            }
        }
        let losses = &mut paths.trace.losses;
        let spans = self.events - self.unread;
        losses.add_many(LossKind::Source, "spans of scopes of single warps, summed by scope", spans, None);
        losses.add_many(LossKind::Source, "events without a kernel or a length", self.unread, None);
        for part in
            ["times of launches, written as 0", "grids and blocks, written as 0", "launch calls", "GPUs"]
        {
            losses.lacks(part);
        }
        paths.trace
    }
}

/// Names of scopes and frames around a launch. Deeper ones are left out.
pub(crate) fn call_stack(json: &mut JsonStream<impl Read>) -> ReadResult<Vec<String>> {
    let mut names = Vec::new();
    json.array(|json| {
        let name = json.scalar()?;
        names.extend(name.filter(|_| names.len() < MAX_CALLS));
        Ok(())
    })?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nested_scopes_are_bounded() {
        let name: Rc<str> = "s".repeat(super::super::MAX_NAME_BYTES).into();
        // A root, a kernel, and scopes inside of each other: their names grow with the level.
        let nodes: Vec<ScopeNode> = (0..200_usize)
            .map(|place| ScopeNode {
                parent: place.checked_sub(1),
                name: Rc::clone(&name),
                cycles: (place > 1).then_some(1.0),
                ..ScopeNode::default()
            })
            .collect();
        let scopes = KernelScopes::from_nodes(&nodes);
        let found = scopes.for_kernel(1);
        let bytes: usize = found.iter().map(|scope| scope.metric.len()).sum();
        assert!(bytes < MAX_PATH_BYTES + (1 << 20), "{bytes}");
        assert_eq!(found.len() as u64 + scopes.unnamed + scopes.lost, 198);
        assert!(scopes.unnamed > 0);
    }
}

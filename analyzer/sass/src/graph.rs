//! Control flow of a section: blocks, and the edges between them.
//!
//! A section is one graph: calls of functions in it lead into them, and their returns lead to the instruction after
//! every call of them. Calls of functions elsewhere continue after the call. Convergence barriers (BSSY, BSYNC,
//! WARPSYNC) change no path.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use petgraph::graph::{DiGraph, NodeIndex};

use crate::cubin::{Function, Section};
use crate::instruction::{Flow, Instruction};
use crate::word::INSTRUCTION_BYTES;

/// Kind of control-flow edge into a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// The block before it ends without a jump, or with an untaken one.
    Fall,
    /// By a branch.
    Branch,
    /// By a branch whose targets the cubin lists.
    Indirect,
    /// Into a function.
    Call,
    /// Out of a function.
    Return,
}

/// The blocks of a section. Instructions go by their index in the section.
#[derive(Clone, Debug, Default)]
pub struct FlowGraph {
    /// Each block's instructions.
    pub graph: DiGraph<Range<usize>, Edge>,
    /// The block of each instruction.
    pub block_of: Vec<NodeIndex>,
}

impl FlowGraph {
    /// The graph of a section's instructions.
    pub fn new(instructions: &[Instruction], section: &Section) -> Self {
        let jumps = Jumps::new(instructions, section);
        let leaders = jumps.leaders();
        let mut flow = Self::default();
        for (position, first) in leaders.iter().enumerate() {
            let end = leaders.get(position + 1).copied().unwrap_or(instructions.len());
            let node = flow.graph.add_node(*first..end);
            flow.block_of.extend((*first..end).map(|_| node));
        }
        for jump in &jumps.found {
            if let (Some(from), Some(to)) = (flow.block_of.get(jump.from), flow.block_of.get(jump.to)) {
                flow.graph.update_edge(*from, *to, jump.edge);
            }
        }
        for last in flow.block_ends() {
            if jumps.falls_through(last) && last + 1 < instructions.len() {
                flow.graph.update_edge(flow.block_of[last], flow.block_of[last + 1], Edge::Fall);
            }
        }
        flow
    }

    /// Blocks in the order of their code.
    pub fn blocks(&self) -> impl Iterator<Item = (NodeIndex, &Range<usize>)> {
        self.graph.node_indices().map(|node| (node, &self.graph[node]))
    }

    fn block_ends(&self) -> Vec<usize> {
        self.graph.node_weights().map(|block| block.end - 1).collect()
    }
}

/// Jump targets of instructions.
struct Jumps<'a> {
    instructions: &'a [Instruction],
    section: &'a Section,
    /// First instructions of the section's functions, in order.
    starts: Vec<usize>,
    found: Vec<Jump>,
    /// Instructions that a return leads to.
    returned_to: BTreeSet<usize>,
}

struct Jump {
    from: usize,
    to: usize,
    edge: Edge,
}

/// Maximum of returns of a function times its calls. Real code has a few. More give no information.
const MOST_RETURN_EDGES: usize = 1 << 16;

impl<'a> Jumps<'a> {
    fn new(instructions: &'a [Instruction], section: &'a Section) -> Self {
        let start = |function: &Function| (function.offset / INSTRUCTION_BYTES) as usize;
        let mut starts: Vec<usize> = section.functions.iter().map(start).collect();
        starts.sort_unstable();
        let mut jumps =
            Self { instructions, section, starts, found: Vec::new(), returned_to: BTreeSet::new() };
        // By first instruction of a called function: the return addresses of its callers.
        let mut callers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, instruction) in instructions.iter().enumerate() {
            match instruction.flow {
                Flow::Branch { displacement, .. } => {
                    jumps.add(index, target(index, displacement), Edge::Branch);
                }
                Flow::IndirectBranch { .. } => {
                    for target in jumps.listed(index) {
                        jumps.add(index, Some(target), Edge::Indirect);
                    }
                }
                Flow::Call { displacement, .. } => {
                    if let Some(callee) = jumps.callee(index, displacement) {
                        jumps.add(index, Some(callee), Edge::Call);
                        callers.entry(jumps.function_start(callee)).or_default().push(index + 1);
                    }
                }
                Flow::Next | Flow::Return { .. } | Flow::Exit { .. } => {}
            }
        }
        jumps.add_returns(&callers);
        jumps
    }

    fn add_returns(&mut self, callers: &BTreeMap<usize, Vec<usize>>) {
        let mut returns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, instruction) in self.instructions.iter().enumerate() {
            if matches!(instruction.flow, Flow::Return { .. }) {
                returns.entry(self.function_start(index)).or_default().push(index);
            }
        }
        for (function, returns) in returns {
            let behind = callers.get(&function).map_or(&[][..], Vec::as_slice);
            if returns.len().saturating_mul(behind.len()) > MOST_RETURN_EDGES {
                continue;
            }
            for (from, to) in returns.iter().flat_map(|from| behind.iter().map(move |to| (*from, *to))) {
                self.add(from, Some(to), Edge::Return);
                self.returned_to.insert(to);
            }
        }
    }

    fn add(&mut self, from: usize, to: Option<usize>, edge: Edge) {
        if let Some(to) = to.filter(|to| *to < self.instructions.len()) {
            self.found.push(Jump { from, to, edge });
        }
    }

    fn listed(&self, index: usize) -> Vec<usize> {
        let offset = u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(INSTRUCTION_BYTES);
        let targets = self.section.branch_targets.get(&offset).map_or(&[][..], Vec::as_slice);
        targets.iter().map(|target| (target / INSTRUCTION_BYTES) as usize).collect()
    }

    /// The called function's first instruction, if it is in the section. With a relocation, the displacement is not
    /// filled in.
    fn callee(&self, index: usize, displacement: Option<i64>) -> Option<usize> {
        let offset = u32::try_from(index).ok()?.checked_mul(INSTRUCTION_BYTES)?;
        if let Some(name) = self.section.references.get(&offset) {
            let function = self.section.functions.iter().find(|function| function.name == *name)?;
            return Some((function.offset / INSTRUCTION_BYTES) as usize);
        }
        target(index, displacement?)
    }

    /// The first instruction of the enclosing function.
    fn function_start(&self, index: usize) -> usize {
        let above = self.starts.partition_point(|start| *start <= index);
        above.checked_sub(1).map_or(0, |place| self.starts[place])
    }

    /// True if the warp may continue with the next instruction.
    fn falls_through(&self, index: usize) -> bool {
        match self.instructions[index].flow {
            Flow::Next => true,
            Flow::Branch { conditional, .. }
            | Flow::IndirectBranch { conditional }
            | Flow::Return { conditional }
            | Flow::Exit { conditional } => conditional,
            // From a followed function, the warp comes back by a return.
            Flow::Call { conditional, .. } => conditional || !self.returned_to.contains(&(index + 1)),
        }
    }

    /// First instructions of blocks, in order.
    fn leaders(&self) -> Vec<usize> {
        let count = self.instructions.len();
        let mut leaders: BTreeSet<usize> = self.starts.iter().copied().collect();
        leaders.insert(0);
        leaders.extend(self.found.iter().map(|jump| jump.to));
        let jumps = |index: &usize| self.instructions[*index].flow != Flow::Next;
        leaders.extend((0..count).filter(jumps).map(|index| index + 1));
        leaders.retain(|leader| *leader < count);
        leaders.into_iter().collect()
    }
}

/// The instruction at `displacement` bytes from the one after `index`.
fn target(index: usize, displacement: i64) -> Option<usize> {
    let next = i64::try_from(index + 1).ok()?.checked_mul(i64::from(INSTRUCTION_BYTES))?;
    let target = usize::try_from(next.checked_add(displacement)?).ok()?;
    target.is_multiple_of(INSTRUCTION_BYTES as usize).then_some(target / INSTRUCTION_BYTES as usize)
}

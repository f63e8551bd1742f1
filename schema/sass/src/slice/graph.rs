//! Control flow of a section: blocks with the edges between them.
//!
//! A section is one graph: calls of functions in it lead into them, and their returns lead behind every call of them.
//! Calls of functions elsewhere go on behind the call. Convergence barriers (BSSY, BSYNC, WARPSYNC) change no path.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};

use crate::cubin::{CodeSection, CubinFunction};
use crate::instruction::{SassInstruction, WarpFlow};
use crate::slice::work::{AnalysisBudget, TooMuchWork};
use crate::word::INSTRUCTION_BYTES;

/// The way in which a warp enters a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockEdge {
    /// The block before it ends without a jump, or with one that was not taken.
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
    pub graph: DiGraph<Range<usize>, BlockEdge>,
    /// The block of each instruction.
    pub block_of: Vec<NodeIndex>,
}

impl FlowGraph {
    /// The graph of a section's instructions.
    pub fn new(
        instructions: &[SassInstruction],
        section: &CodeSection,
        work: &AnalysisBudget,
    ) -> Result<Self, TooMuchWork> {
        let jumps = JumpTargets::new(instructions, section, work)?;
        let leaders = jumps.leaders();
        let mut flow = Self::default();
        for (position, first) in leaders.iter().enumerate() {
            let end = leaders.get(position + 1).copied().unwrap_or(instructions.len());
            let node = flow.graph.add_node(*first..end);
            flow.block_of.extend((*first..end).map(|_| node));
        }
        let mut edges = BlockEdges::default();
        for jump in &jumps.found {
            if let (Some(from), Some(to)) = (flow.block_of.get(jump.from), flow.block_of.get(jump.to)) {
                edges.update(&mut flow.graph, (*from, *to), jump.edge);
            }
        }
        for last in flow.block_ends() {
            if jumps.falls_through(last) && last + 1 < instructions.len() {
                let ends = (flow.block_of[last], flow.block_of[last + 1]);
                edges.update(&mut flow.graph, ends, BlockEdge::Fall);
            }
        }
        Ok(flow)
    }

    /// Blocks in the order of their code.
    pub fn blocks(&self) -> impl Iterator<Item = (NodeIndex, &Range<usize>)> {
        self.graph.node_indices().map(|node| (node, &self.graph[node]))
    }

    fn block_ends(&self) -> Vec<usize> {
        self.graph.node_weights().map(|block| block.end - 1).collect()
    }
}

/// The edges of a graph by their ends. The graph itself would search all edges of a block for one.
#[derive(Default)]
struct BlockEdges(BTreeMap<(NodeIndex, NodeIndex), EdgeIndex>);

impl BlockEdges {
    /// Adds an edge, or changes the one between the same blocks.
    fn update(
        &mut self,
        graph: &mut DiGraph<Range<usize>, BlockEdge>,
        (from, to): (NodeIndex, NodeIndex),
        edge: BlockEdge,
    ) {
        let index = *self.0.entry((from, to)).or_insert_with(|| graph.add_edge(from, to, edge));
        if let Some(known) = graph.edge_weight_mut(index) {
            *known = edge;
        }
    }
}

/// Targets of jumps.
struct JumpTargets<'a> {
    instructions: &'a [SassInstruction],
    section: &'a CodeSection,
    /// First instructions of the section's functions, in order.
    starts: Vec<usize>,
    /// The same by name.
    named: BTreeMap<&'a str, usize>,
    found: Vec<JumpTarget>,
    /// Instructions that a return leads to.
    returned_to: BTreeSet<usize>,
}

struct JumpTarget {
    from: usize,
    to: usize,
    edge: BlockEdge,
}

/// Maximum of a function's returns times its calls. Real code has few, and more edges would be useless.
const MAX_RETURN_EDGES: usize = 1 << 16;

impl<'a> JumpTargets<'a> {
    fn new(
        instructions: &'a [SassInstruction],
        section: &'a CodeSection,
        work: &AnalysisBudget,
    ) -> Result<Self, TooMuchWork> {
        let start = |function: &CubinFunction| (function.offset / INSTRUCTION_BYTES) as usize;
        let mut starts: Vec<usize> = section.functions.iter().map(start).collect();
        starts.sort_unstable();
        // The first of a name.
        let named = section.functions.iter().rev().map(|function| (function.name.as_str(), start(function)));
        let mut jumps = Self {
            instructions,
            section,
            starts,
            named: named.collect(),
            found: Vec::new(),
            returned_to: BTreeSet::new(),
        };
        // By first instruction of a called function: where its callers go on.
        let mut callers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, instruction) in instructions.iter().enumerate() {
            match instruction.flow {
                WarpFlow::Branch { displacement, .. } => {
                    jumps.add(index, target(index, displacement), BlockEdge::Branch);
                }
                WarpFlow::IndirectBranch { .. } => {
                    let targets = jumps.listed(index);
                    work.spend(targets.len())?;
                    for target in targets {
                        jumps.add(index, Some(target), BlockEdge::Indirect);
                    }
                }
                WarpFlow::Call { displacement, .. } => {
                    if let Some(callee) = jumps.callee(index, displacement) {
                        jumps.add(index, Some(callee), BlockEdge::Call);
                        callers.entry(jumps.function_start(callee)).or_default().push(index + 1);
                    }
                }
                WarpFlow::Next | WarpFlow::Return { .. } | WarpFlow::Exit { .. } => {}
            }
        }
        jumps.add_returns(&callers, work)?;
        Ok(jumps)
    }

    fn add_returns(
        &mut self,
        callers: &BTreeMap<usize, Vec<usize>>,
        work: &AnalysisBudget,
    ) -> Result<(), TooMuchWork> {
        let mut returns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, instruction) in self.instructions.iter().enumerate() {
            if matches!(instruction.flow, WarpFlow::Return { .. }) {
                returns.entry(self.function_start(index)).or_default().push(index);
            }
        }
        for (function, returns) in returns {
            let behind = callers.get(&function).map_or(&[][..], Vec::as_slice);
            if returns.len().saturating_mul(behind.len()) > MAX_RETURN_EDGES {
                continue;
            }
            work.spend(returns.len() * behind.len())?;
            for (from, to) in returns.iter().flat_map(|from| behind.iter().map(move |to| (*from, *to))) {
                self.add(from, Some(to), BlockEdge::Return);
                self.returned_to.insert(to);
            }
        }
        Ok(())
    }

    fn add(&mut self, from: usize, to: Option<usize>, edge: BlockEdge) {
        if let Some(to) = to.filter(|to| *to < self.instructions.len()) {
            self.found.push(JumpTarget { from, to, edge });
        }
    }

    fn listed(&self, index: usize) -> Vec<usize> {
        let offset = u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(INSTRUCTION_BYTES);
        let targets = self.section.branch_targets.get(&offset).map_or(&[][..], Vec::as_slice);
        targets.iter().map(|target| (target / INSTRUCTION_BYTES) as usize).collect()
    }

    /// The called function's first instruction, where it is in the section. Where a relocation names it, the
    /// displacement is not filled in.
    fn callee(&self, index: usize, displacement: Option<i64>) -> Option<usize> {
        let offset = u32::try_from(index).ok()?.checked_mul(INSTRUCTION_BYTES)?;
        if let Some(name) = self.section.references.get(&offset) {
            return self.named.get(name.as_str()).copied();
        }
        target(index, displacement?)
    }

    /// The first instruction of the function that holds an instruction.
    fn function_start(&self, index: usize) -> usize {
        let above = self.starts.partition_point(|start| *start <= index);
        above.checked_sub(1).map_or(0, |block| self.starts[block])
    }

    /// True if the warp may continue with the next instruction.
    fn falls_through(&self, index: usize) -> bool {
        match self.instructions[index].flow {
            WarpFlow::Next => true,
            WarpFlow::Branch { conditional, .. }
            | WarpFlow::IndirectBranch { conditional }
            | WarpFlow::Return { conditional }
            | WarpFlow::Exit { conditional } => conditional,
            // From a function that is followed, the warp comes back by a return.
            WarpFlow::Call { conditional, .. } => conditional || !self.returned_to.contains(&(index + 1)),
        }
    }

    /// First instructions of blocks, in order.
    fn leaders(&self) -> Vec<usize> {
        let count = self.instructions.len();
        let mut leaders: BTreeSet<usize> = self.starts.iter().copied().collect();
        leaders.insert(0);
        leaders.extend(self.found.iter().map(|jump| jump.to));
        let jumps = |index: &usize| self.instructions[*index].flow != WarpFlow::Next;
        leaders.extend((0..count).filter(jumps).map(|index| index + 1));
        leaders.retain(|leader| *leader < count);
        leaders.into_iter().collect()
    }
}

/// The instruction that is `displacement` bytes from the one behind `index`.
fn target(index: usize, displacement: i64) -> Option<usize> {
    let next = i64::try_from(index + 1).ok()?.checked_mul(i64::from(INSTRUCTION_BYTES))?;
    let target = usize::try_from(next.checked_add(displacement)?).ok()?;
    target.is_multiple_of(INSTRUCTION_BYTES as usize).then_some(target / INSTRUCTION_BYTES as usize)
}

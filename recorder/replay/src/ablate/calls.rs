//! Calls in a section: the registers that pass between a call, its function and the code behind the call.
//!
//! The graph leads from a return behind every call of its function, so along its edges the registers of one caller reach
//! the code behind another one. A function changes only the registers that it writes. All others are behind a call as
//! they were before it.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef as _;
use stallmap_sass::cubin::CodeSection;
use stallmap_sass::instruction::{SassInstruction, WarpFlow};
use stallmap_sass::register::Registers;
use stallmap_sass::slice::graph::{BlockEdge, FlowGraph};

/// Functions of the driver that access no memory by their arguments: they print or end the program.
const HARMLESS: [&str; 2] = ["__assertfail", "vprintf"];

/// The calls of a section.
#[derive(Debug, Default)]
pub(crate) struct SectionCalls {
    /// By block that calls a function: the block behind the call, and the registers that the function may write.
    behind: BTreeMap<NodeIndex, (NodeIndex, Registers)>,
    /// By block behind calls: the registers that their functions may write.
    returned: BTreeMap<NodeIndex, Registers>,
    /// Calls that the graph does not follow, by index of the instruction: of other sections, and by pointers.
    elsewhere: BTreeSet<usize>,
}

impl SectionCalls {
    /// The calls of a section.
    pub(crate) fn new(instructions: &[SassInstruction], flow: &FlowGraph, section: &CodeSection) -> Self {
        let mut calls = Self::default();
        let written = written(instructions, flow);
        let is_harmless = !section.driver_calls.is_empty()
            && section.driver_calls.iter().all(|name| HARMLESS.contains(&name.as_str()))
            && section
                .references
                .values()
                .all(|name| is_of(section, name) || HARMLESS.contains(&name.as_str()));
        for (node, block) in flow.blocks() {
            let Some(last) = block.clone().next_back() else { continue };
            let WarpFlow::Call { .. } = instructions[last].flow else { continue };
            match called(flow, node) {
                Some(function) => {
                    let Some(&behind) = flow.block_of.get(last + 1) else { continue };
                    let registers = written[function.index()];
                    calls.behind.insert(node, (behind, registers));
                    let all = calls.returned.entry(behind).or_default();
                    *all = all.or(&registers);
                }
                None if is_harmless => {}
                None => drop(calls.elsewhere.insert(last)),
            }
        }
        calls
    }

    /// True if an instruction calls code that is not followed and may use its arguments as addresses.
    pub(crate) fn is_elsewhere(&self, index: usize) -> bool {
        self.elsewhere.contains(&index)
    }

    /// The blocks behind a block, with those of some registers that reach their begin.
    pub(crate) fn next(
        &self,
        flow: &FlowGraph,
        node: NodeIndex,
        held: &Registers,
    ) -> Vec<(NodeIndex, Registers)> {
        let passed = |to: NodeIndex, edge: BlockEdge| match self.returned.get(&to) {
            Some(registers) if edge == BlockEdge::Return => held.and(registers),
            _ => *held,
        };
        let edges = flow.graph.edges(node).map(|edge| (edge.target(), passed(edge.target(), *edge.weight())));
        let behind = self.behind.get(&node).map(|(behind, registers)| (*behind, held.without(registers)));
        edges.chain(behind).collect()
    }
}

/// The function in the section that a block calls at its end.
fn called(flow: &FlowGraph, node: NodeIndex) -> Option<NodeIndex> {
    flow.graph.edges(node).find(|edge| *edge.weight() == BlockEdge::Call).map(|edge| edge.target())
}

fn is_of(section: &CodeSection, name: &str) -> bool {
    section.functions.iter().any(|function| function.name == name)
}

/// By block: the registers that a warp may write from its begin until its function returns.
fn written(instructions: &[SassInstruction], flow: &FlowGraph) -> Vec<Registers> {
    let own = flow.blocks().map(|(_, block)| {
        instructions[block.clone()].iter().fold(Registers::NONE, |all, one| all.or(&one.writes))
    });
    let mut written: Vec<Registers> = own.collect();
    let mut has_grown = true;
    while has_grown {
        has_grown = false;
        // Backward, as registers go: few rounds are needed.
        for node in flow.graph.node_indices().rev() {
            let next = flow.graph.edges(node).filter(|edge| *edge.weight() != BlockEdge::Return);
            let behind_call = called(flow, node).and_then(|_| flow.block_of.get(flow.graph[node].end));
            let next = next.map(|edge| edge.target()).chain(behind_call.copied());
            let all = next.fold(written[node.index()], |all, next| all.or(&written[next.index()]));
            has_grown |= all != written[node.index()];
            written[node.index()] = all;
        }
    }
    written
}

//! Registers that exchange their values: three exclusive ors of the same two registers.
//!
//! ptxas writes x ^= y, y ^= x, x ^= y where the halves of a selected pointer lie the wrong way round.

use std::collections::BTreeMap;

use crate::instruction::SassInstruction;
use crate::register::Register;
use crate::slice::graph::FlowGraph;

/// Place of the lookup table of LOP3, and of its third source.
const TABLE: u32 = 72;
const THIRD: u32 = 64;
/// Entries of the table for a third source of zero, and those of them that an exclusive or sets.
const WITHOUT_THIRD: u64 = 0b0101_0101;
const EXCLUSIVE_OR: u64 = 0b0001_0100;
/// Numbers of RZ and URZ. Uniform registers have six bits before sm_100.
const ZEROS: [u8; 2] = [255, 63];

/// By instruction: the register whose value it takes, before which instruction.
#[derive(Debug, Default)]
pub(super) struct RegisterExchanges(BTreeMap<usize, (usize, Register)>);

impl RegisterExchanges {
    pub(super) fn new(instructions: &[SassInstruction], flow: &FlowGraph) -> Self {
        let mut exchanges = Self::default();
        for (index, instruction) in instructions.iter().enumerate() {
            let Some((first, second)) = exclusive_or(instruction) else { continue };
            let end = flow.block_of.get(index).map_or(index, |block| flow.graph[*block].end);
            let mut next = (index + 1..end).filter(|index| {
                let writes = &instructions[*index].writes;
                writes.contains(first) || writes.contains(second)
            });
            let Some((middle, last)) = next.next().zip(next.next()) else { continue };
            let is_exchange = exclusive_or(&instructions[middle]) == Some((second, first))
                && exclusive_or(&instructions[last]) == Some((first, second));
            if is_exchange {
                exchanges.0.insert(middle, (index, first));
                exchanges.0.insert(last, (middle, second));
            }
        }
        exchanges
    }

    /// The register whose value an instruction takes, before the instruction that still finds it there.
    pub(super) fn taken(&self, index: usize) -> Option<(usize, Register)> {
        self.0.get(&index).copied()
    }
}

/// The register that becomes its exclusive or with another one, and that one.
fn exclusive_or(instruction: &SassInstruction) -> Option<(Register, Register)> {
    let word = instruction.word;
    let is_it = matches!(instruction.mnemonic, Some("LOP3" | "ULOP3"))
        && ZEROS.contains(&word.byte(THIRD))
        && word.bits(TABLE, 8) & WITHOUT_THIRD == EXCLUSIVE_OR;
    // A guard is among what it reads.
    let mut reads = instruction.reads.iter().filter(|_| is_it);
    let (one, other, None) = (reads.next()?, reads.next()?, reads.next()) else { return None };
    let mut writes = instruction.writes.iter();
    match (writes.next()?, writes.next()) {
        (written, None) if written == one => Some((one, other)),
        (written, None) if written == other => Some((other, one)),
        _ => None,
    }
}

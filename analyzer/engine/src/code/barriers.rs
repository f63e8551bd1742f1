//! Barriers of the block between two accesses to shared memory that follow each other in a warp.

use std::collections::BTreeMap;

use stallmap_sass::instruction::{MemorySpace, SassInstruction, WarpFlow};
use stallmap_sass::word::INSTRUCTION_BYTES;
use stallmap_schema::id::Pc;

use super::derived::BarrierStep;
use super::section::{SectionCode, SectionFunction};

/// Maximum of barriers on a path that are counted.
const MAX_BARRIERS: u32 = 63;
/// Maximum of instructions visited per function, those of several paths once for each.
const MAX_VISITS: usize = 1 << 22;
/// The operation code of a barrier whose number is in the instruction.
const BARRIER: u64 = 0xb1d;

/// The part of an instruction in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncStep {
    /// None.
    Other,
    /// It waits for all warps of the block.
    Barrier,
    /// It accesses shared memory, or may do so.
    Access {
        /// True if each warp that comes here makes the access.
        is_certain: bool,
    },
    /// Warps are ordered by other means than barriers of the block.
    Unordered,
}

/// Rows of `barrier_step` of a function. None if anything but barriers of the complete block may order its warps.
pub(super) fn steps(section: &SectionCode, function: &SectionFunction) -> Vec<BarrierStep> {
    let offsets: Vec<u32> = section.offsets(function).collect();
    let steps: Option<Vec<SyncStep>> =
        offsets.iter().map(|offset| section.instruction(*offset).map(|found| step_of(&found))).collect();
    let Some(steps) = steps.filter(|steps| !steps.contains(&SyncStep::Unordered)) else { return Vec::new() };
    let is_access = |index: &usize| matches!(steps[*index], SyncStep::Access { .. });
    let sources: Vec<usize> = (0..steps.len()).filter(is_access).collect();
    if sources.is_empty() || !function.is_kernel {
        return Vec::new();
    }
    let paths = CodePaths { successors: successors(section, function, steps.len()), steps };
    let (mut rows, mut visits) = (Vec::new(), 0);
    for source in std::iter::once(None).chain(sources.into_iter().map(Some)) {
        for (target, count) in paths.counts(source, &mut visits) {
            let pc =
                |index: usize| Pc(u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(INSTRUCTION_BYTES));
            rows.push(BarrierStep {
                function_id: function.function_id,
                pc: source.map(pc),
                next_pc: pc(target),
                barrier_count: count,
            });
        }
        if visits > MAX_VISITS {
            return Vec::new();
        }
    }
    rows
}

fn step_of(instruction: &SassInstruction) -> SyncStep {
    let is_certain = instruction.is_unconditional();
    match instruction.mnemonic {
        None => return SyncStep::Unordered,
        Some("BAR") => {
            // Barrier 0, for all threads.
            let is_whole = instruction.word.bits(0, 12) == BARRIER && instruction.word.bits(16, 48) == 0;
            let waits = instruction.full_name().starts_with("BAR.SYNC");
            return if is_whole && waits && is_certain { SyncStep::Barrier } else { SyncStep::Unordered };
        }
        // Barrier objects, clusters, and fences between accesses that other warps may poll.
        Some(
            "SYNCS" | "ARRIVES" | "UCGABAR_ARV" | "UCGABAR_WAIT" | "MEMBAR" | "UTMALDG" | "UBLKCP"
            | "NANOSLEEP",
        ) => {
            return SyncStep::Unordered;
        }
        // Its result may be a lock or a ticket.
        Some("ATOMS") if !instruction.writes.is_empty() => return SyncStep::Unordered,
        _ => {}
    }
    if matches!(
        instruction.flow,
        WarpFlow::Call { .. } | WarpFlow::IndirectBranch { .. } | WarpFlow::Return { .. }
    ) {
        return SyncStep::Unordered;
    }
    let copies = instruction.mnemonic == Some("LDGSTS");
    match instruction.memory.map(|memory| memory.space) {
        Some(MemorySpace::Shared) => SyncStep::Access { is_certain },
        // The address says whether it is shared memory.
        Some(MemorySpace::Generic) => SyncStep::Access { is_certain: false },
        _ if copies => SyncStep::Access { is_certain: false },
        _ => SyncStep::Other,
    }
}

/// Indices of the instructions that may follow each instruction of a function.
fn successors(section: &SectionCode, function: &SectionFunction, count: usize) -> Vec<Vec<usize>> {
    let index = |offset: u32| {
        let index = (offset.checked_sub(function.offset)? / INSTRUCTION_BYTES) as usize;
        (index < count).then_some(index)
    };
    let mut successors: Vec<Vec<usize>> = (0..count).map(|_| Vec::new()).collect();
    for block in &section.findings.blocks {
        let (Some(first), Some(last)) = (index(block.first), index(block.last)) else { continue };
        for (inner, next) in successors.iter_mut().enumerate().take(last).skip(first) {
            *next = vec![inner + 1];
        }
        successors[last] = block.successors.iter().copied().filter_map(index).collect();
    }
    successors
}

/// Instructions of a function with the edges between them.
struct CodePaths {
    successors: Vec<Vec<usize>>,
    steps: Vec<SyncStep>,
}

impl CodePaths {
    /// The accesses that may follow one, each with the number of barriers before it. None if paths differ.
    fn counts(&self, source: Option<usize>, visits: &mut usize) -> BTreeMap<usize, Option<u32>> {
        let mut seen = BTreeMap::<usize, u64>::new();
        let mut targets = BTreeMap::<usize, u64>::new();
        let start = source.map_or_else(|| vec![0], |source| self.successors[source].clone());
        let mut open: Vec<(usize, u32)> = start.into_iter().map(|index| (index, 0)).collect();
        let mut is_endless = false;
        while let Some((index, mut count)) = open.pop() {
            let bits = seen.entry(index).or_default();
            if *bits >> count & 1 == 1 {
                continue;
            }
            *bits |= 1 << count;
            *visits += 1;
            if *visits > MAX_VISITS {
                break;
            }
            match self.steps.get(index) {
                Some(SyncStep::Access { is_certain }) => {
                    *targets.entry(index).or_default() |= 1 << count;
                    if *is_certain {
                        continue;
                    }
                }
                Some(SyncStep::Barrier) => count += 1,
                _ => {}
            }
            if count > MAX_BARRIERS {
                is_endless = true;
                continue;
            }
            open.extend(self.successors.get(index).into_iter().flatten().map(|next| (*next, count)));
        }
        let one = |bits: u64| (bits.is_power_of_two() && !is_endless).then(|| bits.trailing_zeros());
        targets.into_iter().map(|(target, bits)| (target, one(bits))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTAIN: SyncStep = SyncStep::Access { is_certain: true };
    const MAYBE: SyncStep = SyncStep::Access { is_certain: false };

    fn counts(
        steps: &[SyncStep],
        jumps: &[(usize, usize)],
        source: Option<usize>,
    ) -> Vec<(usize, Option<u32>)> {
        let mut successors: Vec<Vec<usize>> = (0..steps.len())
            .map(|index| if index + 1 < steps.len() { vec![index + 1] } else { Vec::new() })
            .collect();
        for (from, to) in jumps {
            successors[*from].push(*to);
        }
        let paths = CodePaths { successors, steps: steps.to_vec() };
        paths.counts(source, &mut 0).into_iter().collect()
    }

    #[test]
    fn barriers_on_the_way_to_the_next_access_count() {
        let steps = [CERTAIN, SyncStep::Barrier, SyncStep::Barrier, CERTAIN, SyncStep::Barrier, CERTAIN];
        assert_eq!(counts(&steps, &[], None), [(0, Some(0))]);
        assert_eq!(counts(&steps, &[], Some(0)), [(3, Some(2))]);
        assert_eq!(counts(&steps, &[(3, 0)], Some(3)), [(0, Some(0)), (5, Some(1))]);
    }

    #[test]
    fn an_access_that_may_not_happen_is_passed() {
        let steps = [CERTAIN, SyncStep::Barrier, MAYBE, SyncStep::Barrier, CERTAIN];
        assert_eq!(counts(&steps, &[], Some(0)), [(2, Some(1)), (4, Some(2))]);
    }

    #[test]
    fn paths_with_different_numbers_of_barriers_have_none() {
        let steps = [CERTAIN, SyncStep::Barrier, CERTAIN];
        assert_eq!(counts(&steps, &[(0, 2)], Some(0)), [(2, None)]);
        let steps = [CERTAIN, SyncStep::Other, SyncStep::Barrier, CERTAIN];
        assert_eq!(counts(&steps, &[(2, 1)], Some(0)), [(3, None)]);
    }
}

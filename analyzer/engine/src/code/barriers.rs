//! Barriers, and groups of asynchronous copies, between two accesses to shared memory that follow each other in a warp.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_sass::instruction::{BarrierWait, MemorySpace, SassInstruction, WarpFlow};
use stallmap_sass::word::INSTRUCTION_BYTES;
use stallmap_schema::id::Pc;

use super::derived::BarrierStep;
use super::section::{SectionCode, SectionFunction};

/// Maximum of barriers, and of groups of copies, on a path that are counted.
const MAX_EVENTS: u8 = 63;
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
    /// The lanes of a warp meet: `__syncwarp`, or an exchange between lanes.
    Warp,
    /// It closes a group of asynchronous copies.
    Commit,
    /// It accesses shared memory, or may do so.
    Access {
        /// True if each warp that comes here makes the access.
        is_certain: bool,
        /// True if it is one access of all lanes together.
        is_joint: bool,
        /// True if it is an asynchronous copy.
        is_copy: bool,
    },
    /// Warps are ordered by other means than barriers of the block.
    Unordered,
}

/// An instruction in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CodeStep {
    /// Groups of asynchronous copies that may be left when it executes. None if it waits for none.
    group_limit: Option<u8>,
    sync: SyncStep,
}

/// Rows of `barrier_step` of a function. None if anything but barriers of the complete block may order its warps.
pub(super) fn steps(section: &SectionCode, function: &SectionFunction) -> Vec<BarrierStep> {
    let offsets: Vec<u32> = section.offsets(function).collect();
    let found: Option<Vec<SassInstruction>> =
        offsets.iter().map(|offset| section.instruction(*offset)).collect();
    let steps = path_steps(&found.unwrap_or_default());
    if steps.iter().any(|step| step.sync == SyncStep::Unordered) {
        return Vec::new();
    }
    let is_access = |index: &usize| matches!(steps[*index].sync, SyncStep::Access { .. });
    let sources: Vec<usize> = (0..steps.len()).filter(is_access).collect();
    if sources.is_empty() || !function.is_kernel {
        return Vec::new();
    }
    let paths = CodePaths { successors: successors(section, function, steps.len()), steps };
    let (mut rows, mut visits) = (Vec::new(), 0);
    for source in std::iter::once(None).chain(sources.into_iter().map(Some)) {
        for (target, events) in paths.events(source, &mut visits) {
            let pc =
                |index: usize| Pc(u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(INSTRUCTION_BYTES));
            rows.push(BarrierStep {
                function_id: function.function_id,
                pc: source.map(pc),
                next_pc: pc(target),
                is_copy: matches!(paths.steps[target].sync, SyncStep::Access { is_copy: true, .. }),
                barrier_count: events.barriers.map(u32::from),
                has_warp_sync: events.is_synced,
                group_count: events.copies.map(|copies| copies.groups.into()),
                group_limit: events.copies.and_then(|copies| Some(copies.wait?.0.into())),
                wait_barrier_count: events.copies.and_then(|copies| Some(copies.wait?.1.into())),
            });
        }
        if visits > MAX_VISITS {
            return Vec::new();
        }
    }
    rows
}

fn path_steps(instructions: &[SassInstruction]) -> Vec<CodeStep> {
    // The scoreboards that count groups of copies.
    let commits = instructions.iter().filter(|instruction| instruction.mnemonic == Some("LDGDEPBAR"));
    let held = commits.filter_map(|commit| commit.control.write_barrier.or(commit.control.read_barrier));
    let mask = held.fold(0, |mask: u8, barrier| mask | 1_u8.checked_shl(barrier.into()).unwrap_or(0));
    let limit = |instruction: &SassInstruction| {
        let (empty, counted) = match instruction.barrier_wait() {
            Some(BarrierWait::Scoreboard { empty, counted }) => (empty, counted),
            _ => (0, None),
        };
        let is_held = |barrier: u8| mask.checked_shr(barrier.into()).unwrap_or(0) & 1 == 1;
        match (instruction.control.wait_mask | empty) & mask {
            0 => counted.filter(|(barrier, _)| is_held(*barrier)).map(|(_, limit)| limit),
            _ => Some(0),
        }
    };
    instructions.iter().map(|one| CodeStep { group_limit: limit(one), sync: sync_of(one) }).collect()
}

fn sync_of(instruction: &SassInstruction) -> SyncStep {
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
        // `__syncwarp` of all lanes is a NOP where lanes are together.
        Some("NOP" | "WARPSYNC" | "SHFL" | "VOTE" | "MATCH" | "REDUX") => return SyncStep::Warp,
        Some("LDGDEPBAR") => return SyncStep::Commit,
        _ => {}
    }
    if matches!(
        instruction.flow,
        WarpFlow::Call { .. } | WarpFlow::IndirectBranch { .. } | WarpFlow::Return { .. }
    ) {
        return SyncStep::Unordered;
    }
    let is_copy = instruction.mnemonic == Some("LDGSTS");
    let is_joint = matches!(instruction.mnemonic, Some("LDSM" | "STSM"));
    match instruction.memory.map(|memory| memory.space) {
        Some(MemorySpace::Shared) => SyncStep::Access { is_certain, is_joint, is_copy },
        // The address says whether it is shared memory.
        Some(MemorySpace::Generic) => SyncStep::Access { is_certain: false, is_joint, is_copy },
        _ if is_copy => SyncStep::Access { is_certain: false, is_joint, is_copy },
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

/// Groups of asynchronous copies on a path: those that it closes, and its wait, as in [`PathState`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct CopyGroups {
    groups: u8,
    /// Groups that may be left at the path's end, its own among them, and the barriers before the wait that ends the rest.
    wait: Option<(u8, u8)>,
}

/// The events on a path from one access to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PathState {
    barriers: u8,
    copies: CopyGroups,
    is_synced: bool,
}

impl PathState {
    /// Behind the wait of an instruction.
    fn waited(mut self, limit: u8) -> Self {
        // Of several waits, each counts as if it were at the first one's place: a copy never seems to take longer than it does.
        let (left, barriers) = self.copies.wait.unwrap_or((limit, self.barriers));
        self.copies.wait = Some((left.min(limit), barriers));
        self
    }

    /// Behind an instruction. None if there is too much to count.
    fn behind(mut self, sync: SyncStep) -> Option<Self> {
        match sync {
            SyncStep::Barrier => {
                self.barriers += 1;
                self.is_synced = true;
            }
            SyncStep::Warp => self.is_synced = true,
            SyncStep::Commit => {
                self.copies.groups += 1;
                if let Some((left, _)) = &mut self.copies.wait {
                    *left = left.saturating_add(1);
                }
            }
            SyncStep::Other | SyncStep::Access { .. } | SyncStep::Unordered => {}
        }
        (self.barriers <= MAX_EVENTS && self.copies.groups <= MAX_EVENTS).then_some(self)
    }
}

/// The events between two accesses, on all paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepEvents {
    /// None if paths differ.
    barriers: Option<u8>,
    /// None if paths differ.
    copies: Option<CopyGroups>,
    /// True if lanes meet on any path.
    is_synced: bool,
}

/// Instructions of a function with the edges between them.
struct CodePaths {
    successors: Vec<Vec<usize>>,
    steps: Vec<CodeStep>,
}

impl CodePaths {
    /// The accesses that may follow one, each with what lies before it.
    fn events(&self, source: Option<usize>, visits: &mut usize) -> BTreeMap<usize, StepEvents> {
        let is_joint = |index: usize| {
            matches!(
                self.steps.get(index),
                Some(CodeStep { sync: SyncStep::Access { is_joint: true, .. }, .. })
            )
        };
        let mut seen = BTreeSet::<(usize, PathState)>::new();
        let mut targets = BTreeMap::<usize, BTreeSet<PathState>>::new();
        let start = source.map_or_else(|| vec![0], |source| self.successors[source].clone());
        let first = PathState { is_synced: source.is_some_and(is_joint), ..PathState::default() };
        let mut open: Vec<(usize, PathState)> = start.into_iter().map(|index| (index, first)).collect();
        let mut is_endless = false;
        while let Some((index, mut state)) = open.pop() {
            if !seen.insert((index, state)) {
                continue;
            }
            *visits += 1;
            if *visits > MAX_VISITS {
                break;
            }
            let Some(step) = self.steps.get(index) else { continue };
            if let Some(limit) = step.group_limit {
                state = state.waited(limit);
            }
            if let SyncStep::Access { is_certain, .. } = step.sync {
                targets.entry(index).or_default().insert(state);
                if is_certain {
                    continue;
                }
            }
            let Some(state) = state.behind(step.sync) else {
                is_endless = true;
                continue;
            };
            open.extend(self.successors.get(index).into_iter().flatten().map(|next| (*next, state)));
        }
        let all = |target: usize, states: BTreeSet<PathState>| StepEvents {
            barriers: same(states.iter().map(|state| state.barriers)).filter(|_| !is_endless),
            copies: same(states.iter().map(|state| state.copies)).filter(|_| !is_endless),
            is_synced: is_joint(target) || states.iter().any(|state| state.is_synced),
        };
        targets.into_iter().map(|(target, states)| (target, all(target, states))).collect()
    }
}

/// The value that all of some are. None if they differ.
fn same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTAIN: SyncStep = SyncStep::Access { is_certain: true, is_joint: false, is_copy: false };
    const MAYBE: SyncStep = SyncStep::Access { is_certain: false, is_joint: false, is_copy: false };

    fn events(
        steps: &[SyncStep],
        jumps: &[(usize, usize)],
        waits: &[(usize, u8)],
        source: Option<usize>,
    ) -> Vec<(usize, StepEvents)> {
        let mut successors: Vec<Vec<usize>> = (0..steps.len())
            .map(|index| if index + 1 < steps.len() { vec![index + 1] } else { Vec::new() })
            .collect();
        for (from, to) in jumps {
            successors[*from].push(*to);
        }
        let limit =
            |index: usize| waits.iter().find(|(waiting, _)| *waiting == index).map(|(_, limit)| *limit);
        let steps =
            steps.iter().enumerate().map(|(index, sync)| CodeStep { group_limit: limit(index), sync: *sync });
        let paths = CodePaths { successors, steps: steps.collect() };
        paths.events(source, &mut 0).into_iter().collect()
    }

    fn counts(
        steps: &[SyncStep],
        jumps: &[(usize, usize)],
        source: Option<usize>,
    ) -> Vec<(usize, Option<u8>)> {
        events(steps, jumps, &[], source)
            .into_iter()
            .map(|(index, events)| (index, events.barriers))
            .collect()
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

    #[test]
    fn lanes_meet_at_barriers_exchanges_and_joint_accesses() {
        let joint = SyncStep::Access { is_certain: true, is_joint: true, is_copy: false };
        let synced = |steps: &[SyncStep]| events(steps, &[], &[], Some(0))[0].1.is_synced;
        assert!(!synced(&[CERTAIN, SyncStep::Other, CERTAIN]));
        assert!(synced(&[CERTAIN, SyncStep::Warp, CERTAIN]));
        assert!(synced(&[CERTAIN, SyncStep::Barrier, CERTAIN]));
        assert!(synced(&[CERTAIN, joint]) && synced(&[joint, CERTAIN]));
    }

    #[test]
    fn a_wait_leaves_the_groups_that_follow_it() {
        let copies =
            |steps: &[SyncStep], waits: &[(usize, u8)]| events(steps, &[], waits, Some(0))[0].1.copies;
        let groups = |groups, wait| Some(CopyGroups { groups, wait });
        let steps = [MAYBE, SyncStep::Commit, SyncStep::Barrier, SyncStep::Other, SyncStep::Commit, CERTAIN];
        assert_eq!(copies(&steps, &[]), groups(2, None));
        assert_eq!(copies(&steps, &[(3, 0)]), groups(2, Some((1, 1))));
        assert_eq!(copies(&steps, &[(5, 1)]), groups(2, Some((1, 1))));
        assert_eq!(copies(&steps, &[(2, 0), (5, 1)]), groups(2, Some((1, 0))));
    }
}

//! Which instruction launched each kernel, for the launches of one thread in order.
//!
//! A kernel of a module is named after its instruction, or after one that computes the same: then the next of these in
//! the module's order is taken. A library's kernel belongs to one of the library calls between the kernels before and
//! behind it.

use crate::plan::LaunchPlan;

/// The known facts about a launch.
#[derive(Clone, Copy, Debug)]
pub struct SeenLaunch<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// Programs that hold its code, by their index, or of the name that a range around it says. Empty for a library's
    /// kernel without a range.
    pub programs: &'a [usize],
    /// The instruction that a range around it names.
    pub instruction: Option<u64>,
}

/// The means by which a launch got its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentMeans {
    /// The kernel's name.
    Kernel,
    /// Its position.
    Order,
    /// A range.
    Range,
}

/// The instruction of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedLaunch {
    /// The program.
    pub program: usize,
    /// The step of its plan.
    pub step: usize,
    /// The means by which it was found.
    pub means: AssignmentMeans,
    /// Programs or steps that fit as well.
    pub candidate_count: usize,
}

/// Assigns launches to instructions.
pub fn assign(plans: &[LaunchPlan<'_, '_>], launches: &[SeenLaunch<'_>]) -> Vec<Option<AssignedLaunch>> {
    let mut assigned = own_kernels(plans, launches);
    let mut at = 0;
    while at < launches.len() {
        let gap = gap_at(&assigned, launches, at);
        fill(plans, &mut assigned, gap.clone());
        at = gap.end.max(at + 1);
    }
    assigned
}

/// Launches of the modules' own kernels.
fn own_kernels(plans: &[LaunchPlan<'_, '_>], launches: &[SeenLaunch<'_>]) -> Vec<Option<AssignedLaunch>> {
    let mut last: Option<AssignedLaunch> = None;
    let own = |launch: &SeenLaunch<'_>| {
        let continued = last.map(|last| last.program).filter(|program| launch.programs.contains(program));
        let program = continued.or_else(|| launch.programs.first().copied())?;
        let plan = plans.get(program)?;
        let named = launch.instruction.map_or(&[][..], |id| plan.steps_with(id));
        let (steps, means) = match named {
            [] => (plan.steps_of(launch.kernel), AssignmentMeans::Kernel),
            named => (named, AssignmentMeans::Range),
        };
        let before = last.filter(|last| last.program == program).map(|last| last.step);
        // A kernel that one instruction launches several times stays with it where no other has the same kernel.
        let later = steps.iter().find(|step| before.is_none_or(|before| **step > before));
        let step = *later.or_else(|| steps.first())?;
        let candidate_count = steps.len().max(launch.programs.len());
        last = Some(AssignedLaunch { program, step, means, candidate_count });
        last
    };
    launches.iter().map(own).collect()
}

/// The launches of libraries from a position on.
fn gap_at(
    assigned: &[Option<AssignedLaunch>],
    launches: &[SeenLaunch<'_>],
    at: usize,
) -> std::ops::Range<usize> {
    let is_library = |index: &usize| {
        assigned.get(*index).is_some_and(Option::is_none)
            && launches.get(*index).is_some_and(|launch| launch.programs.is_empty())
    };
    let length = (at..launches.len()).take_while(is_library).count();
    at..at + length
}

fn fill(plans: &[LaunchPlan<'_, '_>], assigned: &mut [Option<AssignedLaunch>], gap: std::ops::Range<usize>) {
    let before = gap.start.checked_sub(1).and_then(|index| *assigned.get(index)?);
    let behind = assigned.get(gap.end).copied().flatten();
    let steps = library_steps(plans, before, behind);
    let (steps_count, launch_count) = (steps.len(), gap.len());
    for (position, index) in gap.enumerate() {
        let chosen = steps.get(position * steps_count / launch_count.max(1));
        if let (Some(&(program, step)), Some(slot)) = (chosen, assigned.get_mut(index)) {
            let is_even = launch_count.is_multiple_of(steps_count);
            let candidate_count = if is_even { 1 } else { steps_count };
            *slot = Some(AssignedLaunch { program, step, means: AssignmentMeans::Order, candidate_count });
        }
    }
}

/// Library calls between two launches, as program and step.
fn library_steps(
    plans: &[LaunchPlan<'_, '_>],
    before: Option<AssignedLaunch>,
    behind: Option<AssignedLaunch>,
) -> Vec<(usize, usize)> {
    let steps = |program: usize, after: Option<usize>, until: Option<usize>| {
        let steps = plans.get(program).map(|plan| plan.libraries_between(after, until)).unwrap_or_default();
        steps.into_iter().map(move |step| (program, step)).collect::<Vec<_>>()
    };
    match (before, behind) {
        (Some(a), Some(b)) if a.program == b.program => steps(a.program, Some(a.step), Some(b.step)),
        (None, None) => {
            // Programs of library calls alone have no kernel that names them. One of them is certain.
            let mut only = (0..plans.len())
                .filter(|program| plans.get(*program).is_some_and(LaunchPlan::is_only_library));
            match (only.next(), only.next()) {
                (Some(program), None) => steps(program, None, None),
                _ => Vec::new(),
            }
        }
        (before, behind) => {
            let ends = before.map(|a| steps(a.program, Some(a.step), None)).unwrap_or_default();
            let begins = behind.map(|b| steps(b.program, None, Some(b.step))).unwrap_or_default();
            ends.into_iter().chain(begins).collect()
        }
    }
}

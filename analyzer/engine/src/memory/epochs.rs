//! Phases of warps between barriers of their block.

use std::collections::HashMap;

/// One warp request in the order of its warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderedRequest {
    /// The block.
    pub block: u64,
    /// The warp in the block.
    pub warp: u16,
    /// Its position among the launch's requests.
    pub sequence: u64,
    /// The instruction, by the caller's number.
    pub instruction: u32,
    /// Active lanes.
    pub lane_mask: u32,
    /// The request, by the caller's number.
    pub request: u32,
}

/// The events between two accesses of a warp that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessStep {
    /// Barriers of the block.
    pub barriers: u32,
    /// True if the warp's lanes meet.
    pub has_warp_sync: bool,
    /// True if the second access is an asynchronous copy.
    pub is_copy: bool,
    /// Groups of asynchronous copies. None if they are not known.
    pub groups: Option<GroupStep>,
}

/// Groups of asynchronous copies between two accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStep {
    /// Groups that are closed.
    pub closed: u32,
    /// Groups that may be left at the second access, and the barriers before the wait that ends the rest.
    pub wait: Option<(u32, u32)>,
}

/// The barriers before a request: those of its block and of its warp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestPhase {
    /// Barriers that its warp has passed since the start.
    pub epoch: u32,
    /// For an asynchronous copy, those passed when the warp waits for it. Else the same.
    pub last_epoch: u32,
    /// Steps since the start in which its warp's lanes met.
    pub warp_epoch: u32,
}

/// Steps between two accesses of a warp that follow each other, by instructions. From none: from the kernel's start.
/// A pair that is not there has no known number of barriers.
#[derive(Clone, Debug, Default)]
pub struct BarrierSteps {
    /// The steps.
    pub steps: HashMap<(Option<u32>, u32), AccessStep>,
}

impl BarrierSteps {
    /// The phase of each request, by its number. None where it is not known. Sorts the requests by their warps.
    pub fn phases(&self, requests: &mut [OrderedRequest]) -> Vec<Option<RequestPhase>> {
        requests.sort_unstable();
        let mut phases: Vec<Option<RequestPhase>> = requests.iter().map(|_| None).collect();
        let same_warp = |a: &OrderedRequest, b: &OrderedRequest| (a.block, a.warp) == (b.block, b.warp);
        for warp in requests.chunk_by(same_warp) {
            let mut walk =
                WarpWalk { steps: self, phase: RequestPhase::default(), group: 0, open: Vec::new() };
            let mut before = None::<OrderedRequest>;
            for request in warp {
                // Rows of one request have its sequence.
                let is_new = before.is_none_or(|before| before.sequence != request.sequence);
                if is_new && walk.step(before, *request, &mut phases).is_none() {
                    break;
                }
                if let Some(known) = phases.get_mut(request.request as usize) {
                    *known = Some(walk.phase);
                }
                before = Some(*request);
            }
            walk.complete(|_| true, walk.phase.epoch, &mut phases);
        }
        phases
    }
}

/// One warp on its way through its requests.
struct WarpWalk<'a> {
    steps: &'a BarrierSteps,
    phase: RequestPhase,
    /// Groups of copies that were closed.
    group: u32,
    /// Copies that nothing has waited for, each with its group.
    open: Vec<(u32, u32)>,
}

impl WarpWalk<'_> {
    /// Goes to the next request. None if the way is not known.
    fn step(
        &mut self,
        before: Option<OrderedRequest>,
        request: OrderedRequest,
        phases: &mut [Option<RequestPhase>],
    ) -> Option<()> {
        let key = (before.map(|before| before.instruction), request.instruction);
        let step = *self.steps.steps.get(&key)?;
        let begin = self.phase.epoch;
        self.phase.epoch = begin.checked_add(step.barriers)?;
        self.phase.last_epoch = self.phase.epoch;
        self.phase.warp_epoch = self.phase.warp_epoch.checked_add(step.has_warp_sync.into())?;
        match step.groups {
            Some(groups) => {
                self.group = self.group.checked_add(groups.closed)?;
                if let Some((left, barriers)) = groups.wait {
                    let done = self.group.saturating_sub(left);
                    self.complete(|group| group < done, begin.checked_add(barriers)?, phases);
                }
            }
            // Nothing is known of the time that they take: they end at once.
            None => self.open.clear(),
        }
        if step.is_copy {
            self.open.push((request.request, self.group));
        }
        Some(())
    }

    /// Ends the copies of some groups.
    fn complete(&mut self, is_done: impl Fn(u32) -> bool, epoch: u32, phases: &mut [Option<RequestPhase>]) {
        self.open.retain(|(request, group)| {
            let is_done = is_done(*group);
            if let Some(Some(phase)) = phases.get_mut(*request as usize).filter(|_| is_done) {
                phase.last_epoch = epoch;
            }
            !is_done
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(warp: u16, sequence: u64, instruction: u32, request: u32) -> OrderedRequest {
        OrderedRequest { block: 0, warp, sequence, instruction, lane_mask: 1, request }
    }

    fn step(barriers: u32) -> AccessStep {
        AccessStep { barriers, ..AccessStep::default() }
    }

    #[test]
    fn a_warp_counts_its_barriers_until_one_is_not_known() {
        let steps = [((None, 0), step(0)), ((Some(0), 1), step(1)), ((Some(1), 0), step(0))];
        let steps = BarrierSteps { steps: steps.into_iter().collect() };
        let mut requests = [
            request(0, 0, 0, 0),
            request(1, 1, 0, 1),
            request(0, 7, 1, 2),
            request(0, 7, 1, 3),
            request(0, 8, 0, 4),
            request(0, 9, 1, 5),
            request(1, 2, 2, 6),
            request(1, 3, 0, 7),
        ];
        let phases = steps.phases(&mut requests);
        let epochs: Vec<Option<u32>> = phases.iter().map(|phase| phase.map(|phase| phase.epoch)).collect();
        assert_eq!(epochs, [Some(0), Some(0), Some(1), Some(1), Some(1), Some(2), None, None]);
    }

    #[test]
    fn a_copy_lasts_until_a_wait_for_its_group() {
        // Copies 0 and 1 in groups of their own, a wait that leaves one behind the first barrier, and the end of the kernel.
        let group = |closed, wait| Some(GroupStep { closed, wait });
        let copy = |groups| AccessStep { is_copy: true, groups, ..AccessStep::default() };
        let wait = AccessStep { barriers: 2, groups: group(1, Some((1, 1))), ..AccessStep::default() };
        let steps =
            [((None, 0), copy(group(0, None))), ((Some(0), 1), copy(group(1, None))), ((Some(1), 2), wait)];
        let steps = BarrierSteps { steps: steps.into_iter().collect() };
        let mut requests = [request(0, 0, 0, 0), request(0, 1, 1, 1), request(0, 2, 2, 2)];
        let phases = steps.phases(&mut requests);
        let lasts: Vec<Option<u32>> =
            phases.iter().map(|phase| phase.map(|phase| phase.last_epoch)).collect();
        assert_eq!(lasts, [Some(1), Some(2), Some(2)]);
    }
}

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

/// Barriers between two accesses of a warp that follow each other, by instructions. From none: from the kernel's start.
/// A pair that is not there has no known number.
#[derive(Clone, Debug, Default)]
pub struct BarrierSteps {
    /// The number of barriers.
    pub counts: HashMap<(Option<u32>, u32), u32>,
}

impl BarrierSteps {
    /// Per request, by its number, the barriers that its warp has passed since the start. None where they are not known.
    /// Sorts the requests by their warps.
    pub fn epochs(&self, requests: &mut [OrderedRequest]) -> Vec<Option<u32>> {
        requests.sort_unstable();
        let mut epochs: Vec<Option<u32>> = requests.iter().map(|_| None).collect();
        let same_warp = |a: &OrderedRequest, b: &OrderedRequest| (a.block, a.warp) == (b.block, b.warp);
        for warp in requests.chunk_by(same_warp) {
            let (mut epoch, mut before) = (Some(0_u32), None::<OrderedRequest>);
            for request in warp {
                // Rows of one request have its sequence.
                if before.is_none_or(|before| before.sequence != request.sequence) {
                    let from = before.map(|before| before.instruction);
                    let step = self.counts.get(&(from, request.instruction));
                    epoch = epoch.and_then(|epoch| epoch.checked_add(*step?));
                }
                if let Some(known) = epochs.get_mut(request.request as usize) {
                    *known = epoch;
                }
                before = Some(*request);
            }
        }
        epochs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warp_counts_its_barriers_until_one_is_not_known() {
        let request = |warp, sequence, instruction, request| OrderedRequest {
            block: 0,
            warp,
            sequence,
            instruction,
            lane_mask: 1,
            request,
        };
        let counts = [((None, 0), 0), ((Some(0), 1), 1), ((Some(1), 0), 0)];
        let steps = BarrierSteps { counts: counts.into_iter().collect() };
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
        let expected = [Some(0), Some(0), Some(1), Some(1), Some(1), Some(2), None, None];
        assert_eq!(steps.epochs(&mut requests), expected);
    }
}

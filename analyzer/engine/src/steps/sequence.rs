//! The launches of one process in program order, with the columns that the search for steps reads.

use std::collections::HashMap;
use std::hash::Hash;

/// One launch.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(crate) struct SequenceLaunch {
    /// Its identity.
    pub(crate) kernel_id: u64,
    /// Begin and end of its kernel in a timeline.
    pub(crate) gpu_ns: Option<(i64, i64)>,
    /// Begin of its call.
    pub(crate) call_ns: Option<i64>,
    /// True if its call is known. Else `call_ns` is the begin of its kernel.
    pub(crate) has_call: bool,
    /// True if it is the first kernel of its call: other kernels of a graph begin no step.
    pub(crate) is_first: bool,
    /// True if a copy, a fill or a wait of the host lies between it and the launch before it.
    pub(crate) is_behind_copy: bool,
    /// True if it is in the optimizer.
    pub(crate) is_optimizer: bool,
    /// Optimizer steps completed before it, where its op is known.
    pub(crate) optimizer_steps: Option<u32>,
    /// True if it is a trial of a tuner: no part of any step.
    pub(crate) is_trial: bool,
}

/// Launches of one process, without trials of tuners.
#[derive(Debug, Default)]
pub(crate) struct LaunchSequence {
    /// Each launch's kernel, by number. In a model, equal kernels of two modules differ.
    pub(crate) tokens: Vec<u32>,
    /// The launches.
    pub(crate) launches: Vec<SequenceLaunch>,
    /// Time before each launch, and that of all.
    before_ns: Vec<f64>,
}

impl LaunchSequence {
    /// From launches in program order, each with what makes it equal to another.
    pub(crate) fn from_launches<K: Eq + Hash>(launches: Vec<(K, SequenceLaunch)>) -> Self {
        let mut numbers: HashMap<K, u32> = HashMap::new();
        let mut sequence = Self { before_ns: vec![0.0], ..Self::default() };
        let mut before_ns = 0.0;
        for (key, launch) in launches {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            sequence.tokens.push(*numbers.entry(key).or_insert(next));
            // Without a timeline, every launch counts as much.
            before_ns += launch.gpu_ns.map_or(1.0, |(begin, end)| end.saturating_sub(begin).max(1) as f64);
            sequence.before_ns.push(before_ns);
            sequence.launches.push(launch);
        }
        sequence
    }

    /// GPU time of a stretch.
    pub(crate) fn weight(&self, begin: usize, end: usize) -> f64 {
        let before = |at: usize| self.before_ns.get(at).copied().unwrap_or_else(|| self.total());
        before(end) - before(begin)
    }

    /// GPU time of all launches.
    pub(crate) fn total(&self) -> f64 {
        self.before_ns.last().copied().unwrap_or_default()
    }

    /// The part of all launches that a stretch has, or of the time if that is more.
    pub(crate) fn covered(&self, begin: usize, end: usize) -> f64 {
        let launches = end.saturating_sub(begin) as f64 / (self.tokens.len().max(1) as f64);
        (self.weight(begin, end) / self.total().max(f64::MIN_POSITIVE)).max(launches)
    }

    /// Launches of each kernel that can begin a step, for kernels with two of them or more.
    pub(crate) fn starts(&self) -> Vec<Vec<usize>> {
        let kernels = self.tokens.iter().max().map_or(0, |&token| token as usize + 1);
        let mut starts = vec![Vec::new(); kernels];
        for (at, (token, launch)) in self.tokens.iter().zip(&self.launches).enumerate() {
            if let Some(starts) = starts.get_mut(*token as usize).filter(|_| launch.is_first) {
                starts.push(at);
            }
        }
        starts.retain(|starts| starts.len() >= 2);
        starts
    }
}

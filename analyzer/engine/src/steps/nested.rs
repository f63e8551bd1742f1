//! Steps around short loops: a few launches that repeat inside of a longer part that repeats itself.
//!
//! All but the first of the loop's repetitions are left out, however many there are, and the rest is searched again.
//! Copies, fills and waits of the host are part of it: a frame can be nothing but a loop and a copy of its result.

use std::collections::{BTreeMap, HashSet};

use super::period::{self, LONG_STEP, MIN_SCORE, StepCuts, median};
use super::sequence::LaunchSequence;

/// Fewer steps around a loop are no repetition.
const MIN_STEPS: usize = 3;
/// They are surer than this.
const MIN_CONFIDENCE: f64 = 0.7;
/// Loops between copies or waits alone that repeat more often are steps, whose results are read now and then.
const MAX_LOOPS: usize = 16;

/// The steps of a sequence: its repeated part, or what repeats around it.
pub(crate) fn steps(sequence: &LaunchSequence) -> Option<StepCuts> {
    let steps = period::steps(sequence)?;
    around(sequence, &steps).or(Some(steps))
}

/// The steps around a short loop.
fn around(sequence: &LaunchSequence, inner: &StepCuts) -> Option<StepCuts> {
    let loops = ShortLoop::from_steps(sequence, inner)?;
    let remaining = loops.remaining(sequence.tokens.len());
    let launch = |&at: &usize| {
        let key = (*sequence.tokens.get(at)?, loops.is_marked(at, at + 1));
        Some((key, sequence.launches.get(at)?.clone()))
    };
    let outer = period::steps(&LaunchSequence::from_launches(remaining.iter().filter_map(launch).collect()))?;
    let place = |cut: &usize| remaining.get(*cut).copied().unwrap_or(sequence.tokens.len());
    let cuts: Vec<usize> = outer.cuts.iter().map(place).collect();
    let passed = |cut: usize| loops.begins.partition_point(|begin| *begin < cut);
    let count = |pair: &[usize]| passed(pair[1]) - passed(pair[0]);
    let repeated = median(cuts.windows(2).map(count))?;
    let is_bare = median(outer.cuts.windows(2).map(|pair| pair[1] - pair[0]))? <= loops.length;
    let limit = if is_bare { MAX_LOOPS } else { usize::MAX };
    let covered = |cuts: &[usize]| Some(sequence.covered(*cuts.first()?, *cuts.last()?));
    let are_steps = cuts.len() > MIN_STEPS
        && outer.confidence >= MIN_CONFIDENCE
        && (2..=limit).contains(&repeated)
        && covered(&cuts)? >= MIN_SCORE * covered(&inner.cuts)?;
    are_steps.then_some(StepCuts { cuts, ranges: Vec::new(), confidence: outer.confidence })
}

/// A loop of a few launches, wherever it is in a sequence.
struct ShortLoop {
    /// The launches of one repetition.
    length: usize,
    /// First launches of the repetitions, in order.
    begins: Vec<usize>,
    /// Launches behind a copy, a fill or a wait, in order. Empty where most repetitions have one.
    marks: Vec<usize>,
}

impl ShortLoop {
    /// The most frequent of these steps. None if they are long.
    fn from_steps(sequence: &LaunchSequence, steps: &StepCuts) -> Option<Self> {
        let stretches = || steps.cuts.windows(2).filter_map(|pair| sequence.tokens.get(pair[0]..pair[1]));
        let length = median(stretches().map(<[u32]>::len)).filter(|length| *length < LONG_STEP)?;
        let mut counts: BTreeMap<&[u32], usize> = BTreeMap::new();
        for tokens in stretches().filter(|tokens| tokens.len() == length) {
            *counts.entry(tokens).or_default() += 1;
        }
        let (pattern, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let (mut begins, mut at) = (Vec::new(), 0);
        while let Some(tokens) = sequence.tokens.get(at..at + length) {
            let is_here = tokens == pattern;
            begins.extend(is_here.then_some(at));
            at += if is_here { length } else { 1 };
        }
        let launches = sequence.launches.iter().enumerate();
        let marks = launches.filter_map(|(at, launch)| launch.is_behind_copy.then_some(at)).collect();
        let mut found = Self { length, begins, marks };
        let marked = found.begins.iter().filter(|at| found.is_marked(**at, **at + length)).count();
        if marked * 2 > found.begins.len() {
            found.marks.clear();
        }
        Some(found)
    }

    fn is_marked(&self, begin: usize, end: usize) -> bool {
        let passed = |at: usize| self.marks.partition_point(|mark| *mark < at);
        passed(begin) < passed(end)
    }

    /// All launches but those of repetitions that follow another at once.
    fn remaining(&self, launches: usize) -> Vec<usize> {
        let follows = |pair: &[usize]| {
            let [before, at] = *pair else { return None };
            (before + self.length == at && !self.is_marked(at, at + self.length)).then_some(at)
        };
        let left: HashSet<usize> =
            self.begins.windows(2).filter_map(follows).flat_map(|at| at..at + self.length).collect();
        (0..launches).filter(|at| !left.contains(at)).collect()
    }
}

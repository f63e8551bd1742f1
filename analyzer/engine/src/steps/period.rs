//! Steps of a program from its sequence of kernels alone: the part of it that repeats.
//!
//! A kernel that is launched once in each step cuts the sequence into steps. Every kernel is tried. Cuts are judged by
//! the distance of the stretches between them, which takes time in proportion to the sequence for all kernels together.

use super::sequence::LaunchSequence;
use super::sketch::{CountSketch, MAX_ALIKE, MAX_EQUAL, SketchSums, center, distance};

/// Longer sequences are not searched: two million launches take 400 MB.
const MAX_LAUNCHES: usize = 2_000_000;
/// Fewer launches than this in all steps are no repetition.
const MIN_LAUNCHES: usize = 8;
/// Steps with fewer launches count less: trials of one kernel are shorter than steps of a program.
pub(super) const LONG_STEP: usize = 8;
/// A kernel that is launched once in a step is looked for among so many of its first launches.
const MAX_BACK: usize = 1_024;
/// The least part of the time, or of the launches, in steps.
pub(crate) const MIN_COVERED: f64 = 0.3;
/// The same for regular steps at the end of a program, behind a long set-up.
const MIN_REGULAR_COVERED: f64 = 0.05;
/// Fewer steps are not regular.
const MIN_REGULAR_STEPS: usize = 4;
/// Steps that end before this last part of the launches count less: set-up repeats kernels, too.
const END_PART: usize = 20;
/// Their weight.
const EARLY_WEIGHT: f64 = 0.25;
/// Cuts with less than this part of the best score give way to it.
pub(super) const MIN_SCORE: f64 = 0.8;
/// Regular cuts have no larger part of steps that differ from the typical one at all.
const MAX_IRREGULAR: f64 = 0.1;
/// Cuts with irregular stretches between their steps: the same.
const MIN_NOISY_SCORE: f64 = 0.7;

/// Consecutive steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepCuts {
    /// First launches of the steps, in order, and the end of the last one.
    pub(crate) cuts: Vec<usize>,
    /// Ranges around the steps. Empty unless these show them.
    pub(crate) ranges: Vec<(i64, i64)>,
    /// Sureness: 1 if they are certain.
    pub(crate) confidence: f64,
}

/// Cuts by one kernel, judged.
struct JudgedCuts {
    /// First launches of the steps and the end of the last one.
    cuts: Vec<usize>,
    /// Steps that are alike.
    alike: usize,
    /// Time of these, less for short steps.
    score: f64,
    /// Part of the steps that differ from the typical one.
    irregular: f64,
    /// True if all stretches between the first and the last step are alike.
    is_clean: bool,
    /// True if little follows the steps.
    is_last: bool,
}

/// The repeated part of a sequence, if it has one.
pub(crate) fn steps(sequence: &LaunchSequence) -> Option<StepCuts> {
    if sequence.tokens.len() > MAX_LAUNCHES {
        return None;
    }
    let sketch = CountSketch::from_tokens(&sequence.tokens);
    let judged: Vec<JudgedCuts> = sequence
        .starts()
        .iter()
        .filter_map(|starts| JudgedCuts::from_starts(sequence, &sketch, starts))
        .collect();
    let best = judged.iter().map(|cuts| cuts.score).fold(0.0, f64::max);
    let clean = || judged.iter().filter(|cuts| cuts.is_clean && cuts.score >= MIN_SCORE * best);
    // Layers repeat inside of steps, but not where a step ends: what is regular throughout wins. Of several that are,
    // the shortest is the step.
    let regular = clean().filter(|cuts| cuts.irregular <= MAX_IRREGULAR).min_by(|a, b| {
        let order = a.irregular.total_cmp(&b.irregular).then(b.alike.cmp(&a.alike));
        order.then(b.score.total_cmp(&a.score)).then(a.cuts.cmp(&b.cuts))
    });
    let noisy = || {
        let near = judged.iter().filter(|cuts| cuts.alike >= 3 && cuts.score >= MIN_NOISY_SCORE * best);
        near.min_by(|a, b| {
            let order = a.alike.cmp(&b.alike).then(b.score.total_cmp(&a.score));
            order.then(a.cuts.cmp(&b.cuts))
        })
    };
    let rest = || clean().max_by(|a, b| a.score.total_cmp(&b.score).then(b.cuts.cmp(&a.cuts)));
    let chosen = regular.or_else(noisy).or_else(rest)?;
    let cuts = chosen.cuts.clone();
    let (&begin, &end) = (cuts.first()?, cuts.last()?);
    if end - begin < MIN_LAUNCHES || sequence.covered(begin, end) < chosen.min_covered() {
        return None;
    }
    let alike = chosen.alike as f64;
    // Steps that are alike and not equal, as of a cache that grows, are half as sure.
    let sure = f64::midpoint(1.0 - chosen.irregular, alike / (cuts.len() - 1) as f64);
    Some(StepCuts { cuts, ranges: Vec::new(), confidence: sure * alike / (alike + 1.0) })
}

impl JudgedCuts {
    /// Cuts at launches of one kernel, moved to the first kernel of the step. None if no two stretches are alike.
    fn from_starts(sequence: &LaunchSequence, sketch: &CountSketch, starts: &[usize]) -> Option<Self> {
        let judged = Self::judge(sequence, sketch, starts)?;
        let back = to_first_kernel(sequence, &judged.cuts);
        if back == 0 {
            return Some(judged);
        }
        let moved: Vec<usize> = starts.iter().filter_map(|start| start.checked_sub(back)).collect();
        Self::judge(sequence, sketch, &moved).filter(|moved| moved.score >= judged.score).or(Some(judged))
    }

    /// Judges cuts at some launches. None if no two stretches are alike.
    fn judge(sequence: &LaunchSequence, sketch: &CountSketch, starts: &[usize]) -> Option<Self> {
        let length = sequence.tokens.len();
        let whole: Vec<SketchSums> =
            starts.windows(2).filter_map(|pair| sketch.sums(*pair.first()?, *pair.last()?)).collect();
        let typical = center(&whole);
        let last = *starts.last()?;
        // The last step has no cut behind it: it is as long as most.
        let usual = median(starts.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?)))?;
        let end = last.saturating_add(usual).min(length);
        let tail = sketch.sums(last, end)?;
        let distances: Vec<f64> = whole.iter().chain([&tail]).map(|sums| distance(sums, &typical)).collect();
        let mut cuts = starts.to_vec();
        cuts.push(end);
        let weights: Vec<f64> = cuts.windows(2).map(|pair| sequence.weight(pair[0], pair[1])).collect();
        let (first, behind) = heaviest(&distances, &weights)?;
        let chosen = distances.get(first..behind)?;
        let alike = chosen.iter().filter(|apart| **apart <= MAX_ALIKE).count();
        if alike < 2 {
            return None;
        }
        let weight: f64 = chosen
            .iter()
            .zip(weights.get(first..)?)
            .filter(|(apart, _)| **apart <= MAX_ALIKE)
            .map(|(_, w)| w)
            .sum();
        let irregular = chosen.iter().filter(|apart| **apart > MAX_EQUAL).count() as f64;
        let is_last = length - cuts.get(behind)? <= usual.max(length / END_PART);
        let order = if is_last { 1.0 } else { EARLY_WEIGHT };
        Some(Self {
            cuts: cuts.get(first..=behind)?.to_vec(),
            alike,
            score: weight * order * (usual.min(LONG_STEP) as f64 / LONG_STEP as f64),
            irregular: irregular / chosen.len() as f64,
            is_clean: alike == chosen.len(),
            is_last,
        })
    }

    fn min_covered(&self) -> f64 {
        let is_regular = self.irregular <= MAX_IRREGULAR && self.alike >= MIN_REGULAR_STEPS;
        let launches = self.cuts.last().zip(self.cuts.first()).map_or(0, |(end, begin)| end - begin);
        let is_long = launches >= self.alike * LONG_STEP;
        if self.is_last && is_regular && is_long { MIN_REGULAR_COVERED } else { MIN_COVERED }
    }
}

/// The range of stretches with the most time in those that are alike, less that in all other ones.
fn heaviest(distances: &[f64], weights: &[f64]) -> Option<(usize, usize)> {
    let (mut best, mut range) = (0.0, None);
    let (mut sum, mut begin) = (0.0, 0);
    for (at, (apart, weight)) in distances.iter().zip(weights).enumerate() {
        if sum <= 0.0 {
            (sum, begin) = (0.0, at);
        }
        sum += if *apart <= MAX_ALIKE { *weight } else { -*weight };
        if sum > best {
            (best, range) = (sum, Some((begin, at + 1)));
        }
    }
    range
}

/// The number of launches between the first kernel of the steps and the cuts, which may be at a later one: steps begin
/// earlier while the launch before the first step is that before the second one.
fn to_first_kernel(sequence: &LaunchSequence, cuts: &[usize]) -> usize {
    let &[first, second, ..] = cuts else { return 0 };
    let is_same = |back: &usize| {
        let token = |at: usize| at.checked_sub(*back).and_then(|at| sequence.tokens.get(at));
        token(first).is_some() && token(first) == token(second)
    };
    // No step begins inside one launch of a graph.
    let is_first = |back: &usize| {
        let launch = |at: usize| at.checked_sub(*back).and_then(|at| sequence.launches.get(at));
        [first, second].into_iter().all(|at| launch(at).is_some_and(|launch| launch.is_first))
    };
    (1..(second - first).min(MAX_BACK)).take_while(is_same).filter(is_first).last().unwrap_or(0)
}

/// The value in the middle.
pub(crate) fn median(values: impl Iterator<Item = usize>) -> Option<usize> {
    let mut values: Vec<usize> = values.collect();
    let middle = values.len() / 2;
    (middle < values.len()).then(|| *values.select_nth_unstable(middle).1)
}

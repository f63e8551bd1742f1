//! Steps that the program itself names: ranges around them, and calls of optimizers.

use super::period::{MIN_COVERED, StepCuts};
use super::sequence::LaunchSequence;
use super::sketch::{CountSketch, MAX_ALIKE, SketchSums, center, distance};

/// Steps by ranges around them, in order of their begins: a launch belongs to the last one that had begun at its call.
/// None if most launches are outside.
pub(crate) fn by_ranges(sequence: &LaunchSequence, ranges: &[(i64, i64)]) -> Option<StepCuts> {
    let (_, last_end) = ranges.last()?;
    let mut cuts = Vec::with_capacity(ranges.len() + 1);
    let mut around: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    // Calls of several threads are not quite in order of their times: a step begins with its first launch.
    let mut next = ranges.iter().copied().peekable();
    let mut end = 0;
    for (at, launch) in sequence.launches.iter().enumerate() {
        let Some(call) = launch.call_ns else { continue };
        while let Some(range) = next.next_if(|(begin, _)| *begin <= call) {
            // A range without launches is no step.
            if cuts.last() == Some(&at) {
                around.pop();
            } else {
                cuts.push(at);
            }
            around.push(range);
        }
        if call <= *last_end {
            end = at + 1;
        }
    }
    cuts.push(end.max(cuts.last().copied()?));
    cuts.dedup();
    let nexts: Vec<i64> = around.iter().skip(1).map(|(begin, _)| *begin).collect();
    around.iter_mut().zip(nexts).for_each(|((_, end), next)| *end = next.min(*end));
    let (&begin, &end) = cuts.first().zip(cuts.last())?;
    let are_steps = cuts.len() >= 2 && sequence.covered(begin, end) >= MIN_COVERED;
    are_steps.then_some(StepCuts { cuts, ranges: around, confidence: 1.0 })
}

/// Steps that end with the optimizer. None if fewer than two end so, or if most are unlike each other, as where two
/// optimizers take turns.
pub(crate) fn by_optimizer(sequence: &LaunchSequence) -> Option<StepCuts> {
    let ends = optimizer_ends(sequence);
    let (&first, rest) = ends.split_first()?;
    let sketch = CountSketch::from_tokens(&sequence.tokens);
    let whole: Vec<SketchSums> =
        ends.windows(2).filter_map(|pair| sketch.sums(*pair.first()?, *pair.last()?)).collect();
    let typical = center(&whole);
    let alike = whole.iter().filter(|sums| distance(sums, &typical) <= MAX_ALIKE).count();
    if rest.is_empty() || alike * 3 < whole.len() * 2 {
        return None;
    }
    let begin = first_begin(sequence, &sketch, first, *rest.first()?);
    let mut cuts = vec![begin];
    cuts.extend(ends);
    Some(StepCuts { cuts, ranges: Vec::new(), confidence: 1.0 })
}

/// The launches after which a step of the optimizer is complete.
fn optimizer_ends(sequence: &LaunchSequence) -> Vec<usize> {
    let launches = &sequence.launches;
    let known = || launches.iter().filter_map(|launch| launch.optimizer_steps);
    if known().max() > known().min() && known().min() == Some(0) {
        // The recorder counted them.
        let (mut ends, mut steps) = (Vec::new(), 0);
        for (at, launch) in launches.iter().enumerate() {
            if let Some(count) = launch.optimizer_steps.filter(|count| *count > steps) {
                steps = count;
                ends.push(at);
            }
        }
        let is_behind =
            |at: &usize| launches.get(*at..).is_some_and(|rest| rest.iter().any(|l| l.is_optimizer));
        // The last step has no launch behind it that counts it.
        if ends.last().is_some_and(is_behind) {
            let last = launches.iter().rposition(|launch| launch.is_optimizer);
            ends.extend(last.map(|at| at + 1));
        }
        return ends;
    }
    let is_optimizer = |at: usize| launches.get(at).is_some_and(|launch| launch.is_optimizer);
    (1..=launches.len()).filter(|end| is_optimizer(end - 1) && !is_optimizer(*end)).collect()
}

/// The begin of the first step, which set-up precedes without a mark: where the rest is most like the second step.
///
/// The optimizer is left out: at its first call it creates its state.
fn first_begin(
    sequence: &LaunchSequence,
    sketch: &CountSketch,
    first_end: usize,
    second_end: usize,
) -> usize {
    let optimizer = |begin: usize, end: usize| {
        let launches = sequence.launches.get(begin..end).unwrap_or_default();
        launches.iter().position(|launch| launch.is_optimizer).map_or(end, |at| begin + at)
    };
    let (first_end_less, second_end_less) = (optimizer(0, first_end), optimizer(first_end, second_end));
    let second = sketch.sums(first_end, second_end_less);
    let token = sequence.tokens.get(first_end);
    let begins = (0..first_end_less).filter(|at| sequence.tokens.get(*at) == token);
    let apart = |at: usize| Some(distance(&sketch.sums(at, first_end_less)?, second.as_ref()?));
    let nearest = begins.filter_map(|at| Some((at, apart(at)?))).min_by(|a, b| a.1.total_cmp(&b.1));
    match nearest {
        Some((at, apart)) if apart <= MAX_ALIKE => at,
        _ => first_end.saturating_sub(second_end - first_end),
    }
}

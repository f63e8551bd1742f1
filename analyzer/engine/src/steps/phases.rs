//! Set-up, steps and end of a program, from its steps.

use super::period::{StepCuts, median};
use super::sequence::LaunchSequence;

/// First steps that take longer than this, as a part of the later ones' median, are warm-up.
const WARM_UP: f64 = 1.5;
/// The first of two steps is warm-up only beyond this: nothing shows how much steps vary.
const WARM_UP_OF_TWO: f64 = 2.0;
/// A step of the first third that is so much longer than the later ones' median ends what ran before it: a trial, a check of
/// results, a warm-up of the program's own. It counts only where the sequence of kernels shows the steps. A later one is a
/// pause of the steps themselves, as for a validation.
const PAUSE: f64 = 10.0;

/// The part of a program that a launch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequencePhase {
    /// Before the first step, or a trial of a tuner.
    Setup(SetupPart),
    /// In a step, numbered from 0, with the number of its cut.
    Steady(u32, usize),
    /// Behind the last step.
    End,
    /// In a program that repeats nothing.
    Once,
    /// In a process that repeats nothing, where another one has steps.
    Apart,
}

/// A part of set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupPart {
    /// Everything before the first step but the rest.
    Initialization,
    /// Trials of a tuner, anywhere in the program.
    Tuning,
    /// The first steps, if they take longer than later ones.
    WarmUp,
}

impl SequencePhase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Setup(_) => "setup",
            Self::Steady(..) => "steady",
            Self::End => "end",
            Self::Once => "once",
            Self::Apart => "apart",
        }
    }

    pub(crate) fn setup_part(self) -> Option<&'static str> {
        let Self::Setup(part) = self else { return None };
        Some(match part {
            SetupPart::Initialization => "initialization",
            SetupPart::Tuning => "tuning",
            SetupPart::WarmUp => "warm-up",
        })
    }

    pub(crate) fn step(self) -> Option<u32> {
        if let Self::Steady(step, _) = self { Some(step) } else { None }
    }
}

/// The phase of each launch of a sequence.
pub(crate) fn phases(sequence: &LaunchSequence, steps: Option<&StepCuts>) -> Vec<SequencePhase> {
    let Some(steps) = steps else {
        return std::iter::repeat_n(SequencePhase::Once, sequence.launches.len()).collect();
    };
    let (before, part) = before_steps(sequence, steps);
    let last = steps.cuts.len().saturating_sub(1);
    let phase = |at: usize| match steps.cuts.partition_point(|cut| *cut <= at) {
        0 => SequencePhase::Setup(SetupPart::Initialization),
        passed if passed > last => SequencePhase::End,
        passed if passed <= before => SequencePhase::Setup(part),
        passed => SequencePhase::Steady(u32::try_from(passed - 1 - before).unwrap_or(u32::MAX), passed - 1),
    };
    (0..sequence.launches.len()).map(phase).collect()
}

/// The number of first steps that belong to set-up, and the part of it that they are. At least one step is none.
fn before_steps(sequence: &LaunchSequence, steps: &StepCuts) -> (usize, SetupPart) {
    let spans = spans(sequence, &steps.cuts);
    if spans.len() < 2 {
        return (0, SetupPart::WarmUp);
    }
    let later = spans.get(spans.len() / 2..).unwrap_or_default();
    let Some(usual) = median(later.iter().copied()) else { return (0, SetupPart::WarmUp) };
    let limit = if spans.len() == 2 { WARM_UP_OF_TWO } else { WARM_UP };
    let is_slow = |span: &&usize| **span as f64 > limit * usual as f64;
    let slow = spans.iter().take(spans.len() - 1).take_while(is_slow).count();
    if steps.confidence >= 1.0 {
        return (slow, SetupPart::WarmUp);
    }
    // The pause is before the work of its step, which is like the later ones, and is no part of it.
    let is_behind_pause = |at: &usize| spans.get(*at).is_some_and(|span| *span as f64 > PAUSE * usual as f64);
    let pause = (1..=spans.len() / 3).rev().find(is_behind_pause).filter(|pause| *pause > slow);
    pause.map_or((slow, SetupPart::WarmUp), |pause| (pause, SetupPart::Initialization))
}

/// The time of each step, from the end of the work of the step before it. Of the first step, from the begin of its work.
/// Empty if a step was not timed.
fn spans(sequence: &LaunchSequence, cuts: &[usize]) -> Vec<usize> {
    let mut spans = Vec::with_capacity(cuts.len());
    let mut before: Option<i64> = None;
    for pair in cuts.windows(2) {
        let times = sequence.launches.get(pair[0]..pair[1]).unwrap_or_default();
        let times = || times.iter().filter_map(|launch| launch.gpu_ns);
        let begin = before.or_else(|| times().map(|(begin, _)| begin).min());
        let end = times().map(|(_, end)| end).max();
        let (Some(begin), Some(end)) = (begin, end) else { return Vec::new() };
        spans.push(usize::try_from(end.saturating_sub(begin)).unwrap_or(0));
        before = Some(end.max(begin));
    }
    spans
}

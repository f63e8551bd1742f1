//! Sequences of launches whose steps are known.

use proptest::prelude::*;

use super::nested::steps;
use super::period::StepCuts;
use super::phases::{SequencePhase, SetupPart, phases};
use super::recorded::{by_optimizer, by_ranges};
use super::sequence::{LaunchSequence, SequenceLaunch};

/// Launches of these kernels, one after the other: each takes 1,000 ns, and begins 1,000 ns after the one before ends.
fn launched(kernels: impl IntoIterator<Item = u32>) -> Vec<(u32, SequenceLaunch)> {
    let launch = |(at, kernel): (usize, u32)| {
        let begin = i64::try_from(at).unwrap() * 2_000;
        let launch = SequenceLaunch {
            kernel_id: at as u64,
            gpu_ns: Some((begin, begin + 1_000)),
            call_ns: Some(begin - 500),
            is_first: true,
            ..SequenceLaunch::default()
        };
        (kernel, launch)
    };
    kernels.into_iter().enumerate().map(launch).collect()
}

fn sequence(kernels: impl IntoIterator<Item = u32>) -> LaunchSequence {
    LaunchSequence::from_launches(launched(kernels))
}

fn cuts(kernels: impl IntoIterator<Item = u32>) -> Option<Vec<usize>> {
    steps(&sequence(kernels)).map(|steps| steps.cuts)
}

/// One pass through a model: an embedding, layers of ten kernels, a head.
fn pass(layers: u32) -> Vec<u32> {
    let mut kernels = vec![1, 2];
    for _ in 0..layers {
        kernels.extend(10..20);
    }
    kernels.extend([3, 4, 5]);
    kernels
}

fn repeated(kernels: &[u32], times: usize) -> Vec<u32> {
    kernels.repeat(times)
}

#[test]
fn a_program_without_repetition_has_no_steps() {
    assert_eq!(cuts([]), None);
    assert_eq!(cuts([1, 2, 3]), None);
    assert_eq!(cuts(0..1_000), None);
    // Two equal kernels are no loop.
    assert_eq!(cuts([1, 2, 3, 4, 1, 5, 6, 7, 8, 9, 10]), None);
}

#[test]
fn steps_of_one_kernel_are_steps() {
    assert_eq!(cuts([7; 20]).unwrap().len(), 21);
}

#[test]
fn steps_begin_with_their_first_kernel() {
    let mut kernels: Vec<u32> = (100..140).collect();
    kernels.extend(repeated(&[1, 1, 2, 3, 4, 5, 1, 6, 7, 8], 12));
    let expected: Vec<usize> = (0..=12).map(|step| 40 + step * 10).collect();
    assert_eq!(cuts(kernels.clone()).unwrap(), expected);
    // Work behind the last step is none of its own.
    kernels.extend([200, 201, 202]);
    assert_eq!(cuts(kernels).unwrap(), expected);
}

#[test]
fn layers_are_not_steps() {
    for (layers, passes) in [(4, 2), (6, 3), (32, 5), (80, 3)] {
        let length = pass(layers).len();
        let found = cuts(repeated(&pass(layers), passes)).unwrap();
        let expected: Vec<usize> = (0..=passes).map(|step| step * length).collect();
        assert_eq!(found, expected, "{layers} layers");
    }
}

/// Steps of a loop of `length` launches, `loops` times in each, between other launches. Their begins and the end, too.
fn nested(length: u32, around: u32, loops: &[usize], steps: usize) -> (Vec<u32>, Vec<usize>) {
    let (mut kernels, mut begins): (Vec<u32>, Vec<usize>) = ((500..510).collect(), Vec::new());
    for step in 0..steps {
        begins.push(kernels.len());
        kernels.extend(100..100 + around);
        for _ in 0..loops[step % loops.len()] {
            kernels.extend(0..length);
        }
    }
    begins.push(kernels.len());
    (kernels, begins)
}

#[test]
fn steps_around_short_loops_are_steps() {
    for length in [1, 2, 3, 5, 7] {
        for loops in [&[3_usize][..], &[5], &[20], &[100], &[3, 9, 20, 7], &[2, 30, 4, 100]] {
            for steps in [5, 12] {
                let (kernels, begins) = nested(length, 2, loops, steps);
                assert_eq!(cuts(kernels).unwrap(), begins, "{loops:?} loops of {length}, {steps} steps");
            }
        }
    }
}

#[test]
fn copies_and_waits_end_steps_of_short_loops() {
    let cuts = |length, loops: &[usize], is_marked: &dyn Fn(usize, bool) -> bool| {
        let (kernels, begins) = nested(length, 0, loops, 12);
        let mut launches = launched(kernels);
        for (at, (_, launch)) in launches.iter_mut().enumerate() {
            launch.is_behind_copy = is_marked(at, begins.contains(&at));
        }
        (steps(&LaunchSequence::from_launches(launches)).unwrap().cuts, begins)
    };
    for loops in [&[3_usize][..], &[10], &[2, 5, 4]] {
        let (found, begins) = cuts(2, loops, &|_, is_begin| is_begin);
        assert_eq!(found, begins, "{loops:?}");
        // A copy of each repetition is part of the loop.
        let (found, _) = cuts(2, loops, &|at, _| at % 2 == 0);
        assert_eq!(found.len() - 1, loops.iter().sum::<usize>() * 12 / loops.len(), "{loops:?}");
    }
    // Results that are read now and then, and loops of whole steps.
    assert_eq!(cuts(2, &[50], &|_, is_begin| is_begin).0.len(), 50 * 12 + 1);
    assert_eq!(cuts(12, &[4], &|_, is_begin| is_begin).0.len(), 4 * 12 + 1);
}

#[test]
fn training_is_cut_by_steps_and_not_by_layers_of_either_direction() {
    let mut step = pass(12);
    for _ in 0..12 {
        step.extend(30..48);
    }
    step.extend([50; 8]);
    let found = cuts(repeated(&step, 6)).unwrap();
    assert_eq!(found.len(), 7);
    assert_eq!(found[1] - found[0], step.len());
}

#[test]
fn set_up_precedes_the_steps() {
    // Weights of 200 parameters, drawn with one kernel, then a pass that tunes.
    let mut kernels = vec![90; 200];
    kernels.extend(60..80);
    let begin = kernels.len();
    kernels.extend(repeated(&pass(8), 10));
    let found = cuts(kernels).unwrap();
    assert_eq!((found[0], found.len()), (begin, 11));
}

#[test]
fn set_up_can_be_longer_than_all_steps() {
    // Eight passes behind weights that take 94 % of the launches and of the time.
    let mut kernels = vec![90; 12_000];
    let begin = kernels.len();
    kernels.extend(repeated(&pass(8), 8));
    let found = cuts(kernels).unwrap();
    assert_eq!((found[0], found.len()), (begin, 9));
}

#[test]
fn a_step_with_other_kernels_is_a_step() {
    let plain = pass(6);
    let mut kernels = Vec::new();
    for step in 0..20 {
        kernels.extend(&plain);
        // A log now and then, and a checkpoint once.
        if step == 3 || step == 11 {
            kernels.extend([70, 71]);
        }
        if step == 7 {
            kernels.extend(300..400);
        }
    }
    let steps = steps(&sequence(kernels)).unwrap();
    assert_eq!(steps.cuts.len(), 21);
    assert!(steps.confidence > 0.7, "{}", steps.confidence);
}

#[test]
fn one_call_of_a_graph_is_not_cut() {
    let mut launches = launched(repeated(&pass(8), 4));
    let length = pass(8).len();
    for (at, (_, launch)) in launches.iter_mut().enumerate() {
        launch.is_first = at % length == 0;
    }
    let cuts = steps(&LaunchSequence::from_launches(launches)).unwrap().cuts;
    assert_eq!(cuts, [0, length, 2 * length, 3 * length, 4 * length]);
    // A kernel in front of each launch of the graph, which other steps end with, too: the cut moves over it, and not into
    // the graph before.
    let mut kernels = vec![100, 5, 90];
    kernels.extend(repeated(&[pass(8), vec![90]].concat(), 4));
    let mut launches = launched(kernels);
    for (at, (kernel, launch)) in launches.iter_mut().enumerate() {
        launch.is_first = at < 3 || *kernel == 90 || (at - 3) % (length + 1) == 0;
    }
    let cuts = steps(&LaunchSequence::from_launches(launches)).unwrap().cuts;
    assert_eq!(cuts[..3], [2, length + 3, 2 * length + 4]);
    // One launch of a graph repeats nothing.
    let mut launches = launched(pass(32));
    launches.iter_mut().skip(1).for_each(|(_, launch)| launch.is_first = false);
    assert_eq!(steps(&LaunchSequence::from_launches(launches)), None);
}

#[test]
fn optimizers_end_steps_and_the_first_begins_where_it_looks_like_the_rest() {
    let mut kernels: Vec<u32> = (100..130).collect();
    // The first step of the optimizer creates its state.
    kernels.extend([1, 2, 3, 4, 5, 6]);
    kernels.extend(repeated(&[8], 50));
    kernels.extend([7, 7]);
    kernels.extend(repeated(&[1, 2, 3, 4, 5, 6, 7, 7], 2));
    kernels.push(99);
    let mut launches = launched(kernels);
    for (kernel, launch) in &mut launches {
        launch.is_optimizer = [7, 8].contains(kernel);
    }
    let found = by_optimizer(&LaunchSequence::from_launches(launches.clone())).unwrap();
    assert_eq!(found.cuts, [30, 88, 96, 104]);
    // The recorder's numbers give the same.
    for (at, (_, launch)) in launches.iter_mut().enumerate() {
        launch.optimizer_steps = Some(found.cuts.iter().skip(1).map(|cut| u32::from(*cut <= at)).sum());
    }
    assert_eq!(by_optimizer(&LaunchSequence::from_launches(launches)).unwrap().cuts, found.cuts);
}

#[test]
fn optimizers_that_take_turns_end_no_steps() {
    let mut launches = launched(repeated(&[1, 2, 3, 4, 9, 11, 12, 13, 14, 15, 16, 17, 18, 9], 4));
    for (kernel, launch) in &mut launches {
        launch.is_optimizer = *kernel == 9;
    }
    let sequence = LaunchSequence::from_launches(launches);
    assert_eq!(by_optimizer(&sequence), None);
    assert_eq!(steps(&sequence).unwrap().cuts.len(), 5);
}

#[test]
fn ranges_cut_at_calls() {
    let sequence = sequence(0..10);
    // Calls are at -500, 1,500, 3,500 ns and so on.
    let cuts = |ranges: &[(i64, i64)]| by_ranges(&sequence, ranges).map(|steps| steps.cuts);
    assert_eq!(cuts(&[(3_000, 7_000), (7_000, 12_000)]).unwrap(), [2, 4, 7]);
    assert_eq!(cuts(&[(3_000, 3_100), (3_200, 12_000)]).unwrap(), [2, 7], "a range without launches");
    let around = |ranges: &[(i64, i64)]| by_ranges(&sequence, ranges).map(|steps| steps.ranges);
    assert_eq!(around(&[(3_000, 3_100), (3_200, 12_000)]).unwrap(), [(3_200, 12_000)]);
    assert_eq!(around(&[(3_000, 8_000), (7_000, 12_000)]).unwrap(), [(3_000, 7_000), (7_000, 12_000)]);
    assert_eq!(cuts(&[(100_000, 200_000)]), None);
}

#[test]
fn slow_first_steps_are_warm_up() {
    let mut launches = launched(repeated(&[1, 2, 3, 4], 6));
    for (at, (_, launch)) in launches.iter_mut().enumerate() {
        // The first step takes ten times as long.
        let begin = i64::try_from(at.min(7) * 10_000 + at.saturating_sub(7) * 1_000).unwrap();
        launch.gpu_ns = Some((begin, begin + 900));
    }
    let sequence = LaunchSequence::from_launches(launches);
    let steps =
        StepCuts { cuts: (1..=5).map(|step| step * 4).collect(), ranges: Vec::new(), confidence: 1.0 };
    let found = phases(&sequence, Some(&steps));
    assert_eq!(found[0], SequencePhase::Setup(SetupPart::Initialization));
    assert_eq!(found[4], SequencePhase::Setup(SetupPart::WarmUp));
    assert_eq!(found[8], SequencePhase::Steady(0, 1));
    assert_eq!(found[19], SequencePhase::Steady(2, 3));
    assert_eq!(found[20], SequencePhase::End);
    assert_eq!(phases(&sequence, None)[0], SequencePhase::Once);
}

#[test]
fn a_pause_ends_what_ran_before_the_steps() {
    let step = pass(2);
    let mut launches = launched(repeated(&step, 29));
    let begin = 5 * step.len();
    for (_, launch) in launches.iter_mut().skip(begin) {
        launch.gpu_ns = launch.gpu_ns.map(|(begin, end)| (begin + 10_000_000, end + 10_000_000));
    }
    let sequence = LaunchSequence::from_launches(launches);
    let found = phases(&sequence, steps(&sequence).as_ref());
    assert_eq!(found[begin - 1], SequencePhase::Setup(SetupPart::Initialization));
    assert_eq!(found[begin], SequencePhase::Steady(0, 5));
    assert_eq!(found.last(), Some(&SequencePhase::Steady(23, 28)));
}

proptest! {
    /// A loop is found behind any set-up of other kernels, whatever its kernels are.
    #[test]
    fn loops_are_found(
        setup in 0_u32..30,
        step in prop::collection::vec(0_u32..40, 4..40),
        times in 3_usize..12,
    ) {
        prop_assume!((0..step.len()).any(|at| step.iter().filter(|&&kernel| kernel == step[at]).count() == 1));
        // A third of the launches or more are in steps.
        prop_assume!(setup as usize <= step.len() * times);
        // Neither halves nor thirds of the step may be alike.
        prop_assume!((1..step.len()).all(|back| step.iter().cycle().skip(back).take(step.len()).ne(step.iter())));
        let mut kernels: Vec<u32> = (100..100 + setup).collect();
        let begin = kernels.len();
        kernels.extend(step.repeat(times));
        let found = cuts(kernels).unwrap();
        let expected: Vec<usize> = (0..=times).map(|at| begin + at * step.len()).collect();
        prop_assert_eq!(found, expected);
    }

    /// Any sequence has an answer, and its cuts are in order and inside of it.
    #[test]
    fn cuts_are_in_order(kernels in prop::collection::vec(0_u32..6, 0..200)) {
        let length = kernels.len();
        if let Some(cuts) = cuts(kernels) {
            prop_assert!(cuts.is_sorted_by(|a, b| a < b) && cuts.last() <= Some(&length));
        }
    }
}

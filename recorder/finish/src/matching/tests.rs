use proptest::prelude::*;
use stallmap_schema::word::Phase;

use super::*;

/// A launch before it is described with others.
struct TestLaunch {
    kernel_id: u64,
    thread_id: u32,
    likeness: LaunchLikeness,
}

/// A launch of thread 0 on device 0.
fn launch(kernel_id: u64, function: u64) -> TestLaunch {
    let likeness = LaunchLikeness {
        function_id: FunctionId(function),
        shape: [1, 1, 1, 32, 1, 1],
        node: None,
        device_id: 0,
        dynamic_shared_bytes: Some(0),
        state: None,
        op_name: None,
        is_trial: false,
    };
    TestLaunch { kernel_id, thread_id: 0, likeness }
}

fn on(thread_id: u32, device_id: i32, launch: TestLaunch) -> TestLaunch {
    TestLaunch { thread_id, likeness: LaunchLikeness { device_id, ..launch.likeness }, ..launch }
}

fn shared(bytes: Option<u32>, launch: TestLaunch) -> TestLaunch {
    TestLaunch { likeness: LaunchLikeness { dynamic_shared_bytes: bytes, ..launch.likeness }, ..launch }
}

fn node(node: u32, launch: TestLaunch) -> TestLaunch {
    TestLaunch { likeness: LaunchLikeness { node: Some((Some(0), Some(node))), ..launch.likeness }, ..launch }
}

fn op(name: &str, mut launch: TestLaunch) -> TestLaunch {
    launch.likeness.op_name = Some(name.into());
    launch
}

/// A run of launches. The ordinal of each is its kernel_id.
fn described(run: &[TestLaunch]) -> DescribedLaunches {
    let mut numbers = LikenessNumbers::default();
    let mut launches = Vec::new();
    for TestLaunch { kernel_id, thread_id, likeness } in run {
        launches.push(DescribedLaunch {
            kernel_id: KernelId(*kernel_id),
            ordinal: *kernel_id,
            thread_id: *thread_id,
            op_id: None,
            likeness: numbers.number(likeness.clone()),
        });
    }
    DescribedLaunches { likenesses: numbers.into_likenesses(), launches }
}

type MatchLaunches = fn(&DescribedLaunches, &DescribedLaunches) -> MatchedRun;

/// The reference of each launch of the run, in their order.
fn matched_by(
    by: MatchLaunches,
    reference: &[TestLaunch],
    run: &[TestLaunch],
) -> Vec<Result<u64, &'static str>> {
    let matches = by(&described(reference), &described(run)).matches;
    let found = |launch: &TestLaunch| matches[&KernelId(launch.kernel_id)].map(|kernel_id| kernel_id.0);
    run.iter().map(found).collect()
}

fn matched(reference: &[TestLaunch], run: &[TestLaunch]) -> Vec<Result<u64, &'static str>> {
    matched_by(match_launches, reference, run)
}

#[test]
fn threads_that_race_are_never_matched_across_devices() {
    // The thread of device 1 came first in the second run.
    let reference = [on(0, 0, launch(0, 7)), on(1, 1, launch(1, 7))];
    let run = [on(0, 1, launch(10, 7)), on(1, 0, launch(11, 7))];
    assert_eq!(matched(&reference, &run), [Ok(1), Ok(0)]);
    assert_eq!(matched(&reference[..1], &run[..1]), [Err("other device")]);
}

#[test]
fn threads_are_matched_by_what_they_launch() {
    let reference =
        [on(0, 0, launch(0, 7)), on(0, 0, launch(1, 8)), on(1, 0, launch(2, 7)), on(1, 0, launch(3, 9))];
    // The same two threads, numbered the other way round.
    let run =
        [on(0, 0, launch(10, 7)), on(0, 0, launch(11, 9)), on(1, 0, launch(12, 7)), on(1, 0, launch(13, 8))];
    assert_eq!(matched(&reference, &run), [Ok(2), Ok(3), Ok(0), Ok(1)]);
}

#[test]
fn equal_threads_keep_their_numbers() {
    let reference = [on(0, 0, launch(0, 7)), on(1, 0, launch(1, 7)), on(2, 0, launch(2, 7))];
    let run = [on(2, 0, launch(10, 7)), on(0, 0, launch(11, 7)), on(5, 0, launch(12, 7))];
    assert_eq!(matched(&reference, &run), [Ok(2), Ok(0), Ok(1)]);
}

#[test]
fn shared_memory_counts_where_both_runs_know_it() {
    let reference = [shared(Some(64), launch(0, 7)), shared(Some(128), launch(1, 7))];
    let swapped = [shared(Some(128), launch(10, 7)), shared(Some(64), launch(11, 7))];
    assert_eq!(matched(&reference, &swapped), [Ok(1), Ok(0)]);
    let unknown = [shared(None, launch(10, 7)), shared(None, launch(11, 7))];
    assert_eq!(matched(&reference, &unknown), [Ok(0), Ok(1)]);
    let other = [shared(Some(256), launch(10, 7))];
    assert_eq!(matched(&reference, &other), [Err("other dynamic shared memory")]);
}

#[test]
fn nodes_match_nodes_only() {
    let reference = [launch(0, 7), node(0, launch(1, 7)), node(1, launch(2, 7))];
    let run = [node(1, launch(10, 7)), node(0, launch(11, 7)), node(1, launch(12, 7)), launch(13, 7)];
    let too_many = Err("more occurrences than the reference run");
    assert_eq!(matched(&reference, &run), [Ok(2), Ok(1), too_many, Ok(0)]);
    assert_eq!(matched(&reference, &[node(5, launch(10, 7))]), [Err("other graph or node")]);
}

#[test]
fn reasons_name_the_first_difference() {
    let reference = [launch(0, 7)];
    assert_eq!(matched(&reference, &[launch(10, 8)]), [Err("function not launched in reference run")]);
    let mut run = [launch(10, 7), launch(11, 7), launch(12, 7)];
    run[0].likeness.shape[0] = 2;
    run[1].likeness.op_name = Some("aten::mm".into());
    assert_eq!(
        matched(&reference, &run),
        [Err("other grid or block"), Err("other python state or op"), Ok(0)]
    );
}

#[test]
fn launches_of_one_likeness_share_it() {
    let run = described(&[launch(0, 7), launch(1, 8), launch(2, 7), on(1, 0, launch(3, 7))]);
    assert_eq!(run.likenesses.len(), 2);
    assert_eq!(run.launches.iter().map(|launch| launch.likeness).collect::<Vec<_>>(), [0, 1, 0, 0]);
}

#[test]
fn without_python_as_many_must_be_alike() {
    let reference =
        [op("a", launch(0, 7)), op("b", launch(1, 7)), op("a", launch(2, 8)), op("b", launch(3, 8))];
    let run = [launch(10, 7), launch(11, 7), launch(12, 8)];
    let other = Err("another number of such launches in the reference run");
    assert_eq!(matched_by(match_without_python, &reference, &run), [Ok(0), Ok(1), other]);
    // One that does not know its shared memory matches, but is no longer as many as those that do.
    let run = [launch(10, 7), shared(None, launch(11, 7))];
    assert_eq!(matched_by(match_without_python, &reference, &run), [other, other]);
}

#[test]
fn trials_of_a_tuner_are_no_launches_of_the_program() {
    let trial = |mut launch: TestLaunch| {
        launch.likeness.is_trial = true;
        launch
    };
    let reference = described(&[trial(launch(0, 1)), trial(launch(1, 1)), launch(2, 1), launch(3, 1)]);
    let run = described(&[launch(10, 1), launch(11, 1)]);
    let matches = match_without_python(&reference, &run).matches;
    assert_eq!(matches.into_values().collect::<Vec<_>>(), [Ok(KernelId(2)), Ok(KernelId(3))]);
}

#[test]
fn ops_inside_of_trials_are_trials() {
    let op = |op_id, parent: Option<u64>, kind| Op {
        op_id: OpId(op_id),
        kind,
        name: "op".into(),
        parent_op_id: parent.map(OpId),
        phase: Phase::Forward,
        ..Op::default()
    };
    let ops = [op(3, Some(2), OpKind::Torch), op(1, None, OpKind::Torch), op(2, Some(1), OpKind::Tuning)];
    let trials: Vec<bool> = describe_ops(&ops, &BTreeSet::new()).values().map(|op| op.is_trial).collect();
    assert_eq!(trials, [false, true, true]);
}

/// Each letter is a launch of a function.
fn letters(first: u64, functions: &str) -> Vec<TestLaunch> {
    functions.bytes().zip(first..).map(|(function, kernel_id)| launch(kernel_id, function.into())).collect()
}

fn matched_letters(reference: &str, run: &str) -> (Vec<Option<u64>>, Vec<(u64, u64)>) {
    let (reference, launches) = (letters(0, reference), letters(100, run));
    let MatchedRun { matches, positions } =
        match_without_python(&described(&reference), &described(&launches));
    let found = matches.into_values().map(|found| found.ok().map(|kernel_id| kernel_id.0)).collect();
    (found, positions.into_iter().map(|(one, two)| (one.0, two.0)).collect())
}

#[test]
fn matches_of_a_thread_are_in_order() {
    // Data decides which of x and y runs in a step. By their number, the first x would be that of another step.
    let (found, positions) = matched_letters("axbaxbaybayb", "aybaxbaxbayb");
    let expected =
        [0, 99, 2, 3, 4, 5, 6, 99, 8, 9, 10, 11].map(|kernel_id| (kernel_id != 99).then_some(kernel_id));
    assert_eq!(found, expected);
    assert_eq!(positions, [(101, 1), (107, 7)]);
    // A kind of which the runs have not as many matches between others, and a longer gap has no positions.
    let (found, positions) = matched_letters("abcxdab", "abcxxdxab");
    assert_eq!(found, [0, 1, 2, 99, 99, 4, 99, 5, 6].map(|kernel_id| (kernel_id != 99).then_some(kernel_id)));
    assert_eq!(positions, []);
    let (found, _) = matched_letters("abxcdab", "abxcdxab");
    assert_eq!(found, [0, 1, 2, 3, 4, 99, 5, 6].map(|kernel_id| (kernel_id != 99).then_some(kernel_id)));
}

#[test]
fn threads_that_share_work_match_in_any_order() {
    let (found, positions) = matched_letters("abcd", "dcba");
    assert_eq!(found, [Some(3), Some(2), Some(1), Some(0)]);
    assert_eq!(positions, []);
}

proptest! {
    #[test]
    fn matches_are_equal_and_no_launch_is_taken_twice(
        reference in "[a-d]{0,40}", run in "[a-d]{0,40}", python in any::<bool>(),
    ) {
        let (ours, launches) = (letters(0, &reference), letters(100, &run));
        let by: MatchLaunches = if python { match_launches } else { match_without_python };
        let MatchedRun { matches, positions } = by(&described(&ours), &described(&launches));
        prop_assert_eq!(matches.len(), run.len());
        let mut taken = BTreeSet::new();
        for (own, other) in matches.iter().filter_map(|(own, found)| Some((own.0, found.ok()?.0))) {
            let letter = |text: &str, index: u64| text.chars().nth(usize::try_from(index).unwrap());
            prop_assert_eq!(letter(&run, own - 100), letter(&reference, other));
            prop_assert!(taken.insert(other));
        }
        for (own, other) in positions {
            prop_assert!(matches[&own].is_err() && taken.insert(other.0));
        }
    }
}

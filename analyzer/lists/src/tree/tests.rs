//! Totals add up with any filter, and drawings match.

use proptest::prelude::*;
use regex::Regex;

use super::cost::{CaptureSide, GivenWork, LaunchCost, PairedCosts};
use super::draw::{TreeDrawing, draw};
use super::forest::PathForest;
use super::path::{LaunchPaths, PathLaunch, paths};
use super::row::{RowChoice, TreeRow, TreeRowKind};
use super::{flat, prune};
use stallmap_console::args::tree::{FrameName, TreeLevel, TreeMetric, TreeSort};
use stallmap_console::output::TableCanvas;
use stallmap_console::output::paint::TextPaint;

const LEVELS: [TreeLevel; 3] = [TreeLevel::Python, TreeLevel::Op, TreeLevel::Kernel];
const EVERYTHING: RowChoice<'static> = RowChoice {
    include: None,
    exclude: None,
    threshold: 0.0,
    depth: usize::MAX,
    top: usize::MAX,
    metric: TreeMetric::Samples,
    sort: TreeSort::Metric(TreeMetric::Samples),
    is_diff: false,
};

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn launch(frames: &[&str], ops: &[&str], kernel: &str, samples: u32) -> PathLaunch {
    let samples = f64::from(samples);
    PathLaunch {
        frames: texts(frames),
        ops: texts(ops),
        kernel: Some(kernel.to_owned()),
        cost: LaunchCost {
            samples,
            memory_samples: (samples / 2.0).floor(),
            time_ns: samples * 3.0,
            launches: 1.0,
            ..LaunchCost::default()
        },
        ..PathLaunch::default()
    }
}

/// A training step: two lines, one of them through a recursive function.
fn step() -> Vec<PathLaunch> {
    vec![
        launch(&["t.py:9 main", "t.py:3 f"], &["aten::mm"], "gemm", 60),
        launch(&["t.py:9 main", "t.py:3 f", "t.py:3 f"], &["aten::mm"], "gemm", 20),
        launch(&["t.py:9 main", "t.py:4 g"], &["aten::add"], "add", 15),
        launch(&["t.py:9 main"], &[], "fill", 5),
    ]
}

fn launches_after(after: Vec<PathLaunch>) -> LaunchPaths {
    paths(&[(CaptureSide::After, after)], &LEVELS, FrameName::FileFunctionLine)
}

fn between(before: Vec<PathLaunch>, after: Vec<PathLaunch>) -> LaunchPaths {
    paths(&[(CaptureSide::Before, before), (CaptureSide::After, after)], &LEVELS, FrameName::FileFunctionLine)
}

fn tree(paths: &LaunchPaths, is_bottom_up: bool, choice: &RowChoice<'_>) -> Vec<TreeRow> {
    prune::rows(&PathForest::from_paths(paths, is_bottom_up), &paths.steps, choice)
}

fn picture(paths: &LaunchPaths, rows: &[TreeRow], is_diff: bool) -> String {
    let picture =
        TreeDrawing { steps: &paths.steps, metrics: &[TreeMetric::Samples], is_diff, header: "path" };
    draw(rows, &picture, TableCanvas { width: None, paint: TextPaint::PLAIN })
}

#[track_caller]
fn check_picture(paths: &LaunchPaths, rows: &[TreeRow], is_diff: bool, expected: &str) {
    assert_eq!(picture(paths, rows, is_diff), expected);
}

fn whole(paths: &LaunchPaths) -> PairedCosts {
    let mut whole = PairedCosts::default();
    paths.paths.iter().for_each(|path| whole.add(&path.cost));
    whole
}

/// Exclusive values add up to the total, and in a tree, parents equal their exclusive value plus their children.
fn check_totals(paths: &LaunchPaths, rows: &[TreeRow], is_tree: bool) {
    let mut below: Vec<PairedCosts> = rows.iter().map(|row| row.own).collect();
    let mut owned = PairedCosts::default();
    for row in rows {
        owned.add(&row.own);
        if let Some(parent) = row.parent {
            below[parent].add(&row.total);
        }
    }
    assert_eq!(owned, whole(paths), "what rows own");
    assert_eq!(rows[0].total, whole(paths), "the first row");
    if is_tree {
        for (row, below) in
            rows.iter().zip(&below).filter(|(row, _)| !matches!(row.what, TreeRowKind::Hidden(..)))
        {
            assert_eq!(row.total, *below, "{:?}", row.what);
        }
    }
}

fn any_launches() -> impl Strategy<Value = Vec<PathLaunch>> {
    let names = |names: &'static [&'static str], most: usize| {
        prop::collection::vec(prop::sample::select(names), 0..=most)
    };
    let one =
        (names(&["a.py:1 a", "a.py:2 b", "b.py:1 c", "a b"], 6), names(&["x", "y::z"], 2), 0..4, 0..50_u32);
    let one =
        one.prop_map(|(frames, ops, kernel, samples)| launch(&frames, &ops, &format!("k{kernel}"), samples));
    prop::collection::vec(one, 0..40)
}

fn any_regex() -> impl Strategy<Value = Option<Regex>> {
    let texts = ["a", "b.py", "^k[01]$", "z", "nothing", ""];
    prop::option::of(prop::sample::select(texts.to_vec()).prop_map(|text| Regex::new(text).unwrap()))
}

fn any_sort() -> impl Strategy<Value = TreeSort> {
    let metrics = [TreeMetric::Samples, TreeMetric::MemoryShare, TreeMetric::TimePerLaunch];
    prop_oneof![prop::sample::select(metrics.to_vec()).prop_map(TreeSort::Metric), Just(TreeSort::Name)]
}

proptest! {
    #[test]
    fn whatever_is_hidden_rows_add_up_to_all_launches(
        before in any_launches(),
        after in any_launches(),
        (include, exclude) in (any_regex(), any_regex()),
        threshold in prop::sample::select(vec![0.0, 0.01, 0.2, 1.0]),
        depth in prop::sample::select(vec![1, 2, 5, usize::MAX]),
        top in prop::sample::select(vec![1, 4, usize::MAX]),
        sort in any_sort(),
        (is_diff, is_bottom_up) in any::<(bool, bool)>(),
    ) {
        let paths = if is_diff { between(before, after) } else { launches_after(after) };
        let choice = RowChoice {
            include: include.as_ref(),
            exclude: exclude.as_ref(),
            threshold,
            depth,
            top,
            metric: TreeMetric::Samples,
            sort,
            is_diff,
        };
        let rows = tree(&paths, is_bottom_up, &choice);
        check_totals(&paths, &rows, true);
        let names = flat::rows(&paths, &choice);
        check_totals(&paths, &names, false);
        for rows in [&rows, &names] {
            prop_assert!(rows.iter().filter(|row| matches!(row.what, TreeRowKind::Step(_))).count() <= top);
        }
        prop_assert!(rows.iter().all(|row| row.depth <= depth.saturating_add(1)));
        let lines = picture(&paths, &rows, is_diff).lines().count();
        prop_assert!(lines <= rows.len() + 2 && lines >= 3);
    }

    #[test]
    fn a_capture_does_not_differ_from_itself(launches in any_launches()) {
        let paths = between(launches.clone(), launches);
        let choice = RowChoice { is_diff: true, ..EVERYTHING };
        for rows in [tree(&paths, false, &choice), tree(&paths, true, &choice), flat::rows(&paths, &choice)] {
            for row in rows {
                prop_assert_eq!(row.total.before, row.total.after);
            }
        }
    }

    #[test]
    fn nothing_is_hidden_where_nothing_is_asked_for(launches in any_launches(), is_bottom_up in any::<bool>()) {
        let paths = launches_after(launches);
        let forest = PathForest::from_paths(&paths, is_bottom_up);
        let rows = tree(&paths, is_bottom_up, &EVERYTHING);
        prop_assert_eq!(rows.len(), forest.nodes().len());
        prop_assert!(!rows.iter().any(|row| matches!(row.what, TreeRowKind::Hidden(..))));
    }
}

#[test]
fn chains_stay_at_their_place_and_branchings_are_drawn() {
    let paths = launches_after(step());
    let expected = "  share  samples  self  path
───────  ───────  ────  ────
100.0 %      100     -  all launches
100.0 %      100     -  t.py:9 main
 80.0 %       80     -  ├─ t.py:3 f
 60.0 %       60     -  │  ├─ aten::mm
 60.0 %       60    60  │  │  gemm
 20.0 %       20     -  │  └─ t.py:3 f
 20.0 %       20     -  │     aten::mm
 20.0 %       20    20  │     gemm
 15.0 %       15     -  ├─ t.py:4 g
 15.0 %       15     -  │  aten::add
 15.0 %       15    15  │  add
  5.0 %        5     -  └─ (outside any operator)
  5.0 %        5     5     fill
";
    check_picture(&paths, &tree(&paths, false, &EVERYTHING), false, expected);
}

#[test]
fn callers_are_below_what_they_call() {
    let paths = launches_after(step());
    let expected = "  share  samples  self  path
───────  ───────  ────  ────
100.0 %      100     -  all launches
 80.0 %       80     -  ├─ gemm … 1 deeper
 15.0 %       15     -  ├─ add … 1 deeper
  5.0 %        5     -  └─ fill … 1 deeper
";
    check_picture(&paths, &tree(&paths, true, &RowChoice { depth: 1, ..EVERYTHING }), false, expected);
}

#[test]
fn what_filters_hide_has_rows_of_its_own() {
    let paths = launches_after(step());
    let (include, exclude) = (Regex::new("f$").unwrap(), Regex::new("^fill$").unwrap());
    let included = RowChoice { include: Some(&include), depth: 2, ..EVERYTHING };
    let expected = "  share  samples  self  path
───────  ───────  ────  ────
100.0 %      100     -  all launches
100.0 %      100     -  t.py:9 main
 80.0 %       80     -  ├─ t.py:3 f … 2 deeper
 20.0 %       20     -  └─ (2 not included)
";
    check_picture(&paths, &tree(&paths, false, &included), false, expected);
    let excluded = RowChoice { exclude: Some(&exclude), threshold: 0.5, ..EVERYTHING };
    let expected = "  share  samples  self  path
───────  ───────  ────  ────
100.0 %      100     -  all launches
100.0 %      100     -  t.py:9 main
 80.0 %       80     -  ├─ t.py:3 f
 60.0 %       60     -  │  ├─ aten::mm
 60.0 %       60    60  │  │  gemm
 20.0 %       20     -  │  └─ (1 below the threshold)
 20.0 %       20     -  └─ (2 below the threshold)
";
    check_picture(&paths, &tree(&paths, false, &excluded), false, expected);
}

#[test]
fn the_costliest_rows_have_the_paths_to_them() {
    let paths = launches_after(step());
    let expected = "  share  samples  self  path
───────  ───────  ────  ────
100.0 %      100     -  all launches
100.0 %      100     -  t.py:9 main
 80.0 %       80     -  ├─ t.py:3 f
 60.0 %       60     -  │  ├─ aten::mm
 60.0 %       60     -  │  │  (1 more)
 20.0 %       20     -  │  └─ (1 more)
 20.0 %       20     -  └─ (2 more)
";
    let few = RowChoice { top: 3, ..EVERYTHING };
    check_picture(&paths, &tree(&paths, false, &few), false, expected);
    let names = |top| {
        let rows = flat::rows(&paths, &RowChoice { top, ..EVERYTHING });
        check_totals(&paths, &rows, false);
        rows.iter().map(|row| row.what.name(&paths.steps)).collect::<Vec<_>>()
    };
    assert_eq!(names(2), ["all launches", "t.py:9 main", "t.py:3 f", "(7 more)"]);
    assert_eq!(names(8).len(), names(usize::MAX).len());
}

#[test]
fn a_recursive_function_is_counted_once_a_path() {
    let paths = launches_after(step());
    let rows = flat::rows(&paths, &EVERYTHING);
    let total = |name: &str| {
        rows.iter().find(|row| row.what.name(&paths.steps) == name).map(|row| row.total.after.samples)
    };
    assert_eq!(
        [total("t.py:3 f"), total("t.py:9 main"), total("gemm")],
        [Some(80.0), Some(100.0), Some(80.0)]
    );
}

#[test]
fn what_is_new_and_what_is_gone_is_part_of_the_change() {
    let mut after = step();
    after.remove(2);
    after[0].cost.samples = 30.0;
    after.push(launch(&["t.py:9 main", "t.py:4 g"], &["aten::sub"], "sub", 10));
    let paths = between(step(), after);
    let rows = tree(&paths, false, &RowChoice { is_diff: true, threshold: 0.1, ..EVERYTHING });
    let expected = "samples before  after  change  ratio  low  high  path
──────────────  ─────  ──────  ─────  ───  ────  ────
           100     65     -35      -    -     -  all launches
           100     65     -35      -    -     -  t.py:9 main
            80     50     -30      -    -     -  ├─ t.py:3 f
            60     30     -30      -    -     -  │  ├─ aten::mm
            60     30     -30      -    -     -  │  │  gemm
            20     20       0      -    -     -  │  └─ (1 below the threshold)
            15     10      -5      -    -     -  ├─ t.py:4 g
            15      0     -15      -    -     -  │  ├─ aten::add  [removed]
            15      0     -15      -    -     -  │  │  add  [removed]
             0     10     +10      -    -     -  │  └─ aten::sub  [added]
             0     10     +10      -    -     -  │     sub  [added]
             5      5       0      -    -     -  └─ (1 below the threshold)
";
    check_picture(&paths, &rows, true, expected);
}

#[test]
fn ratios_are_made_anew_of_sums() {
    let costs = PairedCosts {
        before: LaunchCost { samples: 100.0, memory_samples: 50.0, ..LaunchCost::default() },
        after: LaunchCost { samples: 10.0, memory_samples: 1.0, ..LaunchCost::default() },
    };
    let mut sum = costs;
    sum.add(&costs);
    assert_eq!(sum.after.value(TreeMetric::MemoryShare), Some(0.1));
    assert_eq!(sum.change(TreeMetric::MemoryShare), Some(0.1 - 0.5));
    assert_eq!(sum.change(TreeMetric::TimePerLaunch), None);
}

#[test]
fn a_rate_is_that_of_the_launches_that_have_work() {
    let given = |work, time_ns| LaunchCost {
        time_ns,
        flops: GivenWork { work, time_ns: if work > 0.0 { time_ns } else { 0.0 } },
        ..LaunchCost::default()
    };
    let mut sum = given(6e9, 1e6);
    sum.add(&given(2e9, 3e6));
    sum.add(&given(0.0, 50e6));
    assert_eq!((sum.value(TreeMetric::Flops), sum.value(TreeMetric::FlopRate)), (Some(8e9), Some(2e12)));
    assert_eq!((sum.value(TreeMetric::Bytes), sum.value(TreeMetric::ByteRate)), (None, None));
}

#[test]
fn twenty_thousand_nodes_are_a_tree() {
    let launches = (0..6_500_u32).map(|number| {
        let frames = ["main".to_owned(), format!("stage{}", number / 100), format!("block{}", number / 10)];
        let frames = frames.into_iter().chain([format!("layer{number}"), format!("leaf{number}")]);
        PathLaunch { frames: frames.collect(), ..launch(&[], &[], "k", number) }
    });
    let paths = launches_after(launches.collect());
    let rows = tree(&paths, false, &EVERYTHING);
    assert_eq!(rows.len(), 1 + 1 + 65 + 650 + 3 * 6_500);
    check_totals(&paths, &rows, true);
    assert_eq!(picture(&paths, &rows, false).lines().count(), rows.len() + 2);
}

#[test]
fn stacks_of_any_depth_are_drawn_in_lines_of_bounded_length() {
    // At each level one launch ends, and another continues.
    let launches = (1..2_000_usize)
        .map(|depth| PathLaunch { frames: vec!["f.py:1 f".to_owned(); depth], ..launch(&[], &[], "k", 1) });
    let paths = launches_after(launches.collect());
    let rows = tree(&paths, false, &EVERYTHING);
    check_totals(&paths, &rows, true);
    assert!(picture(&paths, &rows, false).lines().all(|line| line.chars().count() < 140));
}

//! One row per name, over all paths.

use super::cost::{PairedCosts, is_sum};
use super::path::{LaunchPath, LaunchPaths};
use super::prune::ratio;
use super::row::{AggregateReason, ParentLink, RowChoice, TreeRow, TreeRowKind, WHYS};
use stallmap_console::args::tree::TreeSort;

/// Cost of a name over all paths.
#[derive(Clone, Debug, Default)]
struct FlatEntry {
    own: PairedCosts,
    total: PairedCosts,
    /// The last counted path, from 1: a path that contains the name twice counts once.
    counted: usize,
}

/// The total, then one row per step. Costs of paths that end there add up to the total, those of all paths through it
/// do not. Filters select paths here, the threshold selects names.
pub(super) fn rows(paths: &LaunchPaths, choice: &RowChoice<'_>) -> Vec<TreeRow> {
    let mut entries = vec![FlatEntry::default(); paths.steps.len()];
    let mut hidden = WHYS.map(|why| (why, 0, PairedCosts::default()));
    let mut hide = |wanted: AggregateReason, costs: &PairedCosts| {
        for (_, count, sum) in hidden.iter_mut().filter(|(why, ..)| *why == wanted) {
            *count += 1;
            sum.add(costs);
        }
    };
    let (mut all, mut own) = (PairedCosts::default(), PairedCosts::default());
    let is_hidden = filter(paths, choice);
    for (index, path) in paths.paths.iter().enumerate() {
        all.add(&path.cost);
        if let Some(why) = is_hidden(path) {
            hide(why, &path.cost);
            continue;
        }
        for &step in &path.steps {
            let entry = &mut entries[step];
            if entry.counted != index + 1 {
                entry.counted = index + 1;
                entry.total.add(&path.cost);
            }
        }
        match path.steps.last() {
            Some(&step) => entries[step].own.add(&path.cost),
            None => own.add(&path.cost),
        }
    }
    let whole = all.before.sum(choice.metric).max(all.after.sum(choice.metric));
    let mut shown: Vec<(usize, FlatEntry)> = Vec::new();
    for (step, entry) in entries.into_iter().enumerate().filter(|(_, entry)| entry.counted > 0) {
        if entry.total.weight(choice.metric, choice.is_diff) < choice.threshold * whole {
            hide(AggregateReason::Small, &entry.own);
        } else {
            shown.push((step, entry));
        }
    }
    let whole = shown.len();
    if choice.top < whole {
        shown.sort_by(|(_, one), (_, other)| {
            let weight = |entry: &FlatEntry| entry.total.weight(choice.metric, choice.is_diff);
            weight(other).total_cmp(&weight(one))
        });
        shown.split_off(choice.top).iter().for_each(|(_, entry)| hide(AggregateReason::More, &entry.own));
    }
    sort(&mut shown, paths, choice);
    let row = |parent, depth, what, own, total| TreeRow {
        parent,
        depth,
        guides: 0,
        link: ParentLink::Chain,
        what,
        own,
        total,
        changes: Vec::new(),
    };
    let first = row(None, 0, TreeRowKind::All, own, all);
    let shown = shown
        .into_iter()
        .map(|(step, entry)| row(Some(0), 1, TreeRowKind::Step(step), entry.own, entry.total));
    let hidden = hidden.into_iter().filter(|(_, count, _)| *count > 0);
    let hidden = hidden.map(|(why, count, sum)| row(Some(0), 1, TreeRowKind::Hidden(why, count), sum, sum));
    std::iter::once(first).chain(shown).chain(hidden).collect()
}

/// Why a path is not counted, if it is not.
fn filter(paths: &LaunchPaths, choice: &RowChoice<'_>) -> impl Fn(&LaunchPath) -> Option<AggregateReason> {
    let matching = |regex: Option<&regex::Regex>| {
        regex.map(|regex| paths.steps.iter().map(|step| regex.is_match(&step.name)).collect::<Vec<bool>>())
    };
    let (included, excluded) = (matching(choice.include), matching(choice.exclude));
    move |path| {
        let meets = |steps: &Vec<bool>| path.steps.iter().any(|&step| steps[step]);
        if excluded.as_ref().is_some_and(meets) {
            Some(AggregateReason::Excluded)
        } else {
            included.as_ref().is_some_and(|steps| !meets(steps)).then_some(AggregateReason::NotIncluded)
        }
    }
}

fn sort(shown: &mut [(usize, FlatEntry)], paths: &LaunchPaths, choice: &RowChoice<'_>) {
    let rank = |entry: &FlatEntry| match choice.sort {
        TreeSort::Metric(metric) if is_sum(metric) => entry.total.weight(metric, choice.is_diff),
        TreeSort::Metric(metric) => ratio(&entry.total, metric, choice.is_diff),
        TreeSort::Name => 0.0,
    };
    let name = |step: usize| paths.steps.get(step).map(|step| step.name.as_str());
    shown.sort_by(|(a, one), (b, other)| {
        rank(other).total_cmp(&rank(one)).then_with(|| name(*a).cmp(&name(*b))).then(a.cmp(b))
    });
}

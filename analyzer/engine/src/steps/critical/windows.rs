//! Steps in the times of a run, over all its GPUs, as the view `phase_window` has them for each, without what of a range is before or
//! behind all work.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::model::{CriticalWork, StepWindow};

/// Steps and warm-up by launch.
pub(crate) struct LaunchSteps {
    /// The step of launches in one.
    pub(crate) steps: HashMap<u64, u32>,
    /// Launches of warm-up.
    pub(crate) warm: HashSet<u64>,
}

/// The steps of each run. A run without steps is one.
pub(crate) fn windows(works: &[CriticalWork], launches: &LaunchSteps) -> Vec<StepWindow> {
    let mut runs: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    let mut steps: BTreeMap<(usize, u32), (i64, i64)> = BTreeMap::new();
    let mut warm: BTreeMap<usize, i64> = BTreeMap::new();
    let join = |known: &mut (i64, i64), time: (i64, i64)| {
        *known = (known.0.min(time.0), known.1.max(time.1));
    };
    for work in works.iter().filter(|work| work.time.1 > work.time.0) {
        join(runs.entry(work.run).or_insert(work.time), work.time);
        let Some(kernel_id) = work.kernel_id else { continue };
        if let Some(step) = launches.steps.get(&kernel_id) {
            join(steps.entry((work.run, *step)).or_insert(work.time), work.time);
        }
        if launches.warm.contains(&kernel_id) {
            let end = warm.entry(work.run).or_insert(work.time.1);
            *end = (*end).max(work.time.1);
        }
    }
    let mut found: Vec<StepWindow> = Vec::new();
    for ((run, step), (first_ns, last_ns)) in steps {
        let before = found.last().filter(|before| before.run == run).map(|before| before.time.1);
        let begin_ns = before.or_else(|| Some((*warm.get(&run)?).min(first_ns))).unwrap_or(first_ns);
        let time = (begin_ns, last_ns.max(begin_ns));
        found.push(StepWindow { run, program_step: Some(step), time });
    }
    for (run, time) in runs {
        if !found.iter().any(|window| window.run == run) {
            found.push(StepWindow { run, program_step: None, time });
        }
    }
    found.sort_by_key(|window| (window.run, window.program_step));
    found.retain(|window| window.time.1 > window.time.0);
    found
}

#[cfg(test)]
mod tests {
    use super::super::model::PathItem;
    use super::*;

    #[test]
    fn a_step_begins_where_the_one_before_ends() {
        let work = |run, kernel_id, time| CriticalWork {
            run,
            activity_id: 0,
            kernel_id: Some(kernel_id),
            item: PathItem::Kernel(0),
            stream: None,
            time,
            call: None,
            match_id: None,
        };
        let works = [
            work(0, 0, (0, 10)),
            work(0, 1, (20, 30)),
            work(0, 2, (35, 40)),
            work(0, 3, (60, 90)),
            work(1, 4, (5, 7)),
        ];
        let steps = HashMap::from([(1, 0), (2, 0), (3, 1)]);
        let launches = LaunchSteps { steps, warm: HashSet::from([0]) };
        let found: Vec<_> = windows(&works, &launches)
            .into_iter()
            .map(|window| (window.run, window.program_step, window.time))
            .collect();
        assert_eq!(found, [(0, Some(0), (10, 40)), (0, Some(1), (40, 90)), (1, None, (5, 7))]);
    }
}

//! Experiments on launches: replays without some of their memory instructions, or with some of their memory in L2.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_config::PassInstrument;
use stallmap_replay::ablate::{Experiment, ExperimentKinds, LaunchAccesses, LaunchMemory, TouchedPage};
use stallmap_replay::bundle::{CaptureBundles, DevicePage, ReplayBundle};
use stallmap_replay::plan::ReplayOutcome;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::replay::PAGE_BYTES;

use super::{ReplayRound, unreadable};
use crate::exit::RecorderFailure;

/// Rounds with each state of the caches.
const ROUNDS: u32 = 15;
/// Counts the warp instructions that a launch executes.
const INSTRUCTIONS: &str = "smsp__inst_executed.sum";
/// The largest difference of two counts of the same work, as a share: blocks that wait may look once more.
const SAME_WORK: f64 = 1e-3;

const NOT_COUNTED: &str = "its value reaches a branch, and executed instructions could not be counted";

impl ReplayRound<'_> {
    /// Makes the experiments on the launches that replay well.
    pub(super) fn ablate(
        &mut self,
        capture: &CaptureReader,
        good: &[&ReplayOutcome],
        targets: ExperimentKinds,
    ) -> Result<(), RecorderFailure> {
        let kernels: BTreeSet<KernelId> = good.iter().map(|outcome| KernelId(outcome.kernel_id)).collect();
        let accesses = LaunchAccesses::read(capture, &kernels).map_err(unreadable)?;
        let mut experiments = BTreeMap::new();
        for kernel_id in kernels {
            let found = accesses.experiments(capture, kernel_id, targets).map_err(unreadable)?;
            if !found.is_empty() {
                experiments.insert(kernel_id.0, found);
            }
        }
        self.measure(experiments)
    }

    /// Replays launches with the objects that they read in L2.
    pub(super) fn redirect(
        &mut self,
        capture: &CaptureReader,
        bundles: &CaptureBundles,
        good: &[&ReplayOutcome],
    ) -> Result<(), RecorderFailure> {
        let kernels: BTreeSet<KernelId> = good.iter().map(|outcome| KernelId(outcome.kernel_id)).collect();
        let accesses = LaunchAccesses::read(capture, &kernels).map_err(unreadable)?;
        let memory = LaunchMemory::read(capture, &accesses, &kernels).map_err(unreadable)?;
        let mut experiments = BTreeMap::new();
        for kernel_id in kernels {
            let pages = bundles.bundles.get(&kernel_id).map(touched_pages).unwrap_or_default();
            let found = memory.experiments(capture, kernel_id, &pages).map_err(unreadable)?;
            if !found.is_empty() {
                experiments.insert(kernel_id.0, found);
            }
        }
        self.measure(experiments)
    }

    /// Makes experiments, and refuses those that change the work.
    fn measure(&mut self, mut experiments: BTreeMap<u64, Vec<Experiment>>) -> Result<(), RecorderFailure> {
        self.refuse_other_work(&mut experiments)?;
        let all = experiments.values().map(Vec::len).sum::<usize>();
        let refused = experiments.values().flatten().filter(|one| one.refusal.is_some()).count();
        let launches = experiments.len();
        let mut plan = self.plan(PassInstrument::Native, experiments.keys().copied().collect())?;
        plan.repeats = self.options.extent.repeat.unwrap_or(ROUNDS);
        plan.is_cold = true;
        plan.experiments = experiments;
        let outcomes = self.run(PassInstrument::Native, None, plan)?;
        let made = outcomes.values().filter(|outcome| outcome.good > 0).count();
        self.messages.result(format_args!(
            "{all} experiments on {launches} launches, {refused} of them refused, {made} launches measured"
        ));
        Ok(())
    }

    /// Refuses experiments whose results reach a branch and which execute more or fewer instructions than the whole.
    fn refuse_other_work(
        &mut self,
        experiments: &mut BTreeMap<u64, Vec<Experiment>>,
    ) -> Result<(), RecorderFailure> {
        let is_open = |experiment: &Experiment| experiment.is_counted && experiment.refusal.is_none();
        let counted: BTreeMap<u64, Vec<Experiment>> = experiments
            .iter()
            .filter(|(_, all)| all.iter().any(is_open))
            .map(|(kernel_id, all)| (*kernel_id, all.clone()))
            .collect();
        if counted.is_empty() {
            return Ok(());
        }
        let mut plan = self.plan(PassInstrument::Counters, counted.keys().copied().collect())?;
        plan.metrics = vec![INSTRUCTIONS.to_owned()];
        plan.is_cold = false;
        plan.experiments = counted;
        let outcomes = match self.run(PassInstrument::Counters, None, plan) {
            Err(failure) if self.signals.ending().is_none() => {
                failure.warn(format_args!("executed instructions were not counted"));
                BTreeMap::new()
            }
            outcomes => outcomes?,
        };
        for (kernel_id, all) in experiments {
            for (position, experiment) in all.iter_mut().enumerate().filter(|(_, one)| is_open(one)) {
                let change = if experiment.memory.is_some() { "with other values" } else { "without it" };
                experiment.refusal = refusal(outcomes.get(kernel_id), position, change);
            }
        }
        Ok(())
    }
}

/// The pages of a bundle.
fn touched_pages(bundle: &ReplayBundle) -> Vec<TouchedPage> {
    let page = |page: &DevicePage| TouchedPage {
        address: page.address,
        bytes: PAGE_BYTES as u64,
        is_written: page.hash_after.is_some(),
    };
    bundle.pages.iter().map(page).collect()
}

/// The reason that an experiment is not one on the same work.
fn refusal(outcome: Option<&ReplayOutcome>, position: usize, change: &str) -> Option<String> {
    let whole = outcome.and_then(|outcome| outcome.instruction_count);
    let without = outcome.map(|outcome| &outcome.experiment_counts).into_iter().flatten();
    let without = without.copied().find(|(counted, _)| *counted == position).map(|(_, count)| count);
    let (Some(whole), Some(without)) = (whole, without) else { return Some(NOT_COUNTED.to_owned()) };
    let differs = (without - whole).abs() > SAME_WORK * whole;
    differs.then(|| {
        format!(
            "its value decides branches: {without:.0} instructions are executed {change}, {whole:.0} with it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_work_is_compared() {
        let outcome = |whole, without| ReplayOutcome {
            instruction_count: whole,
            experiment_counts: vec![(2, without)],
            ..ReplayOutcome::default()
        };
        assert_eq!(refusal(Some(&outcome(Some(10_000.0), 10_001.0)), 2, "without it"), None);
        let text = refusal(Some(&outcome(Some(10_000.0), 9_000.0)), 2, "without it").unwrap();
        assert!(text.contains("9000 instructions are executed without it, 10000 with it"), "{text}");
        let not_counted = [(None, 2), (Some(outcome(None, 1.0)), 2), (Some(outcome(Some(1.0), 1.0)), 3)];
        for (outcome, position) in not_counted {
            assert_eq!(refusal(outcome.as_ref(), position, "").as_deref(), Some(NOT_COUNTED));
        }
    }
}

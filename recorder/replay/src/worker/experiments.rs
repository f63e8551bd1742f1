//! Experiments on a launch: replays without some of its memory instructions, in turn with replays of the whole.
//!
//! A round runs the whole and each experiment once: a GPU that changes its clock changes both. The first round
//! is dropped. What instructions cost is the median of the differences within a round, with the interval that order
//! statistics give it.

use std::time::{Duration, Instant};

use stallmap_ablate::{Experiment, FunctionCubin};
use stallmap_config::PassInstrument;
use stallmap_schema::id::{Address, FunctionId, Pc, RunId};
use stallmap_schema::tables::replay::{Ablation, AblationInstruction};
use stallmap_schema::word::AblationTarget;
use stallmap_session::session;

use super::{BundleReplayer, ReadyLaunch};
use crate::bundle::ReplayBundle;
use crate::error::GpuError;
use crate::gpu::{LoadedCubin, LoadedKernel};
use crate::median::{MedianInterval, interval, median};
use crate::plan::{ReplayOutcome, WorkerEvent};

/// Rounds that are made whatever time they take.
const LEAST_ROUNDS: u32 = 6;

/// The kernel of one experiment.
#[derive(Clone, Copy)]
struct ExperimentKernel {
    /// Position of the experiment among those of the launch.
    position: usize,
    module: LoadedCubin,
    kernel: LoadedKernel,
}

/// Times of the rounds with one state of the caches, nanoseconds.
struct RoundTimes {
    is_cold: bool,
    whole: Vec<u64>,
    /// By variant.
    without: Vec<Vec<u64>>,
}

impl BundleReplayer<'_> {
    /// Times a launch's experiments, or counts the instructions of those whose control flow is in question.
    pub(super) fn experiment(
        &mut self,
        bundle: &ReplayBundle,
        experiments: &[Experiment],
        outcome: &mut ReplayOutcome,
        say: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<(), GpuError> {
        let ready = self.prepare(bundle)?;
        let counts = self.instrument == PassInstrument::Counters;
        let is_wanted =
            |experiment: &Experiment| experiment.refusal.is_none() && (experiment.is_counted || !counts);
        let cubin = self.capture.cubin(&bundle.content_hash);
        let cubin = cubin.map_err(|error| GpuError::own("read a cubin", error.to_string()))?;
        let code =
            FunctionCubin::read(&cubin).map_err(|error| GpuError::own("read a cubin", error.to_string()))?;
        let mut variants = Vec::new();
        for (position, experiment) in experiments.iter().enumerate().filter(|(_, one)| is_wanted(one)) {
            let module = self.gpu.load(&code.without(&experiment.places()))?;
            let kernel = self.kernel(module, bundle)?;
            variants.push(ExperimentKernel { position, module, kernel });
        }
        let made = if counts {
            self.count_variants(&ready, &variants, outcome, say)
        } else {
            self.time_variants(&ready, &variants, say)
                .map(|timed| emit(bundle, experiments, &variants, &timed))
        };
        outcome.good = u32::from(made.is_ok());
        let released = ready.memory.release(self.gpu);
        let unloaded = variants.iter().try_for_each(|variant| self.gpu.unload(variant.module));
        made.and(released).and(unloaded)
    }

    fn time_variants(
        &self,
        ready: &ReadyLaunch,
        variants: &[ExperimentKernel],
        say: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<Vec<RoundTimes>, GpuError> {
        // A replay that faults or hangs does so now.
        for variant in variants {
            say(&WorkerEvent::Experiment { position: variant.position });
            self.time(ready, Some(variant), false)?;
        }
        let budget = Duration::from_nanos(self.plan.budget_ns / 2);
        [false, true].into_iter().map(|is_cold| self.rounds(ready, variants, is_cold, budget)).collect()
    }

    fn rounds(
        &self,
        ready: &ReadyLaunch,
        variants: &[ExperimentKernel],
        is_cold: bool,
        budget: Duration,
    ) -> Result<RoundTimes, GpuError> {
        let begin = Instant::now();
        let mut timed = RoundTimes { is_cold, whole: Vec::new(), without: vec![Vec::new(); variants.len()] };
        for round in 0..=self.plan.repeats {
            let whole = self.time(ready, None, is_cold)?;
            let mut without = Vec::with_capacity(variants.len());
            for variant in variants {
                without.push(self.time(ready, Some(variant), is_cold)?);
            }
            if round > 0 {
                timed.whole.push(whole);
                timed.without.iter_mut().zip(without).for_each(|(times, time)| times.push(time));
            }
            if round >= LEAST_ROUNDS && begin.elapsed() > budget {
                break;
            }
        }
        Ok(timed)
    }

    /// Time of one replay, of the whole or of an experiment, nanoseconds.
    fn time(
        &self,
        ready: &ReadyLaunch,
        variant: Option<&ExperimentKernel>,
        is_cold: bool,
    ) -> Result<u64, GpuError> {
        self.restore_for(ready, variant)?;
        if is_cold {
            self.flush()?;
            self.gpu.synchronize()?;
        }
        let kernel = variant.map_or(ready.kernel, |variant| variant.kernel);
        self.launch(ready, kernel, true).map(Option::unwrap_or_default)
    }

    fn restore_for(&self, ready: &ReadyLaunch, variant: Option<&ExperimentKernel>) -> Result<(), GpuError> {
        ready.memory.restore(self.gpu, self.contents)?;
        match variant {
            Some(variant) => ready.memory.fill_variables(self.gpu, variant.module, self.contents),
            None => Ok(()),
        }
    }

    fn count_variants(
        &mut self,
        ready: &ReadyLaunch,
        variants: &[ExperimentKernel],
        outcome: &mut ReplayOutcome,
        say: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<(), GpuError> {
        outcome.instruction_count = self.instructions(ready, None)?;
        for variant in variants {
            say(&WorkerEvent::Experiment { position: variant.position });
            let count = self.instructions(ready, Some(variant))?;
            outcome.experiment_counts.extend(count.map(|count| (variant.position, count)));
        }
        Ok(())
    }

    /// Warp instructions that a replay executes.
    fn instructions(
        &mut self,
        ready: &ReadyLaunch,
        variant: Option<&ExperimentKernel>,
    ) -> Result<Option<f64>, GpuError> {
        let Some(mut profiler) = self.profiler.take() else { return Ok(None) };
        let kernel = variant.map_or(ready.kernel, |variant| variant.kernel);
        let measured = self.measured(&mut profiler, ready, kernel, &|| self.restore_for(ready, variant));
        self.profiler = Some(profiler);
        let measured = measured?.map_err(|cause| GpuError::own("count instructions", cause))?;
        Ok(measured.first().and_then(|counter| counter.value))
    }
}

/// Writes the rows of a launch's experiments.
fn emit(
    bundle: &ReplayBundle,
    experiments: &[Experiment],
    variants: &[ExperimentKernel],
    timed: &[RoundTimes],
) {
    for (position, experiment) in experiments.iter().enumerate() {
        let number = u32::try_from(position).unwrap_or(u32::MAX);
        for &(function_id, _, pc) in &experiment.instructions {
            session::emit(AblationInstruction {
                run_id: RunId(0),
                kernel_id: bundle.kernel_id,
                experiment: number,
                function_id: FunctionId(function_id),
                pc: Pc(pc),
            });
        }
        let row = Ablation {
            run_id: RunId(0),
            kernel_id: bundle.kernel_id,
            experiment: number,
            target: AblationTarget::from_word(&experiment.target).unwrap_or(AblationTarget::Instruction),
            block_address: experiment.block_address.map(Address),
            is_cold: false,
            round_count: 0,
            whole_ns: None,
            without_ns: None,
            saved_ns: None,
            saved_low_ns: None,
            saved_high_ns: None,
            refusal: experiment.refusal.clone(),
        };
        match variants.iter().position(|variant| variant.position == position) {
            None => session::emit(row),
            Some(variant) => {
                for timed in timed {
                    session::emit(measured(row.clone(), timed, variant));
                }
            }
        }
    }
}

/// The row of one experiment with one state of the caches.
fn measured(row: Ablation, timed: &RoundTimes, variant: usize) -> Ablation {
    let without = &timed.without[variant];
    let difference = |(whole, without): (&u64, &u64)| whole.cast_signed() - without.cast_signed();
    let saved: Vec<i64> = timed.whole.iter().zip(without).map(difference).collect();
    let signed = |times: &[u64]| times.iter().map(|time| time.cast_signed()).collect::<Vec<_>>();
    let ends = interval(&saved);
    Ablation {
        is_cold: timed.is_cold,
        round_count: u32::try_from(saved.len()).unwrap_or(u32::MAX),
        whole_ns: median(&signed(&timed.whole)),
        without_ns: median(&signed(without)),
        saved_ns: median(&saved),
        saved_low_ns: ends.map(|MedianInterval { low, .. }| low),
        saved_high_ns: ends.map(|MedianInterval { high, .. }| high),
        ..row
    }
}

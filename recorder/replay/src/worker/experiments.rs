//! Experiments on a launch: replays without some of its memory instructions, or with some of its memory in L2, in turn
//! with replays of the whole.
//!
//! A round runs the whole and each experiment once: a GPU that changes its clock changes both. The first round
//! is dropped. What instructions cost is the median of the differences within a round, with the interval that order
//! statistics give it.
//!
//! The GPU has forgotten the addresses of memory that is mapped again: a launch that is not timed comes first then.

use std::time::{Duration, Instant};

use crate::ablate::{Experiment, FunctionCubin, RedirectedMemory};
use stallmap_config::PassInstrument;
use stallmap_schema::id::{Address, FunctionId, Pc, RunId};
use stallmap_schema::tables::replay::{Ablation, AblationInstruction, ObjectRedirect};
use stallmap_schema::word::{AblationTarget, RedirectMethod, RedirectTarget};
use stallmap_session::session;

use super::{BundleReplayer, ReadyLaunch};
use crate::bundle::ReplayBundle;
use crate::error::GpuError;
use crate::gpu::{LoadedCubin, LoadedKernel};
use crate::median::{MedianInterval, interval, median};
use crate::plan::{ReplayOutcome, WorkerEvent};

/// Rounds that are made whatever time they take.
const LEAST_ROUNDS: u32 = 6;

/// The kernel and the memory of one experiment.
struct ExperimentVariant<'e> {
    /// Position of the experiment among those of the launch.
    position: usize,
    /// The kernel without some instructions, and its module. `None` where the code stays.
    code: Option<(LoadedCubin, LoadedKernel)>,
    /// The memory that is redirected.
    memory: Option<&'e RedirectedMemory>,
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
            let memory = experiment.memory.as_ref();
            let code = if memory.is_none() {
                let module = self.gpu.load(&code.without(&experiment.addresses()))?;
                Some((module, self.kernel(module, bundle)?))
            } else {
                None
            };
            variants.push(ExperimentVariant { position, code, memory });
        }
        let made = if counts {
            self.count_variants(&ready, &variants, outcome, say)
        } else {
            self.time_variants(&ready, &variants, say)
                .map(|timed| emit(bundle, experiments, &variants, &timed))
        };
        outcome.good = u32::from(made.is_ok());
        let restored = self.space.redirect(&[]);
        let released = ready.memory.release(self.gpu);
        let mut modules = variants.iter().filter_map(|variant| variant.code);
        let unloaded = modules.try_for_each(|(module, _)| self.gpu.unload(module));
        made.and(restored.map(|_moved| ())).and(released).and(unloaded)
    }

    fn time_variants(
        &mut self,
        ready: &ReadyLaunch,
        variants: &[ExperimentVariant<'_>],
        say: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<Vec<RoundTimes>, GpuError> {
        // A replay that faults or hangs does so now.
        for variant in variants {
            say(&WorkerEvent::Experiment { position: variant.position });
            self.time(ready, Some(variant), false)?;
        }
        let budget = Duration::from_nanos(self.plan.budget_ns / 2);
        let mut timed = Vec::new();
        for is_cold in [false, true] {
            timed.push(self.rounds(ready, variants, is_cold, budget)?);
        }
        Ok(timed)
    }

    fn rounds(
        &mut self,
        ready: &ReadyLaunch,
        variants: &[ExperimentVariant<'_>],
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
        &mut self,
        ready: &ReadyLaunch,
        variant: Option<&ExperimentVariant<'_>>,
        is_cold: bool,
    ) -> Result<u64, GpuError> {
        let kernel = kernel_of(ready, variant);
        if self.redirect(variant)? {
            self.restore_for(ready, variant)?;
            self.launch(ready, kernel, false)?;
        }
        self.restore_for(ready, variant)?;
        if is_cold {
            self.flush()?;
            self.gpu.synchronize()?;
        }
        self.preload(variant)?;
        self.launch(ready, kernel, true).map(Option::unwrap_or_default)
    }

    /// Maps the memory of an experiment, or of the whole. Returns whether anything changed.
    fn redirect(&mut self, variant: Option<&ExperimentVariant<'_>>) -> Result<bool, GpuError> {
        let memory = variant.and_then(|variant| variant.memory);
        self.gpu.synchronize()?;
        self.space.redirect(memory.map_or(&[][..], |memory| &memory.granules))
    }

    /// Reads the objects of an experiment into L2.
    fn preload(&self, variant: Option<&ExperimentVariant<'_>>) -> Result<(), GpuError> {
        let ranges = variant.and_then(|variant| variant.memory).map(|memory| &memory.preloaded);
        let Some(flush) = &self.flush else { return Ok(()) };
        ranges.into_iter().flatten().try_for_each(|&(address, bytes)| {
            // Its first and last sector may be of a neighbour: pages are whole.
            let low = address / 16 * 16;
            let bytes = address + bytes - low;
            flush.read(self.gpu, (self.space.translate(low).unwrap_or(low), bytes))
        })
    }

    fn restore_for(
        &self,
        ready: &ReadyLaunch,
        variant: Option<&ExperimentVariant<'_>>,
    ) -> Result<(), GpuError> {
        ready.memory.restore(self.gpu, self.contents)?;
        match variant.and_then(|variant| variant.code) {
            Some((module, _)) => ready.memory.fill_variables(self.gpu, module, self.contents),
            None => Ok(()),
        }
    }

    fn count_variants(
        &mut self,
        ready: &ReadyLaunch,
        variants: &[ExperimentVariant<'_>],
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
        variant: Option<&ExperimentVariant<'_>>,
    ) -> Result<Option<f64>, GpuError> {
        self.redirect(variant)?;
        let kernel = kernel_of(ready, variant);
        let Some(mut profiler) = self.profiler.take() else { return Ok(None) };
        let measured = self.measured(&mut profiler, ready, kernel, &|| self.restore_for(ready, variant));
        self.profiler = Some(profiler);
        let measured = measured?.map_err(|cause| GpuError::own("count instructions", cause))?;
        Ok(measured.first().and_then(|counter| counter.value))
    }
}

fn kernel_of(ready: &ReadyLaunch, variant: Option<&ExperimentVariant<'_>>) -> LoadedKernel {
    variant.and_then(|variant| variant.code).map_or(ready.kernel, |(_, kernel)| kernel)
}

/// Writes the rows of a launch's experiments.
fn emit(
    bundle: &ReplayBundle,
    experiments: &[Experiment],
    variants: &[ExperimentVariant<'_>],
    timed: &[RoundTimes],
) {
    for (position, experiment) in experiments.iter().enumerate() {
        let number = u32::try_from(position).unwrap_or(u32::MAX);
        let variant = variants.iter().position(|variant| variant.position == position);
        let savings: Vec<RoundSavings> = match variant {
            None => vec![RoundSavings::default()],
            Some(variant) => timed.iter().map(|timed| timed.savings(variant)).collect(),
        };
        if let Some(memory) = &experiment.memory {
            for saving in savings {
                session::emit(redirect_row(bundle, number, experiment, memory, &saving));
            }
            continue;
        }
        for &(function_id, _, pc) in &experiment.instructions {
            session::emit(AblationInstruction {
                run_id: RunId(0),
                kernel_id: bundle.kernel_id,
                experiment: number,
                function_id: FunctionId(function_id),
                pc: Pc(pc),
            });
        }
        for saving in savings {
            session::emit(ablation_row(bundle, number, experiment, &saving));
        }
    }
}

fn ablation_row(
    bundle: &ReplayBundle,
    number: u32,
    experiment: &Experiment,
    saving: &RoundSavings,
) -> Ablation {
    Ablation {
        run_id: RunId(0),
        kernel_id: bundle.kernel_id,
        experiment: number,
        target: AblationTarget::from_word(&experiment.target).unwrap_or(AblationTarget::Instruction),
        block_address: experiment.block_address.map(Address),
        is_cold: saving.is_cold,
        round_count: saving.round_count,
        whole_ns: saving.whole_ns,
        without_ns: saving.changed_ns,
        saved_ns: saving.saved_ns,
        saved_low_ns: saving.ends.map(|MedianInterval { low, .. }| low),
        saved_high_ns: saving.ends.map(|MedianInterval { high, .. }| high),
        refusal: experiment.refusal.clone(),
    }
}

fn redirect_row(
    bundle: &ReplayBundle,
    number: u32,
    experiment: &Experiment,
    memory: &RedirectedMemory,
    saving: &RoundSavings,
) -> ObjectRedirect {
    ObjectRedirect {
        run_id: RunId(0),
        kernel_id: bundle.kernel_id,
        experiment: number,
        target: RedirectTarget::from_word(&experiment.target).unwrap_or(RedirectTarget::Object),
        method: RedirectMethod::from_word(&memory.method),
        block_address: experiment.block_address.map(Address),
        object_bytes: memory.object_bytes,
        redirected_bytes: memory.redirected_bytes,
        is_cold: saving.is_cold,
        round_count: saving.round_count,
        whole_ns: saving.whole_ns,
        redirected_ns: saving.changed_ns,
        saved_ns: saving.saved_ns,
        saved_low_ns: saving.ends.map(|MedianInterval { low, .. }| low),
        saved_high_ns: saving.ends.map(|MedianInterval { high, .. }| high),
        refusal: experiment.refusal.clone(),
    }
}

/// The time that an experiment saves, with one state of the caches.
#[derive(Default)]
struct RoundSavings {
    is_cold: bool,
    round_count: u32,
    whole_ns: Option<f64>,
    changed_ns: Option<f64>,
    saved_ns: Option<f64>,
    ends: Option<MedianInterval>,
}

impl RoundTimes {
    fn savings(&self, variant: usize) -> RoundSavings {
        let changed = &self.without[variant];
        let difference = |(whole, changed): (&u64, &u64)| whole.cast_signed() - changed.cast_signed();
        let saved: Vec<i64> = self.whole.iter().zip(changed).map(difference).collect();
        let signed = |times: &[u64]| times.iter().map(|time| time.cast_signed()).collect::<Vec<_>>();
        RoundSavings {
            is_cold: self.is_cold,
            round_count: u32::try_from(saved.len()).unwrap_or(u32::MAX),
            whole_ns: median(&signed(&self.whole)),
            changed_ns: median(&signed(changed)),
            saved_ns: median(&saved),
            ends: interval(&saved),
        }
    }
}

//! `replay`: runs the bundled launches of a capture again under other instruments. Adds the results to the capture.

mod ablate;
mod confinement;
mod options;
mod worker;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use regex::Regex;
use stallmap_config::{Config, PassInstrument, RecordedSpace, RecordingFile, RecordingOption};
use stallmap_instruments::samples::counters::sets;
use stallmap_replay::bundle::{CaptureBundles, ReplayBundle};
use stallmap_replay::error::ReplayError;
use stallmap_replay::export::ExportLanguage;
use stallmap_replay::plan::{AddressTranslation, ReplayOutcome, WorkerPlan};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_write::subset::LaunchRanges;

use crate::child::SignalRelay;
use crate::exit::{self, RecorderFailure};
use crate::finishing;
use crate::folder::{self, RecordingFolder};
use crate::message::{self, MessagePrinter};
use crate::passes::now_ns;
pub(crate) use confinement::probe as probe_sandbox;
use options::{CacheState, ReplayInstrument, SandboxOption};
pub(crate) use options::{ReplayOptions, WorkerOptions};
pub(crate) use worker::work;
use workers::WorkerPool;
pub(crate) use workers::capture_of;

/// Some launches were not verified, or not measured.
const NOT_VERIFIED: u8 = 1;
/// Replays of a launch without an instrument.
const NATIVE_REPEATS: u32 = 3;
/// Most replays of a launch for samples.
const SAMPLE_REPEATS: u32 = 2000;
/// Bytes of CUPTI's hardware buffer: replays are short, and a large buffer costs time at the first one.
const SAMPLING_BUFFER_BYTES: u64 = 64 << 20;

/// Sampling periods by the duration of a launch: below so many nanoseconds, every two to this power cycles. An H200
/// drops samples above about 2,000 a microsecond, which 2^8 cycles stay below. A launch of a few microseconds is over
/// before its buffer is full, and needs them denser.
const PERIODS: [(u64, u32); 4] = [(20_000, 6), (300_000, 8), (5_000_000, 10), (u64::MAX, 12)];

/// Replays launches. The exit code says whether all were verified.
pub(crate) fn replay(options: &ReplayOptions) -> Result<ExitCode, RecorderFailure> {
    let messages = MessagePrinter(options.voice);
    let (capture, bundles) = open(options, messages)?;
    if let Some(folder) = &options.export {
        let language = match options.language {
            None | Some(options::LanguageArg::C) => ExportLanguage::C,
            Some(options::LanguageArg::Python) => ExportLanguage::Python,
        };
        return export(&capture, &bundles, folder, language, messages);
    }
    let output = options.output.clone().unwrap_or_else(|| options.capture.clone());
    if options.output.is_some() {
        folder::check_output(&output, options.force)?;
    }
    let signals = SignalRelay::take_ending().context("take over signals").map_err(RecorderFailure::before)?;
    let folder = RecordingFolder::of_replays(&output, options.force)?;
    let recover = format!("stallmap-record recover {}", folder.path().display());
    let sandbox = match confinement::announce(options, &bundles, &folder, messages) {
        Ok(sandbox) => sandbox,
        Err(failure) => {
            remove(&folder);
            return Err(failure);
        }
    };
    let mut round = ReplayRound::new(options, sandbox, &folder, &signals, messages);
    let outcomes = match round.all(&capture, &bundles) {
        Ok(outcomes) => outcomes,
        Err(failure) if round.has_replayed => {
            return Err(failure.hint(format_args!("to use what was replayed, run `{recover}`")));
        }
        Err(failure) => {
            remove(&folder);
            return Err(failure);
        }
    };
    let is_whole = !round.has_failed;
    let words =
        format!("interrupted before the results were added, the capture is unchanged: run `{recover}`");
    signals.only_us_left(words, finishing::leftovers(&output));
    finishing::append(&options.capture, folder.path(), &output, messages)
        .map_err(|failure| failure.hint(format_args!("to use what was replayed, run `{recover}`")))?;
    if !options.keep {
        remove(&folder);
    }
    let all_good = conclude(&bundles, &outcomes, messages);
    Ok(if all_good && is_whole { ExitCode::SUCCESS } else { ExitCode::from(NOT_VERIFIED) })
}

fn remove(folder: &RecordingFolder) {
    folder.remove().unwrap_or_else(|error| message::warning(format_args!("{error:#}")));
}

/// Description of these replays for `recording.json`.
fn describe(options: &ReplayOptions) -> RecordingFile {
    let mut words = std::env::args();
    let folder = std::env::current_dir().map(|path| path.to_string_lossy().into_owned());
    let extent = &options.extent;
    let given = [
        ("precision", Some(extent.precision.to_string())),
        ("budget", Some(extent.budget.to_string())),
        ("repeat", extent.repeat.map(|repeat| repeat.to_string())),
        ("cache", extent.cache.map(|cache| format!("{cache:?}").to_lowercase())),
    ];
    let option = |(name, value): (&str, Option<String>)| {
        Some(RecordingOption { name: name.to_owned(), value: value? })
    };
    RecordingFile {
        recorder_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ns: now_ns(),
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        working_directory: folder.unwrap_or_default(),
        host: folder::host(),
        options: given.into_iter().filter_map(option).collect(),
        passes: Vec::new(),
    }
}

/// Reads the selected bundles.
fn open(
    options: &ReplayOptions,
    messages: MessagePrinter,
) -> Result<(CaptureReader, CaptureBundles), RecorderFailure> {
    let capture = CaptureReader::open(&options.capture).map_err(unreadable)?;
    let mut bundles = CaptureBundles::read(&capture).map_err(unreadable)?;
    let all = bundles.bundles.len();
    let wanted = &options.selection.launches;
    let named = wanted.iter().filter_map(named_launch).collect();
    check_launches(&options.capture, &bundles, &named)?;
    let name = options.selection.kernels.as_deref().map(Regex::new).transpose();
    let name = name.map_err(|error| RecorderFailure::before(error.into()))?;
    bundles.bundles.retain(|kernel_id, bundle| {
        (wanted.is_empty() || wanted.iter().any(|launches| picks(launches, *kernel_id, bundle)))
            && name.as_ref().is_none_or(|name| finds(name, bundle))
    });
    if bundles.bundles.is_empty() {
        let text = anyhow!("none of the {all} bundled launches is selected");
        return Err(RecorderFailure::before(text).hint("see --kernels and --launches"));
    }
    let selected: BTreeSet<KernelId> = bundles.bundles.keys().copied().collect();
    bundles.read_memory(&capture).map_err(|error| match error {
        ReplayError::Capture(error) => unreadable(error),
        error => {
            RecorderFailure::before(error.into()).hint("select fewer launches, with --kernels or --launches")
        }
    })?;
    check_launches(&options.capture, &bundles, &BTreeSet::new())?;
    for (kernel_id, reason) in bundles.refusals.iter().filter(|(kernel_id, _)| selected.contains(kernel_id)) {
        message::warning(format_args!("launch {} is not replayed: {reason}", kernel_id.0));
    }
    messages.step(format_args!("{} of {all} bundled launches are replayed", bundles.bundles.len()));
    Ok((capture, bundles))
}

fn unreadable(error: CaptureError) -> RecorderFailure {
    let hint = error.hint();
    let failure = RecorderFailure::before(error.into());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Refuses a capture without bundles, and launches that are none of them.
fn check_launches(
    capture: &Path,
    bundles: &CaptureBundles,
    launches: &BTreeSet<u64>,
) -> Result<(), RecorderFailure> {
    let path = capture.display();
    if bundles.bundles.is_empty() {
        let refused = bundles.refusals.len();
        let Some(reason) = bundles.refusals.values().next() else {
            let text = anyhow!("no launch can be replayed: the capture holds no bundles: `{path}`");
            return Err(
                RecorderFailure::before(text).hint("record the program with `stallmap-record --replay`")
            );
        };
        let text = anyhow!("none of the {refused} launches can be replayed: `{path}`: {reason}");
        return Err(RecorderFailure::before(text).hint("the capture's table `bundle` has the reason of each"));
    }
    let known = |launch: &&u64| bundles.bundles.contains_key(&KernelId(**launch));
    let Some(unknown) = launches.iter().find(|launch| !known(launch)) else { return Ok(()) };
    let reason =
        bundles.refusals.get(&KernelId(*unknown)).map_or("it is not a bundle of the capture", String::as_str);
    let text = anyhow!("launch {unknown} cannot be replayed: {reason}");
    let query = "SELECT kernel_id FROM bundle WHERE refusal IS NULL";
    Err(RecorderFailure::before(text)
        .hint(format_args!("list the bundles with `stallmap sql {path} -c '{query}'`")))
}

/// The one launch that is named by its id.
fn named_launch(launches: &LaunchRanges) -> Option<u64> {
    match launches {
        LaunchRanges::Ids(ids) if ids.start() == ids.end() => Some(*ids.start()),
        LaunchRanges::Ids(_) | LaunchRanges::Kernel(_) => None,
    }
}

fn picks(launches: &LaunchRanges, kernel_id: KernelId, bundle: &ReplayBundle) -> bool {
    match launches {
        LaunchRanges::Ids(ids) => ids.contains(&kernel_id.0),
        LaunchRanges::Kernel(name) => finds(name, bundle),
    }
}

fn finds(name: &Regex, bundle: &ReplayBundle) -> bool {
    name.is_match(&bundle.name) || name.is_match(&stallmap_sass::demangle(&bundle.name))
}

/// Writes the selected launches as programs.
fn export(
    capture: &CaptureReader,
    bundles: &CaptureBundles,
    folder: &Path,
    language: ExportLanguage,
    messages: MessagePrinter,
) -> Result<ExitCode, RecorderFailure> {
    for bundle in bundles.bundles.values() {
        let path = stallmap_replay::export::export(capture, bundle, folder, language);
        let path = path.map_err(|error| {
            let text = anyhow!(error).context(format!("export launch {}", bundle.kernel_id.0));
            RecorderFailure::before(text).hint("name a folder that can be written and has no such launch yet")
        })?;
        messages.result(format_args!("wrote `{}`: {}", path.display(), bundle.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// All replays of one call.
struct ReplayRound<'a> {
    options: &'a ReplayOptions,
    sandbox: SandboxOption,
    folder: &'a RecordingFolder,
    signals: &'a SignalRelay,
    messages: MessagePrinter,
    recording: RecordingFile,
    /// True if any launch was replayed.
    has_replayed: bool,
    /// True if an instrument measured nothing.
    has_failed: bool,
}

impl<'a> ReplayRound<'a> {
    fn new(
        options: &'a ReplayOptions,
        sandbox: SandboxOption,
        folder: &'a RecordingFolder,
        signals: &'a SignalRelay,
        messages: MessagePrinter,
    ) -> Self {
        let recording = describe(options);
        Self {
            options,
            sandbox,
            folder,
            signals,
            messages,
            recording,
            has_replayed: false,
            has_failed: false,
        }
    }

    /// Every instrument in turn. Returns the outcome of each launch without an instrument. If one fails, the rest
    /// counts.
    fn all(
        &mut self,
        capture: &CaptureReader,
        bundles: &CaptureBundles,
    ) -> Result<BTreeMap<u64, ReplayOutcome>, RecorderFailure> {
        let kernels: Vec<u64> = bundles.bundles.keys().map(|kernel_id| kernel_id.0).collect();
        let plan = self.plan(PassInstrument::Native, kernels)?;
        let native = self.run(PassInstrument::Native, None, plan)?;
        let good: Vec<&ReplayOutcome> = native.values().filter(|outcome| outcome.good > 0).collect();
        for wanted in self.options.instruments() {
            let measured = match wanted {
                ReplayInstrument::Native => Ok(()),
                ReplayInstrument::PcSamples => self.samples(&good),
                ReplayInstrument::Counters => self.under(PassInstrument::Counters, &good),
                ReplayInstrument::Accesses => self.under(PassInstrument::Accesses, &good),
            };
            self.warn_of(measured, wanted.words())?;
        }
        if let Some(targets) = self.options.targets() {
            let measured = self.ablate(capture, &good, targets);
            self.warn_of(measured, "experiments")?;
        }
        if self.options.redirect {
            let measured = self.redirect(capture, bundles, &good);
            self.warn_of(measured, "costs of device memory")?;
        }
        Ok(native)
    }

    /// A failed instrument is a warning, unless the user ended it.
    fn warn_of(&mut self, measured: Result<(), RecorderFailure>, what: &str) -> Result<(), RecorderFailure> {
        match measured {
            Err(failure) if self.signals.ending().is_none() => {
                self.has_failed = true;
                failure.warn(format_args!("{what} were not all measured"));
                Ok(())
            }
            measured => measured,
        }
    }

    /// Samples, in groups of launches with one period: it is fixed for a process.
    fn samples(&mut self, good: &[&ReplayOutcome]) -> Result<(), RecorderFailure> {
        let mut groups: BTreeMap<u32, Vec<&ReplayOutcome>> = BTreeMap::new();
        for outcome in good {
            let period = self.options.extent.period.unwrap_or_else(|| period(outcome.duration_ns));
            groups.entry(period).or_default().push(outcome);
        }
        for (period, group) in groups {
            let plan = self.plan_of(PassInstrument::PcSamples, &group)?;
            let outcomes = self.run(PassInstrument::PcSamples, Some(period), plan)?;
            let wanted = self.options.extent.precision / 100.0;
            let coarse =
                outcomes.values().filter(|outcome| outcome.relative_error.is_none_or(|error| error > wanted));
            let coarse = coarse.count();
            if coarse > 0 {
                message::warning(format_args!(
                    "{coarse} of {} launches sampled every 2^{period} cycles miss the precision: raise --budget or --repeat",
                    outcomes.len()
                ));
            }
        }
        Ok(())
    }

    fn under(&mut self, instrument: PassInstrument, good: &[&ReplayOutcome]) -> Result<(), RecorderFailure> {
        let plan = self.plan_of(instrument, good)?;
        self.run(instrument, None, plan).map(|_outcomes| ())
    }

    fn plan_of(
        &self,
        instrument: PassInstrument,
        good: &[&ReplayOutcome],
    ) -> Result<WorkerPlan, RecorderFailure> {
        let mut plan = self.plan(instrument, good.iter().map(|outcome| outcome.kernel_id).collect())?;
        let unstable = good.iter().map(|outcome| (outcome.kernel_id, outcome.unstable.clone()));
        plan.unstable = unstable.filter(|(_, pages)| !pages.is_empty()).collect();
        Ok(plan)
    }

    fn plan(&self, instrument: PassInstrument, kernels: Vec<u64>) -> Result<WorkerPlan, RecorderFailure> {
        let extent = &self.options.extent;
        let is_sampling = instrument == PassInstrument::PcSamples;
        let repeats = match instrument {
            PassInstrument::PcSamples => SAMPLE_REPEATS,
            PassInstrument::Native => NATIVE_REPEATS,
            PassInstrument::Counters
            | PassInstrument::Accesses
            | PassInstrument::Timeline
            | PassInstrument::Blocks => 1,
        };
        let cold_by_itself = instrument == PassInstrument::Counters;
        Ok(WorkerPlan {
            capture: std::path::absolute(&self.options.capture)
                .map_err(|error| RecorderFailure::before(error.into()))?,
            kernels,
            failed: BTreeMap::new(),
            repeats: extent.repeat.unwrap_or(repeats),
            precision: is_sampling.then_some(extent.precision / 100.0),
            budget_ns: nanoseconds(extent.budget),
            metrics: sets::expand(&self.options.selection.metrics),
            is_cold: extent.cache.map_or(cold_by_itself, |cache| cache == CacheState::Cold),
            translation: if extent.translate {
                AddressTranslation::Always
            } else {
                AddressTranslation::Never
            },
            unstable: BTreeMap::new(),
            experiments: BTreeMap::new(),
        })
    }

    fn run(
        &mut self,
        instrument: PassInstrument,
        period: Option<u32>,
        plan: WorkerPlan,
    ) -> Result<BTreeMap<u64, ReplayOutcome>, RecorderFailure> {
        let config = Config {
            directory: self.folder.path().to_owned(),
            instrument,
            spaces: vec![RecordedSpace::Global],
            sampling_period_exponent: period,
            sampling_buffer_bytes: SAMPLING_BUFFER_BYTES,
            python: false,
            replays: true,
            ..Config::default()
        };
        let progress = finishing::progress_bar(self.messages);
        progress.set_length(plan.kernels.len() as u64);
        progress.set_message(format!("replaying under {}", instrument.word()));
        let patience =
            Duration::from_nanos(nanoseconds(self.options.extent.timeout + self.options.extent.budget));
        let mut workers = WorkerPool {
            folder: self.folder,
            recording: &mut self.recording,
            signals: self.signals,
            messages: self.messages,
            progress: &progress,
            patience,
            has_replayed: &mut self.has_replayed,
            experiment: None,
            sandbox: self.sandbox,
        };
        let outcomes = workers.run(&config, plan);
        progress.finish_and_clear();
        match self.signals.ending() {
            Some(signal) => Err(interrupted(signal)),
            None => outcomes,
        }
    }
}

fn interrupted(signal: i32) -> RecorderFailure {
    let code = u8::try_from(128 + signal).unwrap_or(exit::NOT_STARTED);
    RecorderFailure::new(code, anyhow!("interrupted: the capture is unchanged"))
}

/// The period for a launch of a duration.
fn period(duration_ns: Option<u64>) -> u32 {
    let duration_ns = duration_ns.unwrap_or(0);
    PERIODS.iter().find(|(below, _)| duration_ns < *below).map_or(8, |&(_, exponent)| exponent)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what a duration can be"
)]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds.clamp(0.0, 1e9) * 1e9) as u64
}

/// Prints the summary. Returns whether every launch was reproduced.
fn conclude(
    bundles: &CaptureBundles,
    outcomes: &BTreeMap<u64, ReplayOutcome>,
    messages: MessagePrinter,
) -> bool {
    let good = outcomes.values().filter(|outcome| outcome.good > 0).count();
    let unstable =
        outcomes.values().filter(|outcome| outcome.good > 0 && !outcome.unstable.is_empty()).count();
    let all = bundles.bundles.len();
    messages.result(format_args!(
        "{good} of {all} launches were reproduced, {unstable} of them with memory that differs between replays"
    ));
    let bad = outcomes.values().filter(|outcome| outcome.good == 0);
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for outcome in bad {
        *reasons.entry(outcome.detail.as_deref().unwrap_or("not known")).or_default() += 1;
    }
    for (reason, count) in &reasons {
        message::warning(format_args!("{count} launches were not verified: {reason}"));
    }
    good == all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_launches_are_sampled_densely() {
        assert_eq!(
            [None, Some(19_999), Some(20_000), Some(1_000_000), Some(u64::MAX - 1)].map(period),
            [6, 6, 8, 10, 12]
        );
    }

    #[test]
    fn durations_are_clamped() {
        assert_eq!(
            [nanoseconds(1.5), nanoseconds(-1.0), nanoseconds(f64::INFINITY)],
            [1_500_000_000, 0, 1_000_000_000_000_000_000]
        );
    }
}

//! The recording: prepare, run the program, finalize the capture, end as the program ended.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use stallmap_config::rank::ProcessRank;
use stallmap_config::{
    AccessExtent, Config, FullBufferAction, LaunchSelection, PassInstrument, RecordedSpace, RecordingFile,
    RecordingOption, SWITCH, SamplingMethod,
};

use crate::args::{self, ProbeSide, RecordOptions};
use crate::child::{RunEnd, SignalRelay};
use crate::exit::{self, RecorderFailure};
use crate::folder::RecordingFolder;
use crate::injection::InjectionSetup;
use crate::message::{self, MessagePrinter};
use crate::passes::{PassRunner, now_ns};
use crate::{bundles, finishing, folder, labels, own_profiler, prepared};

/// Below this even a small recording may fill the disk.
pub(crate) const LITTLE_DISK: u64 = 1 << 30;

/// Records the program. Ends with its exit code.
pub(crate) fn record(options: &RecordOptions) -> Result<ExitCode, RecorderFailure> {
    let Some(output) = options.output.as_deref() else {
        return Err(RecorderFailure::before(anyhow!("no output is named: use -o NAME.stallmap")));
    };
    bundles::check(options)?;
    let messages = MessagePrinter(options.method.voice);
    let named = folder::of_rank(output, ProcessRank::from_environment(|name| std::env::var(name).ok()));
    if named != output {
        messages.result(format_args!("this is one of several ranks: its capture is `{}`", named.display()));
    }
    let output = named.as_path();
    let signals = SignalRelay::take().context("take over signals").map_err(RecorderFailure::before)?;
    let folder = RecordingFolder::create(output, options.method.force)?;
    if let Some(free) = folder.free_bytes().filter(|&free| free < LITTLE_DISK) {
        message::warning(format_args!("only {} MB are free in the output's folder", free >> 20));
    }
    if options.volume.signals {
        signals.switch(folder.path().join(SWITCH), messages);
    }
    let passes = PassRunner { options, folder: &folder, signals: &signals, messages };
    if options.method.one_run {
        messages.result(format_args!(
            "one run: memory accesses and tensors are not recorded, and launches of a function that run within 20 ms \
             of each other share their samples"
        ));
    }
    let mut recording = describe(options);
    let instruments = instruments(options);
    let ends = folder
        .describe(&recording)
        .map_err(RecorderFailure::before)
        .and_then(|()| run(&passes, &instruments, &mut recording));
    let ends = match ends {
        Ok(ends) => ends,
        Err(failure) => {
            remove_unless_it_holds_rows(&folder);
            return Err(failure);
        }
    };
    let program_code = code_of_all(&ends);
    if instruments.iter().all(|&instrument| folder.processes(instrument) == 0) {
        folder.remove().unwrap_or_else(|error| message::warning(format_args!("{error:#}")));
        return Ok(ExitCode::from(program_code));
    }
    let recover = format!("stallmap-record recover {}", folder.path().display());
    signals.only_us_left(
        format!("interrupted before the capture was written: run `{recover}`"),
        finishing::leftovers(output),
    );
    match finishing::finish(folder.path(), output, options.method.force, messages) {
        Ok(()) => {
            if !options.method.keep {
                folder.remove().unwrap_or_else(|error| message::warning(format_args!("{error:#}")));
            }
            if !options.method.no_prepare {
                signals.only_us_left(
                    "interrupted: the capture is complete, without rows of views".to_owned(),
                    Vec::new(),
                );
                prepared::prepare(output, messages);
            }
            Ok(ExitCode::from(program_code))
        }
        Err(failure) => Err(failure
            .with_code(exit::after(program_code))
            .hint(format_args!("to use what was recorded, run `{recover} -o NAME.stallmap`"))),
    }
}

/// Runs the program. Without the recorder's library it runs all the same.
fn run(
    passes: &PassRunner,
    instruments: &[PassInstrument],
    recording: &mut RecordingFile,
) -> Result<Vec<RunEnd>, RecorderFailure> {
    if let Some(other) = std::env::var_os("CUDA_INJECTION64_PATH") {
        message::warning(format_args!(
            "CUDA_INJECTION64_PATH was `{}` and is replaced",
            other.to_string_lossy()
        ));
    }
    let library = passes.options.method.library.as_deref();
    let mut injection = match InjectionSetup::prepare(config(passes.options, passes.folder), library) {
        Ok(injection) => injection,
        Err(error) => {
            message::warning(format_args!("nothing is recorded, the program runs without: {error:#}"));
            return Ok(vec![passes.unrecorded()?]);
        }
    };
    let ends = passes.recorded(instruments, &mut injection, recording)?;
    let recorded = |&&instrument: &&PassInstrument| passes.folder.processes(instrument) == 0;
    if instruments.iter().filter(recorded).count() == instruments.len() {
        message::warning(
            "nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise",
        );
    } else {
        let silent = instruments.iter().take(ends.len()).filter(recorded);
        silent.for_each(|instrument| {
            message::warning(format_args!(
                "the {} pass recorded nothing: CUDA did not start in it",
                instrument.word()
            ));
        });
    }
    Ok(ends)
}

/// The instruments of a recording.
const PASSES: [PassInstrument; 4] =
    [PassInstrument::Accesses, PassInstrument::PcSamples, PassInstrument::Timeline, PassInstrument::Blocks];

/// The folder proved that the output can be written. It holds no rows.
fn remove_unless_it_holds_rows(folder: &RecordingFolder) {
    if PASSES.iter().all(|&instrument| folder.processes(instrument) == 0) {
        folder.remove().unwrap_or_else(|error| message::warning(format_args!("{error:#}")));
    } else {
        message::hint(format_args!("run `stallmap-record recover {}`", folder.path().display()));
    }
}

/// The first run that failed says how the program ends.
pub(crate) fn code_of_all(ends: &[RunEnd]) -> u8 {
    let codes: Vec<u8> = ends.iter().map(|end| exit::code_of(end.status)).collect();
    if codes.windows(2).any(|two| two[0] != two[1]) {
        let words: Vec<String> = ends.iter().map(|end| end.words()).collect();
        message::warning(format_args!(
            "the runs of the program ended differently: {}",
            words.join(", then ")
        ));
    }
    codes.into_iter().find(|&code| code != 0).unwrap_or(0)
}

fn instruments(options: &RecordOptions) -> Vec<PassInstrument> {
    if options.method.one_run {
        return vec![PassInstrument::PcSamples];
    }
    let samples_first = options.volume.replay.is_some_and(|replay| replay.share_percent.is_some());
    // Only the first run's output is shown: in it, the program's own profiler must work.
    let accesses_later = own_profiler::is_likely(&options.program);
    let wanted = |side| options.only.is_empty() || options.only.contains(&side);
    let (accesses, timeline, samples) = (
        (ProbeSide::Accesses, PassInstrument::Accesses),
        (ProbeSide::Timeline, PassInstrument::Timeline),
        (ProbeSide::Samples, PassInstrument::PcSamples),
    );
    // Times come before samples: the period of a long kernel follows its duration.
    let mut passes = match (samples_first, accesses_later) {
        (true, _) => vec![timeline, samples, accesses],
        (false, true) => vec![timeline, accesses, samples],
        (false, false) => vec![accesses, timeline, samples],
    };
    // Continuous sampling measures times too, unless only one side is wanted.
    if options.method.sampling() == args::SamplingArg::Continuous && options.only.is_empty() {
        passes.retain(|pass| *pass != timeline);
    }
    let passes = passes.into_iter().filter(|&(side, _)| wanted(side)).map(|(_, instrument)| instrument);
    let blocks = options.volume.blocks_timeline || options.volume.warps_timeline;
    passes.chain(blocks.then_some(PassInstrument::Blocks)).collect()
}

fn config(options: &RecordOptions, folder: &folder::RecordingFolder) -> Config {
    let (volume, method) = (&options.volume, &options.method);
    let spaces = volume.spaces.iter().map(|space| match space {
        args::SpaceArg::Global => RecordedSpace::Global,
        args::SpaceArg::Shared => RecordedSpace::Shared,
        args::SpaceArg::Local => RecordedSpace::Local,
    });
    Config {
        directory: folder.path().to_owned(),
        selection: LaunchSelection {
            kernels: volume.kernels.clone(),
            exclude: volume.exclude.clone(),
            collectives: volume.collectives,
            skip: volume.skip,
            every: volume.every,
            count: volume.count,
            region: volume.region.clone(),
            paused: volume.paused,
            has_switch: volume.signals,
            duration_ms: volume.duration,
            size_bytes: volume.max_size,
        },
        blocks: volume.blocks,
        accesses: match volume.accesses {
            args::ExtentArg::Auto => AccessExtent::Auto,
            args::ExtentArg::All => AccessExtent::All,
        },
        spaces: spaces.collect(),
        when_full: match method.when_full {
            args::WhenFullArg::Wait => FullBufferAction::Wait,
            args::WhenFullArg::Drop => FullBufferAction::Drop,
        },
        buffer_bytes: method.buffer,
        sampling: match method.sampling() {
            args::SamplingArg::Serialized => SamplingMethod::Serialized,
            args::SamplingArg::Continuous => SamplingMethod::Continuous,
        },
        sampling_period_exponent: method.period,
        marks_warps: volume.warps_timeline,
        python: !method.no_python,
        native_stacks: method.native_stacks,
        is_only_run: method.one_run || instruments(options) == [PassInstrument::Timeline],
        bundles: bundles::config(options),
        ..Config::default()
    }
}

fn describe(options: &RecordOptions) -> RecordingFile {
    let mut words = options.program.iter().map(|word| word.to_string_lossy().into_owned());
    let folder = std::env::current_dir().map(|path| path.to_string_lossy().into_owned());
    RecordingFile {
        recorder_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ns: now_ns(),
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        working_directory: folder.unwrap_or_default(),
        host: folder::host(),
        options: described_options(options),
        passes: Vec::new(),
    }
}

/// Every option that affects the recording, given or not.
fn described_options(options: &RecordOptions) -> Vec<RecordingOption> {
    let (volume, method) = (&options.volume, &options.method);
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let number = |value: Option<u64>| value.map(|number| number.to_string());
    let spaces: Vec<String> = volume.spaces.iter().map(|space| word(space)).collect();
    let sides: Vec<String> = options.only.iter().map(|side| word(side)).collect();
    let options = [
        ("only", (!options.only.is_empty()).then(|| sides.join(","))),
        ("kernels", volume.kernels.clone()),
        ("exclude", volume.exclude.clone()),
        ("collectives", volume.collectives.then(|| "true".to_owned())),
        ("skip", number(Some(volume.skip))),
        ("every", number(Some(volume.every))),
        ("count", number(volume.count)),
        ("duration-ms", number(volume.duration)),
        ("max-size", number(volume.max_size)),
        ("accesses", Some(word(&volume.accesses))),
        ("blocks", number(volume.blocks)),
        ("blocks-timeline", volume.blocks_timeline.then(|| "true".to_owned())),
        ("warps-timeline", volume.warps_timeline.then(|| "true".to_owned())),
        ("region", volume.region.clone()),
        ("paused", Some(volume.paused.to_string())),
        ("signals", volume.signals.then(|| "true".to_owned())),
        ("spaces", Some(spaces.join(","))),
        ("when-full", Some(word(&method.when_full))),
        ("buffer", number(Some(method.buffer))),
        ("sampling", Some(word(&method.sampling()))),
        ("one-run", method.one_run.then(|| "true".to_owned())),
        ("period", number(method.period.map(u64::from))),
        ("replay", volume.replay.map(|selection| selection.to_string())),
        ("replay-kernels", volume.replay_kernels.clone()),
        ("replay-budget", number(volume.replay.map(|_| volume.replay_budget))),
        ("replay-values", volume.replay_values.then(|| "true".to_owned())),
        ("python", Some((!method.no_python).to_string())),
        ("native-stacks", method.native_stacks.then(|| "true".to_owned())),
    ];
    let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let given = given.map(|(name, value)| RecordingOption { name: name.to_owned(), value });
    given.chain(labels::recorded(&method.label, |name| std::env::var(name).ok())).collect()
}

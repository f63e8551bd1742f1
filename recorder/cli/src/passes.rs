//! The passes of a recording: the program run once for each instrument, in fresh processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use stallmap_config::held::{self, HeldLaunch};
use stallmap_config::{PassInstrument, PassLoss, RecordingFile, RecordingPass};

use crate::args::RecordOptions;
use crate::child::{RunEnd, SignalRelay};
use crate::durations;
use crate::exit::{self, RecorderFailure};
use crate::folder::RecordingFolder;
use crate::hot;
use crate::injection::InjectionSetup;
use crate::message::{self, MessagePrinter};
use crate::own_profiler;
use crate::process_tree::EscapedProcess;
use crate::process_watch::ProcessWatch;
use crate::record::code_of_all;

/// Runs the program, once for each pass, and says how its runs ended.
#[derive(Debug)]
pub(crate) struct PassRunner<'a> {
    /// The options of the recording.
    pub options: &'a RecordOptions,
    /// The folder for the rows.
    pub folder: &'a RecordingFolder,
    /// The signals to pass on.
    pub signals: &'a SignalRelay,
    /// Messages to the user.
    pub messages: MessagePrinter,
}

impl PassRunner<'_> {
    /// Runs the program once, recording nothing.
    pub(crate) fn unrecorded(&self) -> Result<RunEnd, RecorderFailure> {
        self.run(&mut self.command(), |_| ()).map(|(end, ())| end)
    }

    /// Runs the program under each of `instruments` and updates `recording` in the folder.
    pub(crate) fn recorded(
        &self,
        instruments: &[PassInstrument],
        injection: &mut InjectionSetup,
        recording: &mut RecordingFile,
    ) -> Result<Vec<RunEnd>, RecorderFailure> {
        let input = ProgramInput::of_this_process();
        let mut ends: Vec<RunEnd> = Vec::new();
        for (index, &instrument) in instruments.iter().enumerate() {
            let (number, count) = (index + 1, instruments.len());
            self.messages.step(format_args!("pass {number} of {count}: {}", instrument.word()));
            if index > 0 && instrument == PassInstrument::Accesses {
                self.select(injection);
            }
            if instrument == PassInstrument::PcSamples {
                self.leave_durations();
            }
            let started = RunStart { instrument, index, input: &input };
            let mut pass = self.pass(&started, injection)?;
            if let Some(held) = pass.held.take() {
                self.sample_again(&held, injection, recording)?;
                pass = self.pass(&started, injection)?;
                pass.described.losses.push(held_loss(&held));
            }
            let end = pass.end;
            recording.passes.push(pass.described);
            if self.failed_by_us(instrument, &ends, end) {
                message::warning(format_args!(
                    "the accesses run ended with {}: the program's own profiler cannot run in it",
                    end.words()
                ));
            } else {
                ends.push(end);
            }
            self.folder.describe(recording).map_err(|error| {
                RecorderFailure::not_written(error).with_code(exit::after(code_of_all(&ends)))
            })?;
            let rest = instruments.get(index + 1..).unwrap_or_default();
            if !rest.is_empty() && !self.goes_on(instrument, rest, end) {
                break;
            }
        }
        Ok(ends)
    }

    /// Runs the program once under an instrument, as an injection has it.
    fn pass(
        &self,
        started: &RunStart<'_>,
        injection: &mut InjectionSetup,
    ) -> Result<EndedPass, RecorderFailure> {
        let &RunStart { instrument, index, input } = started;
        // The first run has shown its output: to run the program again would repeat it.
        let is_sampled_again =
            index > 0 && instrument == PassInstrument::PcSamples && injection.samples_serialized();
        injection.await_held_launch(is_sampled_again);
        let mut command = self.command();
        command.envs(injection.variables(instrument).map_err(RecorderFailure::before)?);
        if index > 0 {
            input.again(&mut command, index == 1);
            if !self.options.method.repeat_output {
                command.stdout(Stdio::null());
            }
        }
        let started_ns = now_ns();
        let begin = |process_id| ProcessWatch::begin(process_id, self.folder.path(), is_sampled_again);
        let (end, watch) = self.run(&mut command, begin)?;
        let report = watch.end();
        let mut described = ended_pass(instrument, started_ns, end);
        described.losses = report.escaped.iter().map(escape_loss).collect();
        warn_of_escapes(&report.escaped);
        Ok(EndedPass { end, described, held: report.held })
    }

    /// Gives up a run of serialized samples because a launch of it would never end.
    fn sample_again(
        &self,
        held: &HeldLaunch,
        injection: &mut InjectionSetup,
        recording: &mut RecordingFile,
    ) -> Result<(), RecorderFailure> {
        message::warning(format_args!(
            "`{}` had been running for {} s: it waits for what the program does behind its launch, so kernels cannot \
             run one at a time. The program is run again and sampled continuously",
            held.kernel, held.held_s
        ));
        self.folder.remove_runs(PassInstrument::PcSamples).map_err(RecorderFailure::before)?;
        injection.sample_continuously();
        for option in recording.options.iter_mut().filter(|option| option.name == "sampling") {
            "continuous".clone_into(&mut option.value);
        }
        // A file that stays would end the next run.
        let path = self.folder.path().join(held::FILE_NAME);
        let removed = fs::remove_file(&path).with_context(|| format!("remove `{}`", path.display()));
        removed.map_err(RecorderFailure::before)
    }

    /// True if the other passes can add something.
    fn goes_on(&self, instrument: PassInstrument, rest: &[PassInstrument], end: RunEnd) -> bool {
        if self.folder.processes(instrument) == 0 {
            // The caller says that nothing was recorded.
            return false;
        }
        let reason = if self.signals.ending().is_some() {
            "it was interrupted".to_owned()
        } else if end.status.code().is_none() {
            format!("it ended with {}", end.words())
        } else {
            return true;
        };
        let word = |instrument: &PassInstrument| match instrument {
            PassInstrument::Accesses => "accesses",
            PassInstrument::Timeline => "times",
            PassInstrument::Blocks => "times of blocks",
            _ => "stalls",
        };
        let what = rest.iter().map(word).collect::<Vec<_>>().join(" and ");
        message::warning(format_args!("{what} are not recorded: the program is not run again, as {reason}"));
        false
    }

    /// True if a program that has a profiler of its own failed where that found no GPU, and nowhere before.
    fn failed_by_us(&self, instrument: PassInstrument, before: &[RunEnd], end: RunEnd) -> bool {
        let is_first_failure = !before.is_empty() && before.iter().all(|end| end.status.success());
        instrument == PassInstrument::Accesses
            && is_first_failure
            && !end.status.success()
            && own_profiler::is_likely(&self.options.program)
    }

    /// Limits the accesses pass to the kernels that the sampling pass found hot, if requested.
    fn select(&self, injection: &mut InjectionSetup) {
        let replay = self.options.volume.replay;
        let Some(percent) = replay.and_then(|selection| selection.share_percent) else { return };
        match hot::kernels(self.folder.path(), percent) {
            Ok(kernels) if kernels.is_empty() => {
                message::warning("no samples were taken: kernels of every share are recorded");
            }
            Ok(kernels) => {
                let count = kernels.len();
                self.messages.step(format_args!("{count} kernels have {percent} % of the samples"));
                injection.select(kernels);
            }
            Err(error) => message::warning(format_args!("kernels of every share are recorded: {error:#}")),
        }
    }

    /// Leaves the durations of kernels to a sampling run, if a run before has measured them.
    fn leave_durations(&self) {
        if let Err(error) = durations::write(self.folder.path()) {
            message::warning(format_args!("long kernels may fill the buffer of samples: {error:#}"));
        }
    }

    fn command(&self) -> Command {
        let mut words = self.options.program.iter();
        let mut command = Command::new(words.next().map(OsString::as_os_str).unwrap_or_default());
        command.args(words);
        command
    }

    /// Runs the program to its end. `begin` is called with its process id.
    fn run<T>(
        &self,
        command: &mut Command,
        begin: impl FnOnce(u32) -> T,
    ) -> Result<(RunEnd, T), RecorderFailure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let ran = self.signals.start(command).and_then(|mut child| {
            let watch = begin(child.id());
            let status = self.signals.wait(&mut child)?;
            Ok((RunEnd { process_id: child.id(), status }, watch))
        });
        ran.map_err(|error| {
            if let Some(code) = self.signals.ending().and_then(|signal| u8::try_from(128 + signal).ok()) {
                return RecorderFailure::new(code, anyhow!("interrupted before the program ran"));
            }
            let missing = error.kind() == io::ErrorKind::NotFound;
            let (code, hint) = if missing {
                (exit::NOT_FOUND, "check the name after `--`; a program in this folder is `./NAME`")
            } else {
                (exit::CANNOT_RUN, "check that it is an executable file, or name its interpreter before it")
            };
            RecorderFailure::new(code, anyhow!(error).context(format!("run the program `{name}`"))).hint(hint)
        })
    }
}

/// A run of the program that begins.
struct RunStart<'a> {
    instrument: PassInstrument,
    /// Number of runs before it.
    index: usize,
    input: &'a ProgramInput,
}

/// A run of the program that has ended.
struct EndedPass {
    end: RunEnd,
    described: RecordingPass,
    /// The launch because of which it was ended.
    held: Option<HeldLaunch>,
}

/// The loss of a launch's own samples: continuous ones are shared among launches.
fn held_loss(held: &HeldLaunch) -> PassLoss {
    let reason = "a launch waits for what is behind it: sampled continuously".to_owned();
    PassLoss { reason, detail: held.kernel.clone() }
}

fn escape_loss(escaped: &EscapedProcess) -> PassLoss {
    let EscapedProcess { process_id, name, is_descendant, cause } = escaped;
    let reason = if *is_descendant {
        "a process used a GPU without the recorder"
    } else {
        "another process, maybe the program's, used a GPU meanwhile"
    };
    PassLoss { reason: reason.to_owned(), detail: format!("{process_id} `{name}`: {cause}") }
}

/// Maximum number of warnings about processes of one pass.
const MAX_ESCAPE_WARNINGS: usize = 3;

fn warn_of_escapes(escaped: &[EscapedProcess]) {
    for EscapedProcess { process_id, name, is_descendant, cause } in escaped.iter().take(MAX_ESCAPE_WARNINGS)
    {
        let origin = if *is_descendant { "" } else { ", maybe one of the program's," };
        message::warning(format_args!(
            "process {process_id} `{name}`{origin} used a GPU and was not recorded: {cause}"
        ));
    }
    if let Some(rest) = escaped.len().checked_sub(MAX_ESCAPE_WARNINGS).filter(|&rest| rest > 0) {
        message::warning(format_args!("so did {rest} other processes"));
    }
}

fn ended_pass(instrument: PassInstrument, started_ns: i64, end: RunEnd) -> RecordingPass {
    use std::os::unix::process::ExitStatusExt as _;
    RecordingPass {
        instrument,
        process_id: end.process_id,
        started_ns,
        ended_ns: Some(now_ns()),
        exit_code: end.status.code(),
        exit_signal: end.status.signal(),
        losses: Vec::new(),
    }
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The program's input: a file can be read again from its position at the start, a pipe cannot.
enum ProgramInput {
    /// A file, and its position at the start.
    File(File, u64),
    /// A terminal, or a device such as `/dev/null`: the same for each run.
    Same,
    /// Something that the first run used up.
    Once,
}

impl ProgramInput {
    fn of_this_process() -> Self {
        Self::inspect().unwrap_or(Self::Once)
    }

    fn inspect() -> io::Result<Self> {
        let stdin = io::stdin();
        let mut file = File::from(stdin.as_fd().try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        if kind.is_file() {
            let position = file.stream_position()?;
            return Ok(Self::File(file, position));
        }
        Ok(if stdin.is_terminal() || kind.is_char_device() { Self::Same } else { Self::Once })
    }

    /// Gives the input to another run. Only for the first one is there a warning if that fails.
    fn again(&self, command: &mut Command, is_first: bool) {
        let rewound = match self {
            Self::Same => return,
            // The run shares this process's position in the file.
            Self::File(file, position) => {
                let mut file = file;
                file.seek(SeekFrom::Start(*position)).context("rewind standard input")
            }
            Self::Once => Err(anyhow!("stdin is a pipe and cannot be read again")),
        };
        if let Err(error) = rewound {
            if is_first {
                message::warning(format_args!("the program reads nothing in its later runs: {error:#}"));
            }
            command.stdin(Stdio::null());
        }
    }
}

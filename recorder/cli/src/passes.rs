//! The passes of a recording: the program run once for each instrument, in fresh processes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use stallmap_config::{PassInstrument, RecordingFile, RecordingPass};

use crate::args::RecordOptions;
use crate::child::{RunEnd, SignalRelay};
use crate::durations;
use crate::exit::{self, RecorderFailure};
use crate::folder::RecordingFolder;
use crate::hot;
use crate::injection::Injection;
use crate::message::{self, MessagePrinter};
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
        self.start(&mut self.command())
    }

    /// Runs the program under each of `instruments` and updates `recording` in the folder.
    pub(crate) fn recorded(
        &self,
        instruments: &[PassInstrument],
        injection: &mut Injection,
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
            let mut command = self.command();
            command.envs(injection.variables(instrument).map_err(RecorderFailure::before)?);
            if index > 0 {
                input.again(&mut command, index == 1);
                if !self.options.method.repeat_output {
                    command.stdout(Stdio::null());
                }
            }
            let started_ns = now_ns();
            let end = self.start(&mut command)?;
            recording.passes.push(ended_pass(instrument, started_ns, end));
            ends.push(end);
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
            _ => "stalls",
        };
        let what = rest.iter().map(word).collect::<Vec<_>>().join(" and ");
        message::warning(format_args!("{what} are not recorded: the program is not run again, as {reason}"));
        false
    }

    /// Limits the accesses pass to the kernels that the sampling pass found hot, if requested.
    fn select(&self, injection: &mut Injection) {
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

    fn start(&self, command: &mut Command) -> Result<RunEnd, RecorderFailure> {
        let name = command.get_program().to_string_lossy().into_owned();
        self.signals.run(command).map_err(|error| {
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

fn ended_pass(instrument: PassInstrument, started_ns: i64, end: RunEnd) -> RecordingPass {
    use std::os::unix::process::ExitStatusExt as _;
    RecordingPass {
        instrument,
        process_id: end.process_id,
        started_ns,
        ended_ns: Some(now_ns()),
        exit_code: end.status.code(),
        exit_signal: end.status.signal(),
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

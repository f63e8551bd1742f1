//! Run of the program without interference: it receives signals, and its end ends `stallmap-record`.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::message::{self, MessagePrinter};

/// Signals that ask a program to end.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Signals to which a program may give a meaning of its own.
const OTHERS: [i32; 2] = [SIGUSR1, SIGUSR2];

/// Signals to this process, passed on to the program while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignalRelay {
    state: Arc<Mutex<RelayState>>,
}

#[derive(Debug, Default)]
struct RelayState {
    /// The program, while it runs.
    program: Option<Pid>,
    /// The last signal that requested the end.
    ending: Option<i32>,
    /// Set when only stallmap's work is left. A signal then ends `stallmap-record`.
    parting: Option<EndingSignal>,
    /// The file that starts and stops recording, if signals do.
    switch: Option<(PathBuf, MessagePrinter)>,
}

/// The reaction to a signal that ends `stallmap-record`.
#[derive(Debug)]
struct EndingSignal {
    /// The message to print, with an action.
    words: String,
    /// Temporary files and folders to remove.
    leftovers: Vec<PathBuf>,
}

/// The end of one run of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunEnd {
    /// Its process.
    pub process_id: u32,
    /// Its exit status.
    pub status: ExitStatus,
}

impl SignalRelay {
    /// Takes over the signals that a program may want, except those that the parent process ignores.
    pub(crate) fn take() -> io::Result<Self> {
        Self::take_over(ENDING.into_iter().chain(OTHERS))
    }

    /// Takes over only the signals that end a program: worker processes handle no others.
    pub(crate) fn take_ending() -> io::Result<Self> {
        Self::take_over(ENDING.into_iter())
    }

    fn take_over(signals: impl Iterator<Item = i32>) -> io::Result<Self> {
        let ignored = fs::read_to_string("/proc/self/status").map(|text| ignored(&text)).unwrap_or_default();
        let taken = signals.filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let mut origins = SignalsInfo::<WithOrigin>::new(taken)?;
        let signals = Self::default();
        let passing = signals.clone();
        std::thread::spawn(move || origins.forever().for_each(|origin| passing.pass_on(&origin)));
        Ok(signals)
    }

    /// The signal that requested the end, if one did.
    pub(crate) fn ending(&self) -> Option<i32> {
        self.lock().ending
    }

    /// From here on a signal ends this process, after printing `words` and removing `leftovers`.
    pub(crate) fn only_us_left(&self, words: String, leftovers: Vec<PathBuf>) {
        self.lock().parting = Some(EndingSignal { words, leftovers });
    }

    /// From here on SIGUSR1 starts recording and SIGUSR2 stops it, by this file. The program gets neither.
    pub(crate) fn switch(&self, file: PathBuf, messages: MessagePrinter) {
        self.lock().switch = Some((file, messages));
    }

    /// Starts a program that gets this process's signals. `Interrupted` if the end was requested before.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        let mut state = self.lock();
        if state.ending.is_some() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // No signal arrives between its start and the moment when its id is known.
        let child = command.spawn()?;
        state.program = Some(process(&child));
        Ok(child)
    }

    /// Waits for the end of the program that was started.
    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let pid = process(child);
        // Not reaped yet: the signal must not go to another process that got its number.
        while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(nix::Error::EINTR) {}
        self.lock().program = None;
        child.wait()
    }

    fn pass_on(&self, origin: &Origin) {
        let mut state = self.lock();
        if ENDING.contains(&origin.signal) {
            state.ending = Some(origin.signal);
        }
        if let Some(EndingSignal { words, leftovers }) = &state.parting {
            for path in leftovers {
                // Most of them are not there.
                drop(fs::remove_dir_all(path).or_else(|_| fs::remove_file(path)));
            }
            message::error(words);
            end_as(origin.signal);
        }
        if let Some((file, messages)) = state.switch.as_ref().filter(|_| OTHERS.contains(&origin.signal)) {
            turn(file, origin.signal == SIGUSR1, *messages);
            return;
        }
        // What a terminal sends, it sends to the program as well.
        let from_terminal = origin.cause == Cause::Kernel;
        if let (Some(program), false, Ok(signal)) =
            (state.program, from_terminal, Signal::try_from(origin.signal))
        {
            // A program that is gone needs no signal.
            kill(program, signal).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts or stops recording. Readers find the old state or the new one.
fn turn(file: &Path, is_on: bool, messages: MessagePrinter) {
    let new = file.with_extension("new");
    let (state, word) = if is_on { ("on", "started") } else { ("off", "stopped") };
    match fs::write(&new, state).and_then(|()| fs::rename(&new, file)) {
        Ok(()) => messages.result(format_args!("recording {word} by a signal")),
        Err(error) => message::warning(format_args!("recording was not {word}: {}: {error}", file.display())),
    }
}

fn process(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

#[expect(clippy::exit, reason = "a signal ends the process from the thread that receives it")]
fn end_as(signal: i32) {
    std::process::exit(128 + signal);
}

impl RunEnd {
    /// As text, for a message.
    pub(crate) fn words(self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => self.status.to_string(),
        }
    }
}

/// The mask of ignored signals in the text of `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000000001\n") >> (SIGHUP - 1) & 1, 1);
        assert_eq!(ignored("nothing"), 0);
    }
}

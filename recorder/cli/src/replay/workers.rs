//! Workers: processes that replay launches under one instrument, started again until every launch was tried.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use indicatif::ProgressBar;
use stallmap_config::{Config, RecordingFile, RecordingPass, VARIABLE};
use stallmap_replay::plan::{AddressTranslation, ReplayOutcome, WorkerEvent, WorkerPlan};

use crate::child::SignalRelay;
use crate::exit::RecorderFailure;
use crate::folder::RecordingFolder;
use crate::message::{self, MessagePrinter};
use crate::passes::now_ns;

use super::confinement;
use super::options::SandboxOption;

/// Processes that may find the addresses taken before pointers are translated: each has a random layout of its own.
const TRIES: u32 = 4;
/// A worker's plan, in the folder of the replays.
const PLAN_FILE: &str = "plan.json";

/// Starts workers and reads their reports.
pub(super) struct WorkerPool<'a> {
    pub(super) folder: &'a RecordingFolder,
    pub(super) recording: &'a mut RecordingFile,
    pub(super) signals: &'a SignalRelay,
    pub(super) messages: MessagePrinter,
    pub(super) progress: &'a ProgressBar,
    /// Time that a launch may take before its process is ended.
    pub(super) patience: Duration,
    /// Set when a launch was replayed.
    pub(super) has_replayed: &'a mut bool,
    /// The experiment whose first replay runs.
    pub(super) experiment: Option<usize>,
    /// The workers' sandbox.
    pub(super) sandbox: SandboxOption,
}

/// The end of a worker.
enum WorkerEnd {
    /// It did all that it could.
    Done,
    /// Addresses are taken in it.
    Taken(String),
    /// It ended, or was ended, while it replayed this launch.
    Broken(Option<u64>, String),
}

impl WorkerPool<'_> {
    /// Replays every launch of a plan.
    pub(super) fn run(
        &mut self,
        config: &Config,
        mut plan: WorkerPlan,
    ) -> Result<BTreeMap<u64, ReplayOutcome>, RecorderFailure> {
        let mut outcomes = BTreeMap::new();
        let mut left: VecDeque<u64> = plan.kernels.iter().copied().collect();
        let mut tries = 0;
        while !left.is_empty() || !plan.failed.is_empty() {
            plan.kernels = left.iter().copied().collect();
            if tries >= TRIES && plan.translation == AddressTranslation::Never {
                plan.translation = AddressTranslation::IfTaken;
            }
            let mut done = BTreeMap::new();
            let end = self.work(config, &plan, &mut done)?;
            if !matches!(end, WorkerEnd::Taken(_)) {
                plan.failed.clear();
            }
            left.retain(|kernel_id| !done.contains_key(kernel_id));
            let nothing_done = done.is_empty();
            *self.has_replayed |= !nothing_done;
            outcomes.append(&mut done);
            if self.signals.ending().is_some() {
                break;
            }
            let end = match end {
                WorkerEnd::Broken(Some(kernel_id), reason) if self.blame(&mut plan, kernel_id, &reason) => {
                    continue;
                }
                end => end,
            };
            match end {
                WorkerEnd::Done if nothing_done && !left.is_empty() => {
                    return Err(RecorderFailure::before(anyhow!(
                        "a worker ended without replaying anything"
                    )));
                }
                WorkerEnd::Done => {}
                WorkerEnd::Taken(detail) => {
                    tries += 1;
                    self.messages.step(format_args!("{detail}: trying another process"));
                }
                WorkerEnd::Broken(Some(kernel_id), reason) => {
                    left.retain(|&other| other != kernel_id);
                    let detail = Some(reason.clone());
                    outcomes
                        .insert(kernel_id, ReplayOutcome { kernel_id, detail, ..ReplayOutcome::default() });
                    plan.failed.insert(kernel_id, reason);
                }
                WorkerEnd::Broken(None, reason) if nothing_done && !left.is_empty() => {
                    let failure = RecorderFailure::before(anyhow!("a worker failed: {reason}"))
                        .hint("run `stallmap-record doctor` to find what this machine lacks");
                    return Err(self.sandbox.hint(failure));
                }
                WorkerEnd::Broken(None, reason) => message::warning(format_args!("a worker ended: {reason}")),
            }
        }
        Ok(outcomes)
    }

    /// Blames the end of a worker on the experiment whose first replay had begun: the launch is tried again without it.
    fn blame(&mut self, plan: &mut WorkerPlan, kernel_id: u64, reason: &str) -> bool {
        let experiments = plan.experiments.get_mut(&kernel_id);
        let position = self.experiment.take();
        let Some(experiment) = experiments.zip(position).and_then(|(all, at)| all.get_mut(at)) else {
            return false;
        };
        let change = if experiment.memory.is_some() { "with it in L2" } else { "without it" };
        experiment.refusal = Some(format!("the launch did not end {change}: {reason}"));
        true
    }

    /// Runs one worker to its end.
    fn work(
        &mut self,
        config: &Config,
        plan: &WorkerPlan,
        outcomes: &mut BTreeMap<u64, ReplayOutcome>,
    ) -> Result<WorkerEnd, RecorderFailure> {
        let started_ns = now_ns();
        let mut child = self.start(config, plan).map_err(RecorderFailure::before)?;
        let process_id = child.id();
        let lines = lines(&mut child);
        let end = self.listen(&lines, outcomes);
        if matches!(end, WorkerEnd::Broken(..)) {
            // It may have ended by itself.
            drop(child.kill());
        }
        let status =
            self.signals.wait(&mut child).context("wait for a worker").map_err(RecorderFailure::before)?;
        let end = match end {
            WorkerEnd::Broken(kernel_id, reason) if reason.is_empty() => {
                WorkerEnd::Broken(kernel_id, format!("the replaying process ended: {status}"))
            }
            end => end,
        };
        self.recording.passes.push(RecordingPass {
            instrument: config.instrument,
            process_id,
            started_ns,
            ended_ns: Some(now_ns()),
            exit_code: status.code(),
            exit_signal: std::os::unix::process::ExitStatusExt::signal(&status),
            losses: Vec::new(),
        });
        self.folder.describe(self.recording).map_err(RecorderFailure::not_written)?;
        Ok(end)
    }

    fn listen(&mut self, lines: &Receiver<String>, outcomes: &mut BTreeMap<u64, ReplayOutcome>) -> WorkerEnd {
        let mut current = None;
        let mut end = None;
        loop {
            let line = match lines.recv_timeout(self.patience) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = self.patience.as_secs();
                    let reason = match current {
                        Some(_) => format!("no end after {seconds} s: it may wait for other work"),
                        None => format!("no answer after {seconds} s"),
                    };
                    return WorkerEnd::Broken(current, reason);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return end.unwrap_or(WorkerEnd::Broken(current, String::new()));
                }
            };
            match serde_json::from_str(&line) {
                Ok(WorkerEvent::Begin { kernel_id }) => (current, self.experiment) = (Some(kernel_id), None),
                Ok(WorkerEvent::Experiment { position }) => self.experiment = Some(position),
                Ok(WorkerEvent::End(outcome)) if self.has_broken(&outcome) => {
                    end =
                        Some(WorkerEnd::Broken(Some(outcome.kernel_id), outcome.detail.unwrap_or_default()));
                    current = None;
                }
                Ok(WorkerEvent::End(outcome)) => {
                    current = None;
                    self.progress.inc(1);
                    outcomes.insert(outcome.kernel_id, outcome);
                }
                Ok(WorkerEvent::Taken { detail }) => end = Some(WorkerEnd::Taken(detail)),
                // What came before says more.
                Ok(WorkerEvent::Lost | WorkerEvent::Done) => end = end.or(Some(WorkerEnd::Done)),
                Ok(WorkerEvent::Failed { detail }) => end = Some(WorkerEnd::Broken(current, detail)),
                // A library in the process may print something of its own.
                Err(_) => self.messages.step(line),
            }
        }
    }

    /// True if an experiment ended a launch's replays.
    fn has_broken(&self, outcome: &ReplayOutcome) -> bool {
        self.experiment.is_some() && outcome.detail.is_some()
    }

    fn start(&self, config: &Config, plan: &WorkerPlan) -> anyhow::Result<Child> {
        let path = self.folder.path().join(PLAN_FILE);
        fs::write(&path, serde_json::to_vec(plan)?).with_context(|| format!("write `{}`", path.display()))?;
        let executable = std::env::current_exe().context("find this executable")?;
        let mut command = Command::new(executable);
        confinement::set_variables(&mut command, self.sandbox, self.folder.path())?;
        command.arg("replay-worker").arg(&path).env(VARIABLE, config.to_json()?);
        command.args(["--sandbox", self.sandbox.word()]).arg("--capture").arg(&plan.capture);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        self.signals.start(&mut command).context("start a worker")
    }
}

/// The capture whose launches the replays in a folder are of.
pub(crate) fn capture_of(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(PLAN_FILE);
    let json = fs::read(&path).with_context(|| format!("read `{}`", path.display()))?;
    let plan: WorkerPlan =
        serde_json::from_slice(&json).with_context(|| format!("read `{}`", path.display()))?;
    Ok(plan.capture)
}

/// The lines of a worker's standard output, read on a thread of their own.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = sync_channel(16);
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            // The receiver is gone if the worker was given up.
            read.map_while(|line| sender.send(line).ok()).for_each(drop);
        });
    }
    lines
}

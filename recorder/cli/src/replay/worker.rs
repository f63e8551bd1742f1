//! `replay-worker`: the process that `replay` starts for an instrument. Standard output is its channel.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use stallmap_replay::error::ReplayError;
use stallmap_replay::plan::{WorkerEvent, WorkerPlan};
use stallmap_replay::worker;

use super::confinement;
use super::options::WorkerOptions;

/// Replays the launches of the plan.
pub(crate) fn work(options: &WorkerOptions) -> ExitCode {
    // Without a parent the results are useless. A system without this call lets the worker run to its end.
    prctl::set_pdeathsig(Signal::SIGKILL).ok();
    // From here on the process reads what the capture holds.
    let result = confinement::enter(options).and_then(|()| {
        read(&options.plan).and_then(|plan| worker::work(&plan, &mut say)).map_err(|error| error.to_string())
    });
    match result {
        Ok(()) => {
            say(&WorkerEvent::Done);
            ExitCode::SUCCESS
        }
        Err(detail) => {
            say(&WorkerEvent::Failed { detail });
            ExitCode::FAILURE
        }
    }
}

fn read(path: &Path) -> Result<WorkerPlan, ReplayError> {
    let failed = |cause: String| ReplayError::Plan { path: path.to_owned(), cause };
    let json = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&json).map_err(|error| failed(error.to_string()))
}

/// Writes a line. A parent that is gone needs none.
fn say(event: &WorkerEvent) {
    if let Ok(line) = serde_json::to_string(event) {
        let mut output = std::io::stdout().lock();
        drop(writeln!(output, "{line}").and_then(|()| output.flush()));
    }
}

//! `replay-worker`: the process that `replay` starts for an instrument. Standard output is its channel.

use std::io::Write as _;
use std::process::ExitCode;

use stallmap_replay::plan::{Event, Plan};
use stallmap_replay::worker;

use super::options::Worker;

/// Replays what the plan says.
pub(crate) fn work(options: &Worker) -> ExitCode {
    let plan = std::fs::read(&options.plan).map_err(|error| error.to_string());
    let plan = plan.and_then(|json| serde_json::from_slice::<Plan>(&json).map_err(|error| error.to_string()));
    let result = plan.and_then(|plan| worker::work(&plan, &mut say).map_err(|error| error.to_string()));
    match result {
        Ok(()) => {
            say(&Event::Done);
            ExitCode::SUCCESS
        }
        Err(detail) => {
            say(&Event::Failed { detail });
            ExitCode::FAILURE
        }
    }
}

/// Writes a line; a parent that is gone needs none.
fn say(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        let mut output = std::io::stdout().lock();
        drop(writeln!(output, "{line}").and_then(|()| output.flush()));
    }
}

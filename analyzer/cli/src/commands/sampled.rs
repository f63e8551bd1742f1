//! A sample of stored rows, computed again in the background: `stallmap check --sample` as a process of its own, once for each
//! capture and cache. The command that read the rows does not wait for it.

use std::process::{Command, Stdio};

use stallmap::session::verified;

/// The program's part of the machine's memory.
const MEMORY: &str = "10%";

/// Starts the sample of one capture whose stored rows were read for the first time.
pub(super) fn start() {
    let Some(capture) = verified::unsampled() else { return };
    let Ok(program) = std::env::current_exe() else { return };
    let started = Command::new(program)
        .args(["--memory", MEMORY, "check", "--sample", "--"])
        .arg(capture)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // Without it, the next command that reads the rows tries again.
    drop(started);
}

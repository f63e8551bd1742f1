//! Rows of views in a complete capture: `stallmap prepare --in-place`, if `stallmap` is installed next to this program.
//! The recorder has no query engine. A capture without these rows is complete: its first questions take longer.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::message::{self, MessagePrinter};

/// The program that computes the rows.
const PROGRAM: &str = "stallmap";
/// Time after which it is stopped.
const MAX_TIME: Duration = Duration::from_mins(10);
/// Its part of the machine's memory. The machine may be another user's, too.
const MEMORY: &str = "25%";
/// Time between two looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// Stores rows of views in a capture. Failures are warnings.
pub(crate) fn prepare(capture: &Path, messages: MessagePrinter) {
    let Some(program) = sibling() else {
        messages
            .step("`stallmap` is not installed next to stallmap-record: the capture holds no rows of views");
        return;
    };
    messages.step(format_args!("`{} prepare --in-place` stores rows of views", program.display()));
    if let Err(cause) = run(&program, capture) {
        message::warning(format_args!(
            "no rows of views are stored in the capture, which is complete: {cause}"
        ));
        message::hint(format_args!("run `stallmap prepare --in-place {}`", capture.display()));
    }
}

fn sibling() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.with_file_name(PROGRAM)).filter(|path| path.is_file())
}

fn run(program: &Path, capture: &Path) -> Result<(), String> {
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["--memory", MEMORY, "prepare", "--in-place", "--"])
        .arg(capture)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("start `{}`: {error}", program.display()))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("`{}` ended with {status}", program.display())),
            Ok(None) if started.elapsed() < MAX_TIME => thread::sleep(PAUSE),
            Ok(None) => {
                // It may end by itself at this moment.
                drop(child.kill());
                drop(child.wait());
                return Err(format!("it takes longer than {} minutes", MAX_TIME.as_secs() / 60));
            }
            Err(error) => return Err(format!("wait for `{}`: {error}", program.display())),
        }
    }
}

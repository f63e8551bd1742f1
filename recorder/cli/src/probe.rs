//! Probe of a library in a process of its own, where a crash is a result.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stallmap_sys::probe::{self as library, ProbeError};

use crate::args::{ProbeOptions, ProbedPart};
use crate::replay;

/// Limit of a probe. Initializing a driver with many GPUs takes seconds, and a hanging one never ends.
const LONGEST: Duration = Duration::from_mins(1);

/// The hidden command: one line of JSON, `{"ok": …}` or `{"error": …}`.
pub(crate) fn probe(options: &ProbeOptions) -> ExitCode {
    let answer = match look(options.part, &options.path) {
        Ok(found) => json!({ "ok": found }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    println!("{answer}");
    ExitCode::SUCCESS
}

fn look(part: ProbedPart, path: &Path) -> Result<Value, ProbeError> {
    Ok(match part {
        ProbedPart::Library => json!(library::load(path)?),
        ProbedPart::Sanitizer => json!(library::sanitizer(path)?),
        ProbedPart::Cupti => json!(library::cupti(path)?),
        ProbedPart::Profiler => json!(library::profiler(path)?),
        ProbedPart::Nvrtc => json!(library::nvrtc(path)?),
        ProbedPart::Sandbox => json!(replay::probe_sandbox(path)),
        ProbedPart::Driver => {
            let driver = library::driver(path)?;
            let devices = driver.devices.iter();
            let devices: Vec<Value> =
                devices.map(|device| json!({ "name": device.name, "compute": device.compute })).collect();
            json!({ "cuda_version": driver.cuda_version, "devices": devices })
        }
    })
}

/// Runs the hidden command. An error is that of the library, the loader, or its crash.
pub(crate) fn in_a_process(part: ProbedPart, path: &Path) -> Result<Value, String> {
    use clap::ValueEnum as _;
    let executable = std::env::current_exe().map_err(|error| error.to_string())?;
    let word = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let mut command = Command::new(executable);
    command.arg("probe").arg(word).arg(path);
    // The library under test must not be injected into its own test.
    command.env_remove("CUDA_INJECTION64_PATH");
    let printed = output(&mut command, LONGEST)?;
    let answer: Value = serde_json::from_str(printed.lines().last().unwrap_or_default())
        .map_err(|_| "its process printed no result".to_owned())?;
    match (answer.get("ok"), answer.get("error").and_then(Value::as_str)) {
        (Some(found), _) => Ok(found.clone()),
        (_, Some(error)) => Err(error.to_owned()),
        _ => Err("its process printed no result".to_owned()),
    }
}

/// A command's standard output. An error where it crashed, failed or took longer than `longest`.
pub(crate) fn output(command: &mut Command, longest: Duration) -> Result<String, String> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| error.to_string())?;
    let pipe = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begin.elapsed() > longest => {
                let killed = child.kill().and_then(|()| child.wait());
                return Err(killed.map_or_else(
                    |error| error.to_string(),
                    |_| format!("no answer after {} s", longest.as_secs()),
                ));
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    let printed = reader.join().unwrap_or_default();
    if status.success() { Ok(printed) } else { Err(format!("its process ended with {status}")) }
}

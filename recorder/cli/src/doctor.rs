//! `doctor`: report of what this machine can record, with fixes. It needs no GPU and changes nothing.

mod check;
mod nvidia;
mod release;
mod system;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;
use stallmap_sys::locate::ProcessMachine;

use crate::args::DoctorOptions;
use crate::exit::{self, RecorderFailure};

use check::{CheckState, CheckedSide, DoctorCheck};

/// Prints every check, then the parts that can be recorded. The exit code is 0 if both sides can.
pub(crate) fn doctor(options: &DoctorOptions) -> Result<ExitCode, RecorderFailure> {
    let python = system::python(&options.python);
    let machine = with_sites(ProcessMachine::of_this_process(), python.sites);
    let mut checks = nvidia::checks(&machine);
    checks.extend(system::checks(options.library.as_deref()));
    checks.extend(python.checks);
    checks.push(release::check(options.library.as_deref(), python.package));
    let text = if options.json { as_json(&checks) } else { as_text(&checks) };
    write_to_stdout(&text).map_err(|error| RecorderFailure::before(error.into()))?;
    let records =
        [CheckedSide::Accesses, CheckedSide::Samples].iter().all(|&side| blockers(&checks, side).is_empty());
    Ok(if records { ExitCode::SUCCESS } else { ExitCode::from(exit::CANNOT_RECORD) })
}

/// Packages of the named Python count as those of the program that will run.
fn with_sites(mut machine: ProcessMachine, sites: Vec<std::path::PathBuf>) -> ProcessMachine {
    let inherited =
        machine.variables.get("PYTHONPATH").map(|value| std::env::split_paths(value).collect::<Vec<_>>());
    let paths = inherited.unwrap_or_default().into_iter().chain(sites);
    if let Ok(joined) = std::env::join_paths(paths) {
        machine.variables.insert("PYTHONPATH".to_owned(), joined);
    }
    machine
}

/// The checks that keep `side` from being recorded.
fn blockers(checks: &[DoctorCheck], side: CheckedSide) -> Vec<&'static str> {
    let failed = |check: &&DoctorCheck| check.is_needed_by(side) && !check.allows_recording();
    let mut names: Vec<&'static str> = checks.iter().filter(failed).map(|check| check.name).collect();
    // One of the two compilers is enough.
    let compilers = ["nvrtc", "nvcc"];
    let usable = |check: &DoctorCheck| compilers.contains(&check.name) && check.state == CheckState::Ok;
    if checks.iter().any(usable) {
        names.retain(|name| !compilers.contains(name));
    }
    names
}

fn as_text(checks: &[DoctorCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        line(&mut text, check.state.word(), check.name, &check.detail);
        if let Some(hint) = &check.hint {
            line(&mut text, "", "", &format!("hint: {hint}"));
        }
    }
    text.push('\n');
    for side in CheckedSide::ALL {
        let blockers = blockers(checks, side);
        let verdict =
            if blockers.is_empty() { "yes".to_owned() } else { format!("no: {}", blockers.join(", ")) };
        line(&mut text, "records", side.word(), &verdict);
    }
    let is_gpu = |check: &&DoctorCheck| ["driver", "devices"].contains(&check.name);
    if checks.iter().filter(is_gpu).any(|check| !check.allows_recording()) {
        text += "\nNo GPU: nothing can be recorded here. `stallmap` analyzes captures without one.\n";
    }
    text
}

fn line(text: &mut String, state: &str, name: &str, detail: &str) {
    let padded = format!("{state:<8} {name:<11} {detail}");
    // Writing to a string does not fail.
    writeln!(text, "{}", padded.trim_end()).ok();
}

fn as_json(checks: &[DoctorCheck]) -> String {
    let rows: Vec<_> = checks.iter().map(DoctorCheck::to_json).collect();
    let sides: serde_json::Map<_, _> = CheckedSide::ALL
        .iter()
        .map(|&side| {
            let blockers = blockers(checks, side);
            (side.word().to_owned(), json!({ "can_record": blockers.is_empty(), "blocked_by": blockers }))
        })
        .collect();
    format!("{:#}\n", json!({ "checks": rows, "records": sides }))
}

/// A closed pipe is not an error.
fn write_to_stdout(text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &'static str, needed_by: &'static [CheckedSide]) -> DoctorCheck {
        DoctorCheck::ok(name, needed_by, "here")
    }

    fn missing(name: &'static str, needed_by: &'static [CheckedSide]) -> DoctorCheck {
        DoctorCheck::missing(name, needed_by, "not found", "install it")
    }

    #[test]
    fn one_compiler_is_enough() {
        let both =
            [found("driver", check::BOTH), missing("nvrtc", check::ACCESSES), found("nvcc", check::ACCESSES)];
        assert_eq!(blockers(&both, CheckedSide::Accesses), Vec::<&str>::new());
        let none = [
            found("driver", check::BOTH),
            missing("nvrtc", check::ACCESSES),
            missing("nvcc", check::ACCESSES),
        ];
        assert_eq!(blockers(&none, CheckedSide::Accesses), ["nvrtc", "nvcc"]);
        assert_eq!(blockers(&none, CheckedSide::Samples), Vec::<&str>::new());
    }

    #[test]
    fn a_report_says_what_to_do() {
        let checks = [
            found("driver", check::BOTH),
            missing("cupti", check::SAMPLES),
            DoctorCheck::problem("python", check::PYTHON, "too old", "take a newer one"),
        ];
        insta::assert_snapshot!(as_text(&checks), @r"
        ok       driver      here
        missing  cupti       not found
                             hint: install it
        problem  python      too old
                             hint: take a newer one

        records  accesses    yes
        records  samples     no: cupti
        records  counters    yes
        records  python      no: python
        ");
        let json: serde_json::Value = serde_json::from_str(&as_json(&checks)).unwrap();
        assert_eq!(json["records"]["samples"]["blocked_by"][0], "cupti");
        assert_eq!(json["checks"][0]["state"], "ok");
    }
}

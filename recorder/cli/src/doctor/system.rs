//! Checks of the machine around the GPU: the recorder's library, the C library, disk, Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::sandbox::SandboxState;
use serde_json::Value;

use super::check::{BOTH, DoctorCheck, PYTHON};
use crate::args::ProbedPart;
use crate::{injection, probe, record};

/// The query to Python: its version, PyTorch's and the CUDA that it was built for, the folders of its packages.
const QUESTION: &str = "
import json, site, sys
from importlib import metadata, util
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
sites = list(site.getsitepackages()) + [site.getusersitepackages()]
print(json.dumps({'python': sys.version.split()[0], 'executable': sys.executable, 'minor': sys.version_info[:2],
    'torch': version('torch') if util.find_spec('torch') else None, 'stallmap': version('stallmap'), 'sites': sites}))
";

/// The named Python.
pub(crate) struct PythonProgram {
    /// Its checks.
    pub(crate) checks: Vec<DoctorCheck>,
    /// The release of stallmap's package in it.
    pub(crate) package: Option<String>,
    /// The folders of its packages.
    pub(crate) sites: Vec<PathBuf>,
}

/// Everything but Python.
pub(crate) fn checks(library: Option<&Path>) -> Vec<DoctorCheck> {
    vec![recorder(library), c_library(), disk(), sandbox()]
}

/// The recorder's own library.
fn recorder(given: Option<&Path>) -> DoctorCheck {
    let hint = "put libstallmap_inject.so next to stallmap-record, or name it with --library";
    match injection::find(given) {
        Err(error) => DoctorCheck::missing("recorder", BOTH, format!("{error:#}"), hint),
        Ok(_) => match injection::usable(given) {
            Ok(path) => DoctorCheck::ok(
                "recorder",
                BOTH,
                format!("{}: {}", env!("CARGO_PKG_VERSION"), path.display()),
            ),
            Err(error) => DoctorCheck::problem(
                "recorder",
                BOTH,
                format!("{error:#}"),
                "take the release for this system's C library",
            ),
        },
    }
}

/// Its version explains why a library cannot be loaded.
fn c_library() -> DoctorCheck {
    match probe::output(Command::new("getconf").arg("GNU_LIBC_VERSION"), Duration::from_secs(10)) {
        Ok(text) if text.starts_with("glibc") => DoctorCheck::ok("c library", &[], text.trim()),
        _ => DoctorCheck::unknown("c library", &[], "not the GNU C library, or its version is not known"),
    }
}

/// Room in the folder that captures are written to by default.
fn disk() -> DoctorCheck {
    let Ok(folder) = nix::sys::statvfs::statvfs(".") else {
        return DoctorCheck::unknown("disk", BOTH, "the free space of this folder is not known");
    };
    let free = folder.blocks_available().saturating_mul(folder.fragment_size());
    let detail = format!("{:.1} GB free in this folder", free as f64 / 1e9);
    if free < record::LITTLE_DISK {
        return DoctorCheck::problem(
            "disk",
            BOTH,
            detail,
            "make room, or write the capture elsewhere with -o",
        );
    }
    DoctorCheck::ok("disk", BOTH, detail)
}

/// The sandbox of replays.
fn sandbox() -> DoctorCheck {
    let probed = probe::in_a_process(ProbedPart::Sandbox, &std::env::temp_dir());
    let state: Result<SandboxState, String> =
        probed.and_then(|state| serde_json::from_value(state).map_err(|error| error.to_string()));
    match state {
        Ok(state) if state.is_whole() => DoctorCheck::ok("sandbox", &[], format!("of replays: {state}")),
        Ok(state) => DoctorCheck::problem(
            "sandbox",
            &[],
            state.to_string(),
            "replay only captures whose program you would run",
        ),
        Err(cause) => DoctorCheck::unknown("sandbox", &[], cause),
    }
}

/// Python and PyTorch, the release of stallmap's package, and the folders of packages.
pub(crate) fn python(executable: &Path) -> PythonProgram {
    let answer = probe::output(Command::new(executable).args(["-c", QUESTION]), Duration::from_secs(30));
    let answer: Result<Value, String> =
        answer.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    match answer {
        Ok(answer) => {
            let sites =
                answer["sites"].as_array().into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from);
            let sites = sites.filter(|site| site.is_dir()).collect();
            let package = answer["stallmap"].as_str().map(str::to_owned);
            PythonProgram { checks: python_of(&answer), package, sites }
        }
        Err(cause) => {
            let detail = format!("{cause}: {}", executable.display());
            let hint = "only needed for Python programs: name another one with --python";
            let checks = vec![DoctorCheck::missing("python", PYTHON, detail, hint)];
            PythonProgram { checks, package: None, sites: Vec::new() }
        }
    }
}

fn python_of(answer: &Value) -> Vec<DoctorCheck> {
    let word = |name: &str| answer[name].as_str().unwrap_or("?").to_owned();
    let detail = format!("{}: {}", word("python"), word("executable"));
    let minor = (answer["minor"][0].as_u64(), answer["minor"][1].as_u64());
    let python = if minor < (Some(3), Some(9)) {
        DoctorCheck::problem("python", PYTHON, detail, "stacks are recorded in Python 3.9 and later")
    } else {
        DoctorCheck::ok("python", PYTHON, detail)
    };
    let torch = answer["torch"].as_str().map_or_else(
        || {
            DoctorCheck::missing(
                "torch",
                PYTHON,
                "not installed",
                "without it there are no ops and tensors, and CUDA programs need none",
            )
        },
        |version| DoctorCheck::ok("torch", PYTHON, version),
    );
    vec![python, torch]
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckState;
    use super::*;

    #[test]
    fn python_without_torch_is_said() {
        let answer =
            serde_json::json!({ "python": "3.12.1", "executable": "/p", "minor": [3, 12], "torch": null });
        let checks = python_of(&answer);
        assert_eq!((checks[0].state, checks[0].detail.as_str()), (CheckState::Ok, "3.12.1: /p"));
        assert_eq!(checks[1].state, CheckState::Missing);
        let old = serde_json::json!({ "minor": [3, 6], "torch": "2.11.0" });
        assert_eq!(
            [python_of(&old)[0].state, python_of(&old)[1].state],
            [CheckState::Problem, CheckState::Ok]
        );
    }

    #[test]
    fn a_python_that_is_not_there_is_missing() {
        let python = python(Path::new("/nowhere/python"));
        assert_eq!((python.checks[0].state, python.sites.len()), (CheckState::Missing, 0));
    }
}

//! Checks of NVIDIA's parts: driver, devices, permission, libraries, compilers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use stallmap_sys::locate::{NvidiaPart, ProcessMachine, driver_release};

use super::check::{ACCESSES, ALL, COUNTERS, DoctorCheck, MEASURES, SAMPLES};
use crate::args::ProbedPart;
use crate::probe;

const DRIVER_HINT: &str = "install NVIDIA's driver. A container needs the NVIDIA container toolkit and `--gpus all` \
                           with NVIDIA_DRIVER_CAPABILITIES=compute,utility";

/// Every check, in the order of dependence.
pub(crate) fn checks(machine: &ProcessMachine) -> Vec<DoctorCheck> {
    let mut checks = driver(machine);
    checks.push(permission());
    checks.push(sanitizer(machine));
    checks.push(cupti(machine));
    checks.push(counters(machine));
    checks.push(nvrtc(machine));
    checks.push(nvcc(machine));
    checks
}

/// The driver, and the devices that it shows.
fn driver(machine: &ProcessMachine) -> Vec<DoctorCheck> {
    let release = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let release = driver_release(&release).unwrap_or("release not known");
    match first_usable(machine, NvidiaPart::Driver, ProbedPart::Driver) {
        LibrarySearch::Usable(path, answer) => {
            let cuda = answer["cuda_version"].as_i64().unwrap_or_default();
            let detail = format!("{release}, CUDA {}: {}", dotted(cuda), path.display());
            vec![DoctorCheck::ok("driver", ALL, detail), devices(&answer["devices"])]
        }
        LibrarySearch::Unusable(path, cause) => {
            let detail = format!("{release}, but {cause}: {}", path.display());
            let hint = "check `nvidia-smi`; a container needs `--gpus all`, and the driver's library must match its module";
            vec![DoctorCheck::problem("driver", ALL, detail, hint)]
        }
        LibrarySearch::Nothing => {
            vec![DoctorCheck::missing("driver", ALL, "libcuda.so.1 was not found", DRIVER_HINT)]
        }
    }
}

fn devices(devices: &Value) -> DoctorCheck {
    let devices = devices.as_array().map(Vec::as_slice).unwrap_or_default();
    let describe = |device: &Value| {
        let name = device["name"].as_str().unwrap_or("?");
        format!("{name} (sm_{}{})", device["compute"][0], device["compute"][1])
    };
    let names: Vec<String> = devices.iter().map(describe).collect();
    let is_old = |device: &Value| device["compute"][0].as_i64().is_some_and(|major| major < 7);
    if names.is_empty() {
        return DoctorCheck::missing(
            "devices",
            ALL,
            "the driver shows no GPU",
            "check CUDA_VISIBLE_DEVICES and `nvidia-smi`",
        );
    }
    let detail = format!("{}: {}", names.len(), names.join(", "));
    if devices.iter().all(is_old) {
        return DoctorCheck::problem("devices", ALL, detail, "stalls are sampled on sm_70 (Volta) and later");
    }
    DoctorCheck::ok("devices", ALL, detail)
}

/// True if the driver lets this user sample stalls and read counters.
fn permission() -> DoctorCheck {
    let parameters = std::fs::read_to_string("/proc/driver/nvidia/params").ok();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    permission_of(parameters.as_deref(), &status)
}

fn permission_of(parameters: Option<&str>, status: &str) -> DoctorCheck {
    let Some(parameters) = parameters else {
        return DoctorCheck::unknown("permission", MEASURES, "the driver's parameters are not readable here");
    };
    let admin_only = parameters.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    match admin_only.map(str::trim) {
        Some("0") => DoctorCheck::ok("permission", MEASURES, "every user may measure"),
        Some(_) if is_admin(status) => {
            DoctorCheck::ok("permission", MEASURES, "only administrators may measure, and you are one")
        }
        Some(_) => DoctorCheck::problem(
            "permission",
            MEASURES,
            "only administrators may measure",
            "run as root or with CAP_SYS_ADMIN, or load the driver's module with \
             NVreg_RestrictProfilingToAdminUsers=0",
        ),
        None => DoctorCheck::unknown("permission", MEASURES, "the driver does not say who may measure"),
    }
}

/// True if the process with this `/proc/self/status` has CAP_SYS_ADMIN.
fn is_admin(status: &str) -> bool {
    const SYS_ADMIN: u32 = 21;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> SYS_ADMIN & 1 == 1)
}

fn sanitizer(machine: &ProcessMachine) -> DoctorCheck {
    let hint = "install compute-sanitizer of the CUDA toolkit, or the Python package nvidia-cuda-sanitizer-api, \
                or name the file in STALLMAP_SANITIZER";
    let found = first_usable(machine, NvidiaPart::Sanitizer, ProbedPart::Sanitizer);
    found.check("sanitizer", NvidiaPart::Sanitizer, hint, |_| "loads".to_owned())
}

fn cupti(machine: &ProcessMachine) -> DoctorCheck {
    let hint = "install CUPTI of the CUDA toolkit, or the Python package nvidia-cuda-cupti, or name the file in \
                STALLMAP_CUPTI";
    let found = first_usable(machine, NvidiaPart::Cupti, ProbedPart::Cupti);
    found.check("cupti", NvidiaPart::Cupti, hint, |version| format!("version {version}"))
}

/// Counters come from the CUPTI that samples come from, where it is new enough. Only replays measure them.
fn counters(machine: &ProcessMachine) -> DoctorCheck {
    let hint = "install CUPTI of CUDA 12.6 or newer, with its libnvperf_host.so, or the Python package \
                nvidia-cuda-cupti, or name the file in STALLMAP_CUPTI";
    match first_usable(machine, NvidiaPart::Cupti, ProbedPart::Cupti) {
        LibrarySearch::Usable(path, _) => {
            let probed = probe::in_a_process(ProbedPart::Profiler, &path);
            counters_of(probed.map(drop), &path, hint)
        }
        LibrarySearch::Unusable(path, cause) => counters_of(Err(cause), &path, hint),
        LibrarySearch::Nothing => {
            let detail = format!("{} was not found", NvidiaPart::Cupti.file_name());
            DoctorCheck::missing("counters", COUNTERS, detail, hint)
        }
    }
}

fn counters_of(probed: Result<(), String>, path: &Path, hint: &str) -> DoctorCheck {
    match probed {
        Ok(()) => DoctorCheck::ok("counters", COUNTERS, format!("measured by {}", path.display())),
        Err(cause) => {
            DoctorCheck::problem("counters", COUNTERS, format!("{cause}: {}", path.display()), hint)
        }
    }
}

fn nvrtc(machine: &ProcessMachine) -> DoctorCheck {
    let hint = "install NVRTC of the CUDA toolkit, or the Python package nvidia-cuda-nvrtc, or name the file in \
                STALLMAP_NVRTC. It compiles the recorder's code for your GPU, as nvcc does";
    let found = first_usable(machine, NvidiaPart::Nvrtc, ProbedPart::Nvrtc);
    found.check("nvrtc", NvidiaPart::Nvrtc, hint, |version| {
        format!("{}.{}, compiles for tools", version[0], version[1])
    })
}

/// Needed only where NVRTC is not there.
fn nvcc(machine: &ProcessMachine) -> DoctorCheck {
    let hint = "needed only where nvrtc is missing";
    let Some(path) = machine.candidates(NvidiaPart::Nvcc).into_iter().next() else {
        return DoctorCheck::missing("nvcc", ACCESSES, "not found", hint);
    };
    match probe::output(Command::new(&path).arg("--version"), Duration::from_secs(20)) {
        Ok(text) => {
            let release =
                text.split_once("release ").and_then(|(_, rest)| rest.split(',').next()).unwrap_or("?");
            DoctorCheck::ok("nvcc", ACCESSES, format!("{release}: {}", path.display()))
        }
        Err(cause) => DoctorCheck::problem("nvcc", ACCESSES, format!("{cause}: {}", path.display()), hint),
    }
}

/// The result of the search for a library.
enum LibrarySearch {
    /// The first candidate that works, with its result.
    Usable(PathBuf, Value),
    /// A file is there, but none works: the first one's failure.
    Unusable(PathBuf, String),
    /// No file is there.
    Nothing,
}

impl LibrarySearch {
    fn check(
        self,
        name: &'static str,
        part: NvidiaPart,
        hint: &str,
        describe: impl Fn(&Value) -> String,
    ) -> DoctorCheck {
        let needed_by = if part == NvidiaPart::Cupti { SAMPLES } else { ACCESSES };
        match self {
            Self::Usable(path, answer) => {
                DoctorCheck::ok(name, needed_by, format!("{}: {}", describe(&answer), path.display()))
            }
            Self::Unusable(path, cause) => {
                DoctorCheck::problem(name, needed_by, format!("{cause}: {}", path.display()), hint)
            }
            Self::Nothing => {
                DoctorCheck::missing(name, needed_by, format!("{} was not found", part.file_name()), hint)
            }
        }
    }
}

/// Tries the candidates in order, each in a process of its own.
fn first_usable(machine: &ProcessMachine, part: NvidiaPart, probed: ProbedPart) -> LibrarySearch {
    let mut failure = None;
    for path in machine.candidates(part) {
        match probe::in_a_process(probed, &path) {
            Ok(answer) => return LibrarySearch::Usable(path, answer),
            // A plain name that the system does not know is not a file.
            Err(_) if path.parent() == Some(Path::new("")) => {}
            Err(cause) => failure = failure.or(Some((path, cause))),
        }
    }
    failure.map_or(LibrarySearch::Nothing, |(path, cause)| LibrarySearch::Unusable(path, cause))
}

/// 13020 is 13.2.
fn dotted(version: i64) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckState, CheckedSide};
    use super::*;

    #[test]
    fn sampling_may_be_for_administrators() {
        let user = "CapEff:\t0000000000000000\n";
        let root = "CapEff:\t000001ffffffffff\n";
        let state = |parameters, status| permission_of(parameters, status).state;
        assert_eq!(state(Some("A: 1\nRmProfilingAdminOnly: 0\n"), user), CheckState::Ok);
        assert_eq!(state(Some("RmProfilingAdminOnly: 1\n"), root), CheckState::Ok);
        assert_eq!(state(Some("RmProfilingAdminOnly: 1\n"), user), CheckState::Problem);
        assert_eq!(state(Some(""), user), CheckState::Unknown);
        assert_eq!(state(None, user), CheckState::Unknown);
    }

    #[test]
    fn devices_are_named_and_old_ones_refused() {
        let h200 = serde_json::json!([{ "name": "NVIDIA H200", "compute": [9, 0] }]);
        assert_eq!(devices(&h200).detail, "1: NVIDIA H200 (sm_90)");
        let old = serde_json::json!([{ "name": "Old", "compute": [6, 1] }]);
        assert_eq!(devices(&old).state, CheckState::Problem);
        assert_eq!(devices(&serde_json::json!([])).state, CheckState::Missing);
    }

    #[test]
    fn an_old_cupti_measures_no_counters() {
        let check = |probed| counters_of(probed, Path::new("/c/libcupti.so"), "take a newer one");
        assert_eq!(check(Ok(())).state, CheckState::Ok);
        let old = check(Err("no symbol cuptiRangeProfilerEnable".to_owned()));
        assert_eq!(old.detail, "no symbol cuptiRangeProfilerEnable: /c/libcupti.so");
        assert!(old.is_needed_by(CheckedSide::Counters) && !old.is_needed_by(CheckedSide::Samples));
    }

    #[test]
    fn versions_are_dotted() {
        assert_eq!([dotted(13000), dotted(12080)], ["13.0", "12.8"]);
    }
}

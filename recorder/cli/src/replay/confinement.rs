//! The sandbox of workers: the files that they need, its state, and the message before the capture's code runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::{FilePolicy, SandboxState};
use anyhow::{Context as _, anyhow};
use stallmap_replay::address_space;
use stallmap_replay::bundle::CaptureBundles;
use stallmap_sys::locate::{NvidiaPart, ProcessMachine};

use super::options::{ReplayOptions, SandboxOption, WorkerOptions};
use crate::args::ProbedPart;
use crate::exit::RecorderFailure;
use crate::folder::RecordingFolder;
use crate::message::{self, MessagePrinter};
use crate::probe;

/// A folder for temporary files, in the folder of the replays.
const SCRATCH: &str = "scratch";
/// The driver's descriptions of the machine's GPUs.
const GPUS: &str = "/proc/driver/nvidia/gpus";
/// The variables that a confined worker has of its parent's: they choose GPUs and libraries. Others may hold secrets, and
/// machine code of a capture could write them into its results.
const PASSED: [&str; 10] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "LD_LIBRARY_PATH",
    "STALLMAP_DRIVER",
    "STALLMAP_SANITIZER",
    "STALLMAP_CUPTI",
    "STALLMAP_NVRTC",
];
/// Names the folder of the MPS server, through which all programs of a user may share a GPU.
const MPS_FOLDER: &str = "CUDA_MPS_PIPE_DIRECTORY";
const MPS_DEFAULT: &str = "/tmp/nvidia-mps";
/// The pipe of a server that runs.
const MPS_PIPE: &str = "control";
/// A device that the driver makes when the first program of CUDA runs.
const UNIFIED_MEMORY: &str = "/dev/nvidia-uvm";

/// Confines a worker, before it starts a thread or reads anything of the capture.
pub(super) fn enter(options: &WorkerOptions) -> Result<(), String> {
    if options.sandbox == SandboxOption::Off {
        return Ok(());
    }
    let folder = std::path::absolute(&options.plan).map_err(|error| error.to_string())?;
    let folder = folder.parent().unwrap_or(&folder);
    let state = crate::sandbox::enter(&policy(folder, options.capture.as_deref()));
    if options.sandbox == SandboxOption::Require && !state.is_whole() {
        return Err(format!("the sandbox is not whole: {state}"));
    }
    Ok(())
}

/// The state of the sandbox of a worker that writes into `folder`, once this process has entered it.
pub(crate) fn probe(folder: &Path) -> SandboxState {
    crate::sandbox::enter(&policy(folder, None))
}

/// The files of a worker: the GPU's, NVIDIA's libraries, the capture, and its own folder.
fn policy(folder: &Path, capture: Option<&Path>) -> FilePolicy {
    let mut policy = FilePolicy::of_gpu();
    policy.read.extend(ProcessMachine::of_this_process().library_folders());
    policy.read.extend(capture.map(Path::to_owned));
    policy.write.push(folder.to_owned());
    policy
}

/// Gives a worker its variables. A confined one has those that it needs, and `/proc/self/environ` shows no other.
pub(super) fn set_variables(
    command: &mut Command,
    sandbox: SandboxOption,
    folder: &Path,
) -> anyhow::Result<()> {
    if sandbox != SandboxOption::Off {
        command.env_clear();
        command.envs(PASSED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    }
    command.envs(variables(folder)?).env_remove("CUDA_INJECTION64_PATH");
    Ok(())
}

/// Variables of a worker: its folder for temporary files, no cache of compiled code, and the libraries, which it cannot
/// search for where a sandbox hides their folders.
fn variables(folder: &Path) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let scratch = folder.join(SCRATCH);
    fs::create_dir_all(&scratch).with_context(|| format!("make `{}`", scratch.display()))?;
    let mut variables =
        vec![("TMPDIR", scratch.into_os_string()), ("CUDA_CACHE_DISABLE", OsString::from("1"))];
    // The worker is called by this path, and Python packages are searched next to it.
    let command = std::env::current_exe().ok();
    let machine = ProcessMachine { command, ..ProcessMachine::of_this_process() };
    for part in [NvidiaPart::Sanitizer, NvidiaPart::Cupti, NvidiaPart::Nvrtc] {
        let found = machine.candidates(part).into_iter().next().filter(|path| path.is_absolute());
        variables.extend(found.map(|path| (part.variable(), path.into_os_string())));
    }
    Ok(variables)
}

/// Prints what runs, and in which sandbox. Refuses one that is not whole where the options demand it.
/// Returns the workers' sandbox.
pub(super) fn announce(
    options: &ReplayOptions,
    bundles: &CaptureBundles,
    folder: &RecordingFolder,
    messages: MessagePrinter,
) -> Result<SandboxOption, RecorderFailure> {
    let server = mps_server(std::env::var_os(MPS_FOLDER)).filter(|_| options.sandbox != SandboxOption::Off);
    if let Some(folder) = &server {
        let cause =
            format!("the MPS server of `{}` runs, and a confined worker cannot connect", folder.display());
        if options.sandbox == SandboxOption::Require {
            let text = anyhow!("there is no sandbox, and --sandbox requires it: {cause}");
            return Err(RecorderFailure::before(text).hint(
                "to replay without the server, set CUDA_MPS_PIPE_DIRECTORY to an empty folder. `--sandbox auto` runs without a sandbox",
            ));
        }
        message::warning(format_args!("there is no sandbox: {cause}"));
    }
    let sandbox = if server.is_some() { SandboxOption::Off } else { options.sandbox };
    let state = match sandbox {
        SandboxOption::Off => None,
        SandboxOption::Auto | SandboxOption::Require => {
            make_devices();
            Some(state(folder.path()))
        }
    };
    if let Some(state) = state.as_ref().filter(|state| !state.is_whole())
        && sandbox == SandboxOption::Require
    {
        let text = anyhow!("the sandbox is not whole, and --sandbox requires it: {state}");
        return Err(RecorderFailure::before(text).hint(
            "Linux 6.2 and later with Landlock have it. `--sandbox auto` uses the parts that are there",
        ));
    }
    messages.result(content(&options.capture, bundles));
    match state {
        None if server.is_some() => {}
        None => messages.result("sandbox: off"),
        Some(state) if state.is_whole() => messages.result(format_args!("sandbox: {state}")),
        Some(state) => message::warning(format_args!("the sandbox is not whole: {state}")),
    }
    Ok(sandbox)
}

/// The folder of the MPS server that a program with this variable connects to, where one runs.
fn mps_server(variable: Option<OsString>) -> Option<PathBuf> {
    let folder = variable.filter(|value| !value.is_empty()).map_or_else(|| MPS_DEFAULT.into(), PathBuf::from);
    folder.join(MPS_PIPE).exists().then_some(folder)
}

/// The state of the sandbox, found in a process of its own.
fn state(folder: &Path) -> SandboxState {
    let probed = probe::in_a_process(ProbedPart::Sandbox, folder);
    let read = probed.and_then(|state| serde_json::from_value(state).map_err(|error| error.to_string()));
    read.unwrap_or_else(|cause| SandboxState { gaps: vec![cause], ..SandboxState::default() })
}

/// The machine code that runs, in words.
fn content(capture: &Path, bundles: &CaptureBundles) -> String {
    let all = bundles.bundles.values();
    let kernels: BTreeSet<_> = all.clone().map(|bundle| (&bundle.content_hash, &bundle.name)).collect();
    let mib = address_space::memory_bytes(all) >> 20;
    format!(
        "runs the machine code of {} of {} in `{}` on {}, with {mib} MiB of memory",
        counted(bundles.bundles.len(), "launch", "launches"),
        counted(kernels.len(), "kernel", "kernels"),
        capture.display(),
        device(),
    )
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The name of the GPU that workers use, where the machine has one kind.
fn device() -> String {
    let folders = fs::read_dir(GPUS).into_iter().flatten().flatten();
    let texts = folders.filter_map(|entry| fs::read_to_string(entry.path().join("information")).ok());
    let models: BTreeSet<String> = texts.filter_map(|text| model(&text)).collect();
    match models.len() {
        1 => models.into_iter().next().unwrap_or_default(),
        _ => "GPU 0".to_owned(),
    }
}

/// The model in the driver's description of a GPU.
fn model(information: &str) -> Option<String> {
    let line = information.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(line.trim().to_owned()).filter(|model| !model.is_empty())
}

/// Lets the driver make devices that are missing since the machine started. It runs a program for it, which a sandbox
/// refuses.
fn make_devices() {
    if Path::new(GPUS).is_dir() && !Path::new(UNIFIED_MEMORY).exists() {
        // A driver that fails here fails in the worker again, with its error.
        drop(probe::in_a_process(ProbedPart::Driver, Path::new("libcuda.so.1")));
    }
}

impl SandboxOption {
    /// Adds a hint to the failure of a worker that was confined.
    pub(super) fn hint(self, failure: RecorderFailure) -> RecorderFailure {
        match self {
            Self::Off => failure,
            Self::Auto | Self::Require => {
                failure.hint("if the sandbox is the cause, `--sandbox off` runs a capture that you trust")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_one_that_has_its_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let variable = || Some(folder.path().as_os_str().to_owned());
        assert_eq!(mps_server(variable()), None);
        fs::write(folder.path().join(MPS_PIPE), "").unwrap();
        assert_eq!(mps_server(variable()).as_deref(), Some(folder.path()));
    }

    #[test]
    fn the_model_is_read_from_the_drivers_text() {
        let text = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16\n";
        assert_eq!(model(text).as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!([model("IRQ: 16"), model("Model: \n")], [None, None]);
    }
}

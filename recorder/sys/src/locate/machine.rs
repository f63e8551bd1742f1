//! Inputs of the search for libraries, as values: variables, loaded libraries, the driver, the file system's root.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variables that say where libraries may be.
const VARIABLES: [&str; 16] = [
    "STALLMAP_DRIVER",
    "STALLMAP_SANITIZER",
    "STALLMAP_CUPTI",
    "STALLMAP_NVRTC",
    "STALLMAP_NVCC",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "HOME",
];

/// A machine, seen from one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessMachine {
    /// The file system's root, under which the usual places are searched.
    pub root: PathBuf,
    /// The variables of the process's environment that name folders.
    pub variables: BTreeMap<String, OsString>,
    /// Shared libraries that the process has loaded.
    pub loaded: Vec<PathBuf>,
    /// The program as it was called: a virtual environment's Python shows by it.
    pub command: Option<PathBuf>,
    /// The newest CUDA major version that the kernel driver supports.
    pub driver_cuda_major: Option<u32>,
}

impl ProcessMachine {
    /// The machine as the calling process sees it.
    pub fn of_this_process() -> Self {
        let read = |path: &str| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let variables =
            VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?))).collect();
        Self {
            root: PathBuf::from("/"),
            variables,
            loaded: loaded_libraries(&read("/proc/self/maps").unwrap_or_default()),
            command: read("/proc/self/cmdline").ok().and_then(|line| command(&line)),
            driver_cuda_major: read("/proc/driver/nvidia/version")
                .ok()
                .as_deref()
                .and_then(driver_cuda_major),
        }
    }

    /// The value of a variable as a path, where it is set and not empty.
    pub(super) fn variable_path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The value of a variable as a list of paths.
    pub(super) fn variable_paths(&self, name: &str) -> Vec<PathBuf> {
        let value = self.variables.get(name);
        let paths = value.map(|value| std::env::split_paths(value).collect::<Vec<_>>()).unwrap_or_default();
        paths.into_iter().filter(|path| !path.as_os_str().is_empty()).collect()
    }

    /// A usual place, under the root.
    pub(super) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// The shared libraries in the text of `/proc/self/maps`, each once, in order.
pub(super) fn loaded_libraries(maps: &str) -> Vec<PathBuf> {
    let mut libraries: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let Some(start) = line.find('/') else { continue };
        let path = Path::new(&line[start..]);
        let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if is_library && libraries.last().is_none_or(|last| last != path) {
            libraries.push(path.to_owned());
        }
    }
    libraries.dedup();
    libraries
}

/// The program's path in the text of `/proc/self/cmdline`, where it names a folder.
fn command(line: &str) -> Option<PathBuf> {
    let program = line.split('\0').next()?;
    program.contains('/').then(|| PathBuf::from(program))
}

/// The newest CUDA major version for the driver whose `/proc/driver/nvidia/version` this is.
pub(super) fn driver_cuda_major(text: &str) -> Option<u32> {
    let release: u32 = driver_release(text)?.split('.').next()?.parse().ok()?;
    match release {
        580.. => Some(13),
        525..580 => Some(12),
        450..525 => Some(11),
        _ => None,
    }
}

/// The driver's release, such as 580.159.04, in the text of `/proc/driver/nvidia/version`.
pub fn driver_release(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_release =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    line.split_whitespace().find(is_release)
}

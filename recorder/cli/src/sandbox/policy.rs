//! The files of a confined process.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of libraries, and files of the loader and the C library.
const LIBRARIES: [&str; 17] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/nvidia",
    "/run/opengl-driver",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/nvidia",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/nsswitch.conf",
];
/// Descriptions of the machine and its drivers. Other processes are not among them, because root reads their variables.
const MACHINE: [&str; 25] = [
    "/proc/bus",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/misc",
    "/proc/modules",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/sys/module",
];
/// Devices of random numbers.
const RANDOM: [&str; 2] = ["/dev/random", "/dev/urandom"];
/// Devices whose content is nothing.
const EMPTY: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];
/// Starts of the names of a GPU's devices: NVIDIA's on Linux, and the one of WSL.
const GPU: [&str; 2] = ["nvidia", "dxg"];

/// The files that a confined process may use. All others are refused. A path that does not exist allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilePolicy {
    /// Files and folders to read.
    pub(crate) read: Vec<PathBuf>,
    /// Folders in which files and folders are read, written, made and removed.
    pub(crate) write: Vec<PathBuf>,
    /// Devices to read, write and control, and folders of such devices.
    pub(crate) devices: Vec<PathBuf>,
}

impl FilePolicy {
    /// The policy of a process that uses this machine's GPUs, without files of its own.
    pub(crate) fn of_gpu() -> Self {
        let names = fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
        let is_gpu = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            GPU.iter().any(|start| name.starts_with(start))
        };
        let mut devices: Vec<PathBuf> = names.filter(|path| is_gpu(path)).collect();
        devices.extend(EMPTY.map(PathBuf::from));
        devices.sort();
        let read = LIBRARIES.iter().chain(&MACHINE).chain(&RANDOM).map(PathBuf::from).collect();
        Self { read, write: Vec::new(), devices }
    }
}

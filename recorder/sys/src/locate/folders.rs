//! The folders in which each part may lie, in the order in which they are believed.

use std::path::{Path, PathBuf};

use super::{NvidiaPart, ProcessMachine};

/// Folders with libraries below a CUDA toolkit's root.
const TOOLKIT_LIBRARIES: [&str; 9] = [
    "lib64",
    "lib",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "extras/CUPTI/lib64",
    "extras/CUPTI/lib",
    "compute-sanitizer",
    "extras/compute-sanitizer",
    "bin",
];

/// Folders in which distributions and containers keep libraries.
const SYSTEM_LIBRARIES: [&str; 9] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/usr/lib/nvidia-cuda-toolkit/compute-sanitizer",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
];

impl ProcessMachine {
    /// Folders that variables name: the user's own choice.
    pub(super) fn named_folders(&self, part: NvidiaPart) -> Vec<PathBuf> {
        let roots = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];
        let roots = roots.iter().filter_map(|name| self.variable_path(name));
        let first = if part == NvidiaPart::Nvcc { "PATH" } else { "LD_LIBRARY_PATH" };
        let mut folders = self.variable_paths(first);
        folders.extend(roots.flat_map(|root| toolkit(&root, part)));
        folders
    }

    /// Folders where the part is usually installed.
    pub(super) fn known_folders(&self, part: NvidiaPart) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for site in self.python_sites() {
            folders.extend(entries(&site.join("nvidia")).iter().flat_map(|package| toolkit(package, part)));
            // Triton carries a CUPTI of its own.
            folders.push(site.join("triton/backends/nvidia/lib/cupti"));
        }
        folders.extend(self.toolkits().iter().flat_map(|root| toolkit(root, part)));
        if part == NvidiaPart::Nvcc {
            folders.push(self.place("/usr/bin"));
        } else {
            folders.extend(self.tool_folders());
            folders.extend(SYSTEM_LIBRARIES.iter().map(|place| self.place(place)));
        }
        folders
    }

    /// Roots of CUDA toolkits, the default one first, then newest first.
    fn toolkits(&self) -> Vec<PathBuf> {
        let mut roots = vec![self.place("/usr/local/cuda")];
        roots.extend(newest_first(&self.place("/usr/local"), "cuda-"));
        roots.push(self.place("/opt/cuda"));
        roots.extend(newest_first(&self.place("/opt/nvidia"), "cuda-"));
        roots.extend(self.variable_path("CONDA_PREFIX"));
        for system in newest_first(&self.place("/opt/nvidia/hpc_sdk"), "Linux_") {
            for release in newest_first(&system, "") {
                roots.extend(newest_first(&release.join("cuda"), ""));
            }
        }
        roots
    }

    /// Library folders of NVIDIA's profilers, which carry CUPTI and the sanitizer.
    fn tool_folders(&self) -> Vec<PathBuf> {
        let mut tools = newest_first(&self.place("/opt/nvidia/nsight-compute"), "");
        for root in self.toolkits() {
            tools.extend(newest_first(&root, "nsight-compute-"));
        }
        let mut folders: Vec<PathBuf> =
            tools.iter().flat_map(|tool| newest_first(&tool.join("target"), "linux-")).collect();
        for tool in newest_first(&self.place("/opt/nvidia/nsight-systems"), "") {
            folders.extend(newest_first(&tool, "target-linux-"));
        }
        folders.extend(newest_first(&self.place("/opt/nvidia"), "compute-sanitizer"));
        folders
    }

    /// Python's package folders, those of the running program first.
    pub fn python_sites(&self) -> Vec<PathBuf> {
        let is_site = |folder: &&Path| folder.ends_with("site-packages") || folder.ends_with("dist-packages");
        let mut sites: Vec<PathBuf> = self
            .loaded
            .iter()
            .filter_map(|path| path.ancestors().find(is_site))
            .map(Path::to_owned)
            .collect();
        sites.extend(self.variable_paths("PYTHONPATH"));
        for prefix in self.python_prefixes() {
            for library in ["lib", "lib64", "local/lib"] {
                for version in newest_first(&prefix.join(library), "python") {
                    sites.extend(["site-packages", "dist-packages"].map(|name| version.join(name)));
                }
            }
        }
        let mut once = Vec::new();
        for site in sites {
            if site.is_dir() && !once.contains(&site) {
                once.push(site);
            }
        }
        once
    }

    /// Folders that hold `bin/python` and `lib/python3.x`.
    fn python_prefixes(&self) -> Vec<PathBuf> {
        let of_executable = |path: &Path| Some(path.parent()?.parent()?.to_owned());
        let mut prefixes: Vec<PathBuf> =
            self.command.as_deref().and_then(of_executable).into_iter().collect();
        prefixes.extend(
            ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"].iter().filter_map(|name| self.variable_path(name)),
        );
        let holds_python =
            |folder: &PathBuf| folder.join("python3").exists() || folder.join("python").exists();
        let on_path = self.variable_paths("PATH").into_iter().filter(holds_python);
        prefixes.extend(on_path.filter_map(|folder| folder.parent().map(Path::to_owned)));
        prefixes.extend(self.variable_path("HOME").map(|home| home.join(".local")));
        prefixes.extend(["/usr/local", "/usr", "/opt/conda"].map(|place| self.place(place)));
        prefixes
    }
}

/// The folders of a toolkit in which the part may lie.
fn toolkit(root: &Path, part: NvidiaPart) -> Vec<PathBuf> {
    if part == NvidiaPart::Nvcc {
        return vec![root.join("bin")];
    }
    TOOLKIT_LIBRARIES.iter().map(|folder| root.join(folder)).collect()
}

/// The entries of a folder, by name. None where it cannot be read.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(read) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The folders in `folder` whose names begin with `prefix`, newest version first.
fn newest_first(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let begins = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) && path.is_dir()
    };
    let mut folders: Vec<PathBuf> = entries(folder).into_iter().filter(begins).collect();
    folders.sort_by_key(|path| std::cmp::Reverse(version(path)));
    folders
}

/// The numbers in a file's name, for comparison: `cuda-12.8` before `cuda-12.10`.
pub(super) fn version(path: &Path) -> Vec<u32> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let numbers = name.split(|symbol: char| !symbol.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

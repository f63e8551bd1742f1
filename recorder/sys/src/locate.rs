//! Locations of NVIDIA's libraries and compilers on a machine: the candidates for `dlopen`, best first.
//!
//! A library that the process has already loaded comes first, because a second copy of CUPTI next to it does not work.
//! Then come files that the user names by variables, Python packages and toolkits, those that fit the driver first, and
//! plain names for the system's own search. Nothing is opened here, and a missing folder is an empty result.

mod folders;
mod machine;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use machine::{ProcessMachine, driver_release};

/// Something of NVIDIA's that the recorder opens or runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvidiaPart {
    /// The driver, `libcuda.so.1`.
    Driver,
    /// The sanitizer API, `libsanitizer-public.so`.
    Sanitizer,
    /// CUPTI, `libcupti.so`.
    Cupti,
    /// The run-time compiler, `libnvrtc.so`.
    Nvrtc,
    /// The compiler driver, `nvcc`.
    Nvcc,
}

impl NvidiaPart {
    /// The variable whose value, a file's path, is tried before anything that was not loaded already.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Driver => "STALLMAP_DRIVER",
            Self::Sanitizer => "STALLMAP_SANITIZER",
            Self::Cupti => "STALLMAP_CUPTI",
            Self::Nvrtc => "STALLMAP_NVRTC",
            Self::Nvcc => "STALLMAP_NVCC",
        }
    }

    /// The file's name without a version.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Driver => "libcuda.so",
            Self::Sanitizer => "libsanitizer-public.so",
            Self::Cupti => "libcupti.so",
            Self::Nvrtc => "libnvrtc.so",
            Self::Nvcc => "nvcc",
        }
    }

    /// The names that `dlopen` may find by itself.
    const fn plain_names(self) -> &'static [&'static str] {
        match self {
            Self::Driver => &["libcuda.so.1", "libcuda.so"],
            Self::Sanitizer => &["libsanitizer-public.so"],
            Self::Cupti => &["libcupti.so.13", "libcupti.so.12", "libcupti.so"],
            Self::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            Self::Nvcc => &[],
        }
    }

    /// True if a file of this name is the part: the plain name, or the plain name with a version.
    fn is_named(self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.file_name()) else { return false };
        let is_version = |text: &str| {
            text.starts_with('.') && text.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
        };
        rest.is_empty() || (self != Self::Nvcc && is_version(rest))
    }
}

/// The sanitizer API's library.
pub fn sanitizer() -> Vec<PathBuf> {
    ProcessMachine::of_this_process().candidates(NvidiaPart::Sanitizer)
}

/// CUPTI's library.
pub fn cupti() -> Vec<PathBuf> {
    ProcessMachine::of_this_process().candidates(NvidiaPart::Cupti)
}

/// The run-time compiler's library.
pub fn nvrtc() -> Vec<PathBuf> {
    ProcessMachine::of_this_process().candidates(NvidiaPart::Nvrtc)
}

/// The library that `nvrtc` opens by plain name, which the system finds only where it is loaded already.
pub fn nvrtc_builtins(nvrtc: &Path) -> Vec<PathBuf> {
    let Some(folder) = nvrtc.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Vec::new();
    };
    let is_builtins = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libnvrtc-builtins.so")
    };
    folders::entries(folder).into_iter().filter(is_builtins).collect()
}

/// The compiler driver's executable.
pub fn nvcc() -> Vec<PathBuf> {
    ProcessMachine::of_this_process().candidates(NvidiaPart::Nvcc)
}

impl ProcessMachine {
    /// Every candidate for `part`, best first: files that exist, then plain names without a folder.
    pub fn candidates(&self, part: NvidiaPart) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            self.loaded.iter().filter(|path| is_part(part, path)).cloned().collect();
        found.extend(self.variable_path(part.variable()).filter(|path| path.is_file()));
        for folder in self.named_folders(part) {
            found.extend(parts_in(&folder, part));
        }
        let mut others: Vec<PathBuf> =
            self.known_folders(part).iter().flat_map(|folder| parts_in(folder, part)).collect();
        others.sort_by_key(|path| self.misfit(path));
        found.extend(others);
        let mut seen = HashSet::new();
        found.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
        found.extend(part.plain_names().iter().map(PathBuf::from));
        found
    }

    /// The folders of all candidates, and those that the loader searches by LD_LIBRARY_PATH.
    pub fn library_folders(&self) -> Vec<PathBuf> {
        let parts = [NvidiaPart::Driver, NvidiaPart::Sanitizer, NvidiaPart::Cupti, NvidiaPart::Nvrtc];
        let files = parts.iter().flat_map(|part| self.candidates(*part)).filter(|path| path.is_absolute());
        // A file may be a link into another folder, which holds the libraries that it needs.
        let both = files.flat_map(|path| [path.canonicalize().unwrap_or_else(|_| path.clone()), path]);
        let mut folders: Vec<PathBuf> = both.filter_map(|path| path.parent().map(Path::to_owned)).collect();
        folders.extend(self.variable_paths("LD_LIBRARY_PATH"));
        folders.sort();
        folders.dedup();
        folders
    }

    /// Badness of a file's CUDA major version for the driver: a newer one comes last, an older one before it.
    fn misfit(&self, path: &Path) -> u32 {
        match (self.driver_cuda_major, cuda_major(path)) {
            (Some(driver), Some(major)) if major > driver => 100 + major,
            (Some(driver), Some(major)) => driver - major,
            // As good as one version older.
            _ => 1,
        }
    }
}

fn is_part(part: NvidiaPart, path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| part.is_named(name))
}

/// The files of `folder` that are `part`, newest version first.
fn parts_in(folder: &Path, part: NvidiaPart) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> =
        folders::entries(folder).into_iter().filter(|path| is_part(part, path) && path.is_file()).collect();
    parts.sort_by_key(|path| std::cmp::Reverse(folders::version(path)));
    parts
}

/// The CUDA major version that a path shows: in a folder's name (`cuda-13.0`, `cu13`), or as the library's suffix.
pub fn cuda_major(path: &Path) -> Option<u32> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let of_folder = |name: &str| {
        let version = name.strip_prefix("cuda-").or_else(|| name.strip_prefix("cu"))?;
        version.split('.').next()?.parse().ok()
    };
    let of_suffix = |name: &str| name.split_once(".so.")?.1.split('.').next()?.parse().ok();
    let names = || real.iter().rev().chain(path.iter().rev()).filter_map(|name| name.to_str());
    // CUPTI's own files are versioned by year (libcupti.so.2025.3.1): that is not a CUDA version.
    names()
        .find_map(|name| of_folder(name).or_else(|| of_suffix(name)).filter(|major| (9..100).contains(major)))
}

#[cfg(test)]
mod tests;

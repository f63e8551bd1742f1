//! The search on trees as toolkits, Python packages and distributions lay them out.

use std::path::{Path, PathBuf};

use super::machine::{driver_cuda_major, driver_release, loaded_libraries};
use super::{NvidiaPart, ProcessMachine, cuda_major};

/// A folder that is removed at the end of the test.
struct TempTree(PathBuf);

impl TempTree {
    fn new(test: &str, files: &[&str]) -> Self {
        let root = std::env::temp_dir().join(format!("stallmap-locate-{test}-{}", std::process::id()));
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, b"").unwrap();
        }
        Self(root)
    }

    fn machine(&self) -> ProcessMachine {
        ProcessMachine { root: self.0.clone(), ..ProcessMachine::default() }
    }

    /// The candidates below the tree, relative to it. Then the plain names.
    fn found(&self, machine: &ProcessMachine, part: NvidiaPart) -> Vec<String> {
        let relative =
            |path: &PathBuf| path.strip_prefix(&self.0).unwrap_or(path).to_string_lossy().into_owned();
        machine.candidates(part).iter().map(relative).collect()
    }
}

impl Drop for TempTree {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn nothing_installed_leaves_the_plain_names() {
    let tree = TempTree::new("nothing", &[]);
    assert_eq!(tree.found(&tree.machine(), NvidiaPart::Sanitizer), ["libsanitizer-public.so"]);
    assert_eq!(tree.found(&tree.machine(), NvidiaPart::Nvcc), Vec::<String>::new());
}

#[test]
fn toolkits_that_fit_the_driver_come_first_and_newer_ones_last() {
    let files = [
        "usr/local/cuda-12.8/compute-sanitizer/libsanitizer-public.so",
        "usr/local/cuda-13.0/compute-sanitizer/libsanitizer-public.so",
        "usr/local/cuda-13.2/compute-sanitizer/libsanitizer-public.so",
        "usr/local/cuda-14.0/compute-sanitizer/libsanitizer-public.so",
    ];
    let tree = TempTree::new("toolkits", &files);
    let machine = ProcessMachine { driver_cuda_major: Some(13), ..tree.machine() };
    let folder = |version: &str| format!("usr/local/cuda-{version}/compute-sanitizer/libsanitizer-public.so");
    let mut expected: Vec<String> = ["13.2", "13.0", "12.8", "14.0"].map(folder).into();
    expected.push("libsanitizer-public.so".into());
    assert_eq!(tree.found(&machine, NvidiaPart::Sanitizer), expected);
}

#[test]
fn the_default_toolkit_is_named_once() {
    let tree = TempTree::new("default", &["usr/local/cuda-13.0/lib64/libnvrtc.so.13"]);
    std::os::unix::fs::symlink(tree.0.join("usr/local/cuda-13.0"), tree.0.join("usr/local/cuda")).unwrap();
    let found = tree.found(&tree.machine(), NvidiaPart::Nvrtc);
    assert_eq!(found[..2], ["usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.13"]);
    assert_eq!(cuda_major(&tree.0.join("usr/local/cuda/lib64/libnvrtc.so.13")), Some(13));
}

#[test]
fn packages_of_the_running_python_come_before_toolkits() {
    let files = [
        "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13",
        "venv/lib/python3.12/site-packages/nvidia/cu13/compute-sanitizer/libsanitizer-public.so",
        "venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
        "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.8",
        "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.alt.so.12",
        "usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.13",
    ];
    let tree = TempTree::new("packages", &files);
    let command = Some(tree.0.join("venv/bin/python"));
    let machine = ProcessMachine { driver_cuda_major: Some(13), command, ..tree.machine() };
    let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
    let mut expected = vec![files[0], files[6], files[2]];
    expected.extend(names);
    assert_eq!(tree.found(&machine, NvidiaPart::Cupti), expected);
    assert_eq!(tree.found(&machine, NvidiaPart::Sanitizer)[0], files[1]);
    assert_eq!(tree.found(&machine, NvidiaPart::Nvrtc)[..2], [files[3], "libnvrtc.so.13"]);
}

#[test]
fn what_is_loaded_wins_over_what_variables_name() {
    let files =
        ["a/libcupti.so.2025.3.1", "b/libcupti.so.13", "c/extras/CUPTI/lib64/libcupti.so.12", "d/my-cupti"];
    let tree = TempTree::new("loaded", &files);
    let variable = |name: &str, path: &str| (name.to_owned(), tree.0.join(path).into_os_string());
    let machine = ProcessMachine {
        loaded: vec![tree.0.join(files[0])],
        variables: [
            variable("LD_LIBRARY_PATH", "b"),
            variable("CUDA_HOME", "c"),
            variable("STALLMAP_CUPTI", "d/my-cupti"),
        ]
        .into(),
        ..tree.machine()
    };
    assert_eq!(tree.found(&machine, NvidiaPart::Cupti)[..4], [files[0], files[3], files[1], files[2]]);
}

#[test]
fn compilers_are_found_on_the_path_and_in_packages() {
    let files = ["site/nvidia/cu13/bin/nvcc", "usr/local/cuda-13.0/bin/nvcc", "bin/nvcc", "bin/nvcc.profile"];
    let tree = TempTree::new("compilers", &files);
    let variable = |name: &str, path: &str| (name.to_owned(), tree.0.join(path).into_os_string());
    let variables = [variable("PYTHONPATH", "site"), variable("PATH", "bin")].into();
    let machine = ProcessMachine { variables, ..tree.machine() };
    assert_eq!(tree.found(&machine, NvidiaPart::Nvcc), [files[2], files[0], files[1]]);
}

#[test]
fn profilers_carry_libraries_too() {
    let file = "opt/nvidia/nsight-compute/2025.3.1/target/linux-desktop-glibc_2_11_3-x64/libcupti.so.13";
    let tree = TempTree::new("profilers", &[file]);
    assert_eq!(tree.found(&tree.machine(), NvidiaPart::Cupti)[0], file);
}

#[test]
fn the_site_of_a_loaded_library_is_searched() {
    let files = [
        "env/lib/python3.12/site-packages/torch/lib/libtorch.so",
        "env/lib/python3.12/site-packages/nvidia/cu13/lib/libsanitizer-public.so",
    ];
    let tree = TempTree::new("site", &files);
    let machine = ProcessMachine { loaded: vec![tree.0.join(files[0])], ..tree.machine() };
    assert_eq!(tree.found(&machine, NvidiaPart::Sanitizer)[0], files[1]);
}

#[test]
fn maps_name_libraries_once() {
    let maps = "7f00-7f01 r--p 0 08:01 1 /usr/lib/libcuda.so.1\n7f01-7f02 r-xp 0 08:01 1 /usr/lib/libcuda.so.1\n\
        7f02-7f03 rw-p 0 00:00 0\n7f03-7f04 r--p 0 08:01 2 /usr/bin/python3.12\n7f04-7f05 r--p 0 08:01 3 /a b/x.so\n";
    assert_eq!(loaded_libraries(maps), [Path::new("/usr/lib/libcuda.so.1"), Path::new("/a b/x.so")]);
}

#[test]
fn the_driver_says_which_cuda_it_supports() {
    let text = |release: &str| {
        format!(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {release}  Release Build\nGCC version:\n"
        )
    };
    assert_eq!(driver_release(&text("580.159.04")), Some("580.159.04"));
    assert_eq!(driver_cuda_major(&text("580.159.04")), Some(13));
    assert_eq!(driver_cuda_major(&text("550.54.15")), Some(12));
    assert_eq!(driver_cuda_major("nothing"), None);
}

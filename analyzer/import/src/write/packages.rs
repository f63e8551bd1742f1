//! Files of libraries in Python stacks whose sources cut the folders in front of them.
//!
//! PyTorch's profiler writes `torch/nn/modules/module.py` and `threading.py` as it writes a file of the user. Views know
//! libraries by the folder that they are installed in.

use std::path::Path;

/// Packages that are no program of a user.
const PACKAGES: [&str; 21] = [
    "torch",
    "torchvision",
    "torchaudio",
    "torchao",
    "functorch",
    "triton",
    "numpy",
    "scipy",
    "pandas",
    "transformers",
    "accelerate",
    "datasets",
    "diffusers",
    "peft",
    "lightning",
    "pytorch_lightning",
    "deepspeed",
    "timm",
    "tqdm",
    "flash_attn",
    "xformers",
];

/// Modules and packages of Python itself that are on stacks of programs.
const PYTHON: [&str; 22] = [
    "threading.py",
    "contextlib.py",
    "runpy.py",
    "functools.py",
    "typing.py",
    "queue.py",
    "subprocess.py",
    "socket.py",
    "socketserver.py",
    "selectors.py",
    "inspect.py",
    "copy.py",
    "warnings.py",
    "weakref.py",
    "abc.py",
    "enum.py",
    "asyncio",
    "multiprocessing",
    "concurrent",
    "importlib",
    "logging",
    "collections",
];

/// The file with the folder of its library in front. Files of users stay.
pub(super) fn original(file: &str) -> String {
    let first = file.split('/').next().unwrap_or_default();
    let is_file = first == file;
    let is_of = |known: &[&str]| {
        known.contains(&first) && (!is_file || Path::new(first).extension().is_some_and(|kind| kind == "py"))
    };
    if is_of(&PACKAGES) {
        format!("site-packages/{file}")
    } else if is_of(&PYTHON) {
        format!("/lib/python3/{file}")
    } else {
        file.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_get_their_folders_back() {
        for (file, found) in [
            ("torch/nn/modules/module.py", "site-packages/torch/nn/modules/module.py"),
            ("threading.py", "/lib/python3/threading.py"),
            ("asyncio/events.py", "/lib/python3/asyncio/events.py"),
            ("train.py", "train.py"),
            ("models/torch/x.py", "models/torch/x.py"),
            ("/opt/torch/x.py", "/opt/torch/x.py"),
            ("torch", "torch"),
        ] {
            assert_eq!(original(file), found);
        }
    }
}

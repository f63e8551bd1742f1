//! Programs with a profiler of their own, found by their text.
//!
//! NVIDIA's profiling interface cannot be had once memory accesses are recorded. So in a run of accesses such a program's own
//! profile is empty. That run must not be the one whose output is shown.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Longer files are no scripts.
const MAX_BYTES: u64 = 32 << 20;
/// In the text of a script, a notebook or a file of options.
const IN_TEXT: [&str; 1] = ["profiler"];
/// The first bytes of an executable.
const EXECUTABLE: &str = "\x7fELF";
/// In an executable.
const IN_CODE: [&str; 2] = ["cuptiSubscribe", "cuptiActivityEnable"];

/// True if a file that the program's command names, or a module next to it that it imports, uses a profiler.
pub(crate) fn is_likely(command: &[OsString]) -> bool {
    let mut files: Vec<PathBuf> = command.iter().map(PathBuf::from).collect();
    files.extend(command.first().and_then(|name| installed(Path::new(name))));
    let modules = command.windows(2).filter(|two| two[0] == "-m").filter_map(|two| two[1].to_str());
    for module in modules {
        if IN_TEXT.iter().any(|word| module.contains(word)) {
            return true;
        }
        files.push(module_file(Path::new(""), module));
    }
    let mut seen = BTreeSet::new();
    while let Some(file) = files.pop() {
        let Some(text) = content(&file) else { continue };
        let words = if text.starts_with(EXECUTABLE) { &IN_CODE[..] } else { &IN_TEXT };
        if words.iter().any(|word| text.contains(word)) {
            return true;
        }
        if seen.insert(file.clone()) && file.extension().is_some_and(|extension| extension == "py") {
            let folder = file.parent().unwrap_or(Path::new(""));
            let imports = imports(&text).map(|module| module_file(folder, module));
            files.extend(imports.filter(|file| !seen.contains(file)));
        }
    }
    false
}

/// The file of a command that is found by its name, such as `proton`.
fn installed(name: &Path) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").filter(|_| name.parent() == Some(Path::new("")))?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The text of a file. Bytes that are none are replaced.
fn content(file: &Path) -> Option<String> {
    let facts = fs::metadata(file).ok()?;
    let bytes = (facts.is_file() && facts.len() <= MAX_BYTES).then(|| fs::read(file).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The modules that a Python script imports by their whole names.
fn imports(script: &str) -> impl Iterator<Item = &str> {
    script.lines().filter_map(|line| {
        let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
        matches!(words.next(), Some("import" | "from")).then(|| words.next()).flatten()
    })
}

fn module_file(folder: &Path, module: &str) -> PathBuf {
    folder.join(format!("{}.py", module.trim_start_matches('.').replace('.', "/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_is_found_in_what_the_command_names() {
        let folder = std::env::temp_dir().join(format!("stallmap-own-profiler-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, content: &[u8]| fs::write(folder.join(name), content).unwrap();
        write("plain.py", b"import torch, plain\nfrom missing import x\n");
        write("direct.py", b"    with torch.profiler.profile() as p:\n");
        write("indirect.py", b"from steps import step\n");
        write("steps.py", b"from torch.autograd import profiler\n");
        write("tool", b"\x7fELF\xff\x00cuptiSubscribe\x00");
        write("kernel", b"\x7fELF\xff\x00profiler\x00");
        let found = |name: &str| {
            is_likely(&["python".into(), folder.join(name).into_os_string(), "--steps".into(), "3".into()])
        };
        let names = ["plain.py", "direct.py", "indirect.py", "tool", "kernel", "absent"];
        let all = names.map(found);
        let module = ["python", "-m", "triton.profiler.proton", "plain.py"].map(Into::into);
        assert!(is_likely(&module));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(all, [false, true, true, true, false, false]);
    }
}

//! Runs `stallmap-record` in a folder of its own and shows its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, str};

use tempfile::TempDir;

/// The executable under test.
pub(crate) const EXECUTABLE: &str = env!("CARGO_BIN_EXE_stallmap-record");

/// A folder for one test.
pub(crate) struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with these arguments, in the folder.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(EXECUTABLE);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        for variable in ["CUDA_INJECTION64_PATH", "STALLMAP_CONFIG", "STALLMAP_LIBRARY", "PYTHONPATH"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs the command. Shows exit code, standard output and standard error, without details that differ by machine.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        self.show(&self.command(words).output().unwrap())
    }

    /// A recording of a shell script, with a library that can be loaded and does nothing.
    pub(crate) fn record(&self, options: &[&str], script: &str) -> String {
        let library = any_library();
        let mut words = vec!["-o", "a.stallmap", "--library", library.to_str().unwrap()];
        words.extend(options);
        words.extend(["--", "sh", "-c", script]);
        self.run(&words)
    }

    /// A recording of one program without arguments.
    pub(crate) fn record_program(&self, program: &str) -> String {
        let library = any_library();
        self.run(&["-o", "a.stallmap", "--library", library.to_str().unwrap(), "--", program])
    }

    pub(crate) fn show(&self, output: &Output) -> String {
        let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
        let text = |bytes: &[u8]| self.hide(str::from_utf8(bytes).unwrap());
        format!("exit code {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
    }

    fn hide(&self, text: &str) -> String {
        let folder = fs::canonicalize(self.folder.path()).unwrap();
        let library = any_library();
        let bin = Path::new(EXECUTABLE).parent().unwrap();
        let process = regex::Regex::new("process [0-9]+").unwrap();
        let text = process.replace_all(text, "process [ID]");
        let bytes = regex::Regex::new("[0-9,]+ bytes").unwrap();
        let text = bytes.replace_all(&text, "[COUNT] bytes");
        let kernel = regex::Regex::new("Landlock [0-9]+").unwrap();
        let text = kernel.replace_all(&text, "Landlock [VERSION]");
        text.replace(folder.to_str().unwrap(), "[FOLDER]")
            .replace(self.folder.path().to_str().unwrap(), "[FOLDER]")
            .replace(library.to_str().unwrap(), "[LIBRARY]")
            .replace(bin.to_str().unwrap(), "[BIN]")
    }

    /// The names in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A shared library that is on every machine: the C library that this test has loaded.
pub(crate) fn any_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps
        .lines()
        .find_map(|line| line.find('/').map(|at| &line[at..]).filter(|path| path.contains("/libc.")));
    fs::canonicalize(path.unwrap()).unwrap()
}

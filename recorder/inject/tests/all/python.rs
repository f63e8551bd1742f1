//! The Python side: programs run under the recorder as `stallmap-record` runs them, on the CPU.
//!
//! The Python that has PyTorch is `STALLMAP_TEST_PYTHON`, or else `python3`. Tests that need PyTorch report it and pass
//! if it is missing.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use stallmap_config::{Config, LaunchSelection, PassInstrument};
use stallmap_schema::table::TableRow;
use tempfile::TempDir;

mod forked;
mod generated;
mod parts;
mod public;
mod ranges;
pub(crate) mod rows;
mod start;
mod training;
mod written;

/// A program that ran under the recorder.
struct PythonRecording {
    directory: TempDir,
    output: Output,
}

impl PythonRecording {
    /// Every row of a table.
    fn rows<R: TableRow>(&self) -> Vec<R> {
        rows::read(self.directory.path())
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// A Python program of this repository.
fn program(name: &str) -> PathBuf {
    package().join("tests/programs").join(name)
}

/// The folder of the hooks and their tests.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python")
}

/// The same for programs of other tests.
pub(crate) fn recorder_folder() -> PathBuf {
    package()
}

/// The folder of the public package `stallmap`.
fn public() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

/// A PYTHONPATH of these folders.
fn search_path(folders: &[&Path]) -> OsString {
    std::env::join_paths(folders).unwrap()
}

/// The injected library, which cargo builds next to the tests.
pub(crate) fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.with_file_name("libstallmap_inject.so")
}

fn python() -> Command {
    let mut command = Command::new(std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or("python3".into()));
    command.env("PYTHONPATH", search_path(&[&package().join("hook"), &public()]));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.env_remove(stallmap_config::VARIABLE).env_remove("STALLMAP_LIBRARY");
    command
}

fn run(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"))
}

/// True for files of stallmap's packages.
fn is_own(file: &str) -> bool {
    file.contains("/python/stallmap/") || file.contains("/_stallmap_record/")
}

/// True if PyTorch is there. Prints a line for a test that needs PyTorch but is skipped.
fn has_torch() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let answer = *ANSWER.get_or_init(|| {
        let mut command = python();
        command.args(["-c", "import torch"]);
        run(command).status.success()
    });
    if !answer {
        // Not by println, whose output the test runner hides.
        let line = b"skipped 1 test: no PyTorch: set STALLMAP_TEST_PYTHON to a Python that has it\n";
        std::io::stderr().write_all(line).unwrap();
    }
    answer
}

/// The same program without the recorder.
fn alone(script: &Path) -> Output {
    let mut command = python();
    command.arg(script).env("PYTHONPATH", public());
    run(command)
}

fn record(script: &Path, instrument: PassInstrument, selection: LaunchSelection) -> Option<PythonRecording> {
    record_under(script, instrument, selection, &[&package().join("hook"), &public()])
}

/// The same with a PYTHONPATH of these folders.
fn record_under(
    script: &Path,
    instrument: PassInstrument,
    selection: LaunchSelection,
    folders: &[&Path],
) -> Option<PythonRecording> {
    record_with(script, instrument, selection, folders, &[])
}

/// True if the recorder says something, or its hooks fail. A clone's folder may be called as the project is.
fn is_heard(stderr: &str) -> bool {
    stderr.contains("_stallmap_record") || stderr.lines().any(|line| line.starts_with("stallmap"))
}

/// The same with these variables.
fn record_with(
    script: &Path,
    instrument: PassInstrument,
    selection: LaunchSelection,
    folders: &[&Path],
    variables: &[(&str, &Path)],
) -> Option<PythonRecording> {
    if !has_torch() {
        return None;
    }
    let directory = TempDir::new().unwrap();
    let config =
        Config { directory: directory.path().to_owned(), instrument, selection, ..Config::default() };
    let mut command = python();
    command
        .arg(script)
        .env(stallmap_config::VARIABLE, config.to_json().unwrap())
        .env("STALLMAP_LIBRARY", library())
        .env("STALLMAP_PYTHON_CPU", "1")
        .env("PYTHONPATH", search_path(folders))
        .envs(variables.iter().copied());
    let recording = PythonRecording { output: run(command), directory };
    assert!(recording.output.status.success(), "{}", recording.stderr());
    assert!(!is_heard(&recording.stderr()), "{}", recording.stderr());
    Some(recording)
}

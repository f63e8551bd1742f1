//! The sandbox of `replay`: a library in the driver's place tries what it refuses, from inside of a worker.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;
use stallmap_write::CaptureForm;

use super::run::{EXECUTABLE, TestFolder};
use super::tiny;

/// True if this kernel has every part of the sandbox. Otherwise the test is skipped, by its name.
fn is_whole(place: &TestFolder, test: &str) -> bool {
    let output = place.command(&["probe", "sandbox", "."]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_whole = answer["ok"]["gaps"].as_array().unwrap().is_empty();
    if !is_whole {
        println!("skipped 1 test: {test}: {answer}");
    }
    is_whole
}

/// The results of the attempts under a use of the sandbox, one a line.
fn attempts(place: &TestFolder, sandbox: &str) -> String {
    tiny::write(&place.path("a.stallmap"), CaptureForm::File).unwrap();
    fs::write(place.path("secret"), "secret").unwrap();
    for folder in ["home", "lib"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/attempts.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-pthread", "-o"]).arg(place.path("lib/libcuda.so.1")).arg(source);
    assert!(compiler.status().unwrap().success());
    let listener = UnixListener::bind(place.path("listener")).unwrap();
    let script = format!("exec {EXECUTABLE} replay a.stallmap -v --sandbox {sandbox} 9<secret");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("")).env_remove("CUDA_INJECTION64_PATH");
    command.env("LD_LIBRARY_PATH", place.path("lib")).env("HOME", place.path("home"));
    command.env("ACCESS_TOKEN", "secret");
    let output = command.output().unwrap();
    drop(listener);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("stallmap-record: "));
    let is_attempt = |line: &&str| {
        let result = line.rsplit(": ").next().unwrap();
        result == "allowed"
            || result.ends_with("denied")
            || result.ends_with("permitted")
            || result.ends_with("descriptor")
    };
    lines.filter(is_attempt).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_worker_reads_its_libraries_and_writes_its_folder_only() {
    let place = TestFolder::new();
    if !is_whole(&place, "a_worker_reads_its_libraries_and_writes_its_folder_only") {
        return;
    }
    assert_snapshot!(attempts(&place, "require"), @r"
    read a library's folder: allowed
    read the loader's cache: allowed
    read the capture: allowed
    write the capture: Permission denied
    read a file next to it: Permission denied
    write a file next to it: Permission denied
    make a file next to it: Permission denied
    make a file at home: Permission denied
    make a file in the replays: allowed
    make a temporary file: allowed
    write a setting of the kernel: Permission denied
    read an inherited file: Bad file descriptor
    make a link: Permission denied
    make a pipe: Operation not permitted
    move a file out: Permission denied
    truncate a file: Permission denied
    change a mode: Operation not permitted
    open a socket of the Internet: Operation not permitted
    open a socket of the kernel: Operation not permitted
    connect to a process: Operation not permitted
    type into the terminal: Operation not permitted
    make memory with a file: allowed
    read a variable: Permission denied
    read a variable of the beginning: Permission denied
    read variables of the parent: Permission denied
    read what describes the machine: allowed
    read what describes itself: allowed
    send a signal to the parent: Operation not permitted
    send a signal to the group: Operation not permitted
    send a signal to itself: allowed
    trace the parent: Operation not permitted
    name a thread: allowed
    remove a file: Permission denied
    start a process: Operation not permitted
    start a program: Operation not permitted
    ");
    let names = ["a.stallmap", "home", "lib", "listener", "secret"];
    assert_eq!(place.names(), names);
    assert_eq!(fs::read(place.path("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(place.path("home")).unwrap().count(), 0);
}

/// Output of `replay` in a kernel that answers calls of Landlock as unknown.
fn without_landlock(place: &TestFolder, sandbox: &str) -> String {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/old_kernel.c");
    let launcher = place.path("launcher");
    assert!(Command::new("cc").arg("-o").arg(&launcher).arg(source).status().unwrap().success());
    let mut command = Command::new(launcher);
    command.args([EXECUTABLE, "replay", "a.stallmap", "--sandbox", sandbox]).current_dir(place.path(""));
    place.show(&command.output().unwrap())
}

#[test]
fn a_kernel_without_landlock_is_said_or_refused() {
    let place = TestFolder::new();
    tiny::write(&place.path("a.stallmap"), CaptureForm::File).unwrap();
    assert_snapshot!(without_landlock(&place, "require"), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the sandbox is not whole, and --sandbox requires it: files are not protected: this kernel has no Landlock
    stallmap-record: hint: Linux 6.2 and later with Landlock have it. `--sandbox auto` uses the parts that are there
    ");
    assert_eq!(place.names(), ["a.stallmap", "launcher"]);
    let warned = without_landlock(&place, "auto");
    let warning = "stallmap-record: warning: the sandbox is not whole: files are not protected: this kernel has no Landlock\n";
    // It goes on to the driver, which is not there, or does not take this capture's code.
    assert!(warned.contains(warning) && warned.contains("error: a worker failed: "), "{warned}");
}

#[test]
fn an_mps_server_that_a_sandbox_hides_is_said_or_refused() {
    let place = TestFolder::new();
    tiny::write(&place.path("a.stallmap"), CaptureForm::File).unwrap();
    fs::create_dir(place.path("mps")).unwrap();
    let replay = |sandbox: &str| {
        let mut command = place.command(&["replay", "a.stallmap", "--sandbox", sandbox]);
        place.show(&command.env("CUDA_MPS_PIPE_DIRECTORY", "mps").output().unwrap())
    };
    // A folder is left where no server runs any more.
    assert!(!replay("auto").contains("MPS"));
    fs::write(place.path("mps/control"), "").unwrap();
    assert_snapshot!(replay("require"), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: there is no sandbox, and --sandbox requires it: the MPS server of `mps` runs, and a confined worker cannot connect
    stallmap-record: hint: to replay without the server, set CUDA_MPS_PIPE_DIRECTORY to an empty folder. `--sandbox auto` runs without a sandbox
    ");
    assert_eq!(place.names(), ["a.stallmap", "mps"]);
    let warning = "stallmap-record: warning: there is no sandbox: the MPS server of `mps` runs, and a confined worker cannot connect\n";
    let warned = replay("auto");
    assert!(warned.contains(warning) && warned.contains("error: a worker failed: "), "{warned}");
    assert!(!replay("off").contains("MPS"));
}

/// The same attempts succeed without the sandbox: it is the sandbox that refuses them.
#[test]
fn without_the_sandbox_nothing_is_refused() {
    let place = TestFolder::new();
    let made = attempts(&place, "off");
    for attempt in [
        "read a file next to it",
        "make a file next to it",
        "make a file at home",
        "make a link",
        "read an inherited file",
        "open a socket of the Internet",
        "connect to a process",
        "read a variable",
        "read a variable of the beginning",
        "send a signal to the parent",
        "remove a file",
        "start a process",
        "start a program",
    ] {
        assert!(made.contains(&format!("{attempt}: allowed")), "{attempt}: {made}");
    }
}

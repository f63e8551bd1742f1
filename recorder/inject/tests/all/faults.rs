//! Programs that are struck while they are recorded, on the CPU: what was recorded is there or is counted.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stallmap_config::progress::{FILE_NAME, RunProgress};
use stallmap_config::{Config, PassInstrument, VARIABLE};
use stallmap_schema::capture::recording::{LossTotal, RunFact};
use tempfile::TempDir;

use crate::python::{library, rows};

/// Loads the library and starts a session, as Python's hooks do.
const START: &str = r#"
import ctypes, os, resource, signal, sys, time
library = ctypes.CDLL(os.environ["STALLMAP_LIBRARY"])
library.stallmap_text.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
library.stallmap_text.restype = ctypes.c_int64
library.stallmap_fact.argtypes = [ctypes.c_int64, ctypes.c_int64]
assert library.stallmap_mode(1)
text = lambda word: library.stallmap_text(word, len(word))
"#;

/// Runs a Python program that is recorded.
pub(crate) fn record(program: &str) -> (TempDir, Output) {
    record_as(program, |_| ())
}

/// The same with other options.
pub(crate) fn record_as(program: &str, change: impl FnOnce(&mut Config)) -> (TempDir, Output) {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().to_owned();
    let mut config = Config { directory, instrument: PassInstrument::Accesses, ..Config::default() };
    change(&mut config);
    let output = Command::new("python3")
        .args(["-c", &format!("{START}{program}")])
        .env(VARIABLE, config.to_json().unwrap())
        .env("STALLMAP_LIBRARY", library())
        .output()
        .unwrap();
    (folder, output)
}

/// The folder of the only run.
fn run_of(folder: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.join(FILE_NAME).exists()).unwrap()
}

#[test]
fn a_program_whose_memory_ends_goes_on_without_the_recording() {
    let (folder, output) = record(
        r#"
size = 1 << 20
word = bytearray(size)
place = (ctypes.c_char * size).from_buffer(word)
most = int(open("/proc/self/statm").read().split()[0]) * 4096 + (8 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
for number in range(200):
    word[:8] = b"%08d" % number
    library.stallmap_text(place, size)
time.sleep(0.3)
print("alive", flush=True)
sys.exit(3)
"#,
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"alive\n"[..]), "{error}");
    assert!(error.contains("the program's memory ran out: recording has ended"), "{error}");
    let losses: Vec<LossTotal> = rows::read(folder.path());
    assert!(losses.iter().any(|loss| loss.reason == "memory ran out and recording ended"), "{losses:?}");
}

#[test]
fn every_row_of_a_killed_program_is_there_or_counted() {
    let (folder, output) = record(
        r#"
for number in range(300):
    library.stallmap_fact(text(b"torch_version"), text(b"2.%d" % number))
    if number == 200: time.sleep(0.3)
os.kill(os.getpid(), signal.SIGKILL)
"#,
    );
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let progress = RunProgress::read(&std::fs::read(run_of(folder.path()).join(FILE_NAME)).unwrap()).unwrap();
    let facts = rows::read::<RunFact>(folder.path()).len() as u64;
    assert!(facts >= 201, "{facts}");
    // Besides these facts, the run's own row and its options are recorded, at once.
    let others = progress.written_rows - facts.min(progress.written_rows);
    assert_eq!(progress.given_rows - others, 300, "{progress:?}");
    assert_eq!(progress.unwritten(others + facts, 0).0, 300 - facts, "{progress:?}");
}

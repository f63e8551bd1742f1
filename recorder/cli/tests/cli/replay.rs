//! `replay` without a GPU: refusals, exports, remaining files.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::{fs, thread};

use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::KernelId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::replay::Replay;
use stallmap_schema::word::ReplayResult;
use stallmap_write::CaptureForm;

use super::run::{EXECUTABLE, TestFolder};
use super::tiny;

/// The one launch of the capture below that can be replayed, and one that cannot.
const BUNDLE: &str = "1";
const OTHER: &str = "2";

/// A place with a capture, `a.stallmap`, that holds one bundle.
fn place() -> TestFolder {
    let place = TestFolder::new();
    tiny::write(&place.path("a.stallmap"), CaptureForm::File).unwrap();
    place
}

/// Output of `replay` of that capture. The capture is untouched and nothing is next to it.
#[track_caller]
fn refused(options: &[&str]) -> String {
    let place = place();
    let before = fs::read(place.path("a.stallmap")).unwrap();
    let shown = place.run(&[&["replay", "a.stallmap"], options].concat());
    assert_eq!(fs::read(place.path("a.stallmap")).unwrap(), before);
    assert_eq!(place.names(), ["a.stallmap"]);
    shown
}

#[test]
fn captures_that_cannot_be_replayed() {
    let place = TestFolder::new();
    assert_snapshot!(place.run(&["replay", "gone.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: open capture: No such file or directory (os error 2): `gone.stallmap`
    stallmap-record: hint: check the path
    ");
    fs::write(place.path("text.stallmap"), "text").unwrap();
    assert_snapshot!(place.run(&["replay", "text.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: not a stallmap capture: it is not a ZIP file: `text.stallmap`
    stallmap-record: hint: a capture is made by `stallmap-record -o NAME.stallmap -- PROGRAM`
    ");
    let known_truth = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/known_truth.stallmap");
    fs::copy(known_truth, place.path("known_truth.stallmap")).unwrap();
    assert_snapshot!(place.run(&["replay", "known_truth.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: no launch can be replayed: the capture holds no bundles: `known_truth.stallmap`
    stallmap-record: hint: record the program with `stallmap-record --replay`
    ");
    assert_eq!(place.names(), ["known_truth.stallmap", "text.stallmap"]);
}

#[test]
fn launches_that_are_not_there() {
    assert_snapshot!(refused(&["--launches", "7"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: launch 7 cannot be replayed: it is not a bundle of the capture
    stallmap-record: hint: list the bundles with `stallmap sql a.stallmap -c 'SELECT kernel_id FROM bundle WHERE refusal IS NULL'`
    ");
    assert_snapshot!(refused(&["--launches", &[BUNDLE, OTHER].join(",")]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: launch 2 cannot be replayed: it is not a bundle of the capture
    stallmap-record: hint: list the bundles with `stallmap sql a.stallmap -c 'SELECT kernel_id FROM bundle WHERE refusal IS NULL'`
    ");
    assert_snapshot!(refused(&["--kernels", "gemm"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: none of the 1 bundled launches is selected
    stallmap-record: hint: see --kernels and --launches
    ");
    for nothing in ["2-5", "0", "gemm", "2-5,gemm"] {
        let said = refused(&["--launches", nothing]);
        assert!(said.contains("cannot be replayed") || said.contains("is selected"), "{nothing}: {said}");
    }
    for found in ["0-1", "Pf", "gemm,1-5"] {
        let place = place();
        let said = place.run(&["replay", "a.stallmap", "--export", "out", "--launches", found]);
        assert!(said.contains("wrote `out/launch-1`"), "{found}: {said}");
    }
}

#[test]
fn wrong_options() {
    assert_snapshot!(refused(&["--kernels", "("]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '(' for '--kernels <REGEX>': regex parse error:
        (
        ^
    error: unclosed group

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--budget", "0"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '0' for '--budget <SECONDS>': use a number above 0

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--repeat", "0"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '0' for '--repeat <N>': 0 is not in 1..=4294967295

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--instrument", "hope"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value 'hope' for '--instrument <INSTRUMENT,...>'
      [possible values: native, pc-samples, counters, accesses]

    For more information, try '--help'.
    ");
}

#[test]
fn what_exists_is_not_replaced() {
    let place = place();
    fs::write(place.path("b.stallmap"), "precious").unwrap();
    assert_snapshot!(place.run(&["replay", "a.stallmap", "-o", "b.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the output exists: `b.stallmap`
    stallmap-record: hint: choose another name, or replace it with --force
    ");
    fs::remove_file(place.path("b.stallmap")).unwrap();
    fs::create_dir(place.path("b.stallmap.replays")).unwrap();
    assert_snapshot!(place.run(&["replay", "a.stallmap", "-o", "b.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: an earlier recording was not finished: `[FOLDER]/b.stallmap.replays`
    stallmap-record: hint: run `stallmap-record recover [FOLDER]/b.stallmap.replays`, or give it up with --force
    ");
    assert_eq!(place.names(), ["a.stallmap", "b.stallmap.replays"]);
}

#[test]
fn a_launch_becomes_a_program() {
    let place = place();
    assert_snapshot!(place.run(&["replay", "a.stallmap", "--export", "out"]), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: wrote `out/launch-1`: _Z3addPff
    ");
    let mut names: Vec<_> = fs::read_dir(place.path(&format!("out/launch-{BUNDLE}"))).unwrap().collect();
    names.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let names = names.into_iter().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["contents.bin", "kernel.cubin", "launch.h", "pages.bin", "replay.c"]
    );
    assert_snapshot!(place.run(&["replay", "a.stallmap", "--export", "out"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: export launch 1: failed to create folder `out/launch-1`: File exists (os error 17)
    stallmap-record: hint: name a folder that can be written and has no such launch yet
    ");
    assert_snapshot!(place.run(&["replay", "a.stallmap", "--export", "a.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: export launch 1: failed to create folder `a.stallmap`: File exists (os error 17)
    stallmap-record: hint: name a folder that can be written and has no such launch yet
    ");
    assert_eq!(place.names(), ["a.stallmap", "out"]);
}

#[test]
fn a_launch_becomes_a_program_in_python() {
    let place = place();
    let export = ["replay", "a.stallmap", "--export", "out", "--language", "python"];
    assert_snapshot!(place.run(&export), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: wrote `out/launch-1`: _Z3addPff
    ");
    let folder = place.path(&format!("out/launch-{BUNDLE}"));
    let size = |name: &str| fs::metadata(folder.join(name)).unwrap().len();
    assert!(size("pages.bin") > 0 && size("pages.bin").is_multiple_of(32) && size("kernel.cubin") > 0);
    // The program compiles, and the pages that it reads name contents that are there.
    let program = "import py_compile, replay\n\
        py_compile.compile('replay.py', cfile='replay.pyc', doraise=True)\n\
        words = replay.struct.iter_unpack('<4Q', open('pages.bin', 'rb').read())\n\
        contents = open('contents.bin', 'rb').read()\n\
        pages = [contents[number * 4096:(number + 1) * 4096] for _, number, _, _ in words]\n\
        assert pages and all(len(page) == 4096 for page in pages)\n\
        print(bytes.fromhex(replay.json.load(open('launch.json'))['kernel']).decode())";
    let python = std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or("python3".into());
    let ran = std::process::Command::new(python).current_dir(&folder).args(["-c", program]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "_Z3addPff\n",
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(place.run(&["replay", "a.stallmap", "--language", "python"]).contains("--export"));
}

/// Without a driver the first worker reports it as missing. With one, the cubin of this capture is the error.
#[test]
fn without_a_driver() {
    if TestFolder::new().run(&["doctor", "--json"]).contains("\"name\": \"devices\"") {
        return;
    }
    assert_snapshot!(refused(&[]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: runs the machine code of 1 launch of 1 kernel in `a.stallmap` on GPU 0, with 2 MiB of memory
    stallmap-record: sandbox: other files, programs and the network are refused (Landlock [VERSION], seccomp)
    stallmap-record: error: a worker failed: failed to open the driver: no CUDA driver library (libcuda.so.1) could be opened: libcuda.so.1 (libcuda.so.1: cannot open shared object file: No such file or directory)
    stallmap-record: hint: run `stallmap-record doctor` to find what this machine lacks
    stallmap-record: hint: if the sandbox is the cause, `--sandbox off` runs a capture that you trust
    ");
    assert_snapshot!(refused(&["--instrument", "accesses", "-q", "--force", "--keep"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: a worker failed: failed to open the driver: no CUDA driver library (libcuda.so.1) could be opened: libcuda.so.1 (libcuda.so.1: cannot open shared object file: No such file or directory)
    stallmap-record: hint: run `stallmap-record doctor` to find what this machine lacks
    stallmap-record: hint: if the sandbox is the cause, `--sandbox off` runs a capture that you trust
    ");
}

#[test]
fn workers_answer_in_json() {
    let place = place();
    let run = |words: &[&str]| place.run(&[&["replay-worker"], words].concat());
    assert_snapshot!(run(&["gone.json"]), @r#"
    exit code 1
    --- stdout
    {"event":"failed","detail":"failed to read the plan `gone.json`: No such file or directory (os error 2)"}
    --- stderr
    "#);
    fs::write(place.path("plan.json"), "{\"capture\": 7}").unwrap();
    assert_snapshot!(run(&["plan.json"]), @r#"
    exit code 1
    --- stdout
    {"event":"failed","detail":"failed to read the plan `plan.json`: invalid type: integer `7`, expected path string at line 1 column 13"}
    --- stderr
    "#);
    let plan = r#"{"capture": "a.stallmap", "kernels": [], "failed": {}, "repeats": 1, "precision": null, "budget_ns": 1,
        "metrics": [], "is_cold": false, "translation": "never", "unstable": {}}"#;
    fs::write(place.path("plan.json"), plan).unwrap();
    assert_snapshot!(run(&["plan.json"]), @r#"
    exit code 1
    --- stdout
    {"event":"failed","detail":"the recording's session is missing: STALLMAP_CONFIG is unset or invalid"}
    --- stderr
    "#);
}

/// A library in the driver's place that writes its process and never returns from loading.
const HANGING_DRIVER: &str = r#"
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void hang(void) {
    FILE *file = fopen("a.stallmap.replays/started.new", "w");
    fprintf(file, "%d", getpid());
    fclose(file);
    rename("a.stallmap.replays/started.new", "a.stallmap.replays/started");
    for (;;) pause();
}
"#;

/// Replays with a driver that hangs, and ends with `signal` the parent, or the worker. Returns the result.
fn ended(place: &TestFolder, signal: Signal, is_parent: bool) -> Output {
    fs::write(place.path("driver.c"), HANGING_DRIVER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(place.path("libcuda.so.1")).arg(place.path("driver.c"));
    assert!(compiler.status().unwrap().success());
    let mut command = place.command(&["replay", "a.stallmap"]);
    command.env("LD_LIBRARY_PATH", place.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let worker = loop {
        match fs::read_to_string(place.path("a.stallmap.replays/started")) {
            Ok(pid) => break Pid::from_raw(pid.parse().unwrap()),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    kill(if is_parent { Pid::from_raw(child.id().cast_signed()) } else { worker }, signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(kill(worker, None).is_err(), "the worker is gone");
    for name in ["driver.c", "libcuda.so.1"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    output
}

#[test]
fn a_signal_ends_the_worker_and_leaves_the_capture() {
    let place = place();
    let before = fs::read(place.path("a.stallmap")).unwrap();
    assert_snapshot!(place.show(&ended(&place, Signal::SIGTERM, true)), @r"
    exit code 143
    --- stdout
    --- stderr
    stallmap-record: runs the machine code of 1 launch of 1 kernel in `a.stallmap` on GPU 0, with 2 MiB of memory
    stallmap-record: sandbox: other files, programs and the network are refused (Landlock [VERSION], seccomp)
    stallmap-record: error: interrupted: the capture is unchanged
    ");
    assert_eq!(fs::read(place.path("a.stallmap")).unwrap(), before);
    assert_eq!(place.names(), ["a.stallmap"]);
}

#[test]
fn a_worker_that_is_killed_is_said() {
    let place = place();
    assert_snapshot!(place.show(&ended(&place, Signal::SIGKILL, false)), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: runs the machine code of 1 launch of 1 kernel in `a.stallmap` on GPU 0, with 2 MiB of memory
    stallmap-record: sandbox: other files, programs and the network are refused (Landlock [VERSION], seccomp)
    stallmap-record: error: a worker failed: the replaying process ended: signal: 9 (SIGKILL)
    stallmap-record: hint: run `stallmap-record doctor` to find what this machine lacks
    stallmap-record: hint: if the sandbox is the cause, `--sandbox off` runs a capture that you trust
    ");
    assert_eq!(place.names(), ["a.stallmap"]);
}

/// Writes what a killed `replay` leaves: its plan, and one replay of the bundle.
fn leave_replays(place: &TestFolder) {
    let folder = place.path("a.stallmap.replays");
    fs::create_dir_all(folder.join("run-native-7")).unwrap();
    let plan = serde_json::json!({"capture": place.path("a.stallmap"), "kernels": [], "failed": {}, "repeats": 1,
        "precision": null, "budget_ns": 1, "metrics": [], "is_cold": false, "translation": "never", "unstable": {}});
    fs::write(folder.join("plan.json"), plan.to_string()).unwrap();
    let mut segment = SegmentWriter::create(&folder.join("run-native-7/rows.seg")).unwrap();
    let replay = Replay {
        kernel_id: KernelId(BUNDLE.parse().unwrap()),
        result: ReplayResult::Verified,
        checked_page_count: 1,
        duration_ns: Some(5),
        ..Replay::default()
    };
    let facts = [RunFact { name: "clean_end".into(), value: "true".into() }];
    segment.append_batch(Replay::TABLE.name, &Replay::batch([replay]).unwrap()).unwrap();
    segment.append_batch(RunFact::TABLE.name, &RunFact::batch(facts).unwrap()).unwrap();
    segment.flush().unwrap();
}

#[test]
fn interrupted_replays_are_recovered_once() {
    let place = place();
    let replays =
        || CaptureReader::open(&place.path("a.stallmap")).unwrap().read_rows::<Replay>().unwrap().len();
    let before = replays();
    leave_replays(&place);
    assert_snapshot!(place.run(&["recover", "a.stallmap.replays"]), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 1 replays: 1 verified
    ");
    assert_eq!((replays(), place.names()), (before + 1, vec!["a.stallmap".to_owned()]));
    leave_replays(&place);
    fs::write(place.path("b.stallmap"), "precious").unwrap();
    assert_snapshot!(place.run(&["recover", "a.stallmap.replays", "-o", "b.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the output exists: `b.stallmap`
    stallmap-record: hint: choose another name, or replace it with --force
    ");
    fs::remove_dir_all(place.path("a.stallmap.replays/run-native-7")).unwrap();
    assert_snapshot!(place.run(&["recover", "a.stallmap.replays"]), @r"
    exit code 124
    --- stdout
    --- stderr
    stallmap-record: error: write the capture: no recording found: it holds no run's folder: `a.stallmap.replays`
    stallmap-record: hint: name the folder that the recording left next to its output, `NAME.stallmap.partial`, or that replays left, `NAME.stallmap.replays`
    ");
    fs::remove_file(place.path("a.stallmap.replays/plan.json")).unwrap();
    assert_snapshot!(place.run(&["recover", "a.stallmap.replays"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: read `a.stallmap.replays/plan.json`: No such file or directory (os error 2)
    ");
    assert_eq!((replays(), place.names().len()), (before + 1, 3));
}

/// The limit of the size of files stands for a disk that is full.
#[test]
fn a_full_disk_leaves_the_capture_and_the_replays() {
    let place = place();
    let before = fs::read(place.path("a.stallmap")).unwrap();
    leave_replays(&place);
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f 1; exec {EXECUTABLE} recover a.stallmap.replays");
    let output = command.args(["-c", &script]).current_dir(place.path("")).output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("File too large"), "{stderr}");
    assert_eq!(fs::read(place.path("a.stallmap")).unwrap(), before);
    assert_eq!(place.names(), ["a.stallmap", "a.stallmap.replays"]);
    place.run(&["recover", "a.stallmap.replays"]);
    assert_eq!(place.names(), ["a.stallmap"]);
}

//! From rows that a program leaves to a capture. The program is this test binary, which writes them as the injected
//! library does.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use insta::assert_snapshot;
use nix::sys::signal::{Signal, raise};
use stallmap_config::{Config, VARIABLE};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::run::{Run, RunOption};
use stallmap_schema::word::Match;

use super::run::{EXECUTABLE, TestFolder, any_library};

/// Variable that names the program's end. Without it the test below is not a program.
const ENDING: &str = "STALLMAP_TEST_ENDING";

/// The recorded program.
#[test]
fn program() {
    let (Ok(ending), Ok(config)) = (env::var(ENDING), env::var(VARIABLE)) else { return };
    let config = Config::from_json(&config).unwrap();
    let folder = config.directory.join(format!("run-{}-{}", config.instrument.word(), std::process::id()));
    fs::create_dir(&folder).unwrap();
    let mut segment = SegmentWriter::create(&folder.join("rows.seg")).unwrap();
    append(&mut segment, vec![launch(0), launch(1)]);
    append(&mut segment, vec![launch_run(0), launch_run(1)]);
    segment.flush().unwrap();
    match ending.as_str() {
        "killed" => raise(Signal::SIGKILL).unwrap(),
        "output" => fs::write("a.stallmap", "precious").unwrap(),
        _ => {}
    }
    append(&mut segment, vec![RunFact { name: "clean_end".into(), value: "true".into() }]);
}

fn append<R: TableRow>(segment: &mut SegmentWriter, rows: Vec<R>) {
    segment.append_batch(R::TABLE.name, &R::batch(rows).unwrap()).unwrap();
}

fn launch(ordinal: u64) -> Launch {
    Launch {
        kernel_id: KernelId(ordinal),
        function_id: FunctionId(7),
        ordinal,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 32,
        block_y: 1,
        block_z: 1,
        ..Launch::default()
    }
}

fn launch_run(ordinal: u64) -> LaunchRun {
    LaunchRun {
        ordinal,
        kernel_id: KernelId(ordinal),
        matched: Match::Reference,
        begin_ns: 1,
        end_ns: Some(2),
        recorded: true,
        request_count: Some(0),
        lane_access_count: Some(0),
        lost_request_count: Some(0),
        ..LaunchRun::default()
    }
}

/// Records the program above, which ends in the way of `ending`.
fn record(place: &TestFolder, ending: &str, options: &[&str]) -> String {
    let (library, program) = (any_library(), env::current_exe().unwrap());
    let mut words = vec!["-o", "a.stallmap", "--library", library.to_str().unwrap()];
    words.extend(options);
    words.extend(["--", program.to_str().unwrap(), "--exact", "recording::program"]);
    let output = place.command(&words).env(ENDING, ending).output().unwrap();
    let shown = place.show(&output);
    // The test harness prints too.
    let (code, rest) = shown.split_once('\n').unwrap();
    format!("{code}\n{}", rest.split_once("--- stderr\n").unwrap().1)
}

fn rows<R: TableRow>(capture: &Path) -> Vec<R> {
    CaptureReader::open(capture).unwrap().read_rows().unwrap()
}

#[test]
fn two_runs_become_one_capture() {
    let place = TestFolder::new();
    assert_snapshot!(record(&place, "well", &["--count", "5"]), @r"
    exit code 0
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 2 launches, 0 accesses in 0 warp requests; 0 samples of 2 launches; 0 measured times
    stallmap-record: warning: not recorded: 2 x activity: times of the launch are missing
    stallmap-record: warning: not recorded: 1 x code: cubin cannot be read
    stallmap-record: warning: not recorded: 1 x code: name of a launched function was not recorded
    ");
    assert_eq!(place.names(), ["a.stallmap"]);
    let capture = place.path("a.stallmap");
    let runs: Vec<Run> = rows(&capture);
    assert_eq!((runs.len(), runs[0].exit_code, runs[2].exit_code), (3, Some(0), Some(0)));
    assert_eq!(rows::<Launch>(&capture).len(), 2);
    assert_eq!(rows::<LaunchRun>(&capture).len(), 6);
}

/// `stallmap` next to the recorder stores rows of views. The recording is complete if it fails.
#[test]
fn a_recording_ends_with_rows_of_views_and_has_labels() {
    let place = TestFolder::new();
    let (library, program) = (any_library(), env::current_exe().unwrap());
    let recorder = place.path("stallmap-record");
    fs::copy(EXECUTABLE, &recorder).unwrap();
    let sibling = place.path("stallmap");
    let run = |code: u8, options: &[&str]| {
        fs::write(&sibling, format!("#!/bin/sh\necho \"$@\" >> ran\nexit {code}\n")).unwrap();
        fs::set_permissions(&sibling, Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&recorder)
            .current_dir(place.path(""))
            .args(["-f", "--only", "accesses", "-o", "a.stallmap", "--library", library.to_str().unwrap()])
            .args(options)
            .args(["--", program.to_str().unwrap(), "--exact", "recording::program"])
            .env(ENDING, "well")
            .env("GITHUB_SHA", "1f3a9c0")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", place.show(&output));
        place.show(&output)
    };
    assert!(!run(0, &["--label", "model=gpt2"]).contains("rows of views"));
    let ran = || fs::read_to_string(place.path("ran")).unwrap();
    assert_eq!(ran(), "--memory 25% prepare --in-place -- a.stallmap\n");
    let labels = |capture: &Path| {
        let options: Vec<RunOption> = rows(capture);
        let labels = options.iter().filter(|option| option.name.starts_with("label."));
        labels.map(|option| format!("{}={}", option.name, option.value)).collect::<Vec<_>>()
    };
    assert_eq!(labels(&place.path("a.stallmap")), ["label.commit=1f3a9c0", "label.model=gpt2"]);
    run(0, &["--no-prepare"]);
    assert_eq!(ran().lines().count(), 1);
    let failed = run(3, &[]);
    assert!(
        failed.contains("warning: no rows of views are stored in the capture, which is complete"),
        "{failed}"
    );
}

#[test]
fn the_recordings_folder_stays_where_asked() {
    let place = TestFolder::new();
    record(&place, "well", &["--keep", "--only", "accesses", "-q"]);
    assert_eq!(place.names(), ["a.stallmap", "a.stallmap.partial"]);
    assert_snapshot!(place.run(&["recover", "a.stallmap.partial", "--force"]), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 2 launches, 0 accesses in 0 warp requests
    stallmap-record: warning: not recorded: 1 x code: cubin cannot be read
    stallmap-record: warning: not recorded: 1 x code: name of a launched function was not recorded
    stallmap-record: the folder remains: `a.stallmap.partial`
    ");
    assert_eq!(place.names(), ["a.stallmap", "a.stallmap.partial"]);
}

#[test]
fn a_killed_program_leaves_what_it_had_written() {
    let place = TestFolder::new();
    assert_snapshot!(record(&place, "killed", &[]), @r"
    exit code 137
    stallmap-record: warning: times and stalls are not recorded: the program is not run again, as it ended with signal 9
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 2 launches, 0 accesses in 0 warp requests
    stallmap-record: warning: not recorded: 1 x code: cubin cannot be read
    stallmap-record: warning: not recorded: 1 x code: name of a launched function was not recorded
    stallmap-record: warning: not recorded: 1 x segment: the process ended before it had written everything
    ");
    assert_eq!(rows::<Launch>(&place.path("a.stallmap")).len(), 2);
    assert_eq!(rows::<Run>(&place.path("a.stallmap"))[0].exit_signal, Some(9));
}

#[test]
fn a_capture_that_cannot_be_written_leaves_its_rows() {
    let place = TestFolder::new();
    assert_snapshot!(record(&place, "output", &["--only", "accesses"]), @r"
    exit code 124
    stallmap-record: error: the output exists: `a.stallmap`
    stallmap-record: hint: choose another name, or replace it with --force
    stallmap-record: hint: to use what was recorded, run `stallmap-record recover [FOLDER]/a.stallmap.partial -o NAME.stallmap`
    ");
    assert_eq!(fs::read_to_string(place.path("a.stallmap")).unwrap(), "precious");
    place.run(&["recover", "a.stallmap.partial", "-o", "b.stallmap"]);
    assert_eq!(rows::<Launch>(&place.path("b.stallmap")).len(), 2);
}

/// From too little memory to start a thread to enough for everything. A backtrace needs memory, too.
#[test]
fn without_memory_it_ends_and_says_so() {
    let place = TestFolder::new();
    record(&place, "well", &["--keep", "--only", "accesses", "-q"]);
    let mut ends = BTreeSet::new();
    for megabytes in (12..=400).step_by(4) {
        let limit =
            format!("ulimit -v {} && exec {EXECUTABLE} recover a.stallmap.partial -f", megabytes << 10);
        let mut command = Command::new("sh");
        command.args(["-c", &limit]).current_dir(place.path("")).env("RUST_BACKTRACE", "1");
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        // With less memory, the program does not begin.
        let own = ["stallmap-record: ", "memory allocation of", "\nthread "];
        if own.iter().any(|words| stderr.starts_with(words)) {
            assert!(matches!(output.status.code(), Some(0 | 124 | 125)), "{megabytes} MB: {output:?}");
            // Before `main`, Rust's runtime says so in its own words.
            assert!(
                stderr.starts_with("\nthread ") || !stderr.contains("panicked"),
                "{megabytes} MB: {stderr}"
            );
            ends.insert((output.status.code(), stderr.contains("there is no memory left")));
        }
    }
    assert!(ends.contains(&(Some(124), true)) && ends.contains(&(Some(0), false)), "{ends:?}");
}

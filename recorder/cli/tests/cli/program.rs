//! The recorded program is not disturbed: its output, exit code, input and signals pass through.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::run::TestFolder;

/// Leaves the first trace of a process that starts CUDA: a folder of its own.
const START: &str = "case $STALLMAP_CONFIG in *pc_samples*) run=pc_samples;; *timeline*) run=timeline;; \
                     *) run=accesses;; esac; \
                     mkdir a.stallmap.partial/run-$run-$$;";

#[test]
fn output_and_exit_code_pass_through() {
    let place = TestFolder::new();
    assert_snapshot!(place.record(&[], "echo out; echo err >&2; exit 7"), @r"
    exit code 7
    --- stdout
    out
    --- stderr
    err
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    ");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn success_without_cuda_is_success() {
    assert_snapshot!(TestFolder::new().record(&[], "exit 0"), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    ");
}

#[test]
fn a_signal_that_ends_the_program_shows_in_the_exit_code() {
    assert_snapshot!(TestFolder::new().record(&["-q"], "kill -TERM $$"), @r"
    exit code 143
    --- stdout
    --- stderr
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    ");
}

#[test]
fn without_the_library_the_program_runs_on() {
    let place = TestFolder::new();
    assert_snapshot!(place.run(&["-o", "a.stallmap", "--library", "gone.so", "--", "sh", "-c", "echo out; exit 3"]), @r"
    exit code 3
    --- stdout
    out
    --- stderr
    stallmap-record: warning: nothing is recorded, the program runs without: the recorder's library is missing: No such file or directory (os error 2): `gone.so`
    ");
    fs::write(place.path("text.so"), "no library").unwrap();
    assert_snapshot!(place.run(&["-o", "a.stallmap", "--library", "text.so", "--", "echo", "out"]), @r"
    exit code 0
    --- stdout
    out
    --- stderr
    stallmap-record: warning: nothing is recorded, the program runs without: the recorder's library cannot be loaded: file too short: `[FOLDER]/text.so`
    ");
    assert_eq!(place.names(), ["text.so"]);
}

#[test]
fn the_program_finds_what_records_it() {
    let script =
        "echo $CUDA_INJECTION64_PATH; echo $STALLMAP_LIBRARY; echo $STALLMAP_CONFIG; echo $PYTHONPATH";
    let options = ["--kernels", "gemm|copy", "--skip", "1", "--every", "2", "--count", "3", "--blocks", "4"];
    assert_snapshot!(TestFolder::new().record(&options, script), @r#"
    exit code 0
    --- stdout
    [LIBRARY]
    [LIBRARY]
    {"directory":"[FOLDER]/a.stallmap.partial","instrument":"accesses","selection":{"kernels":"gemm|copy","exclude":null,"collectives":false,"skip":1,"every":2,"count":3,"region":null,"paused":false,"has_switch":false,"duration_ms":null,"size_bytes":null},"blocks":4,"accesses":"auto","spaces":["global"],"when_full":"wait","buffer_bytes":268435456,"sampling":"serialized","sampling_period_exponent":null,"sampling_buffer_bytes":67108864,"python":true,"native_stacks":false,"bundles":null,"is_only_run":false,"is_sampled_again":false,"marks_warps":false,"replays":false}
    [FOLDER]/a.stallmap.partial/python/hook
    --- stderr
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    "#);
    let options = ["--region", "step", "--paused", "--spaces", "global,shared", "--when-full", "drop"];
    let more = ["--buffer", "64M", "--period", "10", "--no-python", "--only", "samples", "--quiet"];
    assert_snapshot!(TestFolder::new().record(&[&options[..], &more[..]].concat(), script), @r#"
    exit code 0
    --- stdout
    [LIBRARY]
    [LIBRARY]
    {"directory":"[FOLDER]/a.stallmap.partial","instrument":"pc_samples","selection":{"kernels":null,"exclude":null,"collectives":false,"skip":0,"every":1,"count":null,"region":"step","paused":true,"has_switch":false,"duration_ms":null,"size_bytes":null},"blocks":null,"accesses":"auto","spaces":["global","shared"],"when_full":"drop","buffer_bytes":67108864,"sampling":"serialized","sampling_period_exponent":10,"sampling_buffer_bytes":67108864,"python":false,"native_stacks":false,"bundles":null,"is_only_run":false,"is_sampled_again":false,"marks_warps":false,"replays":false}

    --- stderr
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    "#);
}

#[test]
fn what_is_to_be_replayed_reaches_the_access_pass_alone() {
    let script = format!("{START} echo $STALLMAP_CONFIG | sed 's/.*\"bundles\"/\"bundles\"/'");
    let bundles = |options: &[&str]| {
        let shown = TestFolder::new().record(&[options, &["--repeat-output", "-q"]].concat(), &script);
        let is_said = |line: &&str| line.starts_with("\"bundles\"");
        shown.lines().filter(is_said).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_snapshot!(bundles(&["--replay"]).join("\n"), @r#"
    "bundles":{"per_kind":1,"kernels":null,"only":null,"budget_bytes":4294967296,"records_after":false},"is_only_run":false,"is_sampled_again":false,"marks_warps":false,"replays":false}
    "bundles":null,"is_only_run":false,"is_sampled_again":false,"marks_warps":false,"replays":false}
    "bundles":null,"is_only_run":false,"is_sampled_again":true,"marks_warps":false,"replays":false}
    "#);
    let alone = [
        "\"bundles\":null,\"is_only_run\":true,\"is_sampled_again\":false,\"marks_warps\":false,\"replays\":false}",
    ];
    assert_eq!(bundles(&["--one-run"]), alone);
    assert_eq!(bundles(&["--only", "timeline"]), alone);
    let options =
        ["--replay=all,share:90", "--replay-kernels", "gemm", "--replay-budget", "1T", "--replay-values"];
    assert_snapshot!(bundles(&options).join("\n"), @r#"
    "bundles":null,"is_only_run":false,"is_sampled_again":false,"marks_warps":false,"replays":false}
    "bundles":null,"is_only_run":false,"is_sampled_again":true,"marks_warps":false,"replays":false}
    "bundles":{"per_kind":null,"kernels":"gemm","only":null,"budget_bytes":1099511627776,"records_after":true},"is_only_run":false,"is_sampled_again":false,"marks_warps":false,"replays":false}
    "#);
}

#[test]
fn the_users_own_injection_is_replaced_and_said() {
    let place = TestFolder::new();
    let library = super::run::any_library();
    let mut command =
        place.command(&["-o", "a.stallmap", "--library", library.to_str().unwrap(), "--", "true"]);
    let output = command.env("CUDA_INJECTION64_PATH", "/other.so").output().unwrap();
    assert_snapshot!(place.show(&output), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: warning: CUDA_INJECTION64_PATH was `/other.so` and is replaced
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    ");
}

#[test]
fn input_reaches_the_program() {
    let place = TestFolder::new();
    let library = super::run::any_library();
    let words = ["-o", "a.stallmap", "--library", library.to_str().unwrap(), "-q", "--", "cat"];
    let mut child = place.command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"typed");
}

#[test]
fn a_file_is_read_again_by_the_second_run() {
    let place = TestFolder::new();
    fs::write(place.path("in"), "line\n").unwrap();
    let library = super::run::any_library();
    let script = format!("{START} read word; echo run $word; echo run $word >&2");
    let words = ["-o", "a.stallmap", "--library", library.to_str().unwrap(), "-q", "--", "sh", "-c", &script];
    let output = place.command(&words).stdin(File::open(place.path("in")).unwrap()).output().unwrap();
    assert_snapshot!(place.show(&output), @r"
    exit code 0
    --- stdout
    run line
    --- stderr
    run line
    run line
    run line
    stallmap-record: warning: no launches seen in the accesses run of process [ID]
    stallmap-record: warning: no launches seen in the pc_samples run of process [ID]
    stallmap-record: warning: no launches seen in the timeline run of process [ID]
    stallmap-record: warning: not recorded: 3 x segment: segment cannot be read
    stallmap-record: warning: not recorded: 3 x segment: the process ended before it had written everything
    ");
}

#[test]
fn a_pipe_is_empty_for_the_second_run() {
    let place = TestFolder::new();
    let library = super::run::any_library();
    let script = format!("{START} read word; echo run $word");
    let words = [
        "-o",
        "a.stallmap",
        "--library",
        library.to_str().unwrap(),
        "--repeat-output",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let mut command = place.command(&words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"line\n").unwrap();
    assert_snapshot!(place.show(&child.wait_with_output().unwrap()), @r"
    exit code 0
    --- stdout
    run line
    run
    run
    --- stderr
    stallmap-record: warning: the program reads nothing in its later runs: stdin is a pipe and cannot be read again
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 0 launches, 0 accesses in 0 warp requests; 0 samples of 0 launches; 0 measured times
    stallmap-record: warning: no launches seen in the accesses run of process [ID]
    stallmap-record: warning: no launches seen in the pc_samples run of process [ID]
    stallmap-record: warning: no launches seen in the timeline run of process [ID]
    stallmap-record: warning: not recorded: 3 x segment: segment cannot be read
    stallmap-record: warning: not recorded: 3 x segment: the process ended before it had written everything
    ");
}

#[test]
fn a_program_that_a_signal_ended_is_not_run_again() {
    let script = format!("{START} kill -SEGV $$");
    assert_snapshot!(TestFolder::new().record(&[], &script), @r"
    exit code 139
    --- stdout
    --- stderr
    stallmap-record: warning: times and stalls are not recorded: the program is not run again, as it ended with signal 11
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 0 launches, 0 accesses in 0 warp requests
    stallmap-record: warning: no launches seen in the accesses run of process [ID]
    stallmap-record: warning: not recorded: 1 x segment: segment cannot be read
    stallmap-record: warning: not recorded: 1 x segment: the process ended before it had written everything
    ");
}

#[test]
fn runs_that_end_differently_are_said() {
    // The second run finds the file of the first.
    let script = format!("{START} test -e seen && exit 5; touch seen");
    assert_snapshot!(TestFolder::new().record(&[], &script), @r"
    exit code 5
    --- stdout
    --- stderr
    stallmap-record: warning: the runs of the program ended differently: exit code 0, then exit code 5, then exit code 5
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 0 launches, 0 accesses in 0 warp requests; 0 samples of 0 launches; 0 measured times
    stallmap-record: warning: no launches seen in the accesses run of process [ID]
    stallmap-record: warning: no launches seen in the pc_samples run of process [ID]
    stallmap-record: warning: no launches seen in the timeline run of process [ID]
    stallmap-record: warning: not recorded: 3 x segment: segment cannot be read
    stallmap-record: warning: not recorded: 3 x segment: the process ended before it had written everything
    ");
}

#[test]
fn signals_reach_the_program() {
    let place = TestFolder::new();
    let library = super::run::any_library();
    let script = "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let words = ["-o", "a.stallmap", "--library", library.to_str().unwrap(), "-q", "--", "sh", "-c", script];
    let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "asked");
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(9), None));
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn signals_start_and_stop_recording() {
    let place = TestFolder::new();
    let library = super::run::any_library();
    let turned =
        |state| format!("until grep -q {state} a.stallmap.partial/switch 2>/dev/null\ndo sleep 0.01; done");
    let script = format!("echo ready; {}; echo started; {}; echo stopped", turned("on"), turned("off"));
    let words =
        ["-o", "a.stallmap", "--library", library.to_str().unwrap(), "--only", "accesses", "--signals"];
    let mut command = place.command(&words);
    let mut child = command
        .args(["--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let recorder = Pid::from_raw(child.id().cast_signed());
    for (line, signal) in
        [("ready", Some(Signal::SIGUSR1)), ("started", Some(Signal::SIGUSR2)), ("stopped", None)]
    {
        assert_eq!(lines.next().unwrap().unwrap(), line);
        signal.inspect(|signal| kill(recorder, *signal).unwrap());
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.contains("recording started by a signal\n")
            && words.contains("recording stopped by a signal\n"),
        "{words}"
    );
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn a_launch_that_sampling_holds_has_the_program_sampled_continuously() {
    let place = TestFolder::new();
    // What the recorder's library does in the program's process. The first pass writes the file too, where no one waits.
    let script = format!(
        "{START} case $STALLMAP_CONFIG in *'\"is_sampled_again\":true'*) \
         echo '{{\"process_id\":7,\"kernel\":\"wait_for_host\",\"held_s\":3}}' > a.stallmap.partial/held-launch.json; \
         sleep 600 & wait;; esac; \
         echo $STALLMAP_CONFIG | grep -o 'instrument\":\"[a-z_]*\\|sampling\":\"[a-z]*'"
    );
    let shown = place.record(&["--repeat-output", "--keep"], &script);
    assert_snapshot!(shown, @r#"
    exit code 0
    --- stdout
    instrument":"accesses
    sampling":"serialized
    instrument":"timeline
    sampling":"serialized
    instrument":"pc_samples
    sampling":"continuous
    --- stderr
    stallmap-record: warning: `wait_for_host` had been running for 3 s: it waits for what the program does behind its launch, so kernels cannot run one at a time. The program is run again and sampled continuously
    stallmap-record: wrote `a.stallmap`, [COUNT] bytes: 0 launches, 0 accesses in 0 warp requests; 0 samples of 0 launches; 0 measured times
    stallmap-record: warning: no launches seen in the accesses run of process [ID]
    stallmap-record: warning: no launches seen in the pc_samples run of process [ID]
    stallmap-record: warning: no launches seen in the timeline run of process [ID]
    stallmap-record: warning: not recorded: 3 x segment: segment cannot be read
    stallmap-record: warning: not recorded: 3 x segment: the process ended before it had written everything
    stallmap-record: warning: not recorded: 1 x source: a launch waits for what is behind it: sampled continuously
    "#);
    let entries = fs::read_dir(place.path("a.stallmap.partial")).unwrap().flatten();
    let runs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("run-pc_samples"));
    assert_eq!(runs.count(), 1, "the rows of the run that was given up are gone");
    let recording = fs::read_to_string(place.path("a.stallmap.partial/recording.json")).unwrap();
    assert!(recording.contains("\"reason\": \"a launch waits for what is behind it: sampled continuously\""));
    assert!(recording.contains("\"detail\": \"wait_for_host\""));
}

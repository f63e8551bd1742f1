//! Errors before the program runs, with their text.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use super::run::TestFolder;

#[test]
fn help() {
    assert_snapshot!("help", TestFolder::new().run(&["--help"]));
    assert_snapshot!("help_recover", TestFolder::new().run(&["recover", "--help"]));
    assert_snapshot!("help_merge", TestFolder::new().run(&["merge", "--help"]));
    assert_snapshot!("help_replay", TestFolder::new().run(&["replay", "--help"]));
    assert_snapshot!("help_doctor", TestFolder::new().run(&["doctor", "--help"]));
}

#[test]
fn wrong_words() {
    let place = TestFolder::new();
    assert_snapshot!(place.run(&[]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --output <NAME.stallmap>
      <PROGRAM>...

    Usage: stallmap-record [OPTIONS] -o NAME.stallmap -- PROGRAM [ARGUMENTS]...
           stallmap-record recover|merge|replay|doctor [OPTIONS]

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run(&["-o", "a.stallmap"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <PROGRAM>...

    Usage: stallmap-record [OPTIONS] -o NAME.stallmap -- PROGRAM [ARGUMENTS]...
           stallmap-record recover|merge|replay|doctor [OPTIONS]

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run(&["-o", "a.stallmap", "--kernels", "(", "--", "true"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '(' for '--kernels <REGEX>': regex parse error:
        (
        ^
    error: unclosed group

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run(&["-o", "a.stallmap", "--buffer", "12X", "--", "true"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '12X' for '--buffer <SIZE>': `X` is not a unit: use K, M, G or T

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run(&["-o", "a.stallmap", "--every", "0", "--", "true"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '0' for '--every <N>': 0 is not in 1..18446744073709551615

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run(&["-o", "a.stallmap", "--spaces", "texture", "--", "true"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value 'texture' for '--spaces <SPACE,...>'
      [possible values: global, shared, local]

    For more information, try '--help'.
    ");
}

#[test]
fn replays_need_every_access() {
    let place = TestFolder::new();
    let refused = |options: &[&str]| place.record(options, "exit 9");
    assert_snapshot!(refused(&["--replay", "--only", "samples"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: --replay needs the accesses: --only leaves them out
    stallmap-record: hint: add accesses to --only
    ");
    assert_snapshot!(refused(&["--replay=share:80", "--only", "accesses"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: --replay=share needs the samples: --only leaves them out
    stallmap-record: hint: add samples to --only
    ");
    assert_snapshot!(refused(&["--replay", "--blocks", "4"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: --replay needs every access to device memory: --blocks leaves some out
    stallmap-record: hint: select launches instead, with --kernels or --replay-kernels
    ");
    assert_snapshot!(refused(&["--replay=some"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value 'some' for '--replay[=<SELECTION>]': `some` is none of distinct, distinct:N, all, share:PERCENT

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--replay-kernels", "gemm"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --replay[=<SELECTION>]

    Usage: stallmap-record [OPTIONS] -o NAME.stallmap -- PROGRAM [ARGUMENTS]...
           stallmap-record recover|merge|replay|doctor [OPTIONS]

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--replay", "--replay-budget", "2T"]), @r"
    exit code 125
    --- stdout
    --- stderr
    error: invalid value '2T' for '--replay-budget <SIZE>': use 1M to 1T

    For more information, try '--help'.
    ");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn programs_that_cannot_run() {
    let place = TestFolder::new();
    assert_snapshot!(place.record_program("no-such-program"), @r"
    exit code 127
    --- stdout
    --- stderr
    stallmap-record: error: run the program `no-such-program`: No such file or directory (os error 2)
    stallmap-record: hint: check the name after `--`; a program in this folder is `./NAME`
    ");
    assert_snapshot!(place.record_program(""), @r"
    exit code 127
    --- stdout
    --- stderr
    stallmap-record: error: run the program ``: No such file or directory (os error 2)
    stallmap-record: hint: check the name after `--`; a program in this folder is `./NAME`
    ");
    fs::write(place.path("data"), "text").unwrap();
    assert_snapshot!(place.record_program("./data"), @r"
    exit code 126
    --- stdout
    --- stderr
    stallmap-record: error: run the program `./data`: Permission denied (os error 13)
    stallmap-record: hint: check that it is an executable file, or name its interpreter before it
    ");
    fs::write(place.path("empty"), [0; 4]).unwrap();
    fs::set_permissions(place.path("empty"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_snapshot!(place.record_program("./empty"), @r"
    exit code 126
    --- stdout
    --- stderr
    stallmap-record: error: run the program `./empty`: Exec format error (os error 8)
    stallmap-record: hint: check that it is an executable file, or name its interpreter before it
    ");
    assert_eq!(place.names(), ["data", "empty"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = TestFolder::new();
    assert_snapshot!(place.run(&["-o", "gone/a.stallmap", "--", "touch", "ran"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: make the recording's folder `[FOLDER]/gone/a.stallmap.partial`: No such file or directory (os error 2)
    stallmap-record: hint: choose an output in a folder that exists and can be written
    ");
    assert_snapshot!(place.run(&["-o", "/proc/a.stallmap", "--", "touch", "ran"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: make the recording's folder `/proc/a.stallmap.partial`: No such file or directory (os error 2)
    stallmap-record: hint: choose an output in a folder that exists and can be written
    ");
    fs::write(place.path("file"), "").unwrap();
    assert_snapshot!(place.run(&["-o", "file/a.stallmap", "--", "touch", "ran"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: make the recording's folder `[FOLDER]/file/a.stallmap.partial`: Not a directory (os error 20)
    stallmap-record: hint: choose an output in a folder that exists and can be written
    ");
    assert_snapshot!(place.run(&["-o", "..", "--", "touch", "ran"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the output is not a file name: `..`
    ");
    fs::create_dir(place.path("folder")).unwrap();
    assert_snapshot!(place.run(&["-o", "folder", "--force", "--", "touch", "ran"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the output is a folder: `folder`
    stallmap-record: hint: choose another name, or remove the folder
    ");
    assert_eq!(place.names(), ["file", "folder"]);
}

#[test]
fn what_exists_is_not_overwritten() {
    let place = TestFolder::new();
    fs::write(place.path("a.stallmap"), "precious").unwrap();
    assert_snapshot!(place.record(&[], "touch ran"), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the output exists: `a.stallmap`
    stallmap-record: hint: choose another name, or replace it with --force
    ");
    assert_eq!(place.names(), ["a.stallmap"]);
    fs::remove_file(place.path("a.stallmap")).unwrap();
    fs::create_dir(place.path("a.stallmap.partial")).unwrap();
    assert_snapshot!(place.record(&[], "touch ran"), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: an earlier recording was not finished: `[FOLDER]/a.stallmap.partial`
    stallmap-record: hint: run `stallmap-record recover [FOLDER]/a.stallmap.partial`, or give it up with --force
    ");
    assert_eq!(place.names(), ["a.stallmap.partial"]);
    assert_snapshot!(place.record(&["--force"], "touch ran"), @r"
    exit code 0
    --- stdout
    --- stderr
    stallmap-record: warning: nothing was recorded and no capture is written: the program did not start CUDA, unless a message above says otherwise
    ");
    assert_eq!(place.names(), ["ran"]);
}

#[test]
fn an_old_capture_stays_where_nothing_new_was_recorded() {
    let place = TestFolder::new();
    fs::write(place.path("a.stallmap"), "precious").unwrap();
    place.record(&["--force"], "true");
    assert_eq!(fs::read_to_string(place.path("a.stallmap")).unwrap(), "precious");
}

#[test]
fn recover_needs_a_recording() {
    let place = TestFolder::new();
    assert_snapshot!(place.run(&["recover", "gone.stallmap.partial"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the recording's folder is missing: `gone.stallmap.partial`
    stallmap-record: hint: it is named after the capture: NAME.stallmap.partial
    ");
    fs::create_dir(place.path("folder")).unwrap();
    assert_snapshot!(place.run(&["recover", "folder"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the folder's name does not contain that of a capture: `folder`
    stallmap-record: hint: name the capture with -o NAME.stallmap
    ");
    assert_snapshot!(place.run(&["recover", "folder", "-o", "a.stallmap"]), @r"
    exit code 124
    --- stdout
    --- stderr
    stallmap-record: error: write the capture: no recording found: it holds no run's folder: `folder`
    stallmap-record: hint: name the folder that the recording left next to its output, `NAME.stallmap.partial`, or that replays left, `NAME.stallmap.replays`
    ");
    fs::create_dir(place.path("b.stallmap.partial")).unwrap();
    fs::write(place.path("b.stallmap"), "precious").unwrap();
    assert_snapshot!(place.run(&["recover", "b.stallmap.partial"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the output exists: `b.stallmap`
    stallmap-record: hint: choose another name, or replace it with --force
    ");
}

#[test]
fn merge_needs_recordings() {
    let place = TestFolder::new();
    assert_snapshot!(place.run(&["merge", "-o", "a.stallmap", "gone.stallmap.partial"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the recording's folder is missing: `gone.stallmap.partial`
    stallmap-record: hint: record with --keep, which leaves NAME.stallmap.partial
    ");
    fs::create_dir(place.path("a")).unwrap();
    assert_snapshot!(place.run(&["merge", "-o", "a.stallmap", "a", "./a"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the folder is named twice: `./a`
    stallmap-record: hint: name each recording once
    ");
    fs::create_dir(place.path("b.stallmap.replays")).unwrap();
    assert_snapshot!(place.run(&["merge", "-o", "a.stallmap", "b.stallmap.replays"]), @r"
    exit code 125
    --- stdout
    --- stderr
    stallmap-record: error: the folder holds replays, not a recording: `b.stallmap.replays`
    stallmap-record: hint: run `stallmap-record recover` on it
    ");
}

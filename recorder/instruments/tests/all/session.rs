//! Contents of the disk when a session's process ends, in every way of ending.
#![expect(unsafe_code, reason = "fork, _exit and signals have no safe counterpart")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use stallmap_config::folder::RunName;
use stallmap_config::{Config, VARIABLE};
use stallmap_instruments as instruments;
use stallmap_schema::capture::recording::{LossTotal, RunFact};
use stallmap_schema::capture::segment::{FILE_NAME, RESERVE_FILE_NAME, SegmentFrame, SegmentReader};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::run::Run;
use stallmap_schema::word::LossKind;
use stallmap_session::guard::guard;
use stallmap_session::session;
use tempfile::TempDir;

/// Names the program below that a process runs.
const PROGRAM: &str = "STALLMAP_TEST_PROGRAM";
/// Longer than rows may wait.
const A_FLUSH: Duration = Duration::from_millis(400);

/// Not a test of its own: a recorded program, where `record` starts it.
#[test]
fn program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    assert!(session::start());
    match program.as_str() {
        "ends" => session::lose(LossKind::Op, "seen", 3, None),
        "launches late" => launches_late(),
        "killed" => killed(),
        "left" => left(),
        "panics" => panics(),
        "full" => full(),
        "forks" => forks(false),
        "forks after CUDA" => forks(true),
        "forks while recording" => forks_while_recording(),
        other => panic!("no such program: {other}"),
    }
    session::finish();
}

/// Losses are counted for a while, with no pause in which nothing comes, and then the process is gone.
fn lose_without_pause() {
    let until = std::time::Instant::now() + A_FLUSH;
    session::fact("rare", "row".into());
    while std::time::Instant::now() < until {
        session::lose(LossKind::Op, "seen", 1, None);
        session::emit_requests(0, vec![0; 32]);
        std::thread::sleep(Duration::from_millis(1));
    }
    session::lose(LossKind::Op, "seen", 1000, Some("detail".into()));
    std::thread::sleep(A_FLUSH);
}

fn killed() {
    lose_without_pause();
    // SAFETY: the process ends here.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

fn left() {
    lose_without_pause();
    // SAFETY: the process ends here.
    unsafe { libc::_exit(0) };
}

/// The session ends, and a destructor of a static launches.
fn launches_late() {
    session::finish();
    assert!(session::has_ended() && session::config().is_none());
    session::lose_late(2);
    session::lose(LossKind::Op, "after the end", 1, None);
}

fn panics() {
    assert_eq!(guard(7, || panic!("a mistake")), 7);
    session::lose(LossKind::Op, "seen", 3, None);
}

/// The limit of `ulimit -f` is a full disk for the segment, not for the reserve.
fn full() {
    for number in 0_u64.. {
        session::fact("noise", format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        if session::has_failed() {
            break;
        }
        assert!(number < 100_000_000, "the disk was never full");
    }
    assert!(session::config().is_some(), "what runs still ends in order");
    for _ in 0..1000 {
        session::lose(LossKind::Launch, "recording had stopped", 1, None);
    }
    session::emit_requests(0, vec![0; 32]);
}

fn in_child(act: impl FnOnce()) {
    // SAFETY: the child only uses what is made after the fork, and leaves by _exit.
    match unsafe { libc::fork() } {
        0 => {
            act();
            // SAFETY: the child ends here, without the handlers of its parent.
            unsafe { libc::_exit(0) };
        }
        child => {
            // SAFETY: the child is this process's. Its status is not asked for.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
    }
}

fn forks(after_cuda: bool) {
    session::lose(LossKind::Op, "of the parent", 1, None);
    if after_cuda {
        // Nothing can be attached on this machine. The program has started CUDA all the same.
        instruments::attach();
    }
    in_child(|| {
        let started = session::start();
        assert_eq!(started, !after_cuda);
        session::lose(LossKind::Op, "of the child", 2, None);
        session::finish();
    });
    session::lose(LossKind::Op, "of the parent", 1, None);
}

/// Threads hold the session's locks at the moment of the fork.
fn forks_while_recording() {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    session::fact("noise", "row".into());
                    session::lose(LossKind::Op, "of the parent", 1, None);
                }
            });
        }
        for _ in 0..20 {
            in_child(|| {
                session::start();
                session::lose(LossKind::Op, "of the child", 2, None);
                session::finish();
            });
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// A program that ran.
struct SessionRecording {
    folder: TempDir,
    output: Output,
}

fn record(program: &str, blocks: Option<u32>) -> SessionRecording {
    let folder = TempDir::new().unwrap();
    let config = Config { directory: folder.path().join("a.partial"), ..Config::default() };
    std::fs::create_dir(&config.directory).unwrap();
    // The signal that comes with the limit would end the process before the error does.
    let limit = blocks.map_or(String::new(), |blocks| format!("trap '' XFSZ; ulimit -f {blocks};"));
    let output = Command::new("sh")
        .args(["-c", &format!("{limit} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "session::program", "--nocapture"])
        .env(PROGRAM, program)
        .env(VARIABLE, config.to_json().unwrap())
        .envs([("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")])
        .output()
        .unwrap();
    SessionRecording { folder, output }
}

impl SessionRecording {
    /// The folders of its processes, the first to start first.
    fn runs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path().join("a.partial")).unwrap();
        let named = entries.filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let start = name.parse::<RunName>().ok()?.origin?.start_ns;
            Some((start, self.folder.path().join("a.partial").join(name)))
        });
        let mut runs: Vec<_> = named.collect();
        runs.sort();
        runs.into_iter().map(|(_, path)| path).collect()
    }

    fn only_run(&self) -> PathBuf {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{}", String::from_utf8_lossy(&self.output.stderr));
        runs[0].clone()
    }
}

fn rows<R: TableRow>(segment: &Path) -> Vec<R> {
    let reader = SegmentReader::open(segment).unwrap();
    let rows = reader.frames().iter().filter_map(|frame| match reader.read(frame).unwrap() {
        SegmentFrame::Rows { table, batch } if table == R::TABLE.name => Some(R::read_all(&batch).unwrap()),
        _ => None,
    });
    rows.flatten().collect()
}

/// The last total of a reason.
fn total(segment: &Path, reason: &str) -> Option<u64> {
    let totals = rows::<LossTotal>(segment);
    totals.iter().rev().find(|total| total.reason == reason).map(|total| total.total_count)
}

fn has_clean_end(segment: &Path) -> bool {
    rows::<RunFact>(segment).iter().any(|fact| fact.name == "clean_end")
}

#[test]
fn a_session_that_ends_says_who_it_was_and_leaves_no_reserve() {
    let recording = record("ends", None);
    let run = recording.only_run();
    let segment = run.join(FILE_NAME);
    let [row] = &rows::<Run>(&segment)[..] else { panic!() };
    assert_eq!((row.rank, row.local_rank, row.world_size), (Some(1), Some(0), Some(2)));
    assert_eq!(row.parent_process_id, Some(std::process::id()));
    assert_eq!(total(&segment, "seen"), Some(3));
    assert!(has_clean_end(&segment));
    assert!(!run.join(RESERVE_FILE_NAME).exists());
}

#[test]
fn launches_after_the_end_are_counted() {
    let (_folder, segment) = record("launches late", None).only_run_segment();
    assert!(has_clean_end(&segment));
    assert_eq!(total(&segment, "launched while the process was ending"), Some(2));
    assert_eq!(total(&segment, "after the end"), None);
}

#[test]
fn losses_survive_a_kill_and_an_exit_without_handlers() {
    for program in ["killed", "left"] {
        let segment = record(program, None).only_run_segment();
        assert!(total(&segment.1, "seen") > Some(1000), "{program}: {:?}", total(&segment.1, "seen"));
        let facts = rows::<RunFact>(&segment.1);
        assert!(facts.iter().any(|fact| fact.name == "rare"), "{program}");
        assert!(!has_clean_end(&segment.1));
    }
}

impl SessionRecording {
    /// The only run's segment, with the folder that holds it.
    fn only_run_segment(self) -> (TempDir, PathBuf) {
        let segment = self.only_run().join(FILE_NAME);
        (self.folder, segment)
    }
}

#[test]
fn a_panic_is_a_counted_loss_and_no_clean_end() {
    let (_folder, segment) = record("panics", None).only_run_segment();
    let totals = rows::<LossTotal>(&segment);
    let internal =
        totals.iter().find(|total| total.reason == "an internal error ended the recording").unwrap();
    assert_eq!((internal.total_count, internal.detail.as_deref()), (1, Some("a mistake")));
    assert_eq!(total(&segment, "seen"), Some(3));
    assert!(!has_clean_end(&segment));
}

#[test]
fn a_full_disk_ends_recording_and_the_losses_are_kept() {
    let recording = record("full", Some(400));
    let run = recording.only_run();
    let stderr = String::from_utf8_lossy(&recording.output.stderr);
    assert_eq!(stderr.matches("recording stopped, earlier rows remain on disk").count(), 1, "{stderr}");
    assert!(recording.output.status.success(), "{stderr}");
    let reserve = run.join(RESERVE_FILE_NAME);
    assert_eq!(total(&reserve, "recording stopped: rows could not be written"), Some(1));
    let totals = rows::<LossTotal>(&reserve);
    let of = |kind| {
        let stopped = |total: &&LossTotal| total.kind == kind && total.reason == "recording had stopped";
        totals.iter().rfind(stopped).map(|total| total.total_count)
    };
    assert_eq!((of(LossKind::Launch), of(LossKind::Access)), (Some(1000), Some(1)));
    assert!(rows::<RunFact>(&reserve).iter().any(|fact| fact.name == "ended_ns"));
    assert!(!has_clean_end(&reserve) && !has_clean_end(&run.join(FILE_NAME)));
    // Nothing is truncated: the segment ends with its last complete frame.
    assert_eq!(SegmentReader::open(&run.join(FILE_NAME)).unwrap().damages(), []);
}

#[test]
fn a_child_has_a_session_of_its_own() {
    let recording = record("forks", None);
    let runs = recording.runs();
    let segments: Vec<PathBuf> = runs.iter().map(|run| run.join(FILE_NAME)).collect();
    let [parent, child] = &segments[..] else {
        panic!("{}", String::from_utf8_lossy(&recording.output.stderr))
    };
    let (of_parent, of_child) = (&rows::<Run>(parent)[0], &rows::<Run>(child)[0]);
    assert_eq!(of_child.parent_process_id, Some(of_parent.process_id));
    assert_eq!((total(parent, "of the parent"), total(parent, "of the child")), (Some(2), None));
    assert_eq!((total(child, "of the parent"), total(child, "of the child")), (None, Some(2)));
    assert!(has_clean_end(parent) && has_clean_end(child));
}

#[test]
fn a_child_of_a_process_with_cuda_writes_nothing() {
    let recording = record("forks after CUDA", None);
    let parent = recording.only_run().join(FILE_NAME);
    assert_eq!((total(&parent, "of the parent"), total(&parent, "of the child")), (Some(2), None));
    assert!(has_clean_end(&parent));
}

#[test]
fn locks_that_are_held_at_the_fork_do_not_matter() {
    let recording = record("forks while recording", None);
    let runs = recording.runs();
    assert_eq!(runs.len(), 21, "{}", String::from_utf8_lossy(&recording.output.stderr));
    for child in &runs[1..] {
        assert_eq!(total(&child.join(FILE_NAME), "of the child"), Some(2));
    }
}

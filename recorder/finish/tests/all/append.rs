//! Tests of appending replays to their launches' capture, which changes no earlier row.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use stallmap_finish::error::FinishError;
use stallmap_finish::summary::FinishSummary;
use stallmap_finish::{append, finish};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::hash;
use stallmap_schema::id::KernelId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::replay::{Ablation, AblationInstruction, Counter, ObjectRedirect, Replay};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{Instrument, LossKind, Match, ReplayResult};
use stallmap_write::check::check;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::bundles;
use crate::finish::{FinishedRecording, finished_with, kernel_id};
use crate::recording::{self, CALLEE, KERNEL};
use crate::replays::{self, ReplayRun};

const VERIFIED: Option<ReplayResult> = Some(ReplayResult::Verified);

/// A capture after replays were appended to it.
struct AppendedReplays {
    summary: FinishSummary,
    reader: CaptureReader,
    path: PathBuf,
}

impl AppendedReplays {
    fn rows<R: TableRow>(&self) -> Vec<R> {
        self.reader.read_rows().unwrap()
    }

    fn lost(&self, kind: LossKind) -> Vec<(String, u64, Option<KernelId>)> {
        let losses = self.summary.losses.iter().filter(|loss| loss.kind == kind);
        losses.map(|loss| (loss.reason.clone(), loss.lost_count, loss.kernel_id)).collect()
    }
}

fn appended(capture: &Path, folder: &Path, name: &str) -> AppendedReplays {
    let path = capture.with_file_name(name);
    let summary = append(capture, folder, &path, &|_| ()).unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    assert_eq!(check(&reader), [], "{:#?}", summary.losses);
    AppendedReplays { summary, reader, path }
}

/// The example with bundles, and a folder of replays next to it.
fn example() -> (FinishedRecording, PathBuf) {
    let capture = finished_with(bundles::record, |_| ());
    let folder = replays::folder(capture.folder.path());
    (capture, folder)
}

#[test]
fn replays_are_further_runs_and_the_old_rows_stay() {
    let (capture, folder) = example();
    let mut run = ReplayRun::new(&folder, Instrument::Counters, 41);
    run.replay(0, kernel_id(1, 1), VERIFIED);
    run.replay(1, kernel_id(1, 0), VERIFIED);
    run.counter(kernel_id(1, 1), "b", 2.0);
    run.counter(kernel_id(1, 0), "b", 3.0);
    run.counter(kernel_id(1, 0), "a", 4.0);
    run.end();
    let after = appended(capture.reader.path(), &folder, "after.stallmap");

    let runs: Vec<_> = after
        .rows::<Run>()
        .iter()
        .map(|run| (run.run_id.0, run.instrument, run.reference_run_id.0))
        .collect();
    let (accesses, samples) = (Instrument::Accesses, Instrument::PcSamples);
    assert_eq!(runs, [(1, accesses, 1), (2, samples, 1), (3, Instrument::Counters, 1)]);
    let new: Vec<_> = after.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3).collect();
    let launches: Vec<_> = new.iter().map(|row| (row.ordinal, row.kernel_id, row.matched)).collect();
    let replayed = Match::Replayed;
    assert_eq!(launches, [(0, kernel_id(1, 1), replayed), (1, kernel_id(1, 0), replayed)]);
    let counters: Vec<_> =
        after.rows::<Counter>().into_iter().map(|row| (row.kernel_id, row.metric, row.value)).collect();
    assert_eq!(
        counters,
        [
            (kernel_id(1, 0), "a".to_owned(), Some(4.0)),
            (kernel_id(1, 0), "b".to_owned(), Some(3.0)),
            (kernel_id(1, 1), "b".to_owned(), Some(2.0)),
        ]
    );
    assert_eq!(after.rows::<Replay>().len(), 2);
    assert_eq!((after.rows::<RunOption>().len(), after.rows::<Device>().len()), (5, 3));
    assert_eq!(after.summary.runs[0].counter_count, 3);
    assert_eq!(after.summary.runs[0].replays.get(&ReplayResult::Verified), Some(&2));
    untouched(&capture.reader, &after.reader);
}

/// Tables without replays, and all other files, have the same bytes. Changed tables still contain the old rows.
fn untouched(before: &CaptureReader, after: &CaptureReader) {
    let touched: BTreeSet<_> = [
        "run",
        "run_option",
        "device",
        "launch_run",
        "replay",
        "counter",
        "pc_sample",
        "loss",
        "function",
        "memory_access",
    ]
    .map(entry::table)
    .into();
    for (name, _, _) in before.manifest().entries().filter(|(name, _, _)| !touched.contains(name)) {
        assert!(before.entry(&name).unwrap() == after.entry(&name).unwrap(), "{name}");
    }
    holds_all::<Run>(before, after);
    holds_all::<LaunchRun>(before, after);
    holds_all::<Loss>(before, after);
    holds_all::<PcSample>(before, after);
    holds_all::<Function>(before, after);
    holds_all::<MemoryAccess>(before, after);
}

fn holds_all<R: TableRow + PartialEq + std::fmt::Debug>(before: &CaptureReader, after: &CaptureReader) {
    let mut rows = after.read_rows::<R>().unwrap().into_iter();
    for row in before.read_rows::<R>().unwrap() {
        assert!(rows.any(|other| other == row), "{row:?}");
    }
}

#[test]
fn a_capture_takes_replays_again_and_again() {
    let (capture, folder) = example();
    let mut run = ReplayRun::new(&folder, Instrument::Native, 41);
    run.replay(0, kernel_id(1, 0), VERIFIED);
    run.end();
    let first = appended(capture.reader.path(), &folder, "first.stallmap");
    let second = appended(&first.path, &folder, "second.stallmap");
    let runs: Vec<_> =
        second.rows::<Run>().iter().map(|run| (run.run_id.0, run.reference_run_id.0)).collect();
    assert_eq!(runs, [(1, 1), (2, 1), (3, 1), (4, 1)]);
    assert_eq!(second.rows::<Replay>().iter().map(|row| row.run_id.0).collect::<Vec<_>>(), [3, 4]);
    untouched(&first.reader, &second.reader);
    let refused = append(&first.path, &folder, &second.path, &|_| ()).unwrap_err();
    assert!(refused.to_string().starts_with("create capture: entity already exists"), "{refused}");
}

#[test]
fn samples_of_replays_add_up_and_those_that_do_not_verify_are_dropped() {
    let (capture, folder) = example();
    let mut run = ReplayRun::new(&folder, Instrument::PcSamples, 40);
    run.replay(0, kernel_id(1, 0), VERIFIED);
    run.replay(1, kernel_id(1, 0), Some(ReplayResult::Unstable));
    run.replay(2, kernel_id(1, 0), Some(ReplayResult::Different));
    run.replay(3, kernel_id(1, 0), None);
    run.replay(4, kernel_id(1, 1), VERIFIED);
    for ordinal in 0..5 {
        run.samples(ordinal, KERNEL, 10 << ordinal);
    }
    run.samples(4, CALLEE, 1);
    run.end();
    let after = appended(capture.reader.path(), &folder, "after.stallmap");
    let samples: Vec<_> = after
        .rows::<PcSample>()
        .into_iter()
        .filter(|row| row.run_id.0 == 3)
        .map(|row| (row.kernel_id, row.function_id == recording::kernel(), row.samples))
        .collect();
    let mut sorted = samples.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [(kernel_id(1, 0), true, 10 + 20), (kernel_id(1, 1), false, 1), (kernel_id(1, 1), true, 160)]
    );
    let launch = Some(kernel_id(1, 0));
    assert_eq!(
        after.lost(LossKind::Replay),
        [("replay did not verify".to_owned(), 40, launch), ("replay was not checked".to_owned(), 80, launch)]
    );
    let new: Vec<_> = after.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3).collect();
    let counts: Vec<_> = new.iter().map(|row| (row.sample_count, row.lost_sample_count)).collect();
    assert_eq!(
        counts,
        [(Some(10), None), (Some(20), None), (Some(40), Some(40)), (Some(80), Some(80)), (Some(161), None)]
    );
    untouched(&capture.reader, &after.reader);
}

#[test]
fn experiments_belong_to_the_run_of_their_replays() {
    let (capture, folder) = example();
    let kernel = hash::function_id(recording::module(), KERNEL);
    let mut run = ReplayRun::new(&folder, Instrument::Native, 43);
    run.ablation(kernel_id(1, 0), kernel);
    run.ablation(kernel_id(9, 9), kernel);
    run.redirect(kernel_id(1, 0));
    run.redirect(kernel_id(9, 9));
    run.end();
    let after = appended(capture.reader.path(), &folder, "after.stallmap");
    let rows = after.rows::<Ablation>();
    assert_eq!(
        rows.iter().map(|row| (row.run_id.0, row.kernel_id)).collect::<Vec<_>>(),
        [(3, kernel_id(1, 0))]
    );
    let rows = after.rows::<AblationInstruction>();
    assert_eq!(rows.iter().map(|row| (row.run_id.0, row.function_id)).collect::<Vec<_>>(), [(3, kernel)]);
    let rows = after.rows::<ObjectRedirect>();
    assert_eq!(
        rows.iter().map(|row| (row.run_id.0, row.kernel_id)).collect::<Vec<_>>(),
        [(3, kernel_id(1, 0))]
    );
    assert_eq!(
        after.lost(LossKind::Replay),
        [("the capture holds no bundle of the launch".to_owned(), 2, None)]
    );
}

#[test]
fn replays_of_what_is_no_bundle_are_counted() {
    let (capture, folder) = example();
    let mut run = ReplayRun::new(&folder, Instrument::PcSamples, 40);
    let (refused, unknown) = (kernel_id(1, 2), kernel_id(9, 9));
    run.replay(0, refused, VERIFIED);
    run.replay(1, unknown, VERIFIED);
    run.samples(1, KERNEL, 7);
    run.counter(unknown, "a", 1.0);
    run.replay(2, kernel_id(1, 0), Some(ReplayResult::Failed));
    run.counter(kernel_id(1, 0), "a", 1.0);
    run.end();
    let after = appended(capture.reader.path(), &folder, "after.stallmap");
    assert_eq!(
        after.lost(LossKind::Replay),
        [
            ("replay did not verify".to_owned(), 1, Some(kernel_id(1, 0))),
            ("the capture holds no bundle of the launch".to_owned(), 2 + 1, None),
        ]
    );
    let unplaced = ("launch of the sample is not known".to_owned(), 7, None);
    assert_eq!(after.lost(LossKind::Sample), [unplaced]);
    assert_eq!(after.rows::<Replay>().len(), 1);
    assert_eq!(after.rows::<Counter>(), []);
}

#[test]
fn accesses_of_a_replay_fill_a_launch_that_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write(folder.path());
    std::fs::remove_dir_all(partial.join("run-pc_samples-20")).unwrap();
    recording::with_requests_and(&partial, &[], bundles::record_first);
    let capture = folder.path().join("program.stallmap");
    finish(&partial, &capture, &|_| ()).unwrap();
    let callee = hash::function_id(recording::module(), CALLEE);
    let has_callee = |reader: &CaptureReader| {
        let functions = reader.read_rows::<Function>().unwrap();
        functions.iter().find(|row| row.function_id == callee).map(|row| row.memory_instruction_count)
    };
    assert_eq!(has_callee(&CaptureReader::open(&capture).unwrap()), None);

    let replays = replays::folder(folder.path());
    let mut run = ReplayRun::new(&replays, Instrument::Accesses, 42);
    for (ordinal, result) in
        (0..).zip([ReplayResult::Different, ReplayResult::Verified, ReplayResult::Verified])
    {
        run.replay(ordinal, kernel_id(1, 0), Some(result));
        run.requests(ordinal, &recording::requests(0));
    }
    run.end();
    let after = appended(&capture, &replays, "after.stallmap");
    assert_eq!(after.rows::<MemoryAccess>().len() as u64, recording::REQUESTS);
    assert_eq!(has_callee(&after.reader), Some(Some(2)), "the function is read from the capture's cubin");
    let counts: Vec<_> = after.rows::<LaunchRun>().iter().map(|row| row.request_count).collect();
    assert_eq!(counts, [Some(0), None, Some(recording::REQUESTS), None]);
    let again = appended(&after.path, &replays, "again.stallmap");
    assert_eq!(again.rows::<MemoryAccess>().len() as u64, recording::REQUESTS);
}

/// A launch of a replay and a launch of the capture may have one number: losses name the former.
#[test]
fn losses_of_replays_name_launches_of_the_capture() {
    let (capture, folder) = example();
    let mut run = ReplayRun::new(&folder, Instrument::Native, 41);
    run.replay(0, kernel_id(1, 1), VERIFIED);
    run.lose(0, LossKind::Sample, "lost");
    run.lose(7, LossKind::Sample, "lost without its launch");
    run.end();
    let after = appended(capture.reader.path(), &folder, "after.stallmap");
    let expected =
        [("lost".to_owned(), 1, Some(kernel_id(1, 1))), ("lost without its launch".to_owned(), 1, None)];
    assert_eq!(after.lost(LossKind::Sample), expected);
}

#[test]
fn a_capture_without_bundles_takes_runs() {
    let capture = finished_with(|_| (), |_| ());
    let folder = replays::folder(capture.folder.path());
    let mut run = ReplayRun::new(&folder, Instrument::Native, 41);
    run.replay(0, kernel_id(1, 0), VERIFIED);
    run.end();
    let after = appended(capture.reader.path(), &folder, "after.stallmap");
    assert_eq!(after.rows::<Run>()[2].reference_run_id.0, 1);
    assert_eq!(after.rows::<Launch>().len(), 5);
    assert_eq!(after.rows::<Replay>(), []);
}

#[test]
fn an_untrusted_capture_is_refused_with_the_cause() {
    let (capture, folder) = example();
    let mut run = ReplayRun::new(&folder, Instrument::Native, 41);
    run.replay(0, kernel_id(1, 0), VERIFIED);
    run.end();
    let output = capture.folder.path().join("after.stallmap");
    let refusal = |changed: &Path| append(changed, &folder, &output, &|_| ()).unwrap_err().to_string();

    let no_capture = refusal(&folder.join("recording.json"));
    assert!(no_capture.starts_with("not a stallmap capture: it is not a ZIP file"), "{no_capture}");

    let last_run =
        changed(&capture.reader, |rows: &mut Vec<Run>| rows[1].run_id.0 = u32::MAX, "last.stallmap");
    let error = refusal(&last_run);
    assert!(error.starts_with("table `run` is damaged: its last run has the number 4294967294"), "{error}");

    let bytes = std::fs::read(capture.reader.path()).unwrap();
    let launches = capture.reader.table_bytes("launch").unwrap();
    let at = bytes.windows(launches.len()).position(|window| window == launches).unwrap();
    let mut flipped = bytes;
    flipped[at + launches.len() / 2] ^= 1;
    let path = capture.folder.path().join("flipped.stallmap");
    std::fs::write(&path, flipped).unwrap();
    let error = refusal(&path);
    assert!(error.contains("launch") && error.contains("is damaged"), "{error}");
    assert!(!output.exists());

    let none = append(capture.reader.path(), capture.folder.path(), &output, &|_| ()).unwrap_err();
    assert!(matches!(none, FinishError::NoRecording { .. }), "{none}");
}

/// The capture with a change of one table's rows.
fn changed<R: TableRow>(reader: &CaptureReader, change: impl FnOnce(&mut Vec<R>), name: &str) -> PathBuf {
    let path = reader.path().with_file_name(name);
    let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
    for file in reader.table_files().unwrap().iter().filter(|file| file.name != R::TABLE.name) {
        writer.copy_table(file).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    let mut rows = reader.read_rows::<R>().unwrap();
    change(&mut rows);
    writer.append_rows(rows).unwrap();
    writer.finish().unwrap();
    path
}

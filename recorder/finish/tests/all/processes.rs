//! Tests of several processes: ranks, hosts, folders of several releases, a full disk.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap_finish::error::FinishError;
use stallmap_finish::{finish, merge};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::recording::LossTotal;
use stallmap_schema::capture::segment::{RESERVE_BYTES, RESERVE_FILE_NAME, SegmentWriter};
use stallmap_schema::id::{KernelId, RunId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::run::Run;
use stallmap_schema::word::{Instrument, LossKind};
use stallmap_write::check::check;

use crate::finish::{finished, finished_with};
use crate::recording::{self, fact, launch, put, requests, run, segment};

/// Adds a process of a rank as this release writes it.
fn add_rank(partial: &Path, instrument: Instrument, host: &str, process_id: u32, rank: u32, started_ns: i64) {
    let name = format!("run-{}-{host}-{process_id}-{started_ns}", instrument.word());
    let mut segment = segment(partial, &name);
    let row = Run {
        program: "python".into(),
        host: host.into(),
        rank: Some(rank),
        world_size: Some(4),
        started_ns,
        ..run(instrument, process_id)
    };
    put(&mut segment, [row]);
    recording::launches(&mut segment, 1);
    put(&mut segment, [fact("clean_end", "true")]);
}

fn recording_of(folder: &Path, name: &str, host: &str) -> PathBuf {
    let partial = folder.join(name);
    fs::create_dir_all(&partial).unwrap();
    let recording = format!(r#"{{"program": "torchrun", "host": "{host}"}}"#);
    fs::write(partial.join("recording.json"), recording).unwrap();
    partial
}

fn rows<R: TableRow>(output: &Path) -> Vec<R> {
    let reader = CaptureReader::open(output).unwrap();
    assert_eq!(check(&reader), []);
    reader.read_rows().unwrap()
}

/// (rank, host, rank of the reference) of each run, in the order of their numbers.
fn ranks(runs: &[Run]) -> Vec<(Option<u32>, &str, Option<u32>)> {
    let reference = |id: RunId| runs.iter().find(|run| run.run_id == id).and_then(|run| run.rank);
    runs.iter().map(|run| (run.rank, run.host.as_str(), reference(run.reference_run_id))).collect()
}

#[test]
fn ranks_are_paired_though_process_ids_wrapped() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording_of(folder.path(), "a.partial", "n1");
    for (rank, process_id) in [(0, 32_760), (1, 32_767), (2, 301)] {
        add_rank(&partial, Instrument::Accesses, "n1", process_id, rank, 100 + i64::from(rank));
    }
    for (rank, process_id) in [(2, 400), (0, 402), (1, 401)] {
        add_rank(&partial, Instrument::PcSamples, "n1", process_id, rank, 200);
    }
    let output = folder.path().join("a.stallmap");
    let summary = finish(&partial, &output, &|_| ()).unwrap();
    let runs = rows::<Run>(&output);
    let pairs: Vec<_> = ranks(&runs).into_iter().map(|(rank, _, reference)| (rank, reference)).collect();
    let own = [0, 1, 2].map(|rank| (Some(rank), Some(rank)));
    assert_eq!(pairs, [own, own].concat());
    assert!(summary.runs.iter().all(|run| run.unmatched_launch_count == 0));
}

#[test]
fn a_process_without_its_other_pass_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording_of(folder.path(), "a.partial", "n1");
    add_rank(&partial, Instrument::Accesses, "n1", 1, 0, 100);
    add_rank(&partial, Instrument::PcSamples, "n1", 2, 1, 200);
    let output = folder.path().join("a.stallmap");
    finish(&partial, &output, &|_| ()).unwrap();
    let losses = rows::<Loss>(&output);
    let alone: Vec<_> = losses.iter().filter(|loss| loss.kind == LossKind::Source).collect();
    assert_eq!(
        alone.iter().map(|loss| (loss.run_id.0, loss.reason.as_str())).collect::<Vec<_>>(),
        [
            (1, "no process of the sampling pass is this one"),
            (2, "no process of the accesses pass is this one")
        ]
    );
}

#[test]
fn recordings_of_two_hosts_become_one_capture() {
    let folder = tempfile::tempdir().unwrap();
    let first = recording_of(folder.path(), "1.partial", "n1");
    let second = recording_of(folder.path(), "2.partial", "n2");
    // Both hosts gave the same process ids. In the second pass the ranks moved to the other host.
    for (partial, host, rank) in [(&first, "n1", 1), (&second, "n2", 0)] {
        add_rank(partial, Instrument::Accesses, host, 7, rank, 100);
        add_rank(partial, Instrument::PcSamples, host, 8, 1 - rank, 200);
    }
    let output = folder.path().join("all.stallmap");
    merge(&[&first, &second], &output, &|_| ()).unwrap();
    let runs = rows::<Run>(&output);
    assert_eq!(
        ranks(&runs),
        [
            (Some(0), "n2", Some(0)),
            (Some(1), "n1", Some(1)),
            (Some(0), "n1", Some(0)),
            (Some(1), "n2", Some(1))
        ]
    );
    assert!(runs.iter().all(|run| run.program == "python"));
}

#[test]
fn an_empty_folder_cannot_be_merged() {
    let folder = tempfile::tempdir().unwrap();
    let first = recording_of(folder.path(), "1.partial", "n1");
    add_rank(&first, Instrument::Accesses, "n1", 7, 0, 100);
    let empty = recording_of(folder.path(), "2.partial", "n2");
    let error = merge(&[&first, &empty], &folder.path().join("x"), &|_| ()).unwrap_err();
    assert!(matches!(&error, FinishError::NoRecording { path, .. } if *path == empty), "{error}");
}

fn total(reason: &str, total_count: u64) -> LossTotal {
    LossTotal { kind: LossKind::Op, reason: reason.into(), total_count, detail: None }
}

fn lost(losses: &[Loss], reason: &str) -> u64 {
    losses.iter().filter(|loss| loss.reason == reason).map(|loss| loss.lost_count).sum()
}

#[test]
fn the_last_total_counts_and_rows_of_earlier_releases_add_up() {
    let capture = finished_with(
        |segment| {
            put(segment, [total("a", 2), total("b", 1)]);
            put(segment, [total("a", 5)]);
            let row = |lost_count| Loss {
                run_id: RunId(0),
                kind: LossKind::Op,
                reason: "old".into(),
                lost_count,
                kernel_id: None,
                detail: None,
            };
            put(segment, [row(3), row(4)]);
        },
        |_| (),
    );
    let losses = capture.rows::<Loss>();
    assert_eq!((lost(&losses, "a"), lost(&losses, "b"), lost(&losses, "old")), (5, 1, 7));
}

#[test]
fn a_reserve_tells_what_was_lost_on_a_full_disk() {
    let capture = finished(|partial| {
        let path = partial.join("run-accesses-10").join(RESERVE_FILE_NAME);
        fs::write(&path, vec![0; RESERVE_BYTES]).unwrap();
        // Written over the zeros, as the recorder does.
        let file = fs::File::options().write(true).open(&path).unwrap();
        let mut reserve = SegmentWriter::over(file, &path).unwrap();
        put(&mut reserve, [total("a", 2)]);
        put(&mut reserve, [total("a", 9)]);
        put(&mut reserve, [fact("ended_ns", "1234")]);
        // That of the sampling run was never used.
        let unused = partial.join("run-pc_samples-20").join(RESERVE_FILE_NAME);
        fs::write(unused, vec![0; RESERVE_BYTES]).unwrap();
    });
    let losses = capture.rows::<Loss>();
    assert_eq!(lost(&losses, "a"), 9);
    assert_eq!(capture.rows::<Run>()[0].ended_ns, Some(1234));
    assert!(!losses.iter().any(|loss| loss.reason.contains("torn")), "zeros behind the rows are no damage");
}

#[test]
fn a_launch_whose_row_met_a_full_disk_counts_once() {
    // The disk has room for the launches and for requests, and none for the launches' rows of the run.
    let refers = |ordinal, model| Launch { accesses_of: Some(KernelId(model)), ..launch(ordinal) };
    let capture = finished_with(
        |segment| {
            put(segment, [launch(5), launch(6), refers(7, 5), refers(8, 6)]);
            segment.append_requests(5, &requests(5)).unwrap();
        },
        |_| (),
    );
    let rows = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 1 && row.ordinal >= 5);
    let recorded: Vec<_> = rows.filter(|row| row.recorded).map(|row| row.ordinal).collect();
    let launches = capture.rows::<Launch>();
    let referring = launches.iter().filter(|launch| launch.accesses_of.is_some()).count() as u64;
    assert_eq!((recorded, referring), (vec![5], 1));
    let losses = capture.rows::<Loss>();
    let lost = |kind| losses.iter().filter(|loss| loss.kind == kind).map(|loss| loss.lost_count).sum::<u64>();
    // 6 has no requests, and 8 refers to it. Elsewhere only the row is gone.
    assert_eq!((lost(LossKind::Launch), lost(LossKind::Segment)), (2, 3));
}

#[test]
fn a_failed_hook_is_a_loss_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write(folder.path());
    let failure =
        |process: u32| format!(r#"{{"process_id": {process}, "reason": "hooks", "detail": "E: x"}}"#);
    fs::write(partial.join("hooks-20-1.json"), failure(20)).unwrap();
    fs::write(partial.join("hooks-99-1.json"), failure(99)).unwrap();
    fs::write(partial.join("hooks-10-1.json"), "[1, 2").unwrap();
    let output = folder.path().join("a.stallmap");
    finish(&partial, &output, &|_| ()).unwrap();
    let runs: Vec<Run> = rows(&output);
    let losses: Vec<Loss> = rows(&output);
    let of = |run: &Run, reason: &str| {
        let is_it = |loss: &&Loss| loss.run_id == run.run_id && loss.reason == reason;
        losses.iter().find(is_it).map(|loss| (loss.kind, loss.lost_count, loss.detail.clone()))
    };
    let sampling = runs.iter().find(|run| run.process_id == 20).unwrap();
    let expected = Some((LossKind::Source, 1, Some("E: x".to_owned())));
    assert_eq!(of(sampling, "hooks"), expected);
    // A process without a run counts in the first one.
    assert_eq!(of(&runs[0], "hooks"), expected);
    let unread = of(&runs[0], "a failure of the Python hooks cannot be read").unwrap();
    assert_eq!((unread.0, unread.1, unread.2.is_some()), (LossKind::Source, 1, true));
}

#[test]
fn a_run_never_refers_to_a_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write(folder.path());
    // The second sampling run would be that of an access run in the folder of a timeline.
    for (from, to) in [("run-pc_samples-20", "run-pc_samples-30"), ("run-accesses-10", "run-timeline-50")] {
        fs::create_dir(partial.join(to)).unwrap();
        fs::copy(partial.join(from).join("rows.seg"), partial.join(to).join("rows.seg")).unwrap();
    }
    let output = folder.path().join("program.stallmap");
    finish(&partial, &output, &|_| ()).unwrap();
    let runs = rows::<Run>(&output);
    let references: Vec<(u32, u32)> = runs.iter().map(|run| (run.run_id.0, run.reference_run_id.0)).collect();
    assert_eq!(references, [(1, 1), (2, 1), (3, 3), (4, 4)]);
    let alone = rows::<Loss>(&output).into_iter().filter(|loss| loss.kind == LossKind::Source);
    let alone: Vec<(u32, String)> = alone.map(|loss| (loss.run_id.0, loss.reason)).collect();
    assert!(alone.contains(&(3, "no process of the accesses pass is this one".to_owned())), "{alone:?}");
}

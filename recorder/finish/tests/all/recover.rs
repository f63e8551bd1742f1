//! Tests of recovery: a recording that was cut off anywhere becomes a capture of its complete rows.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::Index;
use stallmap_config::progress::{self, MAGIC};
use stallmap_finish::error::FinishError;
use stallmap_finish::recover;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::segment::{SegmentFrame, SegmentReader};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::run::Run;
use stallmap_write::check::check;

use crate::bundles;
use crate::recording::{self, REQUESTS};

/// Ordinals of launches whose row is complete in a segment, and of launches of which requests are.
fn complete(segment: &Path) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut launches, mut requests) = (BTreeSet::new(), BTreeSet::new());
    let Ok(reader) = SegmentReader::open(segment) else { return (launches, requests) };
    for frame in reader.frames() {
        match reader.read(frame).unwrap() {
            SegmentFrame::Rows { table, batch } if table == Launch::TABLE.name => {
                launches.extend(Launch::read_all(&batch).unwrap().iter().map(|launch| launch.ordinal));
            }
            SegmentFrame::Requests { launch_ordinal, .. } => drop(requests.insert(launch_ordinal)),
            SegmentFrame::Rows { .. } | SegmentFrame::Pages { .. } => {}
        }
    }
    (launches, requests)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_complete_is_lost(cut in any::<Index>(), flip in any::<Index>(), damage in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let partial = recording::write_with(folder.path(), bundles::record);
        let segment = partial.join("run-accesses-10/rows.seg");
        let mut bytes = fs::read(&segment).unwrap();
        if damage {
            let at = flip.index(bytes.len());
            bytes[at] ^= 0x55;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        fs::write(&segment, &bytes).unwrap();
        let (launches, requests) = complete(&segment);

        let output = folder.path().join("recovered.stallmap");
        let summary = recover(&partial, &output).unwrap();
        let reader = CaptureReader::open(&output).unwrap();
        prop_assert_eq!(check(&reader), [], "{:#?}", summary.losses);

        let rows = reader.read_rows::<Launch>().unwrap();
        let recovered: BTreeSet<_> =
            rows.iter().filter(|row| row.run_id.0 == 1).map(|row| row.ordinal).collect();
        prop_assert_eq!(&recovered, &launches);
        let accesses = reader.read_rows::<MemoryAccess>().unwrap();
        let expected = requests.intersection(&launches).count() as u64 * REQUESTS;
        // The rows of code addresses may be damaged: then every request is a counted loss.
        let losses = reader.read_rows::<Loss>().unwrap();
        let lost: u64 = losses.iter().filter(|loss| loss.reason.starts_with("code of")).map(|loss| loss.lost_count).sum();
        prop_assert_eq!(accesses.len() as u64 + lost, expected);
        prop_assert_eq!(reader.read_rows::<Run>().unwrap().len(), 2);
        if !summary.runs[0].clean_end {
            prop_assert!(losses.iter().any(|loss| loss.reason.contains("before it had written everything")));
        }
    }
}

/// Rows and frames of a segment, but for losses.
fn found(segment: &Path) -> (u64, u64) {
    let reader = SegmentReader::open(segment).unwrap();
    let (mut rows, mut frames) = (0, 0);
    for frame in reader.frames() {
        match reader.read(frame).unwrap() {
            SegmentFrame::Rows { batch, .. } => rows += batch.num_rows() as u64,
            SegmentFrame::Requests { .. } | SegmentFrame::Pages { .. } => frames += 1,
        }
    }
    (rows, frames)
}

#[test]
fn what_a_process_had_recorded_and_not_written_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write_with(folder.path(), bundles::record);
    let run = partial.join("run-accesses-10");
    // Without its end, the process has died.
    let bytes = fs::read(run.join("rows.seg")).unwrap();
    fs::write(run.join("rows.seg"), &bytes[..bytes.len() - 1]).unwrap();
    let (rows, frames) = found(&run.join("rows.seg"));
    let losses = |words: [u64; 6]| {
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        let file: Vec<u8> = MAGIC.into_iter().chain(words).chain([0; 4096]).collect();
        fs::write(run.join(progress::FILE_NAME), &file[..progress::BYTES]).unwrap();
        let output = folder.path().join("recovered.stallmap");
        let summary = recover(&partial, &output).unwrap();
        fs::remove_file(&output).unwrap();
        let of_rows = |loss: &&Loss| loss.reason.contains("written") && !loss.reason.contains("everything");
        summary
            .losses
            .iter()
            .filter(of_rows)
            .map(|loss| (loss.reason.clone(), loss.lost_count))
            .collect::<Vec<_>>()
    };
    assert_eq!(losses([rows, rows, 0, frames, frames, 0]), []);
    let [records, row] =
        ["records were", "row was"].map(|what| format!("{what} not written when the process ended"));
    assert_eq!(losses([rows + 7, rows - 1, 2, frames + 3, frames, 0]), [(records.clone(), 3), (row, 5)]);
    let missing = ("written row is missing".to_owned(), 5);
    assert_eq!(losses([rows + 4, rows + 4, 0, frames + 2, frames + 1, 0]), [(records, 1), missing]);
    // A file that says nonsense costs nothing.
    assert_eq!(losses([0, 0, u64::MAX, 0, 0, u64::MAX]), []);
}

/// The bytes of a segment's frames.
fn frames(bytes: &[u8], segment: &Path) -> Vec<Vec<u8>> {
    let reader = SegmentReader::open(segment).unwrap();
    let starts: Vec<usize> =
        reader.frames().iter().map(|frame| usize::try_from(frame.offset).unwrap()).collect();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    starts.iter().zip(ends).map(|(&start, end)| bytes[start..end].to_vec()).collect()
}

#[test]
fn a_frame_that_stands_there_twice_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write_with(folder.path(), bundles::record);
    let segment = partial.join("run-accesses-10/rows.seg");
    let bytes = fs::read(&segment).unwrap();
    let output = folder.path().join("recovered.stallmap");
    recover(&partial, &output).unwrap();
    let rows = |path: &Path| {
        CaptureReader::open(path)
            .unwrap()
            .tables()
            .iter()
            .map(|table| (table.name.clone(), table.rows))
            .collect::<Vec<_>>()
    };
    let expected = rows(&output);
    let parts = frames(&bytes, &segment);
    let is_rows = |part: &&Vec<u8>| part[4] == 1;
    for twice in parts.iter().filter(is_rows) {
        fs::write(&segment, [&bytes[..], twice].concat()).unwrap();
        fs::remove_file(&output).unwrap();
        recover(&partial, &output).unwrap();
        let reader = CaptureReader::open(&output).unwrap();
        assert_eq!(check(&reader), []);
        let found = rows(&output);
        let differs = |(table, count): &&(String, u64)| !found.contains(&(table.clone(), *count));
        let keyless = ["memory_access", "memcpy", "memset", "loss"];
        let wrong: Vec<_> =
            expected.iter().filter(differs).filter(|(table, _)| !keyless.contains(&table.as_str())).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

#[test]
fn pipes_and_gigantic_files_in_the_place_of_files_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write_with(folder.path(), bundles::record);
    let cubins =
        fs::read_dir(partial.join("cubins")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut places: Vec<_> = cubins.collect();
    let names = ["recording.json", "hooks-1.json", "run-accesses-10/progress", "run-accesses-10/reserve.seg"];
    places.extend(names.map(|name| partial.join(name)));
    for (number, place) in places.iter().enumerate() {
        drop(fs::remove_file(place));
        if number % 2 == 0 {
            assert!(Command::new("mkfifo").arg(place).status().unwrap().success());
        } else {
            File::create(place).unwrap().set_len(1 << 40).unwrap();
        }
    }
    let output = folder.path().join("recovered.stallmap");
    recover(&partial, &output).unwrap();
    assert_eq!(check(&CaptureReader::open(&output).unwrap()), []);
}

#[test]
fn an_empty_run_is_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write(folder.path());
    fs::remove_dir_all(partial.join("run-pc_samples-20")).unwrap();
    File::create(partial.join("run-accesses-10/rows.seg")).unwrap();
    let output = folder.path().join("recovered.stallmap");
    let summary = recover(&partial, &output).unwrap();
    assert_eq!(summary.runs[0].run.program, "python");
    assert_eq!(check(&CaptureReader::open(&output).unwrap()), []);
}

#[test]
fn what_is_no_recording_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = recover(folder.path(), &folder.path().join("x")).unwrap_err();
    assert!(matches!(error, FinishError::NoRecording { .. }));
    assert!(error.to_string().starts_with("no recording found: it holds no run's folder"), "{error}");
    let missing = recover(&folder.path().join("no"), &folder.path().join("x")).unwrap_err();
    assert!(missing.to_string().starts_with("open recording: No such file"), "{missing}");
}

#[test]
fn a_recording_can_be_finished_again() {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write(folder.path());
    let (first, second) = (folder.path().join("1.stallmap"), folder.path().join("2.stallmap"));
    let first = recover(&partial, &first).unwrap();
    let again = recover(&partial, &second).unwrap();
    assert_eq!(first.manifest.capture_id, again.manifest.capture_id);
    let refused = recover(&partial, &second).unwrap_err();
    assert!(refused.to_string().starts_with("create capture: entity already exists"), "{refused}");
}

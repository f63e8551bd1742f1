//! Finalizing a complete recording gives a capture without violations, with all that the program did.

use std::path::Path;

use stallmap_finish::finish;
use stallmap_finish::summary::FinishSummary;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::hash;
use stallmap_schema::id::{KernelId, OpId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Op, Storage, Tensor};
use stallmap_schema::word::{AccessKind, Instrument, Match};
use stallmap_write::check::check;

use crate::recording::{self, CALLEE, CUBIN, KERNEL, REQUESTS};

/// A finalized recording.
pub(crate) struct FinishedRecording {
    pub(crate) summary: FinishSummary,
    pub(crate) reader: CaptureReader,
    pub(crate) folder: tempfile::TempDir,
}

impl FinishedRecording {
    pub(crate) fn rows<R: TableRow>(&self) -> Vec<R> {
        self.reader.read_rows().unwrap()
    }
}

/// Finishes the example recording after a change to its folder.
pub(crate) fn finished(change: impl FnOnce(&Path)) -> FinishedRecording {
    finished_with(|_| (), change)
}

/// Finishes the example recording with more in its access run, after a change to its folder.
pub(crate) fn finished_with(
    more: impl FnOnce(&mut SegmentWriter),
    change: impl FnOnce(&Path),
) -> FinishedRecording {
    let folder = tempfile::tempdir().unwrap();
    let partial = recording::write_with(folder.path(), more);
    change(&partial);
    let output = folder.path().join("program.stallmap");
    let summary = finish(&partial, &output, &|_| ()).unwrap();
    let reader = CaptureReader::open(&output).unwrap();
    let violations = check(&reader);
    assert_eq!(violations, [], "{:#?}", summary.losses);
    FinishedRecording { summary, reader, folder }
}

/// A launch of the example, whose access run has four.
pub(crate) fn kernel_id(run: u64, ordinal: u64) -> KernelId {
    KernelId((run - 1) * 4 + ordinal)
}

#[test]
fn runs_say_what_the_program_was() {
    let capture = finished(|_| ());
    let [accesses, samples] = &capture.rows::<Run>()[..] else { panic!() };
    assert_eq!((accesses.run_id.0, samples.run_id.0, samples.reference_run_id.0), (1, 2, 1));
    assert_eq!(
        (accesses.program.as_str(), accesses.arguments.as_str()),
        ("python", r#"["train.py","--fast"]"#)
    );
    assert_eq!((accesses.ended_ns, accesses.exit_code), (Some(99), Some(0)));
    assert_eq!(accesses.torch_version.as_deref(), Some("2.11.0"));
    assert_eq!(samples.sampling_period_cycles, Some(256));
    assert!(capture.summary.runs.iter().all(|run| run.clean_end));
}

#[test]
fn processes_find_themselves_in_the_other_pass() {
    let capture = finished(|partial| {
        recording::add_child(partial, Instrument::Accesses, 8, "helper");
        recording::add_child(partial, Instrument::Accesses, 31, "worker");
        recording::add_child(partial, Instrument::PcSamples, 19, "worker");
        recording::add_child(partial, Instrument::PcSamples, 33, "unrelated");
    });
    let runs = capture.rows::<Run>();
    let reference =
        |run: &Run| runs.iter().find(|other| other.run_id == run.reference_run_id).unwrap().process_id;
    let pairs: Vec<_> = runs.iter().map(|run| (run.process_id, reference(run))).collect();
    assert_eq!(pairs, [(10, 10), (8, 8), (31, 31), (20, 10), (19, 31), (33, 33)]);
}

#[test]
fn launches_of_both_runs_are_brought_together() {
    let capture = finished(|_| ());
    let launches = capture.rows::<Launch>();
    let occurrences: Vec<_> = launches.iter().map(|launch| (launch.kernel_id, launch.occurrence)).collect();
    let mut expected: Vec<_> = (0..4_u32).map(|ordinal| (kernel_id(1, ordinal.into()), ordinal)).collect();
    expected.push((kernel_id(2, 4), 4));
    assert_eq!(occurrences, expected);
    let sampling: Vec<_> = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 2).collect();
    for row in &sampling[..4] {
        assert_eq!((row.kernel_id, row.matched), (kernel_id(1, row.ordinal), Match::Matched));
    }
    assert_eq!(sampling[4].matched, Match::Unmatched);
    assert_eq!(sampling[4].match_reason.as_deref(), Some("more occurrences than the reference run"));
    assert_eq!(launches[0].op_id, Some(OpId(1)));
    assert_eq!(capture.rows::<LaunchParameter>().len(), 5);
    assert_eq!(capture.summary.runs[1].unmatched_launch_count, 1);
}

#[test]
fn accesses_name_the_function_that_holds_them() {
    let capture = finished(|_| ());
    let rows = capture.rows::<MemoryAccess>();
    let launch: Vec<_> = rows.iter().filter(|row| row.kernel_id == kernel_id(1, 3)).collect();
    let callee = hash::function_id(recording::module(), CALLEE);
    let mut seen: Vec<_> = launch
        .iter()
        .map(|row| (row.function_id == callee, row.pc.0, row.block, row.sequence, row.kind))
        .collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            (false, 0x40, 0, 3, AccessKind::Read),
            (false, 0x40, 1, 0, AccessKind::Read),
            (false, 0x90, 0, 4, AccessKind::Write),
            (false, 0x90, 1, 1, AccessKind::Write),
            (true, 0x20, 0, 5, AccessKind::Read),
            (true, 0x20, 1, 2, AccessKind::Read),
        ]
    );
    let store = launch.iter().find(|row| row.pc.0 == 0x90 && row.block == 0).unwrap();
    let addresses: Vec<_> = store.lanes().map(|(_, address)| address.0).collect();
    let base = (1_i64 << 32) + 3 * 64;
    let expected: Vec<_> = (0..32).map(|lane| (base + (lane * lane % 17 - 8) * 4).cast_unsigned()).collect();
    assert_eq!(addresses, expected);
    assert_eq!((store.address.0, store.offset_shift), ((base - 32).cast_unsigned(), 2));
    assert_eq!(capture.summary.runs[0].request_count, 4 * REQUESTS);
    assert_eq!(capture.summary.runs[0].lane_access_count, 4 * 2 * (32 + 32 + 1));
}

#[test]
fn samples_are_pairs_of_counters_and_none_is_forgotten() {
    let capture = finished(|_| ());
    let rows = capture.rows::<PcSample>();
    let launch: Vec<_> = rows
        .iter()
        .filter(|row| row.kernel_id == kernel_id(1, 0))
        .map(|row| (row.pc.0, row.stall_reason.as_str(), row.samples, row.samples_not_issued))
        .collect();
    let mut sorted = launch.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [(0x20, "wait", 2, 0), (0x90, "long_scoreboard", 8, 4)]);
    assert!(rows.iter().any(|row| row.kernel_id == kernel_id(2, 4)), "samples of an unmatched launch stay");
    let launch = &capture.rows::<LaunchRun>()[4];
    assert_eq!((launch.sample_count, launch.lost_sample_count), (Some(13), Some(3)));
    let lost: u64 = capture
        .rows::<Loss>()
        .iter()
        .filter(|loss| loss.reason.contains("of the sample is not known"))
        .map(|loss| loss.lost_count)
        .sum();
    assert_eq!(lost, 5 * 3 + 9);
}

#[test]
fn lives_are_half_open_and_never_overlap() {
    let capture = finished(|_| ());
    let lives: Vec<_> = capture
        .rows::<Storage>()
        .into_iter()
        .filter(|row| row.run_id.0 == 1)
        .map(|row| (row.storage_id.0 & 0xff, row.alloc_ordinal, row.free_ordinal))
        .collect();
    assert_eq!(lives, [(1, 0, Some(2)), (2, 1, Some(3)), (3, 2, None), (4, 3, None)]);
    let losses = capture.rows::<Loss>();
    assert!(losses.iter().any(|loss| loss.reason.starts_with("free not seen") && loss.lost_count == 1));
    let tensor = &capture.rows::<Tensor>()[0];
    assert_eq!((tensor.name.as_deref(), tensor.role.as_deref()), (Some("w"), Some("parameter")));
    assert_eq!(capture.rows::<Op>()[0].end_ns, Some(20));
}

#[test]
fn cubins_keep_the_code_that_was_used() {
    let capture = finished(|_| ());
    let [module] = &capture.rows::<Module>()[..] else { panic!() };
    assert_eq!((module.sm, module.cupti_crc), (Some(90), Some(0xc0de)));
    let stored = capture.reader.cubin(&module.content_hash).unwrap();
    assert_eq!(stored.len(), CUBIN.len());
    let changed = stored.iter().zip(CUBIN).filter(|(stored, original)| stored != original).count() as u64;
    assert!(module.zeroed_bytes == 256 && (1..=256).contains(&changed), "{changed}");
    let functions: Vec<_> = capture
        .rows::<Function>()
        .into_iter()
        .map(|row| (row.name, row.is_kernel, row.memory_instruction_count, row.uncovered_instruction_count))
        .collect();
    let kernel = functions.iter().find(|row| row.0 == KERNEL).unwrap();
    let callee = functions.iter().find(|row| row.0 == CALLEE).unwrap();
    assert_eq!(functions.len(), 2, "the unused kernel has no row");
    assert_eq!((callee.1, callee.2, callee.3), (false, Some(2), Some(0)));
    assert_eq!((kernel.1, kernel.3), (true, Some(9)));
}

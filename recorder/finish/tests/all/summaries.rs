//! Tests of counted requests: they name instructions, complete the launches' counts, and stand for other launches.

use stallmap_schema::capture::recording::AccessCount;
use stallmap_schema::capture::request::{ATOMIC, READ, SPACE_GLOBAL, WRITE};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::{Address, KernelId, Pc};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::AccessSummary;

use crate::finish::{FinishedRecording, finished_with, kernel_id};
use crate::recording::{CODE, REQUESTS, kernel, launch, launch_run, put};

fn count(ordinal: u64, pc: u64, flags: u8, address: u64) -> AccessCount {
    AccessCount {
        kernel_id: KernelId(ordinal),
        pc_address: Address(CODE + pc),
        flags,
        space: SPACE_GLOBAL,
        block_address: Some(Address(0x1000)),
        address: Address(address),
        span_bytes: 0x80,
        request_count: 10,
        shared_request_count: 2,
        lane_count: 320,
        sectors: 40,
        unique_bytes: 1280,
        ideal_sectors: 40,
    }
}

/// A launch whose requests are counted: its reader knows its records only.
fn counted(segment: &mut SegmentWriter, ordinal: u64) {
    let lost_request_count = None;
    put(segment, [LaunchRun { request_count: Some(REQUESTS), lost_request_count, ..launch_run(ordinal) }]);
}

fn launches(capture: &FinishedRecording) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let rows = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 1);
    rows.map(|row| (row.ordinal, row.request_count, row.lost_request_count)).collect()
}

#[test]
fn counts_become_rows_by_instruction_kind_and_block() {
    let capture = finished_with(
        |segment| {
            counted(segment, 5);
            put(segment, [launch(5)]);
            let atomic = count(5, 0x90, ATOMIC | WRITE, 0x1100);
            put(segment, [count(5, 0x90, READ, 0x1000), atomic, count(5, 0x90, ATOMIC | READ, 0x1040)]);
            put(segment, [count(5, 0x90_0000, READ, 0x1000)]);
        },
        |_| (),
    );
    let rows = capture.rows::<AccessSummary>();
    let fact = |row: &AccessSummary| {
        let sums = (row.request_count, row.shared_request_count, row.sectors);
        (row.kind.word(), row.address.0, row.span_bytes, sums)
    };
    let expected = [("atomic", 0x1040, 0x140, (20, 4, 80)), ("read", 0x1000, 0x80, (10, 2, 40))];
    assert_eq!(rows.iter().map(fact).collect::<Vec<_>>(), expected);
    assert!(
        rows.iter()
            .all(|row| (row.kernel_id, row.function_id, row.pc) == (kernel_id(1, 5), kernel(), Pc(0x90)))
    );
    // The unknown instruction's requests are in no row, but they were made.
    assert_eq!(launches(&capture).last(), Some(&(5, Some(0), Some(4 * 8))));
    let losses = capture.rows::<Loss>();
    let unknown = losses.iter().find(|loss| loss.reason == "code of the instruction is not known").unwrap();
    assert_eq!((unknown.lost_count, unknown.kernel_id), (10, Some(kernel_id(1, 5))));
}

#[test]
fn a_launch_without_its_counts_does_not_claim_to_be_whole() {
    let capture = finished_with(|segment| (counted(segment, 5), put(segment, [launch(5)])).1, |_| ());
    assert_eq!(launches(&capture).last(), Some(&(5, Some(0), None)));
    let reason = "counts of requests were not read before the process ended";
    assert!(capture.rows::<Loss>().iter().any(|loss| loss.reason == reason));
}

#[test]
fn launches_refer_to_recorded_launches_only() {
    let refers = |ordinal, model| Launch { accesses_of: Some(KernelId(model)), ..launch(ordinal) };
    let capture = finished_with(
        |segment| {
            for (ordinal, model) in [(5, 0), (6, 5)] {
                put(segment, [refers(ordinal, model)]);
                put(segment, [LaunchRun { recorded: false, ..launch_run(ordinal) }]);
            }
        },
        |_| (),
    );
    let models: Vec<_> = capture.rows::<Launch>().iter().map(|launch| launch.accesses_of).collect();
    assert_eq!(models[4..6], [Some(kernel_id(1, 0)), None]);
    let reason = "the launch that stands for it was not recorded";
    assert!(capture.rows::<Loss>().iter().any(|loss| loss.reason == reason));
}

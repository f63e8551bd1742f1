//! Tests of ranges: their rows, and launches in ranges whose names differ from run to run.

use stallmap_schema::capture::recording::OpEnd;
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::OpId;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::tensor::{Op, OpMetric, OpRange};
use stallmap_schema::word::{Match, OpKind, RangeSource};

use crate::finish::{FinishedRecording, finished_with};
use crate::recording::{self, bare_launch, launch_run, op_row, put};

/// The region of a run. The ops of launches come before it.
const REGION: OpId = OpId(50);

fn put_range(segment: &mut SegmentWriter, source: RangeSource, name: &str, ordinal: u64) {
    let op = Op { op_id: REGION, kind: OpKind::Region, name: name.into(), pystates_hash: None, ..op_row(0) };
    put(segment, [op]);
    put(segment, [OpRange { op_id: REGION, source, domain: Some("solver".into()), category: Some(7) }]);
    put(segment, [OpMetric { op_id: REGION, name: "payload".into(), value: 1.5, unit: None }]);
    put(segment, [Launch { op_id: Some(REGION), ..bare_launch(ordinal) }]);
    put(segment, [launch_run(ordinal)]);
    put(segment, [OpEnd { op_id: REGION, end_ns: 98 }]);
}

fn recorded(source: RangeSource, names: [&str; 2]) -> FinishedRecording {
    finished_with(
        |segment| put_range(segment, source, names[0], 4),
        |partial| recording::with_samples(partial, |segment| put_range(segment, source, names[1], 0)),
    )
}

fn matches(capture: &FinishedRecording) -> Vec<Match> {
    let rows = capture.rows::<LaunchRun>().into_iter();
    rows.filter(|row| row.run_id.0 == 2).map(|row| row.matched).collect()
}

#[test]
fn a_launch_is_in_the_range_of_its_own_run() {
    let capture = recorded(RangeSource::Nvtx, ["step", "step"]);
    let launch = capture.rows::<Launch>().into_iter().find(|launch| launch.ordinal == 4).unwrap();
    let range = capture.rows::<Op>().into_iter().find(|op| Some(op.op_id) == launch.op_id).unwrap();
    assert_eq!((range.name.as_str(), range.run_id.0, range.end_ns), ("step", 1, Some(98)));
    let origins: Vec<OpRange> = capture.rows();
    let metrics: Vec<OpMetric> = capture.rows();
    assert_eq!((origins.len(), metrics.len()), (2, 2));
    assert_eq!((origins[0].op_id, metrics[0].op_id), (range.op_id, range.op_id));
    assert_eq!((origins[0].domain.as_deref(), metrics[0].value), (Some("solver"), 1.5));
}

#[test]
fn names_of_ranges_keep_no_launch_from_its_match() {
    let names = ["at 0x7f00", "at 0x7fff"];
    assert_eq!(matches(&recorded(RangeSource::Nvtx, names)), [Match::Matched]);
    assert_eq!(matches(&recorded(RangeSource::Torch, names)), [Match::Matched]);
    // The user's own regions are constant, and distinguish launches.
    assert_eq!(matches(&recorded(RangeSource::Stallmap, names)), [Match::Unmatched]);
}

#[test]
fn rows_about_a_region_that_was_lost_are_counted() {
    let capture = finished_with(
        |segment| {
            put(
                segment,
                [OpRange { op_id: REGION, source: RangeSource::Nvtx, domain: None, category: None }],
            );
            put(segment, [OpMetric { op_id: REGION, name: "payload".into(), value: 1.0, unit: None }]);
        },
        |_| (),
    );
    assert!(capture.rows::<OpRange>().is_empty() && capture.rows::<OpMetric>().is_empty());
    let lost = capture.rows::<Loss>().into_iter().find(|loss| loss.reason == "its region was not recorded");
    assert_eq!(lost.map(|loss| loss.lost_count), Some(2));
}

//! Tests of the timeline: each kernel finds its launch, and what finds none is counted.

use stallmap_schema::capture::recording::{ActivityName, CodeRange, GraphNodeNumber, RawActivity};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::{Address, OpId};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::{Memcpy, Memset};
use stallmap_schema::word::{ActivityKind, CopyKind, Instrument, LossKind, Match, SynchronizationKind};

use crate::finish::{FinishedRecording, finished_with, kernel_id};
use crate::recording::{self, KERNEL, launch, launch_run, put};

/// A timeline run with these rows after those of its run.
fn with_timeline(rows: impl FnOnce(&mut SegmentWriter)) -> FinishedRecording {
    with_timeline_and(|_| (), rows)
}

/// The same, with more in the access run.
fn with_timeline_and(
    more: impl FnOnce(&mut SegmentWriter),
    rows: impl FnOnce(&mut SegmentWriter),
) -> FinishedRecording {
    finished_with(more, |partial| {
        let mut segment = recording::segment(partial, "run-timeline-30");
        recording::describe_run(&mut segment, Instrument::Timeline, 30);
        put(&mut segment, [ActivityName { name_id: 7, name: KERNEL.into() }]);
        put(
            &mut segment,
            [CodeRange {
                function_id: recording::kernel(),
                module_id: recording::module(),
                name: KERNEL.into(),
                is_kernel: true,
                address: Address(0),
                code_bytes: 0,
                ordinal: 0,
            }],
        );
        rows(&mut segment);
    })
}

/// A launch as the light pass writes it: without op and stack.
fn put_launch(segment: &mut SegmentWriter, ordinal: u64, correlation: u64) {
    put(segment, [Launch { op_id: None, pystates_hash: None, ..launch(ordinal) }]);
    put(segment, [LaunchRun { correlation_id: Some(correlation), recorded: true, ..launch_run(ordinal) }]);
}

pub(crate) fn kernel(correlation_id: u64, begin_ns: i64) -> RawActivity {
    RawActivity {
        kind: ActivityKind::Kernel,
        correlation_id,
        name_id: Some(7),
        context_number: 1,
        stream_number: Some(9),
        begin_ns,
        end_ns: Some(begin_ns + 5),
        device_id: Some(0),
        ..RawActivity::default()
    }
}

fn lost(capture: &FinishedRecording, reason: &str) -> u64 {
    let losses = capture.rows::<Loss>().into_iter();
    losses
        .filter(|loss| loss.kind == LossKind::Activity && loss.reason == reason)
        .map(|loss| loss.lost_count)
        .sum()
}

fn matches(capture: &FinishedRecording) -> Vec<Match> {
    let rows = capture.rows::<LaunchRun>().into_iter();
    rows.filter(|row| row.run_id.0 == 3).map(|row| row.matched).collect()
}

#[test]
fn kernels_find_their_launches_by_the_call_and_are_in_the_order_of_their_begin() {
    let capture = with_timeline(|segment| {
        for ordinal in 0..4 {
            put_launch(segment, ordinal, 100 + ordinal);
        }
        let wait = RawActivity {
            kind: ActivityKind::Synchronization,
            name_id: None,
            device_id: None,
            stream_number: None,
            synchronization: Some(SynchronizationKind::Context),
            ..kernel(50, 35)
        };
        let other = RawActivity { stream_number: Some(4), ..kernel(102, 20) };
        put(segment, [kernel(103, 40), other, wait, kernel(101, 20), kernel(100, 10), kernel(999, 30)]);
    });
    let rows = capture.rows::<GpuActivity>();
    let seen: Vec<_> = rows.iter().map(|row| (row.kernel_id, row.stream_id, row.begin_ns)).collect();
    let known = |ordinal| Some(kernel_id(1, ordinal));
    let expected = [
        (known(0), Some(0), 10),
        (known(1), Some(0), 20),
        (known(2), Some(1), 20),
        (None, Some(0), 30),
        (None, None, 35),
        (known(3), Some(0), 40),
    ];
    assert_eq!(seen, expected);
    assert!((0..).zip(&rows).all(|(number, row)| row.activity_id == number));
    let names: Vec<_> = rows.iter().map(|row| row.kernel_name.as_deref()).collect();
    assert_eq!(names, [None, None, None, Some(KERNEL), None, None]);
    assert_eq!(matches(&capture), [Match::Matched; 4]);
    let streams = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3);
    assert_eq!(streams.map(|row| row.stream_id).collect::<Vec<_>>(), [0, 0, 1, 0]);
    assert_eq!(lost(&capture, "times of the launch are missing"), 0);
}

#[test]
fn copies_and_fills_have_the_op_of_the_equal_one_in_the_access_run() {
    let called = |size_bytes, op: u32| Memcpy {
        kind: CopyKind::HostToDevice,
        size_bytes,
        begin_ns: i64::from(op),
        op_id: Some(OpId(op.into())),
        ..Memcpy::default()
    };
    let more = |segment: &mut SegmentWriter| {
        put(segment, [called(64, 1), called(64, 2), called(8, 3), called(8, 4)]);
        let fill = Memset { size_bytes: 64, begin_ns: 9, op_id: Some(OpId(2)), ..Memset::default() };
        put(segment, [fill]);
    };
    let moved = |kind, size_bytes, correlation, begin_ns| RawActivity {
        kind,
        name_id: None,
        size_bytes: Some(size_bytes),
        copy_kind: (kind == ActivityKind::Copy).then_some(CopyKind::HostToDevice),
        ..kernel(correlation, begin_ns)
    };
    let capture = with_timeline_and(more, |segment| {
        for ordinal in 0..4 {
            put_launch(segment, ordinal, 100 + ordinal);
        }
        // The second call's copy runs first. There is one copy of 8 bytes where the access run has two.
        let rows = [(ActivityKind::Copy, 64, 51, 10), (ActivityKind::Copy, 64, 50, 20)];
        let others = [(ActivityKind::Copy, 8, 52, 30), (ActivityKind::Fill, 64, 53, 40)];
        let rows = rows.into_iter().chain(others);
        put(segment, rows.map(|(kind, bytes, correlation, begin)| moved(kind, bytes, correlation, begin)));
    });
    let ops: Vec<_> = capture.rows::<GpuActivity>().into_iter().map(|row| row.op_id).collect();
    assert_eq!(ops, [Some(OpId(2)), Some(OpId(1)), None, Some(OpId(2))]);
}

#[test]
fn a_launch_whose_times_are_missing_is_counted() {
    let capture = with_timeline(|segment| {
        for ordinal in 0..4 {
            put_launch(segment, ordinal, 100 + ordinal);
        }
        put(segment, [kernel(100, 10)]);
    });
    assert_eq!(lost(&capture, "times of the launch are missing"), 3);
}

#[test]
fn equal_launches_match_only_if_both_runs_have_as_many() {
    let capture = with_timeline(|segment| {
        for ordinal in 0..3 {
            put_launch(segment, ordinal, 100 + ordinal);
            put(segment, [kernel(100 + ordinal, 10)]);
        }
    });
    assert_eq!(matches(&capture), [Match::Unmatched; 3]);
    let runs = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3);
    let reasons: Vec<_> = runs.filter_map(|row| row.match_reason).collect();
    assert_eq!(reasons, ["another number of such launches in the reference run"; 3]);
    let own: Vec<_> = capture.rows::<GpuActivity>().into_iter().map(|row| row.kernel_id).collect();
    let launched: Vec<_> = capture
        .rows::<LaunchRun>()
        .into_iter()
        .filter(|row| row.run_id.0 == 3)
        .map(|row| Some(row.kernel_id))
        .collect();
    assert_eq!(own, launched);
}

#[test]
fn nodes_of_a_graph_launch_are_told_apart_by_their_numbers() {
    let capture = with_timeline(|segment| {
        for (ordinal, node) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
            let graph = Launch { graph_id: Some(0), graph_node: Some(node), ..launch(ordinal) };
            put(segment, [graph]);
            let correlation_id = Some(if ordinal < 2 { 100 } else { 200 });
            put(segment, [LaunchRun { correlation_id, recorded: true, ..launch_run(ordinal) }]);
        }
        let number = |graph_node_id, graph_node| GraphNodeNumber { graph_node_id, graph_id: 0, graph_node };
        put(segment, [number(70, 1), number(71, 0)]);
        let node = |correlation, number, begin_ns| RawActivity {
            graph_node_id: Some(number),
            ..kernel(correlation, begin_ns)
        };
        put(
            segment,
            [node(100, 70, 10), node(100, 71, 20), node(200, 71, 30), node(200, 70, 40), node(200, 72, 50)],
        );
    });
    // The reference run has no such graph: the launches are the run's own.
    let own = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3);
    let own: Vec<_> = own.map(|row| row.kernel_id).collect();
    let seen: Vec<_> = capture.rows::<GpuActivity>().into_iter().map(|row| row.kernel_id).collect();
    assert_eq!(seen, [Some(own[1]), Some(own[0]), Some(own[2]), Some(own[3]), None]);
}

#[test]
fn bodies_of_conditional_nodes_belong_to_the_launch_that_runs_then() {
    let times = |first: u32, body: u32, at: &[i64]| {
        let capture = with_timeline(|segment| {
            for (ordinal, graph_launch, node, begin_ns) in
                [(0, 0, 0, 1), (1, 0, 1, 1), (2, 1, 0, 2), (3, 1, 1, 2)]
            {
                let (graph_id, graph_launch) = (Some(0), Some(graph_launch));
                put(segment, [Launch { graph_id, graph_launch, graph_node: Some(node), ..launch(ordinal) }]);
                let correlation_id = Some(if ordinal < 2 { 100 } else { 200 });
                put(segment, [LaunchRun { correlation_id, recorded: true, begin_ns, ..launch_run(ordinal) }]);
            }
            let number =
                |graph_node_id, graph_node| GraphNodeNumber { graph_node_id, graph_id: 0, graph_node };
            put(segment, [number(70, first), number(71, body)]);
            let node = |correlation, number, begin_ns| RawActivity {
                graph_node_id: Some(number),
                ..kernel(correlation, begin_ns)
            };
            put(segment, [node(100, 70, 20), node(200, 70, 50)]);
            put(segment, at.iter().map(|&begin_ns| node(0, 71, begin_ns)));
        });
        assert_eq!(lost(&capture, "times of the launch are missing"), 0, "a body need not run");
        let own = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3);
        let own: Vec<_> = own.map(|row| Some(row.kernel_id)).collect();
        let rows = capture.rows::<GpuActivity>().into_iter();
        let bodies = rows.filter(|row| row.correlation_id == Some(0));
        bodies.map(|row| own.iter().position(|own| *own == row.kernel_id)).collect::<Vec<_>>()
    };
    // Behind a kernel of its launch.
    assert_eq!(times(0, 1, &[25, 35, 55]), [Some(1), Some(1), Some(3)]);
    // Before one: the second launch's runs when the first one's has.
    assert_eq!(times(1, 0, &[5, 10, 30]), [Some(0), Some(0), Some(2)]);
    // Before any call.
    assert_eq!(times(0, 1, &[0]), [None]);
}

#[test]
fn a_node_without_a_number_is_known_by_a_name_that_is_left_once() {
    let times = |numbered: u32| {
        let capture = with_timeline(|segment| {
            for (ordinal, node) in [(0, 0), (1, 1), (2, 2)] {
                put(segment, [Launch { graph_id: Some(0), graph_node: Some(node), ..launch(ordinal) }]);
                let row = launch_run(ordinal);
                put(segment, [LaunchRun { correlation_id: Some(100), recorded: true, ..row }]);
            }
            let number =
                |graph_node_id, graph_node| GraphNodeNumber { graph_node_id, graph_id: 0, graph_node };
            put(segment, (0..numbered).map(|node| number(70 + u64::from(node), node)));
            let node =
                |number, begin_ns| RawActivity { graph_node_id: Some(number), ..kernel(100, begin_ns) };
            put(segment, [node(70, 10), node(71, 20), node(72, 30)]);
        });
        let lost = lost(&capture, "times of the launch are missing");
        (capture.rows::<GpuActivity>().iter().filter(|row| row.kernel_id.is_some()).count(), lost)
    };
    assert_eq!(times(2), (3, 0));
    // Two that are left have one name: their launches are unknown.
    assert_eq!(times(1), (1, 2));
}

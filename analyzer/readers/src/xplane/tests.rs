//! Spaces as a whole.

use super::*;
use crate::formats::proto::encoded::EncodedMessage;

/// Names of statistics, numbered from 1.
const STATS: [&str; 10] = [
    "correlation_id",
    "kernel_details",
    "memcpy_details",
    "tf_op",
    "hlo_op",
    "hlo_module",
    "allocator_name",
    "addr",
    "allocation_bytes",
    "requested_bytes",
];

/// The value of a statistic.
#[derive(Clone, Copy)]
enum WrittenStat<'a> {
    Number(u64),
    Text(&'a str),
}

/// An event: its name, begin, length if any, and statistics.
type WrittenEvent<'a> = (&'a str, u64, Option<u64>, &'a [(&'a str, WrittenStat<'a>)]);

/// A plane with one line.
fn plane(name: &str, line: &str, events: &[WrittenEvent<'_>]) -> EncodedMessage {
    let (mut own, mut plane) =
        (EncodedMessage::default().uint(1, 7).text(2, line), EncodedMessage::default());
    plane = plane.text(2, name);
    for (number, (name, begin, length, stats)) in (1..).zip(events) {
        let metadata = EncodedMessage::default().text(2, name);
        plane = plane.message(4, &EncodedMessage::default().uint(1, number).message(2, &metadata));
        let mut event = EncodedMessage::default().uint(1, number).uint(2, *begin);
        event = length.map_or(event.clone(), |length| event.uint(3, length));
        for (name, value) in *stats {
            let number = STATS.iter().position(|known| known == name).unwrap();
            let stat = EncodedMessage::default().uint(1, number as u64 + 1);
            event = event.message(
                4,
                &match value {
                    WrittenStat::Number(number) => stat.uint(3, *number),
                    WrittenStat::Text(text) => stat.text(5, text),
                },
            );
        }
        own = own.message(4, &event);
    }
    for (number, name) in (1..).zip(STATS) {
        let metadata = EncodedMessage::default().text(2, name);
        plane = plane.message(5, &EncodedMessage::default().uint(1, number).message(2, &metadata));
    }
    plane.message(3, &own)
}

fn read_space(space: &EncodedMessage) -> ReadResult<TraceModel> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &space.0).unwrap();
    read(&ImportInput::from_path(file.path())?)
}

/// The trace of a GPU's events and of the host's.
fn trace(gpu: &[WrittenEvent<'_>], host: &[WrittenEvent<'_>]) -> TraceModel {
    let planes = [plane("/device:GPU:0", "Stream #13(Compute)", gpu), plane("/host:CPU", "main", host)];
    let space = planes.iter().fold(EncodedMessage::default(), |space, plane| space.message(1, plane));
    read_space(&space).unwrap()
}

fn lost(trace: &TraceModel, part: &str) -> u64 {
    trace.losses.rows().filter(|(_, reason, ..)| reason.contains(part)).map(|(_, _, count, _)| count).sum()
}

#[test]
fn kernels_have_details_of_kernels_whatever_their_name() {
    let details = [("kernel_details", WrittenStat::Text("regs:32 grid:8,1,1 block:128,1,1"))];
    let copy = [("memcpy_details", WrittenStat::Text("kind_src:device kind_dst:device size:64 dest:1"))];
    let found = trace(
        &[
            ("MemsetKernel", 10, Some(1000), &details),
            ("MemcpyTile", 20, Some(1000), &details),
            ("MemcpyP2P", 30, Some(1000), &copy),
            ("Memset", 40, Some(1000), &[]),
        ],
        &[],
    );
    assert_eq!((found.kernels.len(), found.works.len()), (2, 2));
    let copy = &found.works[0];
    assert_eq!((copy.peer, copy.memory.as_deref()), (Some(1), Some("device -> device")));
}

#[test]
fn waits_and_names_of_calls_are_of_a_library() {
    let number = |number| [("correlation_id", WrittenStat::Number(number))];
    let found = trace(
        &[("k", 50_000, Some(1000), &number(1)), ("l", 60_000, Some(1000), &number(2))],
        &[
            ("Synchronize gradients", 0, Some(90_000), &[]),
            ("cuLaunchKernel", 1000, Some(1000), &number(1)),
            ("l", 3000, Some(1000), &number(2)),
            ("cuStreamSynchronize", 5000, Some(1000), &[]),
        ],
    );
    assert_eq!((found.ops.len(), found.works.len()), (1, 1));
    let names: Vec<_> = found.kernels.iter().map(|kernel| kernel.call_name.as_deref()).collect();
    assert_eq!(names, [Some("cuLaunchKernel"), None]);
}

#[test]
fn events_that_end_before_they_begin_are_counted() {
    let found = trace(&[("k", 10, Some(1000), &[]), ("k", 10, Some(u64::MAX), &[])], &[]);
    assert_eq!((found.kernels.len(), lost(&found, "end before they begin")), (1, 1));
}

#[test]
fn operations_of_tensorflow_are_ops_and_those_without_a_call_are_counted() {
    let operation = [
        ("correlation_id", WrittenStat::Number(1)),
        ("tf_op", WrittenStat::Text("model/dense/MatMul:MatMul")),
    ];
    let uncalled = [("hlo_module", WrittenStat::Text("jit_f")), ("hlo_op", WrittenStat::Text("fusion.7"))];
    let found = trace(
        &[("gemm", 50_000, Some(1000), &operation), ("fusion_7", 60_000, Some(1000), &uncalled)],
        &[("cuLaunchKernel", 1000, Some(1000), &operation[..1])],
    );
    let op = found.kernels[0].op.map(|op| &found.ops[op]).unwrap();
    assert_eq!((&*op.name, op.module().map(|module| &**module)), ("MatMul", Some("model.dense")));
    assert_eq!(lost(&found, "operations of kernels without a launch call"), 1);
}

#[test]
fn allocations_have_the_bytes_that_were_requested() {
    let stats = [
        ("allocator_name", WrittenStat::Text("GPU_collectivememory_0_bfc")),
        ("addr", WrittenStat::Number(4096)),
        ("allocation_bytes", WrittenStat::Number(512)),
        ("requested_bytes", WrittenStat::Number(400)),
    ];
    let found = trace(&[], &[("MemoryAllocation", 10, None, &stats), ("step", 0, Some(1000), &[])]);
    let storage = &found.storages[0];
    assert_eq!((storage.device, storage.bytes, storage.requested), (0, 512, Some(400)));
}

#[test]
fn processes_are_those_of_their_host() {
    let space = |host: &str| {
        let plane = plane("/device:GPU:0", "Stream #13(Compute)", &[("k", 10, Some(1000), &[])]);
        read_space(&EncodedMessage::default().message(1, &plane).text(4, host)).unwrap()
    };
    let joined = crate::join(space("a"), space("b")).unwrap();
    let hosts: Vec<_> = joined.processes.iter().map(|process| &*process.program).collect();
    assert_eq!(hosts, ["xprof a", "xprof b"]);
    assert!(crate::join(space("a"), space("a")).is_err());
}

#[test]
fn a_space_of_other_devices_is_named() {
    let plane = plane("/device:TPU:0", "XLA Ops", &[("fusion", 10, Some(1000), &[])]);
    let error = read_space(&EncodedMessage::default().message(1, &plane)).unwrap_err().to_string();
    assert!(error.ends_with("it has events of plane `/device:TPU:0`"), "{error}");
}

#[test]
fn parts_of_planes_and_spaces_are_bounded() {
    let name = EncodedMessage::default().text(2, "/device:GPU:0");
    let lines = EncodedMessage([name.0, [0x1a, 0].repeat(plane::MAX_PARTS + 1)].concat());
    let space = EncodedMessage::default().message(1, &lines);
    assert!(read_space(&space).unwrap_err().to_string().contains("more than 4194304 parts"));
    let known = plane("/device:GPU:0", "Stream #13", &[("k", 10, Some(1000), &[])]);
    let space = EncodedMessage::default().message(1, &known);
    let found = read_space(&EncodedMessage([space.0, [0x0a, 0].repeat(space::MAX_FIELDS)].concat())).unwrap();
    assert_eq!((found.kernels.len(), lost(&found, "damaged")), (1, 1));
}

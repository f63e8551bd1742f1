//! A capture of a program of two ranks, of which one captures a CUDA graph and launches it twice.
//!
//! Rank 0 launches, in the order of its ordinals:
//!
//! | ordinal | event | reads at A | period | samples |
//! |---|---|---|---|---|
//! | 0 | a launch | `first` | the run's, 64 cycles | 640 |
//! | 1, 2 | a capture of two kernels that are not launches: `first` is freed, `one` and then `two` reuse its address | | | |
//! | 3, 4 | graph 0, its first launch: nodes 0 and 1; `later` is at A for Python | `one`, `two` | 64 | 30 and 10, split |
//! | 5, 6 | graph 0, its second launch | `one`, `two` | 64 | 30 and 10, split |
//! | 7 | a launch, which takes twice as long as that at 0 | `later` | its own, 256 cycles | 320, 80 of them lost |
//! | 8 | a launch that is not selected, with samples that are none of its own | | | 7 |
//!
//! Rank 1 does one launch, on another host, and loses two others.

use std::path::Path;

use stallmap_schema::id::{Address, KernelId, OpId, Pc, RunId, StorageId, TensorId};
use stallmap_schema::tables::launch::{GraphLaunch, Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::{Direction, Instrument, LossKind, Match, OpKind, Phase, StorageOrigin};
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::blame::{self, A, B};

const ACCESSES: RunId = RunId(1);
const SAMPLES: RunId = RunId(2);
const OTHER_ACCESSES: RunId = RunId(3);
const OTHER_SAMPLES: RunId = RunId(4);
/// The launches of rank 0.
const ORDINALS: [u64; 7] = [0, 3, 4, 5, 6, 7, 8];
/// The launch of rank 1.
const OTHER: u64 = 100;

/// Writes the capture.
pub(crate) fn write(output: &Path) {
    let mut writer = CaptureWriter::create(output, CaptureForm::File).unwrap();
    let runs = [ACCESSES, SAMPLES, OTHER_ACCESSES, OTHER_SAMPLES];
    writer.append_rows(runs.map(run)).unwrap();
    let spaces = |run_id| RunOption { run_id, name: "spaces".to_owned(), value: "[\"global\"]".to_owned() };
    writer.append_rows([ACCESSES, OTHER_ACCESSES].map(spaces)).unwrap();
    writer.append_rows(runs.map(device)).unwrap();
    blame::code(&mut writer);
    writer.append_rows(ORDINALS.map(launch).into_iter().chain([other_launch()])).unwrap();
    writer.append_rows((0..2).map(graph_launch)).unwrap();
    let seen = |ordinal| launch_run(ACCESSES, ordinal, Match::Reference);
    writer.append_rows(ORDINALS.map(seen)).unwrap();
    writer.append_rows(ORDINALS.map(|ordinal| launch_run(SAMPLES, ordinal, Match::Matched))).unwrap();
    writer
        .append_rows([
            other_launch_run(OTHER_ACCESSES, Match::Reference),
            other_launch_run(OTHER_SAMPLES, Match::Matched),
        ])
        .unwrap();
    writer.append_rows((0..4).map(op).chain([4, 5].map(region))).unwrap();
    writer.append_rows(storages()).unwrap();
    writer.append_rows((1..6).map(tensor)).unwrap();
    let part = |(op, tensor): (u64, u64)| OpTensor {
        op_id: OpId(op),
        direction: Direction::In,
        position: 0,
        element: 0,
        tensor_id: TensorId(tensor),
        argument: None,
    };
    writer.append_rows([(0, 1), (1, 2), (2, 3), (3, 4)].map(part)).unwrap();
    writer.append_rows(accesses()).unwrap();
    writer.append_rows(samples()).unwrap();
    writer.append_rows(losses()).unwrap();
    writer.finish().unwrap();
}

fn run(run_id: RunId) -> Run {
    let rank = u32::from(run_id >= OTHER_ACCESSES);
    let is_sampling = [SAMPLES, OTHER_SAMPLES].contains(&run_id);
    Run {
        reference_run_id: if rank == 0 { ACCESSES } else { OTHER_ACCESSES },
        host: format!("node{rank}"),
        process_id: 10 + rank,
        parent_process_id: Some(1),
        rank: Some(rank),
        local_rank: Some(0),
        world_size: Some(2),
        exit_code: Some(0),
        sampling_period_cycles: is_sampling.then_some(64),
        ..blame::run(run_id, if is_sampling { Instrument::PcSamples } else { Instrument::Accesses })
    }
}

fn device(run_id: RunId) -> Device {
    Device {
        run_id,
        device_id: 0,
        name: "NVIDIA H200".to_owned(),
        uuid: Some(format!("GPU-{}", u32::from(run_id >= OTHER_ACCESSES))),
        compute_major: 9,
        compute_minor: 0,
        multiprocessor_count: 100,
        memory_bytes: 1 << 37,
        l2_bytes: 1 << 25,
        sm_clock_khz: 1_000_000,
        memory_clock_khz: 1_000_000,
        memory_bus_bits: None,
    }
}

/// Launches 3 to 6 are two launches of a graph with two nodes.
fn node(ordinal: u64) -> Option<(u32, u32)> {
    let place = u32::try_from(ordinal).unwrap().checked_sub(3).filter(|place| *place < 4)?;
    Some((place / 2, place % 2))
}

fn launch(ordinal: u64) -> Launch {
    let op = match node(ordinal) {
        Some((_, node)) => Some(u64::from(node) + 1),
        None => [0, 7].contains(&ordinal).then_some(if ordinal == 0 { 0 } else { 3 }),
    };
    Launch {
        run_id: ACCESSES,
        op_id: op.map(OpId),
        graph_id: node(ordinal).map(|_| 0),
        graph_launch: node(ordinal).map(|(launch, _)| launch),
        graph_node: node(ordinal).map(|(_, node)| node),
        capture_ordinal: node(ordinal).map(|(_, node)| u64::from(node) + 1),
        accesses_of: None,
        ..blame::launch(ordinal)
    }
}

fn other_launch() -> Launch {
    Launch { kernel_id: KernelId(OTHER), run_id: OTHER_ACCESSES, ..blame::launch(0) }
}

fn graph_launch(number: u32) -> GraphLaunch {
    GraphLaunch {
        run_id: ACCESSES,
        graph_id: 0,
        graph_launch: number,
        ordinal: 3 + 2 * u64::from(number),
        // A node of a graph in the graph, which was not seen.
        kernel_count: 3,
        thread_id: 0,
        stream_id: 0,
        begin_ns: 2000 + 100 * i64::from(number),
        end_ns: None,
        op_id: None,
        pystates_hash: None,
    }
}

fn launch_run(run_id: RunId, ordinal: u64, matched: Match) -> LaunchRun {
    let (samples, period) = match ordinal {
        0 => (640, None),
        3 | 5 => (30, None),
        4 | 6 => (10, None),
        7 => (320, Some(256)),
        _ => (7, None),
    };
    let is_sampling = run_id == SAMPLES;
    LaunchRun {
        begin_ns: if ordinal == 0 { 50 } else { 1900 + 100 * i64::try_from(ordinal).unwrap() },
        recorded: ordinal < 8,
        request_count: (!is_sampling && ordinal < 8).then_some(1),
        lane_access_count: (!is_sampling && ordinal < 8).then_some(32),
        sample_count: is_sampling.then_some(samples),
        lost_sample_count: is_sampling.then_some(if ordinal == 7 { 80 } else { 0 }),
        sampling_period_cycles: period.filter(|_| is_sampling),
        samples_are_split: node(ordinal).filter(|_| is_sampling).map(|_| true),
        ..blame::launch_run(run_id, ordinal, matched)
    }
}

fn other_launch_run(run_id: RunId, matched: Match) -> LaunchRun {
    let is_sampling = run_id == OTHER_SAMPLES;
    LaunchRun {
        kernel_id: KernelId(OTHER),
        request_count: (!is_sampling).then_some(0),
        lane_access_count: (!is_sampling).then_some(0),
        sample_count: is_sampling.then_some(100),
        lost_sample_count: is_sampling.then_some(20),
        ..blame::launch_run(run_id, 0, matched)
    }
}

/// Op 0 is in the regions `step` and `forward`. Op 3 computes its gradient, in no region. Op 1 is in `step`.
fn region(number: u64) -> Op {
    let (name, parent) = if number == 4 { ("step", None) } else { ("forward", Some(OpId(4))) };
    let begin_ns = 20;
    let name = name.to_owned();
    Op { op_id: OpId(number), kind: OpKind::Region, name, parent_op_id: parent, begin_ns, ..op(0) }
}

/// Ops 1 and 2 capture the nodes of the graph.
fn op(number: u64) -> Op {
    let begin_ns = [40, 110, 220, 2300][usize::try_from(number).unwrap()];
    Op {
        op_id: OpId(number),
        run_id: ACCESSES,
        kind: OpKind::Torch,
        name: ["aten::relu", "aten::mul.Tensor", "aten::add.Tensor", "aten::relu"]
            [usize::try_from(number).unwrap()]
        .to_owned(),
        parent_op_id: [Some(5), Some(4), None, None][usize::try_from(number).unwrap()].map(OpId),
        begin_ns,
        end_ns: Some(begin_ns + 20),
        phase: Phase::Forward,
        forward_op_id: (number == 3).then_some(OpId(0)),
        ..Op::default()
    }
}

/// All except the last lie at A, one after the other. The graph continues to use `one` and `two` after they are freed.
fn storages() -> Vec<Storage> {
    let storage = |number, address, (alloc_ordinal, alloc_ns), freed: Option<(u64, i64)>| Storage {
        alloc_ordinal,
        alloc_ns,
        free_ordinal: freed.map(|(ordinal, _)| ordinal),
        free_ns: freed.map(|(_, ns)| ns),
        origin: StorageOrigin::Allocator,
        storage_id: StorageId(number),
        ..blame::storage(number, address)
    };
    vec![
        storage(1, A, (0, 10), Some((1, 90))),
        storage(2, A, (1, 100), Some((2, 200))),
        storage(3, A, (2, 210), Some((3, 300))),
        storage(4, A, (3, 1000), None),
        storage(5, B, (0, 5), None),
    ]
}

fn tensor(number: u64) -> Tensor {
    let name = ["first", "one", "two", "later", "weight"][usize::try_from(number).unwrap() - 1];
    Tensor { name: Some(name.to_owned()), ..blame::tensor(number, if number == 5 { B } else { A }) }
}

fn accesses() -> Vec<MemoryAccess> {
    let first = blame::accesses().into_iter().next().unwrap();
    ORDINALS[..6]
        .iter()
        .map(|&kernel| MemoryAccess { kernel_id: KernelId(kernel), address: Address(A), ..first.clone() })
        .collect()
}

fn samples() -> Vec<PcSample> {
    let sample = |(run_id, launch, samples): (RunId, u64, u64)| PcSample {
        run_id,
        kernel_id: KernelId(launch),
        function_id: blame::function(),
        pc: Pc(0xe0),
        stall_reason: "long_scoreboard".to_owned(),
        samples,
        samples_not_issued: 0,
    };
    let taken = [(0, 640), (3, 30), (4, 10), (5, 30), (6, 10), (7, 240), (8, 7)];
    let taken = taken.map(|(launch, samples)| (SAMPLES, launch, samples));
    taken.into_iter().chain([(OTHER_SAMPLES, OTHER, 80)]).map(sample).collect()
}

fn losses() -> Vec<Loss> {
    let loss = |(run_id, kind, reason, lost_count): (RunId, LossKind, &str, u64)| Loss {
        run_id,
        kind,
        reason: reason.to_owned(),
        lost_count,
        kernel_id: reason.ends_with("estimated").then_some(KernelId(7)),
        detail: None,
    };
    [
        (SAMPLES, LossKind::Sample, "launch was not selected", 50),
        (SAMPLES, LossKind::Sample, "taken outside the program's kernels", 5000),
        (SAMPLES, LossKind::Sample, "the hardware buffer was full: estimated", 80),
        (OTHER_ACCESSES, LossKind::Launch, "launch of a module that was not seen", 2),
        (OTHER_SAMPLES, LossKind::Sample, "dropped by the hardware", 20),
    ]
    .map(loss)
    .to_vec()
}

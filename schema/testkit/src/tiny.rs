//! A capture that can be read by eye, complete in every table.
//!
//! Two steps of a program: an embedding gathers rows of a table into `x`, an addition reads `x` and writes it in
//! place, and its backward writes `y`, which lies where `x` was. Nearly all samples wait for the embedding's table.
//!
//! | kernel_id | function | reads | writes |
//! |---|---|---|---|
//! | 0 | gather | table (irregular), by 2 warps | x |
//! | 1 | add | x | x |
//! | 2 | add | y (backwards), one address outside any tensor | y |
//!
//! The first addition is a bundle too, and was replayed for its counters.

use std::path::Path;

use crate::replay;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::capture::writer::{CaptureWriter, Form};
use stallmap_schema::cell::Blob;
use stallmap_schema::hash;
use stallmap_schema::id::{
    Address, AllocationId, FunctionId, KernelId, OpId, Pc, PystatesHash, RunId, StorageId, TensorId,
};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{GraphLaunch, Launch, LaunchParameter, LaunchRun, TensorMap};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::{AccessSummary, DeviceAllocation, Memcpy, MemoryAccess, Memset};
use stallmap_schema::tables::python::{PythonFrame, PythonState, SourceLine};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::{
    AccessKind, ActivityKind, CopyKind, Direction, Instrument, LossKind, Match, OpKind, Phase, Space,
    StorageOrigin, SynchronizationKind,
};

/// Start of the driver's one allocation.
const POOL: u64 = 0x7f00_0000_0000;
/// The embedding's table: 1,024 rows of 16 floats.
const TABLE: u64 = POOL;
/// `x`, and when it is freed `y`: 64 floats.
pub(crate) const REUSED: u64 = POOL + 0x1_0000;
/// Inside the allocation, outside every storage.
const STRAY: u64 = POOL + 0x8_0000;
/// The first moment of the recording.
const START_NS: i64 = 1_700_000_000_000_000_000;
/// Its functions in machine code: see `tiny.cu`.
const CUBIN: &[u8] = include_bytes!("tiny.cubin");

pub(crate) const ACCESSES: RunId = RunId(1);
const SAMPLES: RunId = RunId(2);
pub(crate) const COUNTERS: RunId = RunId(3);

/// Writes the capture.
pub fn write(output: &Path, form: Form) -> Result<Manifest, CaptureError> {
    let mut writer = CaptureWriter::create(output, form)?;
    runs(&mut writer)?;
    code(&mut writer)?;
    launches(&mut writer)?;
    python(&mut writer)?;
    ops(&mut writer)?;
    storages(&mut writer)?;
    memory(&mut writer)?;
    writer.append_rows(accesses())?;
    writer.append_rows(summaries())?;
    writer.append_rows(samples())?;
    replay::write(&mut writer)?;
    writer.append_rows([Loss {
        run_id: SAMPLES,
        kind: LossKind::Sample,
        reason: "hardware buffer full".to_owned(),
        lost_count: 4,
        kernel_id: Some(kernel(0)),
        detail: None,
    }])?;
    writer.finish()
}

pub(crate) fn kernel(ordinal: u64) -> KernelId {
    KernelId(ordinal)
}

fn op(number: u64) -> OpId {
    OpId(number)
}

fn storage(number: u64) -> StorageId {
    StorageId(number)
}

fn tensor(number: u64) -> TensorId {
    TensorId(number)
}

fn gather() -> FunctionId {
    hash::function_id(hash::module_id(CUBIN), "_Z6gatherPKfjPf")
}

pub(crate) fn add() -> FunctionId {
    hash::function_id(hash::module_id(CUBIN), "_Z3addPff")
}

fn at(milliseconds: i64) -> i64 {
    START_NS + milliseconds * 1_000_000
}

fn runs(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let run = |run_id: RunId, instrument| Run {
        run_id,
        instrument,
        reference_run_id: ACCESSES,
        program: "python".to_owned(),
        arguments: r#"["train.py"]"#.to_owned(),
        working_directory: "/home/user".to_owned(),
        host: "host".to_owned(),
        system: "Linux 6.8.0 x86_64".to_owned(),
        process_id: 100 + run_id.0,
        started_ns: START_NS,
        ended_ns: Some(at(100)),
        clock_offset_ns: START_NS,
        exit_code: Some(0),
        exit_signal: None,
        driver_version: Some("580.159.04".to_owned()),
        cuda_version: Some(13000),
        instrument_version: None,
        python_version: Some("3.12.3".to_owned()),
        torch_version: Some("2.11.0".to_owned()),
        sampling_period_cycles: (instrument == Instrument::PcSamples).then_some(1024),
        parent_process_id: None,
        rank: None,
        local_rank: None,
        world_size: None,
    };
    let replay = Run { started_ns: at(200), ended_ns: Some(at(300)), ..run(COUNTERS, Instrument::Counters) };
    writer.append_rows([run(ACCESSES, Instrument::Accesses), run(SAMPLES, Instrument::PcSamples), replay])?;
    writer.append_rows([ACCESSES, SAMPLES].map(|run_id| RunOption {
        run_id,
        name: "kernels".to_owned(),
        value: ".*".to_owned(),
    }))?;
    writer.append_rows([ACCESSES, SAMPLES, COUNTERS].map(|run_id| Device {
        run_id,
        device_id: 0,
        name: "NVIDIA H200".to_owned(),
        compute_major: 9,
        compute_minor: 0,
        multiprocessor_count: 132,
        memory_bytes: 150_000_000_000,
        l2_bytes: 62_914_560,
        sm_clock_khz: 1_980_000,
        memory_clock_khz: 3_201_000,
        uuid: None,
    }))
}

fn code(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let content_hash = blake3::hash(CUBIN).to_hex().to_string();
    let file = writer.add_cubin(&content_hash, CUBIN)?;
    writer.append_rows([Module {
        module_id: hash::module_id(CUBIN),
        content_hash,
        cubin_bytes: CUBIN.len() as u64,
        cupti_crc: Some(0x1234),
        sm: Some(90),
        file: Some(file),
        zeroed_bytes: 0,
    }])?;
    let function = |function_id, name: &str, demangled: &str, code_bytes| Function {
        function_id,
        module_id: hash::module_id(CUBIN),
        name: name.to_owned(),
        demangled_name: demangled.to_owned(),
        is_kernel: true,
        code_bytes: Some(code_bytes),
        memory_instruction_count: Some(2),
        uncovered_instruction_count: Some(0),
    };
    let mut functions = [
        function(gather(), "_Z6gatherPKfjPf", "gather(float const*, unsigned int, float*)", 0x200),
        function(add(), "_Z3addPff", "add(float*, float)", 0x180),
    ];
    functions.sort_by_key(|function| function.function_id);
    writer.append_rows(functions)
}

fn launches(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    // Of each launch: the function, its op, its n-th occurrence.
    let launches = [(gather(), 2, inner_state()), (add(), 3, outer_state()), (add(), 4, outer_state())];
    writer.append_rows((0_u64..).zip(launches).map(|(ordinal, (function_id, number, state))| Launch {
        kernel_id: kernel(ordinal),
        run_id: ACCESSES,
        function_id,
        ordinal,
        occurrence: 0,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 64,
        block_y: 1,
        block_z: 1,
        cluster_x: None,
        cluster_y: None,
        cluster_z: None,
        dynamic_shared_bytes: Some(0),
        static_shared_bytes: Some(0),
        local_bytes: Some(0),
        register_count: Some(16),
        device_id: 0,
        op_id: Some(op(number)),
        pystates_hash: Some(state),
        graph_id: None,
        graph_launch: None,
        graph_node: None,
        capture_ordinal: None,
        accesses_of: None,
    }))?;
    launch_runs(writer)?;
    parameters(writer)
}

fn launch_runs(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let requests = [(4, 128), (4, 128), (3, 65)];
    let sample_counts = [(100, Some(4)), (10, Some(0)), (12, Some(0))];
    let run = |run_id: RunId, ordinal: u64| LaunchRun {
        run_id,
        ordinal,
        kernel_id: kernel(ordinal),
        matched: if run_id == ACCESSES { Match::Reference } else { Match::Matched },
        match_reason: None,
        thread_id: 0,
        stream_id: 0,
        correlation_id: (run_id == SAMPLES).then_some(ordinal + 1),
        begin_ns: at(10 + 10 * i64::try_from(ordinal).unwrap_or(0)),
        end_ns: Some(at(12 + 10 * i64::try_from(ordinal).unwrap_or(0))),
        recorded: true,
        request_count: None,
        lane_access_count: None,
        lost_request_count: None,
        sample_count: None,
        lost_sample_count: None,
        sampling_period_cycles: None,
        samples_are_split: None,
    };
    writer.append_rows((0_u64..).zip(requests).map(|(ordinal, (request_count, lanes))| LaunchRun {
        request_count: Some(request_count),
        lane_access_count: Some(lanes),
        lost_request_count: Some(0),
        ..run(ACCESSES, ordinal)
    }))?;
    writer.append_rows((0_u64..).zip(sample_counts).map(|(ordinal, (taken, lost))| LaunchRun {
        sample_count: Some(taken),
        lost_sample_count: lost,
        ..run(SAMPLES, ordinal)
    }))?;
    writer.append_rows([LaunchRun {
        ordinal: 0,
        matched: Match::Replayed,
        begin_ns: at(210),
        end_ns: Some(at(211)),
        ..run(COUNTERS, 1)
    }])
}

fn parameters(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    // A graph without kernels.
    writer.append_rows([GraphLaunch {
        run_id: ACCESSES,
        graph_id: 0,
        graph_launch: 0,
        ordinal: 3,
        kernel_count: 0,
        thread_id: 0,
        stream_id: 0,
        begin_ns: at(60),
        end_ns: Some(at(61)),
        op_id: None,
        pystates_hash: None,
    }])?;
    // A wait: no launch has a measured time.
    writer.append_rows([GpuActivity {
        run_id: ACCESSES,
        activity_id: 0,
        kind: ActivityKind::Synchronization,
        kernel_id: None,
        kernel_name: None,
        device_id: None,
        stream_id: Some(0),
        begin_ns: at(60),
        end_ns: Some(at(61)),
        size_bytes: None,
        copy_kind: None,
        peer_device_id: None,
        synchronization: Some(SynchronizationKind::Stream),
        correlation_id: Some(7),
    }])?;
    writer.append_rows((0..3).map(|ordinal| LaunchParameter {
        kernel_id: kernel(ordinal),
        bytes: Blob(REUSED.to_le_bytes().to_vec()),
        offsets: vec![0],
        sizes: vec![8],
    }))?;
    writer.append_rows([TensorMap {
        kernel_id: kernel(2),
        parameter_offset: 0,
        address: Address(REUSED),
        sizes: vec![16, 4],
        strides: vec![64],
        box_sizes: vec![16, 2],
        element_type: Some(7),
        element_bytes: Some(4),
    }])
}

fn frames() -> [PythonFrame; 2] {
    let frame = |file: &str, function: &str, first_line, line| PythonFrame {
        frame_id: hash::frame_id(file, function, first_line, line),
        file: file.to_owned(),
        original_file: format!("/home/user/{file}"),
        function: function.to_owned(),
        first_line,
        line,
    };
    [frame("model.py", "Model.forward", 10, 12), frame("train.py", "<module>", 1, 30)]
}

/// `Model.forward`, called by the script.
fn inner_state() -> PystatesHash {
    hash::pystates_hash(&frames().map(|frame| frame.frame_id))
}

/// The script itself.
fn outer_state() -> PystatesHash {
    hash::pystates_hash(&[frames()[1].frame_id])
}

fn python(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let [inner, outer] = frames();
    let state = |pystates_hash, depth, frame: &PythonFrame| PythonState {
        pystates_hash,
        depth,
        frame_id: frame.frame_id,
        run_id: ACCESSES,
    };
    let mut states =
        [state(inner_state(), 0, &inner), state(inner_state(), 1, &outer), state(outer_state(), 0, &outer)];
    states.sort_by_key(|state| (state.pystates_hash, state.depth));
    let mut frames = [inner, outer];
    frames.sort_by_key(|frame| frame.frame_id);
    writer.append_rows(frames)?;
    writer.append_rows(states)?;
    let line = |file: &str, line, text: &str| SourceLine { file: file.into(), line, text: Some(text.into()) };
    writer.append_rows([
        line("/home/user/model.py", 12, "        hidden = self.embedding(tokens)"),
        line("/home/user/train.py", 30, "train(Model())"),
    ])
}

fn ops(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let call = |number, name: &str, begin: i64, end: i64| Op {
        op_id: op(number),
        run_id: ACCESSES,
        kind: OpKind::Torch,
        name: name.to_owned(),
        parent_op_id: Some(op(1)),
        thread_id: 0,
        begin_ns: at(begin),
        end_ns: Some(at(end)),
        phase: Phase::Forward,
        step: 0,
        sequence_number: None,
        autograd_node: None,
        forward_op_id: None,
        module_path: None,
        pystates_hash: Some(outer_state()),
    };
    writer.append_rows([
        Op { kind: OpKind::Region, parent_op_id: None, phase: Phase::Other, ..call(1, "step", 5, 50) },
        Op {
            module_path: Some("embedding".to_owned()),
            sequence_number: Some(0),
            pystates_hash: Some(inner_state()),
            ..call(2, "aten::embedding", 9, 15)
        },
        Op { sequence_number: Some(1), ..call(3, "aten::add_.Tensor", 19, 25) },
        Op {
            phase: Phase::Backward,
            sequence_number: Some(1),
            autograd_node: Some("AddBackward0".to_owned()),
            forward_op_id: Some(op(3)),
            ..call(4, "aten::mul.Tensor", 29, 35)
        },
    ])?;
    let part = |number, direction, position, tensor_number| OpTensor {
        op_id: op(number),
        direction,
        position,
        element: 0,
        tensor_id: tensor(tensor_number),
        argument: (direction != Direction::Out).then(|| "self".to_owned()),
    };
    writer.append_rows([
        part(2, Direction::In, 0, 1),
        part(2, Direction::Out, 0, 2),
        part(3, Direction::InOut, 0, 2),
        part(4, Direction::In, 0, 4),
        part(4, Direction::Out, 0, 3),
    ])
}

fn storages(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let block = |number, address, size_bytes| Storage {
        storage_id: storage(number),
        run_id: ACCESSES,
        device_id: 0,
        address: Address(address),
        size_bytes,
        alloc_ns: at(9),
        free_ns: None,
        alloc_ordinal: 0,
        free_ordinal: None,
        origin: StorageOrigin::Allocator,
        op_id: Some(op(2)),
    };
    writer.append_rows([
        Storage {
            alloc_ns: at(1),
            origin: StorageOrigin::Tensor,
            op_id: None,
            ..block(1, TABLE, 1024 * 16 * 4)
        },
        Storage { free_ns: Some(at(27)), free_ordinal: Some(2), ..block(2, REUSED, 512) },
        Storage { alloc_ns: at(29), alloc_ordinal: 2, op_id: Some(op(4)), ..block(3, REUSED, 512) },
    ])?;
    let view = |number, storage_number, address, sizes: [i64; 2]| Tensor {
        tensor_id: tensor(number),
        run_id: ACCESSES,
        storage_id: storage(storage_number),
        base_tensor_id: None,
        op_id: None,
        address: Address(address),
        dtype: "float32".to_owned(),
        element_bytes: 4,
        sizes: sizes.to_vec(),
        strides: vec![sizes[1], 1],
        span_bytes: (sizes[0] * sizes[1]).unsigned_abs() * 4,
        is_contiguous: true,
        name: None,
        role: None,
    };
    writer.append_rows([
        Tensor {
            name: Some("embedding.weight".to_owned()),
            role: Some("parameter".to_owned()),
            ..view(1, 1, TABLE, [1024, 16])
        },
        Tensor { op_id: Some(op(2)), ..view(2, 2, REUSED, [4, 16]) },
        Tensor { op_id: Some(op(4)), ..view(3, 3, REUSED, [4, 16]) },
        // The transpose of `y`.
        Tensor {
            base_tensor_id: Some(tensor(3)),
            strides: vec![1, 16],
            is_contiguous: false,
            ..view(4, 3, REUSED, [16, 4])
        },
    ])
}

fn memory(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([DeviceAllocation {
        allocation_id: AllocationId(1),
        run_id: ACCESSES,
        device_id: 0,
        address: Address(POOL),
        size_bytes: 2 << 20,
        alloc_ns: at(0),
        free_ns: None,
        alloc_ordinal: 0,
        free_ordinal: None,
        flags: 0,
    }])?;
    writer.append_rows([Memcpy {
        run_id: ACCESSES,
        kind: CopyKind::HostToDevice,
        source: Address(0x5500_0000_0000),
        destination: Address(TABLE),
        size_bytes: 1024 * 16 * 4,
        stream_id: 0,
        ordinal: 0,
        begin_ns: at(2),
        op_id: None,
    }])?;
    writer.append_rows([Memset {
        run_id: ACCESSES,
        address: Address(REUSED),
        size_bytes: 256,
        value: 0,
        element_bytes: 4,
        stream_id: 0,
        ordinal: 2,
        begin_ns: at(29),
        op_id: Some(op(4)),
    }])
}

/// Two warps of 32 lanes gather rows of the table and write `x`. The other warps read and write in order.
fn accesses() -> Vec<MemoryAccess> {
    let access = |ordinal, function_id, pc, warp, sequence, kind| MemoryAccess {
        kernel_id: kernel(ordinal),
        function_id,
        pc: Pc(pc),
        block: 0,
        warp,
        sequence,
        kind,
        space: Space::Global,
        access_bytes: 4,
        lane_mask: u32::MAX,
        address: Address(REUSED + 128 * u64::from(warp)),
        span_bytes: 128,
        stride_bytes: Some(4),
        offsets: None,
        offset_shift: 0,
    };
    // Row numbers that a text might have: frequent ones are small. Lane 5 has row 0, the lowest address.
    let rows = |lane: u32, warp: u32| if lane == 5 { 0 } else { (lane * lane * 31 + warp * 7) % 1024 };
    let gathered = |warp: u16| {
        let offsets: Vec<u32> = (0..32).map(|lane| rows(lane, warp.into()) * 16).collect();
        let last = offsets.iter().max().copied().unwrap_or(0);
        MemoryAccess {
            address: Address(TABLE),
            span_bytes: u64::from(last) * 4 + 4,
            stride_bytes: None,
            offsets: Some(offsets),
            offset_shift: 2,
            ..access(0, gather(), 0xd0, warp, u64::from(warp), AccessKind::Read)
        }
    };
    vec![
        gathered(0),
        gathered(1),
        access(0, gather(), 0x100, 0, 2, AccessKind::Write),
        access(0, gather(), 0x100, 1, 3, AccessKind::Write),
        access(1, add(), 0x90, 0, 0, AccessKind::Read),
        access(1, add(), 0x90, 1, 1, AccessKind::Read),
        access(1, add(), 0xb0, 0, 2, AccessKind::Write),
        access(1, add(), 0xb0, 1, 3, AccessKind::Write),
        MemoryAccess { stride_bytes: Some(-4), ..access(2, add(), 0x90, 0, 0, AccessKind::Read) },
        MemoryAccess {
            lane_mask: 1,
            address: Address(STRAY),
            span_bytes: 4,
            stride_bytes: Some(0),
            ..access(2, add(), 0x90, 1, 1, AccessKind::Read)
        },
        access(2, add(), 0xb0, 1, 2, AccessKind::Write),
    ]
}

/// The accesses of the second launch, counted: one block of 64 floats, read and written.
fn summaries() -> [AccessSummary; 2] {
    [(0x90, AccessKind::Read), (0xb0, AccessKind::Write)].map(|(pc, kind)| AccessSummary {
        kernel_id: kernel(1),
        function_id: add(),
        pc: Pc(pc),
        kind,
        space: Space::Global,
        block_address: Some(Address(REUSED)),
        address: Address(REUSED),
        span_bytes: 256,
        request_count: 2,
        shared_request_count: 0,
        lane_count: 64,
        sectors: 8,
        unique_bytes: 256,
        ideal_sectors: 8,
    })
}

/// The instruction behind each load waits for it.
fn samples() -> Vec<PcSample> {
    let sample = |ordinal, function_id, pc, stall_reason: &str, samples| PcSample {
        run_id: SAMPLES,
        kernel_id: kernel(ordinal),
        function_id,
        pc: Pc(pc),
        stall_reason: stall_reason.to_owned(),
        samples,
        samples_not_issued: samples / 2,
    };
    vec![
        sample(0, gather(), 0xd0, "lg_throttle", 6),
        sample(0, gather(), 0xf0, "long_scoreboard", 84),
        sample(0, gather(), 0x100, "wait", 6),
        sample(1, add(), 0xa0, "long_scoreboard", 7),
        sample(1, add(), 0xb0, "selected", 3),
        sample(2, add(), 0xa0, "long_scoreboard", 9),
        sample(2, add(), 0xb0, "selected", 3),
    ]
}

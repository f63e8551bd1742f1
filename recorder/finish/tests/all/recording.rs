//! A recording as the injected library writes it: two runs of a program of four launches.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap_schema::capture::recording::{
    AllocationEvent, CodeRange, OpEnd, RawSample, RunFact, StorageEvent, TensorName,
};
use stallmap_schema::capture::request::{OFFSETS_32, READ, REGULAR, RequestHeader, WRITE};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::cell::Blob;
use stallmap_schema::hash;
use stallmap_schema::id::{
    Address, AllocationId, FunctionId, KernelId, ModuleId, OpId, Pc, PystatesHash, RunId, StorageId, TensorId,
};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::tensor::{Op, OpTensor, Tensor};
use stallmap_schema::word::{Direction, Instrument, Match, OpKind, Phase, StorageOrigin};

/// A real cubin for sm_90a, compiled from `memory.ptx`.
pub(crate) const CUBIN: &[u8] = include_bytes!("../memory.cubin");
/// CUPTI's name of it.
const CRC: u64 = 0xc0de;
/// Address of its kernel in the access run.
pub(crate) const CODE: u64 = 0x7fff_0000_1000;
pub(crate) const KERNEL: &str = "every_kind";
/// A function that the kernel calls, behind the kernel's own code.
pub(crate) const CALLEE: &str = "$every_kind$scale";
/// Offset of the callee in the kernel's section.
pub(crate) const CALLEE_OFFSET: u64 = 0x870;

/// Records of one launch.
pub(crate) const REQUESTS: u64 = 6;

pub(crate) fn module() -> ModuleId {
    hash::module_id(CUBIN)
}

pub(crate) fn kernel() -> FunctionId {
    hash::function_id(module(), KERNEL)
}

/// Writes the recording. Returns its folder.
pub(crate) fn write(folder: &Path) -> PathBuf {
    write_with(folder, |_| ())
}

/// Writes the recording, with more at the end of its access run.
pub(crate) fn write_with(folder: &Path, more: impl FnOnce(&mut SegmentWriter)) -> PathBuf {
    let partial = folder.join("program.stallmap.partial");
    fs::create_dir_all(partial.join("cubins")).unwrap();
    let name = format!("{}.cubin", blake3::hash(CUBIN).to_hex());
    fs::write(partial.join("cubins").join(name), CUBIN).unwrap();
    let recording = r#"{"program": "python", "arguments": ["train.py", "--fast"], "options": [{"name": "every", "value": "1"}],
        "passes": [{"instrument": "accesses", "process_id": 10, "started_ns": 5, "exit_code": 0},
                   {"instrument": "pc_samples", "process_id": 20, "started_ns": 6, "exit_code": 0}]}"#;
    fs::write(partial.join("recording.json"), recording).unwrap();
    accesses(&partial, more);
    samples(&partial);
    partial
}

/// Replaces the access run by one with a single launch of these requests.
pub(crate) fn with_requests(partial: &Path, records: &[u8]) {
    with_requests_and(partial, records, |_| ());
}

/// Replaces the access run by one with a single launch of these requests, and more at its end.
pub(crate) fn with_requests_and(partial: &Path, records: &[u8], more: impl FnOnce(&mut SegmentWriter)) {
    fs::remove_dir_all(partial.join("run-accesses-10")).unwrap();
    let mut segment = segment(partial, "run-accesses-10");
    describe_run(&mut segment, Instrument::Accesses, 10);
    python(&mut segment);
    before_launch(&mut segment, 0);
    segment.append_requests(0, records).unwrap();
    put(&mut segment, [launch_run(0)]);
    more(&mut segment);
    put(&mut segment, [fact("clean_end", "true")]);
}

/// Adds a process that the program started.
pub(crate) fn add_child(partial: &Path, instrument: Instrument, process_id: u32, program: &str) {
    let mut segment = segment(partial, &format!("run-{}-{process_id}", instrument.word()));
    put(&mut segment, [Run { program: program.into(), ..run(instrument, process_id) }]);
    put(&mut segment, [fact("clean_end", "true")]);
}

pub(crate) fn segment(partial: &Path, name: &str) -> SegmentWriter {
    fs::create_dir_all(partial.join(name)).unwrap();
    SegmentWriter::create(&partial.join(name).join("rows.seg")).unwrap()
}

pub(crate) fn put<R: TableRow>(segment: &mut SegmentWriter, rows: impl IntoIterator<Item = R>) {
    segment.append_batch(R::TABLE.name, &R::batch(rows).unwrap()).unwrap();
}

fn accesses(partial: &Path, more: impl FnOnce(&mut SegmentWriter)) {
    let mut segment = segment(partial, "run-accesses-10");
    describe_run(&mut segment, Instrument::Accesses, 10);
    python(&mut segment);
    for ordinal in 0..4 {
        before_launch(&mut segment, ordinal);
        segment.append_requests(ordinal, &requests(ordinal)).unwrap();
        let count = Some(REQUESTS);
        put(
            &mut segment,
            [LaunchRun { request_count: count, lost_request_count: Some(0), ..launch_run(ordinal) }],
        );
        put(&mut segment, [OpEnd { op_id: OpId(ordinal + 1), end_ns: 20 + ordinal.cast_signed() * 10 }]);
    }
    more(&mut segment);
    put(&mut segment, [fact("ended_ns", "99"), fact("clean_end", "true"), fact("torch_version", "2.11.0")]);
}

fn samples(partial: &Path) {
    let mut segment = segment(partial, "run-pc_samples-20");
    describe_run(&mut segment, Instrument::PcSamples, 20);
    for ordinal in 0..5 {
        // The fifth is one more than the access run had.
        before_launch(&mut segment, ordinal);
        let correlation_id = Some(100 + ordinal);
        put(&mut segment, [LaunchRun { correlation_id, ..launch_run(ordinal) }]);
        let stalled = "smsp__pcsamp_warps_issue_stalled_long_scoreboard";
        put(
            &mut segment,
            [
                sample(ordinal, KERNEL, 0x90, stalled, 7),
                sample(ordinal, KERNEL, 0x90, &format!("{stalled}_not_issued"), 4),
                sample(ordinal, KERNEL, 0x90, stalled, 1),
                sample(ordinal, CALLEE, 0x20, "smsp__pcsamp_warps_issue_stalled_wait", 2),
                sample(ordinal, "not a function", 0x20, stalled, 3),
            ],
        );
    }
    put(&mut segment, [sample(77, KERNEL, 0x90, "smsp__pcsamp_warps_issue_stalled_wait", 9)]);
    put(&mut segment, [fact("clean_end", "true"), fact("sampling_period_cycles", "256")]);
}

/// Replaces the sampling run by one with these rows.
pub(crate) fn with_samples(partial: &Path, rows: impl FnOnce(&mut SegmentWriter)) {
    fs::remove_dir_all(partial.join("run-pc_samples-20")).unwrap();
    let mut segment = segment(partial, "run-pc_samples-20");
    describe_run(&mut segment, Instrument::PcSamples, 20);
    for ordinal in 0..4 {
        op(&mut segment, ordinal);
    }
    rows(&mut segment);
    put(&mut segment, [fact("clean_end", "true"), fact("sampling_period_cycles", "256")]);
}

pub(crate) fn run(instrument: Instrument, process_id: u32) -> Run {
    Run {
        instrument,
        program: "/usr/bin/python3".into(),
        arguments: "[]".into(),
        working_directory: "/".into(),
        host: "host".into(),
        system: "Linux".into(),
        process_id,
        started_ns: 7,
        clock_offset_ns: 1,
        ..Run::default()
    }
}

pub(crate) fn describe_run(segment: &mut SegmentWriter, instrument: Instrument, process_id: u32) {
    put(segment, [run(instrument, process_id)]);
    put(segment, [RunOption { run_id: RunId(0), name: "spaces".into(), value: "[]".into() }]);
    put(
        segment,
        [Device {
            name: "GPU".into(),
            compute_major: 9,
            multiprocessor_count: 132,
            memory_bytes: 1 << 37,
            l2_bytes: 1 << 25,
            sm_clock_khz: 1,
            memory_clock_khz: 1,
            ..Device::default()
        }],
    );
    let is_access_run = instrument == Instrument::Accesses;
    put(
        segment,
        [Module {
            module_id: module(),
            content_hash: blake3::hash(CUBIN).to_hex().to_string(),
            cubin_bytes: CUBIN.len() as u64,
            cupti_crc: (!is_access_run).then_some(CRC),
            sm: None,
            file: None,
            zeroed_bytes: 0,
        }],
    );
    put(
        segment,
        [CodeRange {
            function_id: kernel(),
            module_id: module(),
            name: KERNEL.into(),
            is_kernel: true,
            address: Address(if is_access_run { CODE } else { 0 }),
            code_bytes: if is_access_run { 2560 } else { 0 },
            ordinal: 0,
        }],
    );
}

pub(crate) fn state() -> PystatesHash {
    hash::pystates_hash(&[hash::frame_id("train.py", "<module>", 1, 5)])
}

pub(crate) fn python(segment: &mut SegmentWriter) {
    let frame_id = hash::frame_id("train.py", "<module>", 1, 5);
    put(
        segment,
        [PythonFrame {
            frame_id,
            file: "train.py".into(),
            original_file: "/home/me/train.py".into(),
            function: "<module>".into(),
            first_line: 1,
            line: 5,
        }],
    );
    put(segment, [PythonState { pystates_hash: state(), depth: 0, frame_id, run_id: RunId(0) }]);
    put(
        segment,
        [AllocationEvent {
            allocation_id: AllocationId(1),
            address: Address(1 << 32),
            size_bytes: 1 << 21,
            time_ns: 8,
            op_id: Some(OpId(1)),
            pystates_hash: Some(state()),
            ..AllocationEvent::default()
        }],
    );
}

/// Equal launches with nothing around them.
pub(crate) fn launches(segment: &mut SegmentWriter, count: u64) {
    put(segment, (0..count).map(bare_launch));
    put(segment, (0..count).map(launch_run));
}

/// A launch outside ops.
pub(crate) fn bare_launch(ordinal: u64) -> Launch {
    Launch { op_id: None, pystates_hash: None, ..launch(ordinal) }
}

/// Rows written before a launch runs: op, storage, tensor, the launch itself. Storage 1 is freed before launch
/// 2, and storage 3 takes its address.
fn before_launch(segment: &mut SegmentWriter, ordinal: u64) {
    op(segment, ordinal);
    before_tensor(segment, ordinal);
    put(segment, [launch(ordinal)]);
    put(
        segment,
        [LaunchParameter {
            kernel_id: KernelId(ordinal),
            bytes: Blob(vec![0; 200]),
            offsets: vec![0],
            sizes: vec![200],
        }],
    );
}

/// A launch's op.
fn op(segment: &mut SegmentWriter, ordinal: u64) {
    put(segment, [op_row(ordinal)]);
}

/// A launch's op.
pub(crate) fn op_row(ordinal: u64) -> Op {
    let number = ordinal + 1;
    let time_ns = 10 + ordinal.cast_signed() * 10;
    Op {
        op_id: OpId(number),
        kind: OpKind::Torch,
        name: "aten::add.Tensor".into(),
        begin_ns: time_ns,
        phase: Phase::Forward,
        pystates_hash: Some(state()),
        ..Op::default()
    }
}

/// The storage and the tensor that a launch's op makes.
fn before_tensor(segment: &mut SegmentWriter, ordinal: u64) {
    let number = ordinal + 1;
    let time_ns = 10 + ordinal.cast_signed() * 10;
    let event = |number, is_free, address| StorageEvent {
        storage_id: StorageId(number),
        is_free,
        device_id: 0,
        address: Address(address),
        size_bytes: 512,
        time_ns,
        ordinal,
        origin: StorageOrigin::Allocator,
        op_id: Some(OpId(number)),
    };
    let address = (1 << 32) + 512 * (ordinal % 2);
    if ordinal == 2 {
        put(segment, [event(1, true, 0)]);
    }
    // Storage 2's free is never seen: storage 4 ends it.
    put(segment, [event(number, false, address)]);
    put(
        segment,
        [Tensor {
            tensor_id: TensorId(number),
            storage_id: StorageId(number),
            op_id: Some(OpId(number)),
            address: Address(address),
            dtype: "float32".into(),
            element_bytes: 4,
            sizes: vec![128],
            strides: vec![1],
            span_bytes: 512,
            is_contiguous: true,
            ..Tensor::default()
        }],
    );
    put(
        segment,
        [TensorName { tensor_id: TensorId(number), name: Some("w".into()), role: "parameter".into() }],
    );
    put(
        segment,
        [OpTensor {
            op_id: OpId(number),
            direction: Direction::Out,
            position: 0,
            element: 0,
            tensor_id: TensorId(number),
            argument: None,
        }],
    );
}

pub(crate) fn launch(ordinal: u64) -> Launch {
    Launch {
        kernel_id: KernelId(ordinal),
        function_id: kernel(),
        ordinal,
        grid_x: 2,
        grid_y: 1,
        grid_z: 1,
        block_x: 32,
        block_y: 1,
        block_z: 1,
        op_id: Some(OpId(ordinal + 1)),
        pystates_hash: Some(state()),
        dynamic_shared_bytes: Some(0),
        ..Launch::default()
    }
}

pub(crate) fn launch_run(ordinal: u64) -> LaunchRun {
    LaunchRun {
        ordinal,
        kernel_id: KernelId(ordinal),
        matched: Match::Reference,
        begin_ns: 10 + ordinal.cast_signed() * 10,
        end_ns: Some(15 + ordinal.cast_signed() * 10),
        recorded: true,
        ..LaunchRun::default()
    }
}

pub(crate) fn sample(ordinal: u64, function: &str, pc: u32, reason: &str, samples: u64) -> RawSample {
    RawSample {
        correlation_id: 100 + ordinal,
        cubin_crc: CRC,
        function_name: function.into(),
        pc: Pc(pc),
        stall_reason: reason.into(),
        samples,
        ordinal: None,
        window_id: None,
    }
}

pub(crate) fn fact(name: &str, value: &str) -> RunFact {
    RunFact { name: name.into(), value: value.into() }
}

/// A launch's records: two blocks, each with a regular load, an irregular store, and a load in the callee.
pub(crate) fn requests(ordinal: u64) -> Vec<u8> {
    let mut records = Vec::new();
    for block in [1, 0] {
        let request = RequestHeader {
            address: (1 << 32) + ordinal * 64 + block * 128,
            pc: CODE + 0x40,
            access_bytes: 4,
            flags: READ,
            lane_mask: u32::MAX,
            stride: 4,
            block,
            warp: 0,
            space: 0,
            encoding: REGULAR,
        };
        records.extend(request.write());
        let store =
            RequestHeader { pc: CODE + 0x90, flags: WRITE, stride: 0, encoding: OFFSETS_32, ..request };
        records.extend(store.write());
        records.extend((0..32_i32).flat_map(|lane| ((lane * lane % 17 - 8) * 4).to_le_bytes()));
        let inner = RequestHeader { pc: CODE + CALLEE_OFFSET + 0x20, lane_mask: 1, ..request };
        records.extend(inner.write());
    }
    records
}

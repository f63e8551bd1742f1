//! A capture for the rules of attribution: each class of stall reason, and every unattributed case.
//!
//! One function, `blame.cu`, launched twice under both instruments (a third time under the sampler only). Its
//! instructions:
//!
//! | pc | instruction | launch 0 | launch 1 |
//! |---|---|---|---|
//! | 0x50 | load, device memory | a: 10 sectors, b: 6, in 4 requests | b: 1 request |
//! | 0xe0 | store, shared memory, which waits for it | not recorded | not recorded |
//! | 0x100 | load, shared memory | 1 request | 1 request |
//! | 0x110 | addition, which waits for that | | |
//! | 0x120 | store, device memory | b: 1 request | not recorded |
//! | 0x140 | location of an exited warp until its stores are done | | |
//!
//! It has no ops and no Python: a program in C.

use std::path::Path;

use stallmap_schema::hash;
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc, RunId, StorageId, TensorId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Storage, Tensor};
use stallmap_schema::word::{AccessKind, Instrument, Match, Space, StorageOrigin};
use stallmap_write::{CaptureForm, CaptureWriter};

pub(crate) const ACCESSES: RunId = RunId(1);
const SAMPLES: RunId = RunId(2);
/// Machine code of its function: see `blame.cu`.
const CUBIN: &[u8] = include_bytes!("blame.cubin");
const NAME: &str = "_Z5blamePKfPf";
pub(crate) const A: u64 = 0x1000;
pub(crate) const B: u64 = 0x2000;

/// Writes the capture.
pub(crate) fn write(output: &Path) {
    let mut writer = CaptureWriter::create(output, CaptureForm::File).unwrap();
    writer.append_rows([run(ACCESSES, Instrument::Accesses), run(SAMPLES, Instrument::PcSamples)]).unwrap();
    code(&mut writer);
    writer.append_rows((0..3).map(launch)).unwrap();
    writer.append_rows((0..2).map(|ordinal| launch_run(ACCESSES, ordinal, Match::Reference))).unwrap();
    let matched = [Match::Matched, Match::Matched, Match::Unmatched];
    writer
        .append_rows((0..).zip(matched).map(|(ordinal, matched)| launch_run(SAMPLES, ordinal, matched)))
        .unwrap();
    writer.append_rows([storage(1, A), storage(2, B)]).unwrap();
    writer.append_rows([tensor(1, A), tensor(2, B)]).unwrap();
    writer.append_rows(accesses()).unwrap();
    writer.append_rows(samples()).unwrap();
    writer.finish().unwrap();
}

pub(crate) fn function() -> FunctionId {
    hash::function_id(hash::module_id(CUBIN), NAME)
}

pub(crate) fn code(writer: &mut CaptureWriter) {
    let content_hash = blake3::hash(CUBIN).to_hex().to_string();
    let file = writer.add_cubin(&content_hash, CUBIN).unwrap();
    let module = Module {
        module_id: hash::module_id(CUBIN),
        content_hash,
        cubin_bytes: CUBIN.len() as u64,
        cupti_crc: None,
        sm: Some(90),
        file: Some(file),
        zeroed_bytes: 0,
    };
    let function = Function {
        function_id: function(),
        module_id: module.module_id,
        name: NAME.to_owned(),
        demangled_name: "blame(float const*, float*)".to_owned(),
        is_kernel: true,
        code_bytes: Some(0x200),
        memory_instruction_count: Some(4),
        uncovered_instruction_count: Some(0),
    };
    writer.append_rows([module]).unwrap();
    writer.append_rows([function]).unwrap();
}

pub(crate) fn run(run_id: RunId, instrument: Instrument) -> Run {
    Run {
        run_id,
        instrument,
        reference_run_id: ACCESSES,
        program: "program".to_owned(),
        arguments: "[]".to_owned(),
        ..Run::default()
    }
}

pub(crate) fn launch(ordinal: u64) -> Launch {
    Launch {
        kernel_id: KernelId(ordinal),
        run_id: if ordinal == 2 { SAMPLES } else { ACCESSES },
        function_id: function(),
        ordinal,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 32,
        block_y: 1,
        block_z: 1,
        ..Launch::default()
    }
}

pub(crate) fn launch_run(run_id: RunId, ordinal: u64, matched: Match) -> LaunchRun {
    LaunchRun {
        run_id,
        ordinal,
        kernel_id: KernelId(ordinal),
        matched,
        match_reason: (matched == Match::Unmatched).then(|| "no such launch".to_owned()),
        recorded: true,
        ..LaunchRun::default()
    }
}

pub(crate) fn storage(number: u64, address: u64) -> Storage {
    Storage {
        storage_id: StorageId(number),
        run_id: ACCESSES,
        address: Address(address),
        size_bytes: 0x1000,
        origin: StorageOrigin::Allocator,
        ..Storage::default()
    }
}

pub(crate) fn tensor(number: u64, address: u64) -> Tensor {
    Tensor {
        tensor_id: TensorId(number),
        run_id: ACCESSES,
        storage_id: StorageId(number),
        address: Address(address),
        dtype: "float32".to_owned(),
        element_bytes: 4,
        sizes: vec![1024],
        strides: vec![1],
        span_bytes: 0x1000,
        is_contiguous: true,
        ..Tensor::default()
    }
}

pub(crate) fn accesses() -> Vec<MemoryAccess> {
    let access = |launch, pc, sequence, address, space, kind| MemoryAccess {
        kernel_id: KernelId(launch),
        function_id: function(),
        pc: Pc(pc),
        sequence,
        kind,
        space,
        access_bytes: 4,
        lane_mask: u32::MAX,
        address: Address(address),
        span_bytes: 128,
        stride_bytes: Some(4),
        ..MemoryAccess::default()
    };
    vec![
        access(0, 0x50, 0, A, Space::Global, AccessKind::Read),
        access(0, 0x50, 1, A + 128, Space::Global, AccessKind::Read),
        // Half of its lanes in a, half in b, for this one is the last of a.
        access(0, 0x50, 2, B - 64, Space::Global, AccessKind::Read),
        access(0, 0x50, 3, B + 128, Space::GlobalAsync, AccessKind::Read),
        access(0, 0x100, 4, 0, Space::Shared, AccessKind::Read),
        access(0, 0x120, 5, B, Space::Global, AccessKind::Write),
        access(1, 0x50, 0, B, Space::Global, AccessKind::Read),
        access(1, 0x100, 1, 0, Space::Shared, AccessKind::Read),
    ]
}

fn samples() -> Vec<PcSample> {
    let sample = |launch, pc, reason: &str, samples| PcSample {
        run_id: SAMPLES,
        kernel_id: KernelId(launch),
        function_id: function(),
        pc: Pc(pc),
        stall_reason: reason.to_owned(),
        samples,
        samples_not_issued: 0,
    };
    vec![
        sample(0, 0x50, "lg_throttle", 16),
        // Needs nothing that a load gives.
        sample(0, 0x70, "long_scoreboard", 5),
        sample(0, 0xe0, "long_scoreboard", 160),
        // Accesses no memory.
        sample(0, 0x110, "lg_throttle", 3),
        sample(0, 0x110, "short_scoreboard", 7),
        sample(0, 0x130, "brand_new_reason", 2),
        sample(0, 0x140, "drain", 9),
        sample(1, 0xe0, "long_scoreboard", 10),
        sample(1, 0x140, "drain", 4),
        sample(2, 0xe0, "long_scoreboard", 11),
    ]
}

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

mod launches;
mod memory;
mod python;

use std::path::Path;

use self::launches::launches;
use self::memory::{accesses, counted, memory, storages, summaries};
use self::python::{ops, python};
use crate::{replay, shapes};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, KernelId, OpId, Pc, RunId, StorageId, TensorId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{Instrument, LossKind};
use stallmap_write::{CaptureForm, CaptureWriter};

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
pub fn write(output: &Path, form: CaptureForm) -> Result<Manifest, CaptureError> {
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
    writer.append_rows(shapes::count(&counted()))?;
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
        driver_version: Some("580.159.04".to_owned()),
        cuda_version: Some(13000),
        python_version: Some("3.12.3".to_owned()),
        torch_version: Some("2.11.0".to_owned()),
        sampling_period_cycles: (instrument == Instrument::PcSamples).then_some(1024),
        exit_code: Some(0),
        ..Run::default()
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
        memory_bus_bits: Some(6144),
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

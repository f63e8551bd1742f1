//! Writes the reference data of `scripts/bench` as a capture: `bench_capture OUT [LANE_ACCESSES]`.
//!
//! 2,000 kernels, 50,000 tensors of a caching allocator that reuses addresses, 400,000 sample rows and by default
//! 100 million lane accesses: 70 % of the instructions at unit stride, 15 % strided, 15 % random; 5 %
//! outside every tensor; 15 % alternate between two tensors. The same numbers give the same capture.

mod kernel;
mod memory;
mod random;

use std::path::Path;
use std::process::ExitCode;

use kernel::BenchKernel;
use memory::{BenchTensor, END};
use random::BenchRandom;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::{Address, FunctionId, KernelId, RunId, StorageId, TensorId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::tensor::{Storage, Tensor};
use stallmap_schema::word::{Instrument, Match, StorageOrigin};
use stallmap_write::{CaptureForm, CaptureWriter};

const KERNELS: u64 = 2_000;
const TENSORS: usize = 50_000;
const FUNCTIONS: u64 = 150;
const LANE_ACCESSES: u64 = 100_000_000;
const RUN: RunId = RunId(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(output) = arguments.first() else {
        eprintln!("usage: bench_capture OUT [LANE_ACCESSES]");
        return ExitCode::FAILURE;
    };
    let accesses = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(LANE_ACCESSES);
    match write(Path::new(output), accesses) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(output: &Path, accesses: u64) -> Result<(), CaptureError> {
    let mut random = BenchRandom::new(7);
    let blocks = memory::blocks(TENSORS, &mut random);
    let mut times: Vec<u64> = (0..KERNELS).map(|_| random.within(END / 100, END)).collect();
    times.sort_unstable();
    let mut writer = CaptureWriter::create(output, CaptureForm::Folder)?;
    writer.append_rows([run()])?;
    writer.append_rows((0..KERNELS).map(launch))?;
    writer.append_rows((0..KERNELS).map(launch_run))?;
    writer.append_rows((1..).zip(&blocks).map(|(id, block)| storage(id, block, &times)))?;
    writer.append_rows((1..).zip(&blocks).map(|(id, block)| tensor(id, block)))?;
    let instructions: Vec<u64> = (0..KERNELS).map(|_| random.within(24, 57)).collect();
    let warps = warps(accesses / 32, &instructions, &mut random);
    let mut samples = Vec::new();
    for (number, time) in (0..KERNELS).zip(&times) {
        let live: Vec<BenchTensor> = blocks.iter().filter(|block| block.lives_at(*time)).copied().collect();
        let place = usize::try_from(number).unwrap_or(0);
        let size = (instructions[place], warps[place]);
        let kernel = BenchKernel::new(KernelId(number), function(number), &live, size, &mut random);
        writer.append_rows(kernel.accesses(&mut random))?;
        samples.extend(kernel.samples(&mut random));
    }
    writer.append_rows(samples)?;
    writer.finish()?;
    Ok(())
}

/// Warps of each kernel: log-normal parts, each instruction at least once.
fn warps(total: u64, instructions: &[u64], random: &mut BenchRandom) -> Vec<u64> {
    let weights: Vec<f64> = instructions.iter().map(|_| (1.2 * random.normal()).exp()).collect();
    let (sum, spare) = (weights.iter().sum::<f64>(), total.saturating_sub(instructions.iter().sum()) as f64);
    let part = |weight: &f64| format!("{:.0}", (spare * weight / sum).floor()).parse().unwrap_or(0);
    instructions.iter().zip(&weights).map(|(count, weight): (&u64, &f64)| count + part(weight)).collect()
}

fn function(kernel: u64) -> FunctionId {
    FunctionId(BenchRandom::new(kernel % FUNCTIONS).next())
}

/// The launch with which something that happens at a time begins or ends.
fn ordinal(times: &[u64], time: u64) -> u64 {
    times.partition_point(|&launch| launch < time) as u64
}

fn run() -> Run {
    Run {
        run_id: RUN,
        instrument: Instrument::Accesses,
        reference_run_id: RUN,
        program: "bench".to_owned(),
        arguments: "[]".to_owned(),
        ..Run::default()
    }
}

fn launch(number: u64) -> Launch {
    Launch {
        kernel_id: KernelId(number),
        run_id: RUN,
        function_id: function(number),
        ordinal: number,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 256,
        block_y: 1,
        block_z: 1,
        ..Launch::default()
    }
}

fn launch_run(number: u64) -> LaunchRun {
    LaunchRun {
        run_id: RUN,
        ordinal: number,
        kernel_id: KernelId(number),
        matched: Match::Reference,
        begin_ns: i64::try_from(number).unwrap_or(0),
        recorded: true,
        ..LaunchRun::default()
    }
}

fn storage(id: u64, block: &BenchTensor, times: &[u64]) -> Storage {
    Storage {
        storage_id: StorageId(id),
        run_id: RUN,
        address: Address(block.address),
        size_bytes: block.storage_bytes(),
        alloc_ordinal: ordinal(times, block.allocated),
        free_ordinal: block.dead.map(|dead| ordinal(times, dead)),
        origin: StorageOrigin::Allocator,
        ..Storage::default()
    }
}

fn tensor(id: u64, block: &BenchTensor) -> Tensor {
    Tensor {
        tensor_id: TensorId(id),
        run_id: RUN,
        storage_id: StorageId(id),
        address: Address(block.address),
        dtype: "float16".to_owned(),
        element_bytes: 2,
        sizes: vec![i64::try_from(block.bytes / 2).unwrap_or(0)],
        strides: vec![1],
        span_bytes: block.bytes,
        is_contiguous: true,
        ..Tensor::default()
    }
}

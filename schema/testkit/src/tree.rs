//! A capture with as many launches as one likes.
//!
//! Each launch has a Python stack of five frames, which it shares with others but for the innermost two, a kernel out of
//! 40, and a tensor of its own that lives for a while: 6,500 launches are a tree of 20,216 nodes. The same numbers give
//! the same capture.

use std::path::Path;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::hash;
use stallmap_schema::id::{
    Address, FrameId, FunctionId, KernelId, ModuleId, Pc, PystatesHash, RunId, StorageId, TensorId,
};
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Storage, Tensor};
use stallmap_schema::word::{Instrument, Match, StorageOrigin};
use stallmap_write::{CaptureForm, CaptureWriter};

const KERNELS: u64 = 40;
const ACCESSES: RunId = RunId(1);
const SAMPLES: RunId = RunId(2);

/// Writes the capture. `named` turns each name of this file into a name that a program gives.
pub fn write(output: &Path, launches: u64, named: fn(&str) -> String) -> Result<(), CaptureError> {
    let stack = |number| stack(number, named);
    let mut writer = CaptureWriter::create(output, CaptureForm::File)?;
    writer.append_rows([
        run(ACCESSES, Instrument::Accesses, named),
        run(SAMPLES, Instrument::PcSamples, named),
    ])?;
    writer.append_rows((0..KERNELS).map(|kernel| function(kernel, named)))?;
    writer.append_rows((0..launches).map(|number| launch(number, named)))?;
    writer.append_rows((0..launches).map(|number| launch_run(ACCESSES, number)))?;
    writer.append_rows((0..launches).map(|number| launch_run(SAMPLES, number)))?;
    let mut frames: Vec<PythonFrame> = (0..launches).flat_map(stack).collect();
    frames.sort_by_key(|frame| frame.frame_id);
    frames.dedup();
    writer.append_rows(frames)?;
    let mut states: Vec<PythonState> = (0..launches).flat_map(|number| states(number, named)).collect();
    states.sort_by_key(|state| (state.pystates_hash, state.depth));
    writer.append_rows(states)?;
    writer.append_rows((0..launches).map(sample))?;
    writer.append_rows((0..launches).map(storage))?;
    writer.append_rows((0..launches).map(|number| tensor(number, named)))?;
    writer.finish().map(drop)
}

/// The frames of a launch's stack, innermost first.
fn stack(number: u64, named: fn(&str) -> String) -> [PythonFrame; 5] {
    let frame = |function: String, line: u64| {
        let (file, function) = (named("model/layers.py"), named(&function));
        let line = u32::try_from(line % 1_000).unwrap_or(0) + 1;
        PythonFrame {
            frame_id: hash::frame_id(&file, &function, 1, line),
            original_file: format!("/home/user/{file}"),
            file,
            function,
            first_line: 1,
            line,
        }
    };
    [
        frame(format!("Leaf{number}.forward"), number),
        frame(format!("Layer{number}.forward"), number),
        frame(format!("Block{}.forward", number / 10), number / 10),
        frame(format!("Stage{}.forward", number / 100), number / 100),
        frame("main".to_owned(), 0),
    ]
}

fn state(number: u64, named: fn(&str) -> String) -> PystatesHash {
    let frames: Vec<FrameId> = stack(number, named).iter().map(|frame| frame.frame_id).collect();
    hash::pystates_hash(&frames)
}

fn states(number: u64, named: fn(&str) -> String) -> impl Iterator<Item = PythonState> {
    let pystates_hash = state(number, named);
    (0..).zip(stack(number, named)).map(move |(depth, frame)| PythonState {
        pystates_hash,
        depth,
        frame_id: frame.frame_id,
        run_id: ACCESSES,
    })
}

fn function(kernel: u64, named: fn(&str) -> String) -> Function {
    Function {
        function_id: FunctionId(kernel + 1),
        module_id: ModuleId(1),
        name: named(&format!("kernel_{kernel}")),
        demangled_name: named(&format!("kernel_{kernel}(float*, int)")),
        is_kernel: true,
        code_bytes: None,
        memory_instruction_count: None,
        uncovered_instruction_count: None,
    }
}

fn run(run_id: RunId, instrument: Instrument, named: fn(&str) -> String) -> Run {
    Run {
        run_id,
        instrument,
        reference_run_id: ACCESSES,
        program: named("tree"),
        arguments: "[]".to_owned(),
        sampling_period_cycles: (instrument == Instrument::PcSamples).then_some(1_024),
        ..Run::default()
    }
}

fn launch(number: u64, named: fn(&str) -> String) -> Launch {
    Launch {
        kernel_id: KernelId(number),
        run_id: ACCESSES,
        function_id: FunctionId(number % KERNELS + 1),
        ordinal: number,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 256,
        block_y: 1,
        block_z: 1,
        pystates_hash: Some(state(number, named)),
        ..Launch::default()
    }
}

fn launch_run(run_id: RunId, number: u64) -> LaunchRun {
    LaunchRun {
        run_id,
        ordinal: number,
        kernel_id: KernelId(number),
        matched: if run_id == ACCESSES { Match::Reference } else { Match::Matched },
        begin_ns: i64::try_from(number).unwrap_or(0),
        recorded: true,
        ..LaunchRun::default()
    }
}

fn sample(number: u64) -> PcSample {
    PcSample {
        run_id: SAMPLES,
        kernel_id: KernelId(number),
        function_id: FunctionId(number % KERNELS + 1),
        pc: Pc(16),
        stall_reason: "long_scoreboard".to_owned(),
        samples: number % 97 + 1,
        samples_not_issued: 0,
    }
}

/// Memory that a launch takes, and that some later one gives back.
fn storage(number: u64) -> Storage {
    Storage {
        storage_id: StorageId(number + 1),
        run_id: ACCESSES,
        device_id: 0,
        address: Address((number + 1) << 32),
        size_bytes: (number % 53 + 1) << 20,
        alloc_ns: i64::try_from(number).unwrap_or(0),
        free_ns: None,
        alloc_ordinal: number,
        free_ordinal: (!number.is_multiple_of(101)).then_some(number + number % 71 + 1),
        origin: StorageOrigin::Allocator,
        op_id: None,
    }
}

fn tensor(number: u64, named: fn(&str) -> String) -> Tensor {
    Tensor {
        tensor_id: TensorId(number + 1),
        run_id: ACCESSES,
        storage_id: StorageId(number + 1),
        base_tensor_id: None,
        op_id: None,
        address: Address((number + 1) << 32),
        dtype: "float32".to_owned(),
        element_bytes: 4,
        sizes: vec![256],
        strides: vec![1],
        span_bytes: 1_024,
        is_contiguous: true,
        name: Some(named(&format!("layer{number}.weight"))),
        role: Some("parameter".to_owned()),
    }
}

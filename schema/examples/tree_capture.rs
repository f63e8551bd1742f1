//! Writes the capture of `scripts/bench-tree`: `tree_capture OUT [LAUNCHES]`.
//!
//! Each launch has a Python stack of five frames, which it shares with others but for the innermost two, and a kernel
//! out of 40: 6,500 launches are a tree of 20,216 nodes. The same numbers give the same capture.

use std::path::Path;
use std::process::ExitCode;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::writer::{CaptureWriter, Form};
use stallmap_schema::hash;
use stallmap_schema::id::{FrameId, FunctionId, KernelId, ModuleId, Pc, PystatesHash, RunId};
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{Instrument, Match};

const LAUNCHES: u64 = 6_500;
const KERNELS: u64 = 40;
const ACCESSES: RunId = RunId(1);
const SAMPLES: RunId = RunId(2);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(output) = arguments.first() else {
        eprintln!("usage: tree_capture OUT [LAUNCHES]");
        return ExitCode::FAILURE;
    };
    let launches = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(LAUNCHES);
    match write(Path::new(output), launches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(output: &Path, launches: u64) -> Result<(), CaptureError> {
    let mut writer = CaptureWriter::create(output, Form::File)?;
    writer.append_rows([run(ACCESSES, Instrument::Accesses), run(SAMPLES, Instrument::PcSamples)])?;
    writer.append_rows((0..KERNELS).map(function))?;
    writer.append_rows((0..launches).map(launch))?;
    writer.append_rows((0..launches).map(|number| launch_run(ACCESSES, number)))?;
    writer.append_rows((0..launches).map(|number| launch_run(SAMPLES, number)))?;
    let mut frames: Vec<PythonFrame> = (0..launches).flat_map(stack).collect();
    frames.sort_by_key(|frame| frame.frame_id);
    frames.dedup();
    writer.append_rows(frames)?;
    let mut states: Vec<PythonState> = (0..launches).flat_map(states).collect();
    states.sort_by_key(|state| (state.pystates_hash, state.depth));
    writer.append_rows(states)?;
    writer.append_rows((0..launches).map(sample))?;
    writer.finish().map(drop)
}

/// The frames of a launch's stack, innermost first.
fn stack(number: u64) -> [PythonFrame; 5] {
    let frame = |function: String, line: u64| {
        let (file, line) = ("model/layers.py", u32::try_from(line % 1_000).unwrap_or(0) + 1);
        PythonFrame {
            frame_id: hash::frame_id(file, &function, 1, line),
            file: file.to_owned(),
            original_file: format!("/home/user/{file}"),
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

fn state(number: u64) -> PystatesHash {
    let frames: Vec<FrameId> = stack(number).iter().map(|frame| frame.frame_id).collect();
    hash::pystates_hash(&frames)
}

fn states(number: u64) -> impl Iterator<Item = PythonState> {
    let pystates_hash = state(number);
    (0..).zip(stack(number)).map(move |(depth, frame)| PythonState {
        pystates_hash,
        depth,
        frame_id: frame.frame_id,
        run_id: ACCESSES,
    })
}

fn function(kernel: u64) -> Function {
    Function {
        function_id: FunctionId(kernel + 1),
        module_id: ModuleId(1),
        name: format!("kernel_{kernel}"),
        demangled_name: format!("kernel_{kernel}(float*, int)"),
        is_kernel: true,
        code_bytes: None,
        memory_instruction_count: None,
        uncovered_instruction_count: None,
    }
}

fn run(run_id: RunId, instrument: Instrument) -> Run {
    Run {
        run_id,
        instrument,
        reference_run_id: ACCESSES,
        program: "tree".to_owned(),
        arguments: "[]".to_owned(),
        working_directory: String::new(),
        host: String::new(),
        system: String::new(),
        process_id: 0,
        started_ns: 0,
        ended_ns: None,
        clock_offset_ns: 0,
        exit_code: None,
        exit_signal: None,
        driver_version: None,
        cuda_version: None,
        instrument_version: None,
        python_version: None,
        torch_version: None,
        sampling_period_cycles: (instrument == Instrument::PcSamples).then_some(1_024),
    }
}

fn launch(number: u64) -> Launch {
    Launch {
        kernel_id: KernelId(number),
        run_id: ACCESSES,
        function_id: FunctionId(number % KERNELS + 1),
        ordinal: number,
        occurrence: 0,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 256,
        block_y: 1,
        block_z: 1,
        cluster_x: None,
        cluster_y: None,
        cluster_z: None,
        dynamic_shared_bytes: None,
        static_shared_bytes: None,
        local_bytes: None,
        register_count: None,
        device_id: 0,
        op_id: None,
        pystates_hash: Some(state(number)),
    }
}

fn launch_run(run_id: RunId, number: u64) -> LaunchRun {
    LaunchRun {
        run_id,
        ordinal: number,
        kernel_id: KernelId(number),
        matched: if run_id == ACCESSES { Match::Reference } else { Match::Matched },
        match_reason: None,
        thread_id: 0,
        stream_id: 0,
        correlation_id: None,
        begin_ns: i64::try_from(number).unwrap_or(0),
        end_ns: None,
        recorded: true,
        request_count: None,
        lane_access_count: None,
        lost_request_count: None,
        sample_count: None,
        lost_sample_count: None,
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

//! Python frames and states, and the ops that they call.

use super::{ACCESSES, at, kernel, op, tensor};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::hash;
use stallmap_schema::id::{FrameId, PystatesHash};
use stallmap_schema::tables::compiled::{CompiledOrigin, TritonKernel};
use stallmap_schema::tables::hlo::{HloInstruction, HloLaunch, HloModule, HloSource};
use stallmap_schema::tables::native::{NativeFrame, NativeState};
use stallmap_schema::tables::python::{PythonFrame, PythonState, SourceLine};
use stallmap_schema::tables::tensor::{Op, OpInput, OpMetric, OpRange, OpTensor};
use stallmap_schema::word::{Direction, HloMethod, OpKind, Phase, RangeSource};
use stallmap_write::CaptureWriter;

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
pub(super) fn inner_state() -> PystatesHash {
    hash::pystates_hash(&frames().map(|frame| frame.frame_id))
}

/// The script itself.
pub(super) fn outer_state() -> PystatesHash {
    hash::pystates_hash(&[frames()[1].frame_id])
}

pub(super) fn python(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
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
    // Compiled code that launches nothing here.
    let generated = PythonFrame {
        frame_id: hash::frame_id("generated.py", "call", 1, 7),
        file: "generated.py".to_owned(),
        original_file: "/home/user/generated.py".to_owned(),
        function: "call".to_owned(),
        first_line: 1,
        line: 7,
    };
    let frame_id = generated.frame_id;
    let mut frames = [inner, outer, generated];
    frames.sort_by_key(|frame| frame.frame_id);
    writer.append_rows(frames)?;
    writer.append_rows(states)?;
    native(writer)?;
    let line = |file: &str, line, text: &str| SourceLine { file: file.into(), line, text: Some(text.into()) };
    writer.append_rows([
        line("/home/user/model.py", 12, "        hidden = self.embedding(tokens)"),
        line("/home/user/train.py", 30, "train(Model())"),
    ])?;
    compiled_kernel(writer, frame_id)
}

/// A native stack that launches nothing here: a function with a line calls the driver.
fn native(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let frame = |level, function: &str, line: Option<u32>| NativeFrame {
        native_frame_id: hash::native_frame("solver", 64, level),
        library: Some("/home/user/solver.so".to_owned()),
        call_offset: 64,
        level,
        function: Some(function.to_owned()),
        file: line.map(|_| "/home/user/solver.cpp".to_owned()),
        line,
        missing: line.is_none().then(|| "the library has no line table".to_owned()),
        ..NativeFrame::default()
    };
    let mut frames = [frame(0, "cuLaunchKernel", None), frame(1, "solver::step", Some(9))];
    let native_stack = hash::native_stack(&frames.each_ref().map(|frame| frame.native_frame_id));
    let states = frames.each_ref().map(|frame| NativeState {
        native_stack,
        depth: frame.level,
        native_frame_id: frame.native_frame_id,
        run_id: ACCESSES,
    });
    frames.sort_by_key(|frame| frame.native_frame_id);
    writer.append_rows(frames)?;
    writer.append_rows(states)
}

/// The operation of a line of generated code, and the kernel's compiled version.
fn compiled_kernel(writer: &mut CaptureWriter, frame_id: FrameId) -> Result<(), CaptureError> {
    writer.append_rows([CompiledOrigin {
        frame_id,
        rank: 0,
        op: "aten::mul.Tensor".to_owned(),
        phase: None,
        forward_op: Some("aten::relu.default".to_owned()),
        module_path: Some("model.layer".to_owned()),
        pystates_hash: Some(inner_state()),
        weight: 1.0,
    }])?;
    writer.append_rows([TritonKernel {
        name: "triton_poi_fused_mul_0".to_owned(),
        file: "/home/user/generated.py".to_owned(),
        line: 3,
        signature: "x: *fp32, n: i32".to_owned(),
        configuration: "XBLOCK: 1024".to_owned(),
    }])
}

pub(super) fn ops(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let call = |number, name: &str, begin: i64, end: i64| Op {
        op_id: op(number),
        run_id: ACCESSES,
        kind: OpKind::Torch,
        name: name.to_owned(),
        parent_op_id: Some(op(1)),
        begin_ns: at(begin),
        end_ns: Some(at(end)),
        phase: Phase::Forward,
        pystates_hash: Some(outer_state()),
        ..Op::default()
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
    ])?;
    writer.append_rows([OpInput {
        op_id: op(2),
        position: 0,
        element: 0,
        dtype: Some("float32".to_owned()),
        sizes: vec![16, 4],
        strides: vec![4, 1],
        value: None,
    }])?;
    region_numbers(writer)?;
    compiled_program(writer)
}

/// The origin of the region, and its numbers.
fn region_numbers(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([OpRange {
        op_id: op(1),
        source: RangeSource::Stallmap,
        domain: None,
        category: None,
    }])?;
    let number = |name: &str, value, unit: Option<&str>| OpMetric {
        op_id: op(1),
        name: name.to_owned(),
        value,
        unit: unit.map(str::to_owned),
    };
    writer.append_rows([number("flops", 6e6, Some("flop")), number("tokens", 16.0, None)])
}

/// A program of XLA, whose instruction the last launch may be.
fn compiled_program(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([HloModule {
        hlo_module_id: 0,
        run_id: ACCESSES,
        name: "jit_step".to_owned(),
        begin_ns: 1,
        end_ns: 2,
        instruction_count: 1,
        pystates_hash: None,
    }])?;
    writer.append_rows([HloInstruction {
        hlo_module_id: 0,
        instruction_id: 1,
        name: "custom-call.1".to_owned(),
        opcode: "custom-call".to_owned(),
        call_target: Some("__cublas$gemm".to_owned()),
        computation: "main".to_owned(),
        op_name: Some("jit(step)/Dense_0/dot_general".to_owned()),
        pystates_hash: None,
    }])?;
    writer.append_rows([HloSource {
        hlo_module_id: 0,
        instruction_id: 1,
        position: 0,
        weight: 1.0,
        operation_count: 1,
        op_name: Some("jit(step)/Dense_0/dot_general".to_owned()),
        pystates_hash: None,
    }])?;
    writer.append_rows([HloLaunch {
        kernel_id: kernel(2),
        hlo_module_id: 0,
        instruction_id: Some(1),
        method: HloMethod::Order,
        candidate_count: 2,
    }])
}

//! The line of a stack: the user's, or that of a model which the user's frame calls.

use std::fmt::Write as _;

use crate::answer;
use crate::craft::{craft, crafted};

/// Frames by number, from 1: file and function. Packages are installed, the rest is the user's.
const FRAMES: [(&str, &str); 11] = [
    ("/home/user/train.py", "main"),
    ("/v/site-packages/trainer/trainer.py", "Trainer.train"),
    ("/v/site-packages/torch/nn/modules/module.py", "Module._call_impl"),
    ("/v/site-packages/models/bert.py", "Layer.forward"),
    ("/v/site-packages/torch/nn/modules/linear.py", "Linear.forward"),
    ("/v/site-packages/helpers/shape.py", "rearrange"),
    ("/home/user/model.py", "Net.forward"),
    ("/v/site-packages/helpers/attention.py", "Attention.forward"),
    ("/v/site-packages/torch/autograd/__init__.py", "backward"),
    ("/v/site-packages/torch/autograd/function.py", "BackwardCFunction.apply"),
    ("/home/user/scan.py", "Scan.backward"),
];

/// Stacks, innermost first, with the file and the owner of the line.
const STACKS: [(&[usize], &str); 11] = [
    (&[5, 3, 4, 3, 2, 1], "models/bert.py | module"),
    (&[5, 3, 7, 3, 1], "user/model.py | user"),
    (&[6, 7, 3, 1], "user/model.py | user"),
    (&[8, 7, 3, 1], "user/model.py | user"),
    (&[6, 4, 3, 7, 3, 1], "models/bert.py | module"),
    (&[5, 3, 4, 3, 2], "models/bert.py | module"),
    (&[6, 2], "helpers/shape.py | library"),
    // Autograd runs in the user's call of it, and calls the user's function, and modules again behind a checkpoint.
    (&[9, 1], "user/train.py | user"),
    (&[6, 11, 10, 9, 1], "user/scan.py | user in backward"),
    (&[5, 3, 4, 3, 9, 1], "models/bert.py | module in backward"),
    (&[9, 11, 10, 9, 1], "user/scan.py | user"),
];

#[tokio::test]
async fn the_line_is_that_of_the_innermost_module_that_the_user_calls() {
    let mut frames = String::new();
    for (number, (file, function)) in (1..).zip(FRAMES) {
        let comma = if number > 1 { ", " } else { "" };
        write!(frames, "{comma}({number}, '{file}', '{file}', '{function}', 1, {number})").unwrap();
    }
    let frame_columns = "frame_id, file, original_file, function, first_line, line";
    let frames = format!("SELECT * FROM (VALUES {frames}) AS v ({frame_columns})");
    let mut states = Vec::new();
    for (hash, (stack, _)) in (1..).zip(STACKS) {
        let state = |(depth, frame)| format!("({hash}, {depth}, {frame}, 1)");
        states.extend((0..).zip(stack).map(state));
    }
    let states = states.join(", ");
    let states = format!("SELECT * FROM (VALUES {states}) AS v (pystates_hash, depth, frame_id, run_id)");
    let changes = [("python_frame", frames.as_str()), ("python_state", states.as_str())];
    let lines = "SELECT regexp_replace(line, '^.*/([^/]*/[^/:]*):.*$', '\\1'), \
        owner || CASE WHEN is_in_backward THEN ' in backward' ELSE '' END FROM python_line ORDER BY pystates_hash";
    let expected: Vec<&str> = STACKS.iter().map(|(_, line)| *line).collect();
    assert_eq!(crafted("inference_views", &changes, lines).await, expected);
}

/// Library, function, file and line.
type NativeCall = (&'static str, &'static str, Option<(&'static str, u32)>);

/// Native frames by number, from 1.
const NATIVE_FRAMES: [NativeCall; 11] = [
    ("/usr/lib/libcuda.so.1", "cuLaunchKernel", None),
    ("/home/user/solver", "libcudart_static_12ab", None),
    ("/home/user/solver", "__device_stub__Z5scalePf", Some(("/tmp/tmpxft_1-0_solver.cudafe1.stub.c", 14))),
    ("/home/user/solver", "scale", Some(("/home/user/solver.cu", 5))),
    (
        "/home/user/solver",
        "std::function<void()>::operator()",
        Some(("/usr/include/c++/13/bits/std_function.h", 590)),
    ),
    ("/home/user/solver", "Solver::relax", Some(("/home/user/solver.cu", 12))),
    ("/home/user/solver", "main", Some(("/home/user/solver.cu", 20))),
    ("/usr/lib/libc.so.6", "__libc_start_main", None),
    ("/home/user/libplain.so", "plain::run", None),
    ("/v/site-packages/torch/lib/libtorch_cuda.so", "at::native::gpu_kernel", None),
    ("/v/site-packages/torch/lib/libtorch_cpu.so", "torch::autograd::generated::MeanBackward0::apply", None),
];

/// Native stacks, innermost first, with the line and the number of frames of the program.
const NATIVE_STACKS: [(&[usize], &str); 6] = [
    (&[1, 2, 3, 4, 5, 6, 7, 8], "solver.cu:12 Solver::relax | 2"),
    (&[1, 2, 3, 6, 7, 8], "solver.cu:12 Solver::relax | 2"),
    (&[1, 10, 9, 7], "solver.cu:20 main | 2"),
    (&[1, 10, 9], "plain::run (libplain.so) | 1"),
    (&[1, 10, 8], ""),
    (&[1, 10, 11, 8], "torch::autograd::generated::MeanBackward0::apply (libtorch_cpu.so) | 1"),
];

#[tokio::test]
async fn the_native_line_is_the_innermost_of_the_program_behind_what_nvcc_makes() {
    let mut frames = Vec::new();
    for (number, (library, function, line)) in (1..).zip(NATIVE_FRAMES) {
        let (file, line) = line.map_or(("NULL".to_owned(), "NULL".to_owned()), |(file, line)| {
            (format!("'{file}'"), line.to_string())
        });
        frames
            .push(format!("({number}, '{library}', NULL, {number}, 0, '{function}', {file}, {line}, NULL)"));
    }
    let columns = "native_frame_id, library, build_id, call_offset, level, function, file, line, missing";
    let frames = format!("SELECT * FROM (VALUES {}) AS v ({columns})", frames.join(", "));
    let mut states = Vec::new();
    for (hash, (stack, _)) in (1..).zip(NATIVE_STACKS) {
        states.extend((0..).zip(stack).map(|(depth, frame)| format!("({hash}, {depth}, {frame}, 1)")));
    }
    let columns = "native_stack, depth, native_frame_id, run_id";
    let states = format!("SELECT * FROM (VALUES {}) AS v ({columns})", states.join(", "));
    let launches = "SELECT * EXCLUDE (native_stack), 1 + ordinal % 5 AS native_stack FROM launch";
    let changes =
        [("native_frame", frames.as_str()), ("native_state", states.as_str()), ("launch", launches)];
    let folder = tempfile::tempdir().unwrap();
    let session = craft("range_truth", &changes, folder.path()).await;
    let lines = "SELECT line, array_length(frames) FROM native_line ORDER BY native_stack";
    let expected: Vec<&str> =
        NATIVE_STACKS.iter().map(|(_, line)| *line).filter(|line| !line.is_empty()).collect();
    assert_eq!(answer(&session, lines).await.unwrap(), expected);
    // Of the ninth launch, outside ranges, the stack is one with a function only.
    let lines = "SELECT a.line_by, count(*), max(a.line) FROM launch_attribution a GROUP BY 1 ORDER BY 1";
    let expected = ["native stack | 7 | solver.cu:20 main", "range | 2 | smooth (range)"];
    assert_eq!(answer(&session, lines).await.unwrap(), expected);
}

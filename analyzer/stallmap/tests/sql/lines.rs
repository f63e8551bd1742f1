//! The line of a stack: the user's, or that of a model which the user's frame calls.

use std::fmt::Write as _;

use crate::craft::crafted;

/// Frames by number, from 1: file and function. Packages are installed, the rest is the user's.
const FRAMES: [(&str, &str); 8] = [
    ("/home/user/train.py", "main"),
    ("/v/site-packages/trainer/trainer.py", "Trainer.train"),
    ("/v/site-packages/torch/nn/modules/module.py", "Module._call_impl"),
    ("/v/site-packages/models/bert.py", "Layer.forward"),
    ("/v/site-packages/torch/nn/modules/linear.py", "Linear.forward"),
    ("/v/site-packages/helpers/shape.py", "rearrange"),
    ("/home/user/model.py", "Net.forward"),
    ("/v/site-packages/helpers/attention.py", "Attention.forward"),
];

/// Stacks, innermost first, with the file and the owner of the line.
const STACKS: [(&[usize], &str); 7] = [
    (&[5, 3, 4, 3, 2, 1], "models/bert.py | module"),
    (&[5, 3, 7, 3, 1], "user/model.py | user"),
    (&[6, 7, 3, 1], "user/model.py | user"),
    (&[8, 7, 3, 1], "user/model.py | user"),
    (&[6, 4, 3, 7, 3, 1], "models/bert.py | module"),
    (&[5, 3, 4, 3, 2], "models/bert.py | module"),
    (&[6, 2], "helpers/shape.py | library"),
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
    let lines = "SELECT regexp_replace(line, '^.*/([^/]*/[^/:]*):.*$', '\\1'), owner FROM python_line ORDER BY pystates_hash";
    let expected: Vec<&str> = STACKS.iter().map(|(_, line)| *line).collect();
    assert_eq!(crafted("inference_views", &changes, lines).await, expected);
}

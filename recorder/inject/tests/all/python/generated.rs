//! Code that torch.compile generates: launches have the lines, modules and operations that the compiler recorded.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::LossTotal;
use stallmap_schema::id::{FrameId, OpId, PystatesHash};
use stallmap_schema::tables::compiled::CompiledOrigin;
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::{OpKind, Phase};

use super::*;

struct GeneratedRun {
    ops: BTreeMap<OpId, Op>,
    stacks: BTreeMap<PystatesHash, Vec<PythonFrame>>,
    origins: Vec<CompiledOrigin>,
}

impl GeneratedRun {
    fn read(recording: &PythonRecording) -> Self {
        let frames = recording.rows().into_iter().map(|frame: PythonFrame| (frame.frame_id, frame));
        let frames: BTreeMap<FrameId, PythonFrame> = frames.collect();
        let mut states: Vec<PythonState> = recording.rows();
        states.sort_by_key(|state| (state.pystates_hash, state.depth));
        let mut stacks: BTreeMap<PystatesHash, Vec<PythonFrame>> = BTreeMap::new();
        for state in states {
            stacks.entry(state.pystates_hash).or_default().push(frames[&state.frame_id].clone());
        }
        let ops = recording.rows().into_iter().map(|op: Op| (op.op_id, op)).collect();
        Self { ops, stacks, origins: recording.rows() }
    }

    /// Products in compiled code, in their order: (line's comment, function, module).
    fn products(&self, phase: Phase) -> Vec<(&str, &str, &str)> {
        let launched = self.ops.values().filter(|op| op.kind == OpKind::Torch && op.phase == phase);
        let products = launched.filter(|op| op.name.starts_with("aten::mm"));
        let described = products.map(|op| {
            let named = op.forward_op_id.map_or(op, |forward| &self.ops[&forward]);
            let frame = self.inner(named);
            (comment_at(frame.line), frame.function.as_str(), named.module_path.as_deref().unwrap())
        });
        described.collect()
    }

    /// The innermost frame that the program's author wrote.
    fn inner(&self, op: &Op) -> &PythonFrame {
        let stack = &self.stacks[&op.pystates_hash.unwrap()];
        stack.iter().find(|frame| frame.original_file.ends_with("generated.py")).unwrap()
    }
}

fn comment_at(line: u32) -> &'static str {
    const PROGRAM: &str = include_str!("../../../../python/tests/programs/generated.py");
    PROGRAM.lines().nth(line as usize - 1).unwrap().split("# ").nth(1).unwrap()
}

/// Expected products of one step: each block, each layer. In backward the gradient of the weight and of the input.
fn forward() -> Vec<(&'static str, &'static str, &'static str)> {
    let up = |module| ("up", "Block.forward", module);
    let down = |module| ("down", "Block.forward", module);
    vec![up("blocks.0.up"), down("blocks.0.down"), up("blocks.1.up"), down("blocks.1.down")]
}

#[test]
fn generated_calls_have_lines_and_modules_of_the_program() {
    let cache = TempDir::new().unwrap();
    let record = || {
        let folders = [&*package().join("hook"), &*public()];
        let (script, all) = (program("generated.py"), LaunchSelection::default());
        let variables = [("TORCHINDUCTOR_CACHE_DIR", cache.path())];
        record_with(&script, PassInstrument::Accesses, all, &folders, &variables)
    };
    let Some(first) = record() else { return };
    // The second takes the code from the compiler's cache.
    for recording in [first, record().unwrap()] {
        let run = GeneratedRun::read(&recording);
        assert_eq!(run.products(Phase::Forward), [forward(), forward()].concat());
        let mut backward = run.products(Phase::Backward);
        backward.sort_unstable();
        // The input of the first layer needs no gradient: of each step, 7 products.
        let mut expected: Vec<_> = [forward(), forward()].concat().repeat(2);
        let unused = expected.iter().position(|product| product.2 == "blocks.0.up").unwrap();
        expected.remove(unused);
        let unused = expected.iter().position(|product| product.2 == "blocks.0.up").unwrap();
        expected.remove(unused);
        expected.sort_unstable();
        assert_eq!(backward, expected);
        assert!(!run.stacks.values().flatten().any(|frame| is_own(&frame.original_file)));
        assert_eq!(recording.rows::<LossTotal>(), []);
    }
}

#[test]
fn gradients_of_generated_code_belong_to_their_operation() {
    let Some(recording) =
        record(&program("generated.py"), PassInstrument::Accesses, LaunchSelection::default())
    else {
        return;
    };
    let run = GeneratedRun::read(&recording);
    let gradients =
        run.ops.values().filter(|op| op.phase == Phase::Backward && op.name.starts_with("aten::mm"));
    for gradient in gradients {
        let forward = &run.ops[&gradient.forward_op_id.unwrap()];
        assert_eq!((forward.kind, forward.name.as_str()), (OpKind::Origin, "aten::mm.default"));
        assert_eq!(comment_at(run.inner(gradient).line), "backward");
    }
    let mut weights: BTreeMap<FrameId, f64> = BTreeMap::new();
    for origin in &run.origins {
        *weights.entry(origin.frame_id).or_default() += origin.weight;
        assert!(origin.phase.is_some() && origin.module_path.is_some(), "{origin:?}");
    }
    assert!(weights.len() >= 11 && weights.values().all(|weight| (weight - 1.0).abs() < 1e-9), "{weights:?}");
}

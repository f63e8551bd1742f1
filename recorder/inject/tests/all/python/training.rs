//! Contents of a training step's recording.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::{GAVE_WAY, LossTotal, OpEnd, StorageEvent, TensorName};
use stallmap_schema::id::{FrameId, PystatesHash, TensorId};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::tensor::{Op, OpTensor, Tensor};
use stallmap_schema::word::{Direction, OpKind, Phase};

use super::*;

/// The recording of `training.py`, made once.
fn training() -> Option<&'static TrainingRun> {
    static TRAINING: OnceLock<Option<TrainingRun>> = OnceLock::new();
    let make = || {
        record(&program("training.py"), PassInstrument::Accesses, LaunchSelection::default())
            .map(|it| TrainingRun::read(&it))
    };
    // Asked first, because every test that is skipped says so.
    has_torch().then(|| TRAINING.get_or_init(make).as_ref()).flatten()
}

struct TrainingRun {
    stdout: String,
    ops: Vec<Op>,
    op_ends: Vec<OpEnd>,
    op_tensors: Vec<OpTensor>,
    tensors: BTreeMap<TensorId, Tensor>,
    names: BTreeMap<TensorId, (Option<String>, String)>,
    storages: Vec<StorageEvent>,
    stacks: BTreeMap<PystatesHash, Vec<PythonFrame>>,
    losses: Vec<LossTotal>,
}

impl TrainingRun {
    fn read(recording: &PythonRecording) -> Self {
        let name = |row: TensorName| (row.tensor_id, (row.name, row.role));
        Self {
            stdout: recording.stdout(),
            ops: recording.rows(),
            op_ends: recording.rows(),
            op_tensors: recording.rows(),
            tensors: recording.rows().into_iter().map(|row: Tensor| (row.tensor_id, row)).collect(),
            names: recording.rows().into_iter().map(name).collect(),
            storages: recording.rows(),
            stacks: stacks(recording),
            losses: recording.rows(),
        }
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Op> {
        self.ops.iter().filter(move |op| op.name == name)
    }

    /// The ops whose innermost frame in the program is the line with that comment.
    fn at<'a>(&'a self, comment: &'a str) -> impl Iterator<Item = &'a Op> {
        let line = line_of(comment);
        self.ops.iter().filter(move |op| {
            let stack = op.pystates_hash.and_then(|hash| self.stacks.get(&hash));
            stack
                .into_iter()
                .flatten()
                .find(|frame| frame.file == "training.py")
                .is_some_and(|frame| frame.line == line)
        })
    }

    fn parts(&self, op: &Op) -> Vec<(Direction, u32, u32, &Tensor)> {
        let parts = self.op_tensors.iter().filter(|part| part.op_id == op.op_id);
        parts
            .map(|part| (part.direction, part.position, part.element, &self.tensors[&part.tensor_id]))
            .collect()
    }
}

fn stacks(recording: &PythonRecording) -> BTreeMap<PystatesHash, Vec<PythonFrame>> {
    let frames: BTreeMap<FrameId, PythonFrame> =
        recording.rows().into_iter().map(|row: PythonFrame| (row.frame_id, row)).collect();
    let mut states: Vec<PythonState> = recording.rows();
    states.sort_by_key(|state| (state.pystates_hash, state.depth));
    let mut stacks: BTreeMap<PystatesHash, Vec<PythonFrame>> = BTreeMap::new();
    for state in states {
        let stack = stacks.entry(state.pystates_hash).or_default();
        assert_eq!(state.depth as usize, stack.len());
        stack.push(frames[&state.frame_id].clone());
    }
    stacks
}

/// The line of `training.py` with a comment.
fn line_of(comment: &str) -> u32 {
    let text = std::fs::read_to_string(program("training.py")).unwrap();
    let ending = format!("# line: {comment}");
    let line = text.lines().position(|line| line.ends_with(&ending)).unwrap();
    u32::try_from(line + 1).unwrap()
}

#[test]
fn the_program_is_not_disturbed_and_nothing_is_lost() {
    let Some(training) = training() else { return };
    assert_eq!(training.stdout, "trained\n");
    assert_eq!(training.losses, []);
    assert_eq!(training.ops.len(), training.op_ends.len());
    assert!(training.ops.iter().all(|op| op.pystates_hash.is_some()));
}

#[test]
fn ops_know_their_line_module_and_region() {
    let Some(training) = training() else { return };
    let ups: Vec<_> = training.at("block").filter(|op| op.name == "aten::addmm.default").collect();
    let modules: Vec<_> = ups.iter().map(|op| op.module_path.as_deref()).collect();
    let blocks = ["blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down"];
    assert_eq!(modules, blocks.iter().chain(&blocks).map(|&path| Some(path)).collect::<Vec<_>>());
    let regions: BTreeSet<_> = training.named("step").map(|op| (op.kind, op.op_id)).collect();
    assert_eq!(regions.len(), 2);
    assert!(ups.iter().all(|op| regions.contains(&(OpKind::Region, op.parent_op_id.unwrap()))));
    assert!(ups.iter().all(|op| op.phase == Phase::Forward && op.sequence_number.is_some()));
    let stack = &training.stacks[&ups[0].pystates_hash.unwrap()];
    assert!(stack.iter().all(|frame| !is_own(&frame.original_file)), "{stack:?}");
    assert_eq!(stack.last().map(|frame| frame.function.as_str()), Some("<module>"));
}

#[test]
fn backward_ops_know_both_lines() {
    let Some(training) = training() else { return };
    let is_backward = |op: &&Op| op.phase == Phase::Backward && op.sequence_number.is_some();
    let backward: Vec<&Op> = training.ops.iter().filter(is_backward).collect();
    assert!(backward.len() > 40);
    let called: BTreeSet<_> = training.at("backward").map(|op| op.op_id).collect();
    for op in &backward {
        let forward = training.ops.iter().find(|forward| Some(forward.op_id) == op.forward_op_id).unwrap();
        assert_eq!((forward.phase, forward.sequence_number), (Phase::Forward, op.sequence_number), "{op:?}");
        let is_square = op.autograd_node.as_deref() == Some("SquareBackward");
        assert_ne!(called.contains(&op.op_id), is_square, "{op:?}");
    }
    let gelu = backward.iter().find(|op| op.name == "aten::gelu_backward.default").unwrap();
    let forward = training.named("aten::gelu.default").filter(|op| Some(op.op_id) == gelu.forward_op_id);
    assert_eq!(forward.map(|op| op.module_path.as_deref()).collect::<Vec<_>>(), [Some("blocks.1")]);
    let square: Vec<_> = training.at("square backward").map(|op| op.autograd_node.as_deref()).collect();
    assert_eq!(square, [Some("SquareBackward"); 4]);
}

#[test]
fn optimizer_ops_know_their_phase_and_step() {
    let Some(training) = training() else { return };
    let ops: Vec<_> = training.at("step").filter(|op| op.kind == OpKind::Torch).collect();
    assert!(ops.len() > 10);
    assert!(ops.iter().all(|op| op.phase == Phase::Optimizer));
    assert_eq!(ops.iter().map(|op| op.step).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
    let foreach = ops.iter().find(|op| op.name == "aten::_foreach_add_.Scalar").unwrap();
    let parts = training.parts(foreach);
    assert!(parts.iter().all(|part| (part.0, part.1) == (Direction::InOut, 0)));
    let elements: Vec<_> = parts.iter().map(|part| part.2).collect();
    assert_eq!(elements, (0..13).collect::<Vec<_>>());
}

#[test]
fn tensors_have_the_models_names() {
    let Some(training) = training() else { return };
    let with_role = |role: &str| -> BTreeSet<&str> {
        let names = training.names.values().filter(|(_, of)| of == role);
        names.map(|(name, _)| name.as_deref().unwrap()).collect()
    };
    let parameters = with_role("parameter");
    assert_eq!(parameters.len(), 13);
    assert!(parameters.contains("blocks.1.down.weight"));
    assert_eq!(with_role("gradient"), parameters);
    assert_eq!(with_role("buffer"), BTreeSet::from(["scale"]));
    let state = with_role("optimizer_state");
    assert!(state.contains("embedding.weight.exp_avg_sq"), "{state:?}");
    let head = training.at("head").find(|op| op.name == "aten::t.default").unwrap();
    let [(Direction::In, 0, 0, weight), (Direction::Out, 0, 0, view)] = training.parts(head)[..] else {
        panic!()
    };
    assert_eq!(training.names[&weight.tensor_id].0.as_deref(), Some("embedding.weight"));
    assert_eq!((view.base_tensor_id, view.storage_id), (Some(weight.tensor_id), weight.storage_id));
    assert_eq!((view.op_id, view.is_contiguous), (Some(head.op_id), false));
}

#[test]
fn other_threads_are_recorded() {
    let Some(training) = training() else { return };
    let add = training.at("thread").next().unwrap();
    assert_eq!((add.name.as_str(), add.phase), ("aten::add_.Tensor", Phase::Forward));
    assert_ne!(add.thread_id, training.ops[0].thread_id);
    assert_eq!(training.parts(add).iter().map(|part| part.0).collect::<Vec<_>>(), [Direction::InOut]);
    let cat = training.named("aten::cat.default").next().unwrap();
    let parts: Vec<_> = training.parts(cat).iter().map(|part| (part.0, part.2, part.3.tensor_id)).collect();
    assert_eq!(parts[0].2, parts[1].2);
    assert_eq!((parts[0].1, parts[1].1), (0, 1));
    let split = training.named("aten::split.Tensor").next().unwrap();
    let pieces = training.parts(split);
    assert_eq!(pieces.iter().map(|piece| piece.2).collect::<Vec<_>>(), [0, 0, 1, 2, 3]);
    assert!(pieces[1..].iter().all(|piece| piece.3.base_tensor_id == Some(pieces[0].3.tensor_id)));
    let relu = training.named("aten::relu.default").last().unwrap();
    let view = training.parts(relu)[0].3;
    assert_eq!((&view.sizes[..], &view.strides[..], view.span_bytes), (&[3, 3][..], &[2, 6][..], 68));
}

#[test]
fn what_runs_after_stop_is_not_recorded() {
    let Some(training) = training() else { return };
    assert_eq!(training.named("aten::neg.default").count(), 0);
    assert_eq!(training.named("aten::sign.default").count(), 1);
}

#[test]
fn storages_are_born_before_they_are_used() {
    let Some(training) = training() else { return };
    let allocated: BTreeSet<_> =
        training.storages.iter().filter(|event| !event.is_free).map(|event| event.storage_id).collect();
    assert!(training.tensors.values().all(|tensor| allocated.contains(&tensor.storage_id)));
    assert!(training.op_tensors.iter().all(|part| training.tensors.contains_key(&part.tensor_id)));
}

#[test]
fn a_second_run_elsewhere_without_tensors_has_the_same_states() {
    let Some(training) = training() else { return };
    let elsewhere = TempDir::new().unwrap();
    let copy = elsewhere.path().join("training.py");
    std::fs::copy(program("training.py"), &copy).unwrap();
    let Some(light) = record(&copy, PassInstrument::PcSamples, LaunchSelection::default()) else { return };
    assert_eq!(light.rows::<Tensor>(), []);
    assert_eq!(light.rows::<OpTensor>(), []);
    let identity = |op: &Op| (op.name.clone(), op.pystates_hash, op.phase, op.step, op.module_path.clone());
    let ops: Vec<_> = light.rows().iter().map(identity).collect();
    assert_eq!(ops, training.ops.iter().map(identity).collect::<Vec<_>>());
}

#[test]
fn compiled_models_stay_compiled() {
    let Some(compiled) =
        record(&program("compiled.py"), PassInstrument::Accesses, LaunchSelection::default())
    else {
        return;
    };
    let alone = alone(&program("compiled.py"));
    assert_eq!(compiled.stdout(), String::from_utf8_lossy(&alone.stdout));
    assert_eq!(compiled.stderr(), String::from_utf8_lossy(&alone.stderr));
    assert!(compiled.stdout().contains("unique_graphs"), "{}", compiled.stdout());
    assert_eq!(compiled.rows::<LossTotal>(), []);
}

#[test]
fn pytorch_runs_the_ops_that_it_runs_without_the_recorder() {
    let Some(operators) =
        record(&program("operators.py"), PassInstrument::Accesses, LaunchSelection::default())
    else {
        return;
    };
    let alone = alone(&program("operators.py"));
    assert_eq!(operators.stdout(), String::from_utf8_lossy(&alone.stdout));
    let ops: Vec<Op> = operators.rows();
    let names: BTreeSet<_> = ops.iter().map(|op| op.name.as_str()).collect();
    // Gradients added in place, an op on a number, parts of a composed tensor, an extension's op, one under a mode.
    let seen = ["aten::add_.Tensor", "aten::pow.Tensor_Scalar", "aten::sinh.default", "aten::mm.default"];
    assert!(
        seen.iter().chain(&["stallmap_test::twice.default"]).all(|name| names.contains(name)),
        "{names:?}"
    );
    assert_eq!(ops.len(), operators.rows::<OpEnd>().len());
    assert_eq!(operators.rows::<LossTotal>(), []);
}

#[test]
fn the_programs_errors_and_tensor_classes_are_its_own() {
    let Some(failing) = record(&program("failing.py"), PassInstrument::Accesses, LaunchSelection::default())
    else {
        return;
    };
    let expected = "RuntimeError True\n0.0\n[3.0, 3.0]\nmeta\n[2.0, 2.0, 2.0]\nfreed True\n";
    assert_eq!(failing.stdout(), expected);
    let ops: Vec<Op> = failing.rows();
    assert!(ops.iter().any(|op| op.name == "aten::sinh.default"), "the parts of a composed tensor");
    assert_eq!(ops.len(), failing.rows::<OpEnd>().len());
    let losses: BTreeSet<_> = failing.rows().into_iter().map(|loss: LossTotal| loss.reason).collect();
    let expected = "not strided: its parts are recorded where ops take them".to_owned();
    assert_eq!(losses, BTreeSet::from([expected]));
}

#[test]
fn pytorchs_own_memory_profiler_still_hears_of_allocations() {
    let Some(profiled) =
        record(&program("profiled.py"), PassInstrument::Accesses, LaunchSelection::default())
    else {
        return;
    };
    assert_eq!(profiled.stdout(), "True\n4096\n", "{}", profiled.stderr());
}

#[test]
fn the_programs_own_profilers_have_the_interface_to_themselves() {
    let of = |instrument| {
        let recording = record(&program("own_profiler.py"), instrument, LaunchSelection::default())?;
        let losses: Vec<LossTotal> = recording.rows();
        let mut reasons: Vec<_> = losses.into_iter().map(|loss| (loss.reason, loss.detail)).collect();
        reasons.sort();
        reasons.dedup_by_key(|(reason, _)| reason.clone());
        Some((recording.stdout(), reasons))
    };
    let alone = "failed to subscribe with error 35\nfailed to subscribe with error 39\nnothing was started\nFOLDER 1\n2\n";
    let failed = Some("RuntimeError: failed to subscribe with error 39".to_owned());
    let failed = ("the program's own profiler could not start".to_owned(), failed);
    let proton = Some("triton.profiler".to_owned());
    let Some((stdout, reasons)) = of(PassInstrument::PcSamples) else { return };
    assert_eq!(stdout, alone, "its own errors are as they are alone");
    assert_eq!(reasons, [(GAVE_WAY.to_owned(), proton.clone())]);
    let Some((stdout, reasons)) = of(PassInstrument::Accesses) else { return };
    let expected = "failed to subscribe with error 35\nNone\nNone\nFOLDER 1\n2\n";
    assert_eq!(stdout, expected, "the program goes on where both cannot live");
    let cannot = "the program's own profiler cannot run with the recording of accesses".to_owned();
    assert_eq!(reasons, [(cannot, proton), failed]);
}

#[test]
fn a_recording_that_begins_paused_waits_for_start() {
    let selection = LaunchSelection { paused: true, ..LaunchSelection::default() };
    let Some(paused) = record(&program("training.py"), PassInstrument::Accesses, selection) else { return };
    let ops: Vec<Op> = paused.rows();
    let names: Vec<_> = ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(names, ["aten::ones.default", "aten::sign.default"]);
}

//! Modules that are called in parts, and tensors that have their memory elsewhere.

use std::collections::BTreeSet;

use stallmap_schema::capture::recording::{LossTotal, TensorName};
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::{OpKind, Phase};

use super::*;

#[test]
fn parts_of_a_model_have_its_paths() {
    let script = program("parts.py");
    let Some(recording) = record(&script, PassInstrument::Accesses, LaunchSelection::default()) else {
        return;
    };
    assert_eq!(recording.stdout(), "fitted\n");
    assert_eq!(recording.rows::<LossTotal>(), []);
    let ops: Vec<Op> = recording.rows();
    let products = |phase| {
        let products = ops.iter().filter(move |op| op.name == "aten::addmm.default" && op.phase == phase);
        products.filter_map(|op| op.module_path.as_deref()).collect::<Vec<_>>()
    };
    // The closure runs inside the optimizer's step, and computes the loss. Blocks are computed again in backward.
    let step = ["encoder.0.up", "encoder.1.up", "head"];
    assert_eq!(products(Phase::Forward), [step, step].concat());
    let again = ["encoder.1.up", "encoder.0.up"];
    assert_eq!(products(Phase::Backward), [again, again].concat());
    assert!(ops.iter().any(|op| op.module_path.as_deref() == Some("Scale")));
    assert!(ops.iter().any(|op| op.phase == Phase::Optimizer && op.kind == OpKind::Torch));
    let names: BTreeSet<(String, String)> =
        recording.rows().into_iter().filter_map(|row: TensorName| Some((row.role, row.name?))).collect();
    for (role, name) in [
        ("parameter", "encoder.1.up.weight"),
        ("gradient", "head.bias"),
        ("optimizer_state", "head.weight.momentum_buffer"),
        ("parameter", "0.weight"),
        ("gradient", "0.weight"),
        ("optimizer_state", "0.weight.momentum_buffer"),
    ] {
        assert!(names.contains(&(role.to_owned(), name.to_owned())), "{role} {name}: {names:?}");
    }
}

//! Ranges of PyTorch's profiler, and regions with numbers.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::{LossTotal, OpEnd};
use stallmap_schema::id::OpId;
use stallmap_schema::tables::tensor::{Op, OpMetric, OpRange};
use stallmap_schema::word::{OpKind, RangeSource};

use super::*;

fn recorded() -> Option<PythonRecording> {
    record(&program("ranges.py"), PassInstrument::Accesses, LaunchSelection::default())
}

#[test]
fn ranges_of_the_profiler_enclose_the_ops_inside() {
    let Some(recording) = recorded() else { return };
    let ops: BTreeMap<OpId, Op> = recording.rows().into_iter().map(|op: Op| (op.op_id, op)).collect();
    let path = |name: &str| {
        let mut op = ops.values().find(|op| op.name == name).unwrap_or_else(|| panic!("no {name}"));
        let mut names = Vec::new();
        while let Some(parent) = op.parent_op_id {
            op = &ops[&parent];
            names.push(op.name.as_str());
        }
        names
    };
    assert_eq!(path("aten::mm.default"), ["product", "forward", "step"]);
    assert_eq!(path("aten::exp.default"), ["forward", "step"]);
    assert_eq!(path("aten::ones.default").last(), Some(&"before"));
    assert_eq!(path("aten::cosh.default"), ["decorated"]);
    assert_eq!(path("aten::sinh.default"), Vec::<&str>::new());
    assert_eq!(path("aten::tanh.default"), ["scripted"]);
    assert_eq!(path("aten::cos.default"), ["worker"]);
    let optimizer = ops.values().find(|op| op.name.starts_with("Optimizer.step#")).unwrap();
    assert_eq!(optimizer.kind, OpKind::Region);
    let ranges: Vec<OpRange> = recording.rows();
    let source = |name: &str| {
        let is_named = |range: &&OpRange| ops[&range.op_id].name == name;
        ranges.iter().find(is_named).map(|range| range.source)
    };
    assert_eq!(["forward", "product"].map(source), [Some(RangeSource::Torch), Some(RangeSource::Stallmap)]);
    let ends: Vec<OpEnd> = recording.rows();
    assert!(ranges.iter().all(|range| ends.iter().any(|end| end.op_id == range.op_id)));
    let losses: Vec<LossTotal> = recording.rows();
    assert!(losses.iter().all(|loss| !loss.reason.contains("range")), "{losses:?}");
}

#[test]
fn regions_have_the_numbers_of_each_execution() {
    let Some(recording) = recorded() else { return };
    let ops: BTreeMap<OpId, Op> = recording.rows().into_iter().map(|op: Op| (op.op_id, op)).collect();
    let mut numbers: Vec<(String, String, f64, Option<String>)> = recording
        .rows()
        .into_iter()
        .map(|row: OpMetric| (ops[&row.op_id].name.clone(), row.name, row.value, row.unit))
        .collect();
    numbers.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    let number = |range: &str, name: &str, value, unit: Option<&str>| {
        (range.to_owned(), name.to_owned(), value, unit.map(str::to_owned))
    };
    let expected = [
        number("decorated", "flops", 3.0, Some("flop")),
        number("decorated", "flops", 3.0, Some("flop")),
        number("product", "bytes", 192.5, Some("B")),
        number("product", "flops", 128.0, Some("flop")),
        number("step", "tokens", 16.0, None),
    ];
    assert_eq!(numbers, expected);
}

#[test]
fn regions_work_without_pytorch_and_before_cuda_starts() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("program.py");
    // CUDA starts the session, as `stallmap_mode` does here.
    let text = "import ctypes, os, stallmap\n\
                library = ctypes.CDLL(os.environ['STALLMAP_LIBRARY'])\n\
                with stallmap.region('early', flops=5):\n    \
                    library.stallmap_mode(1)\n    \
                    with stallmap.region('late'):\n        pass\n";
    std::fs::write(&script, text).unwrap();
    let config = Config { directory: folder.path().join("recording"), ..Config::default() };
    let mut command = python();
    command.arg(&script).env(stallmap_config::VARIABLE, config.to_json().unwrap());
    command.env("STALLMAP_LIBRARY", library());
    let output = run(command);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let ops: Vec<Op> = rows::read(&config.directory);
    let names: Vec<&str> = ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(names, ["early", "late"]);
    assert!(ops[0].begin_ns <= ops[1].begin_ns);
    assert_eq!(ops[1].parent_op_id, Some(ops[0].op_id));
    assert_eq!(rows::read::<OpEnd>(&config.directory).len(), 2);
    let numbers: Vec<OpMetric> = rows::read(&config.directory);
    assert_eq!(numbers.first().map(|number| number.value), Some(5.0));
}

//! A program that XLA compiled: its launches have instructions, lines, layers and named buffers.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap_finish::finish;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::tables::hlo::{HloInstruction, HloLaunch, HloModule, HloSource};
use stallmap_schema::tables::launch::{Launch, LaunchParameter};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::{HloMethod, Instrument, OpKind, Phase};
use stallmap_testkit::protobuf::{field, number, value};
use stallmap_write::check::check;

use crate::recording::{self, CUBIN, KERNEL, fact, put};

/// Address of the argument's block, and of the block of temporaries.
const ARGUMENT: u64 = 1 << 32;
const TEMPORARIES: u64 = (1 << 32) + 4096;

fn instruction(name: &str, opcode: &str, id: u64, op_name: &str, frame: u64, operands: &[u64]) -> Vec<u8> {
    let metadata = field(7, [field(2, op_name), value(15, frame)].concat());
    let operands: Vec<u8> = operands.iter().flat_map(|operand| value(36, *operand)).collect();
    [field(1, name), field(2, opcode), metadata, value(35, id), operands].concat()
}

/// float32[128].
fn shape() -> Vec<u8> {
    [value(2, 11), field(3, number(128)), field(5, field(1, number(0)))].concat()
}

fn slice(allocation: u64, offset: u64) -> Vec<u8> {
    let slice = [value(1, offset), value(2, 512), value(3, allocation)].concat();
    [field(1, slice), field(2, shape())].concat()
}

/// A fusion in the gradient of a layer, then a product: argument 0 → temporaries at 256 → temporaries at 1024.
fn executable() -> Vec<u8> {
    let path = "jit(step)/transpose(jvp(Model))/while/body/Dense_0/mul";
    let entry: Vec<u8> = [
        instruction("p.1", "parameter", 1, "params['w']", 0, &[]),
        instruction("every.kind", "fusion", 2, path, 2, &[1]),
        instruction("custom-call.5", "custom-call", 3, "jit(step)/dot_general", 1, &[2]),
    ]
    .iter()
    .flat_map(|instruction| field(2, instruction))
    .collect();
    let frames = [
        field(1, "/home/me/train.py"),
        field(2, "<module>"),
        field(2, "Model.__call__"),
        field(3, [value(1, 1), value(2, 1), value(3, 9)].concat()),
        field(3, [value(1, 1), value(2, 2), value(3, 4)].concat()),
        field(4, value(1, 1)),
        field(4, [value(1, 2), value(2, 1)].concat()),
    ]
    .concat();
    let computation = [field(1, "main"), entry, value(5, 1), value(6, 3)].concat();
    let module = [field(1, "jit_step"), field(3, computation), value(6, 1), field(17, frames)].concat();
    let code = field(3, field(2, [field(2, field(1, CUBIN)), field(4, KERNEL)].concat()));
    let kernel = [field(1, slice(0, 0)), field(1, slice(1, 256)), field(2, [0, 1]), code].concat();
    let product = [field(5, slice(1, 256)), field(8, slice(1, 1024))].concat();
    let thunk =
        |name: &str, tag, body: &[u8]| field(13, [field(1, field(1, name)), field(tag, body)].concat());
    let argument = [value(2, 512), value(5, 1)].concat();
    let temporaries = [value(1, 1), value(2, 2048)].concat();
    let message = [
        field(1, field(1, module)),
        field(10, [field(1, argument), field(1, temporaries)].concat()),
        thunk("every.kind", 36, &kernel),
        thunk("custom-call.5", 22, &product),
    ]
    .concat();
    [vec![0], field(1, message)].concat()
}

/// The facts that the Python hook writes before a program.
fn facts(begin_ns: i64, end_ns: i64) -> String {
    format!(
        r#"{{"version": 1, "process_id": 10, "kind": "executable", "name": "jit_step", "begin_ns": {begin_ns},
            "end_ns": {end_ns}, "files": {{"/home/me/train.py": ["train.py", "train.py"]}}, "results": [],
            "stack": [["train.py", "train.py", "<module>", 1, 12]]}}"#
    )
    .replace('\n', " ")
}

/// Two executions of a fusion and a product, and a trial between them.
fn partial(folder: &Path) -> PathBuf {
    let partial = recording::write(folder);
    for run in ["run-accesses-10", "run-pc_samples-20"] {
        fs::remove_dir_all(partial.join(run)).unwrap();
    }
    let mut segment = recording::segment(&partial, "run-accesses-10");
    recording::describe_run(&mut segment, Instrument::Accesses, 10);
    let library = FunctionId(77);
    for ordinal in 0..5 {
        let is_own = ordinal == 0 || ordinal == 3;
        let launch = recording::bare_launch(ordinal);
        put(&mut segment, [if is_own { launch } else { Launch { function_id: library, ..launch } }]);
        put(&mut segment, [recording::launch_run(ordinal)]);
        let pointers = [ARGUMENT, TEMPORARIES + 256].map(u64::to_le_bytes).concat();
        let (offsets, sizes) = (vec![0, 8], vec![8, 8]);
        let parameter =
            LaunchParameter { kernel_id: KernelId(ordinal), bytes: Blob(pointers), offsets, sizes };
        put(&mut segment, is_own.then_some(parameter));
    }
    put(&mut segment, [fact("clean_end", "true")]);
    let program = |begin, end| [facts(begin, end).as_bytes(), b"\n", &executable()].concat();
    fs::write(partial.join("hlo-10-1.program"), program(1, 9)).unwrap();
    // The third launch runs while this one is compiled.
    fs::write(partial.join("hlo-10-2.program"), program(29, 35)).unwrap();
    partial
}

fn finished(change: impl FnOnce(&Path)) -> (CaptureReader, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let partial = partial(folder.path());
    change(&partial);
    let output = folder.path().join("program.stallmap");
    let summary = finish(&partial, &output, &|_| ()).unwrap();
    let reader = CaptureReader::open(&output).unwrap();
    assert_eq!(check(&reader), [], "{:#?}", summary.losses);
    (reader, folder)
}

#[test]
fn launches_have_their_instruction_line_and_layer() {
    let (reader, _folder) = finished(|_| ());
    let launches: Vec<HloLaunch> = reader.read_rows().unwrap();
    let found: Vec<_> =
        launches.iter().map(|row| (row.kernel_id.0, row.instruction_id, row.method)).collect();
    let expected = [
        (0, Some(2), HloMethod::Kernel),
        (1, Some(3), HloMethod::Order),
        (2, None, HloMethod::Tuning),
        (3, Some(2), HloMethod::Kernel),
        (4, Some(3), HloMethod::Order),
    ];
    assert_eq!(found, expected);
    let ops: Vec<Op> = reader.read_rows().unwrap();
    let listed: Vec<_> =
        ops.iter().map(|op| (op.kind, op.name.as_str(), op.phase, op.module_path.as_deref())).collect();
    let fusion = (OpKind::Hlo, "mul", Phase::Backward, Some("Model.Dense_0"));
    let product = (OpKind::Hlo, "dot_general", Phase::Other, None);
    assert_eq!(
        listed,
        [fusion, product, fusion, product, (OpKind::Tuning, "tune jit_step", Phase::Other, None)]
    );
    let states: Vec<PythonState> = reader.read_rows().unwrap();
    let frames: Vec<PythonFrame> = reader.read_rows().unwrap();
    let lines = |op: &Op| {
        let own = states.iter().filter(|state| Some(state.pystates_hash) == op.pystates_hash);
        let frame =
            |state: &PythonState| frames.iter().find(|frame| frame.frame_id == state.frame_id).unwrap();
        own.map(|state| frame(state).line).collect::<Vec<_>>()
    };
    assert_eq!(
        ops.iter().map(lines).collect::<Vec<_>>(),
        [vec![4, 9], vec![9], vec![4, 9], vec![9], vec![12]]
    );
    assert_eq!(reader.read_rows::<HloModule>().unwrap().len(), 2);
    assert_eq!(reader.read_rows::<HloInstruction>().unwrap().len(), 2);
    let sources: Vec<HloSource> = reader.read_rows().unwrap();
    assert_eq!(sources.len(), 2);
}

#[test]
fn buffers_have_the_names_of_arguments_and_instructions() {
    let (reader, _folder) = finished(|_| ());
    let storages: Vec<Storage> = reader.read_rows().unwrap();
    let lives: Vec<_> =
        storages.iter().map(|row| (row.address.0, row.alloc_ordinal, row.free_ordinal)).collect();
    // Each execution writes the temporaries again.
    let expected = [
        (ARGUMENT, 0, None),
        (TEMPORARIES + 256, 0, Some(3)),
        (TEMPORARIES + 1024, 1, Some(4)),
        (TEMPORARIES + 256, 3, Some(5)),
        (TEMPORARIES + 1024, 4, Some(5)),
    ];
    assert_eq!(lives, expected);
    let tensors: Vec<Tensor> = reader.read_rows().unwrap();
    let names: Vec<_> = tensors.iter().map(|row| (row.name.as_deref(), row.role.as_deref())).collect();
    let (argument, temporary) = (Some("argument"), Some("temporary"));
    let expected = [
        (Some("params['w']"), argument),
        (Some("every.kind"), temporary),
        (Some("custom-call.5"), temporary),
        (Some("every.kind"), temporary),
        (Some("custom-call.5"), temporary),
    ];
    assert_eq!(names, expected);
    assert_eq!(reader.read_rows::<OpTensor>().unwrap().len(), 8);
}

#[test]
fn a_damaged_program_is_counted_and_nothing_else_is_lost() {
    let (reader, _folder) = finished(|partial| {
        fs::write(partial.join("hlo-10-1.program"), b"{}\nx").unwrap();
        fs::write(partial.join("hlo-10-3.program"), b"no line").unwrap();
    });
    let losses: Vec<Loss> = reader.read_rows().unwrap();
    let unread = losses.iter().find(|loss| loss.reason == "HLO program cannot be read").unwrap();
    assert_eq!(unread.lost_count, 2);
    assert_eq!(reader.read_rows::<Launch>().unwrap().len(), 5);
}

//! Launches of a module with a loop, library calls and shared kernels, assigned to their instructions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use stallmap_hlo::assign::{AssignedLaunch, AssignmentMeans, SeenLaunch, assign};
use stallmap_hlo::executable::XlaExecutable;
use stallmap_hlo::module::CompiledModule;
use stallmap_hlo::plan::LaunchPlan;
use stallmap_testkit::protobuf::{field, value};

/// An instruction: name, operation, number, frame, the computations that it calls.
fn instruction(name: &str, opcode: &str, id: u64, frame: u64, calls: &[u64]) -> Vec<u8> {
    let metadata = [field(2, format!("jit(step)/jvp(Model)/Layer_0/{name}")), value(15, frame)].concat();
    let mut bytes = [field(1, name), field(2, opcode), value(35, id)].concat();
    if frame > 0 {
        bytes.extend(field(7, metadata));
    }
    bytes.extend(calls.iter().flat_map(|call| value(38, *call)));
    bytes
}

fn computation(name: &str, id: u64, root: u64, instructions: &[Vec<u8>]) -> Vec<u8> {
    let listed: Vec<u8> = instructions.iter().flat_map(|instruction| field(2, instruction)).collect();
    [field(1, name), listed, value(5, id), value(6, root)].concat()
}

/// The body of the loop: a fusion, a product, another fusion of the first one's kernel.
fn module() -> Vec<u8> {
    let fused = computation(
        "fused",
        3,
        31,
        &[
            instruction("p", "parameter", 30, 0, &[]),
            instruction("tanh.1", "tanh", 31, 2, &[]),
            instruction("mul.1", "multiply", 32, 1, &[]),
            instruction("mul.2", "multiply", 33, 1, &[]),
        ],
    );
    let body = computation(
        "body",
        2,
        22,
        &[
            instruction("loop_fusion.1", "fusion", 20, 0, &[3]),
            instruction("custom-call.7", "custom-call", 21, 2, &[]),
            instruction("loop_fusion.2", "fusion", 22, 2, &[3]),
        ],
    );
    let entry = computation(
        "main",
        1,
        12,
        &[
            instruction("start", "fusion", 10, 1, &[]),
            instruction("while.1", "while", 11, 1, &[2]),
            instruction("custom-call.8", "custom-call", 12, 1, &[]),
        ],
    );
    let frames = [
        field(1, "/home/a/train.py"),
        field(2, "step"),
        field(2, "Model.__call__"),
        field(3, [value(1, 1), value(2, 1), value(3, 9)].concat()),
        field(3, [value(1, 1), value(2, 2), value(3, 4)].concat()),
        field(4, value(1, 1)),
        field(4, [value(1, 2), value(2, 1)].concat()),
    ]
    .concat();
    [field(1, "jit_step"), field(3, fused), field(3, body), field(3, entry), value(6, 1), field(17, frames)]
        .concat()
}

/// A thunk: its name, and a kernel.
fn thunk(name: &str, kernel: Option<&str>) -> Vec<u8> {
    let code = |kernel: &str| field(3, field(2, [field(2, field(1, b"\x7fELF")), field(4, kernel)].concat()));
    let body = kernel.map_or_else(|| field(22, field(5, [])), |kernel| field(36, code(kernel)));
    [field(1, [field(1, name), value(3, 1)].concat()), body].concat()
}

fn executable() -> XlaExecutable {
    let body: Vec<u8> = [
        thunk("loop_fusion.1", Some("loop_fusion_1")),
        thunk("custom-call.7", None),
        thunk("loop_fusion.2", Some("loop_fusion_1")),
    ]
    .iter()
    .flat_map(|thunk| field(1, thunk))
    .collect();
    let around = [field(1, field(1, "while.1")), field(7, field(3, body))].concat();
    let thunks = [thunk("start", Some("start")), around, thunk("custom-call.8", None)];
    let thunks: Vec<u8> = thunks.iter().flat_map(|thunk| field(13, thunk)).collect();
    let message = [field(1, field(1, module())), thunks].concat();
    XlaExecutable::read(&[vec![0], field(1, message)].concat()).unwrap()
}

/// The instruction of each launch. A kernel whose name begins with lib is a library's.
fn assigned(kernels: &[(&'static str, Option<u64>)]) -> Vec<Option<(String, AssignmentMeans)>> {
    let executable = executable();
    let module = CompiledModule::read(executable.module()).unwrap();
    let thunks = executable.thunks();
    let plans = [LaunchPlan::new(&module, &thunks)];
    let seen = |&(kernel, instruction): &(&'static str, Option<u64>)| {
        let is_own = !kernel.starts_with("lib") || instruction.is_some();
        SeenLaunch { kernel, programs: if is_own { &[0] } else { &[] }, instruction }
    };
    let launches: Vec<SeenLaunch<'_>> = kernels.iter().map(seen).collect();
    let name = |assigned: AssignedLaunch| {
        let (_, instruction) = plans[assigned.program].steps[assigned.step];
        (instruction.name.to_owned(), assigned.means)
    };
    assign(&plans, &launches).into_iter().map(|assigned| assigned.map(name)).collect()
}

fn without_ranges(kernels: &[&'static str]) -> Vec<Option<(String, AssignmentMeans)>> {
    assigned(&kernels.iter().map(|kernel| (*kernel, None)).collect::<Vec<_>>())
}

#[test]
fn a_shared_kernel_and_a_library_call_are_found_by_order_in_every_turn() {
    let turn = ["loop_fusion_1", "lib_gemm", "loop_fusion_1"];
    let launches = [&["start"][..], &turn, &turn, &["lib_gemm"], &["start"]].concat();
    let names: Vec<String> = without_ranges(&launches).into_iter().map(|found| found.unwrap().0).collect();
    let turn = ["loop_fusion.1", "custom-call.7", "loop_fusion.2"];
    assert_eq!(names, [&["start"][..], &turn, &turn, &["custom-call.8"], &["start"]].concat());
}

#[test]
fn a_kernel_before_every_known_one_belongs_to_nothing() {
    assert_eq!(without_ranges(&["lib_gemm"]), [None]);
    assert_eq!(without_ranges(&["start", "other"])[1], None);
}

#[test]
fn a_range_names_the_instruction_whatever_the_order_says() {
    let launches = [("loop_fusion_1", Some(22)), ("lib_gemm", Some(12)), ("loop_fusion_1", Some(99))];
    let found: Vec<_> = assigned(&launches).into_iter().map(Option::unwrap).collect();
    assert_eq!(found[0], ("loop_fusion.2".to_owned(), AssignmentMeans::Range));
    assert_eq!(found[1], ("custom-call.8".to_owned(), AssignmentMeans::Range));
    // No such instruction: the kernel's name counts.
    assert_eq!(found[2].1, AssignmentMeans::Kernel);
}

#[test]
fn a_fusion_has_the_place_of_its_root_and_every_source_by_weight() {
    let executable = executable();
    let module = CompiledModule::read(executable.module()).unwrap();
    let (computation, fusion) = module.named("loop_fusion.1").unwrap();
    assert_eq!(computation.name, "body");
    let origin = module.origin(fusion);
    assert!(origin.is_own);
    assert_eq!(origin.operation.op_name, "jit(step)/jvp(Model)/Layer_0/tanh.1");
    let frames = module.frames(origin.operation);
    let lines: Vec<_> = frames.iter().map(|frame| (frame.function, frame.line)).collect();
    assert_eq!(lines, [("Model.__call__", 4), ("step", 9)]);
    let sources = module.sources(fusion);
    let weights: Vec<_> =
        sources.iter().map(|source| (source.operation.frame, source.operation_count)).collect();
    assert_eq!(weights, [(2, 1), (1, 2)]);
    assert!((sources.iter().map(|source| source.weight).sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn damaged_bytes_never_panic() {
    let message = [field(1, field(1, module()))].concat();
    let whole = [vec![0], field(1, message)].concat();
    for length in 0..whole.len() {
        for flip in [0, 0x55, 0xff] {
            let mut bytes = whole[..length].to_vec();
            if let Some(last) = bytes.last_mut() {
                *last ^= flip;
            }
            let Some(executable) = XlaExecutable::read(&bytes) else { continue };
            let (module, thunks) = (CompiledModule::read(executable.module()), executable.thunks());
            if let Some(module) = module {
                let plan = LaunchPlan::new(&module, &thunks);
                assert!(plan.steps.len() < 100);
            }
        }
    }
}

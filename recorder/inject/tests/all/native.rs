//! Native stacks of a C++ library, from the call to functions and lines of the capture.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use stallmap_finish::finish;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::NativeFrameId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::native::{NativeFrame, NativeState};
use tempfile::TempDir;

use crate::faults::record_as;

/// Calls of known lines: 5 in 6 (inlined) in 7 in 8.
const LIBRARY: &str = r#"typedef unsigned long long (*Capture)();
static volatile int count;
namespace solver {
struct TimeStep {
  __attribute__((noinline)) unsigned long long leaf(Capture capture) { auto stack = capture(); count++; return stack; }
  __attribute__((always_inline)) unsigned long long inlined(Capture capture) { auto stack = leaf(capture); count++; return stack; }
  __attribute__((noinline)) unsigned long long outer(Capture capture) { auto stack = inlined(capture); count++; return stack; }
}; }
extern "C" unsigned long long enter(Capture capture) { auto stack = solver::TimeStep().outer(capture); count++; return stack; }
"#;

/// Calls a library twice, and gives the number of its stack.
const CALLS: &str = r"
import _ctypes
library.stallmap_native_stack.restype = ctypes.c_uint64
def call(path):
    solver = ctypes.CDLL(path)
    solver.enter.restype = ctypes.c_uint64
    stacks = {solver.enter(library.stallmap_native_stack) for _ in range(2)}
    assert len(stacks) == 1 and 0 not in stacks, stacks
    _ctypes.dlclose(solver._handle)
";

fn compile(folder: &Path, name: &str, options: &[&str]) {
    let source = folder.join("solver.cpp");
    std::fs::write(&source, LIBRARY).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-shared", "-fPIC", "-O1", "-o", name]).args(options).arg(&source).current_dir(folder);
    assert!(compiler.status().unwrap().success());
}

fn rows<R: TableRow>(capture: &CaptureReader) -> Vec<R> {
    capture
        .read_table(R::TABLE.name)
        .unwrap()
        .flat_map(|batch| R::read_all(&batch.unwrap()).unwrap())
        .collect()
}

/// The frames of the stack through a library, from the innermost to `enter`.
fn stack(frames: &[NativeFrame], states: &[NativeState], library: &str) -> Vec<NativeFrame> {
    let by_id: BTreeMap<NativeFrameId, &NativeFrame> =
        frames.iter().map(|frame| (frame.native_frame_id, frame)).collect();
    let is_own = |frame: &&&NativeFrame| {
        frame.library.as_deref().is_some_and(|path| path.ends_with(&format!("/{library}")))
    };
    let own = states.iter().filter_map(|state| by_id.get(&state.native_frame_id));
    own.filter(is_own).map(|frame| (*frame).clone()).collect()
}

#[test]
fn stacks_of_a_library_have_functions_and_lines_or_the_reason_why_not() {
    let folder = TempDir::new().unwrap();
    let libraries = [
        ("lines.so", &["-g", "-Wl,--build-id"][..]),
        ("nameless.so", &["-g", "-Wl,--build-id=none"]),
        ("stripped.so", &["-s", "-Wl,--build-id"]),
        ("replaced.so", &["-O2", "-Wl,--build-id"]),
    ];
    let mut program = CALLS.to_owned();
    for (name, options) in libraries {
        compile(folder.path(), name, options);
        writeln!(program, "call('{}')", folder.path().join(name).display()).unwrap();
    }
    program.push_str("import os\nos._exit(0)\n");
    let (recording, output) = record_as(&program, |config| config.native_stacks = true);
    assert!(output.status.success(), "{output:?}");
    compile(folder.path(), "replaced.so", &["-O0", "-Wl,--build-id"]);
    let path = folder.path().join("native.stallmap");
    finish(recording.path(), &path, &|_| ()).unwrap();
    let capture = CaptureReader::open(&path).unwrap();
    let (frames, states): (Vec<NativeFrame>, Vec<NativeState>) = (rows(&capture), rows(&capture));
    for library in ["lines.so", "nameless.so"] {
        let found = stack(&frames, &states, library);
        let shown: Vec<_> = found
            .iter()
            .map(|frame| {
                (frame.function.as_deref().unwrap_or_default(), frame.line.unwrap_or(0), frame.level)
            })
            .collect();
        let expected = [
            ("solver::TimeStep::leaf", 5, 0),
            ("solver::TimeStep::inlined", 6, 0),
            ("solver::TimeStep::outer", 7, 1),
            ("enter", 9, 0),
        ];
        assert_eq!(shown, expected, "{library}");
        assert!(found.iter().all(|frame| frame.file.as_deref().unwrap().ends_with("/solver.cpp")));
        assert!(found.iter().all(|frame| frame.build_id.is_some() == (library == "lines.so")));
    }
    let stripped = stack(&frames, &states, "stripped.so");
    let shown: Vec<_> =
        stripped.iter().map(|frame| (frame.function.as_deref(), frame.missing.as_deref().unwrap())).collect();
    assert_eq!(shown.last(), Some(&(Some("enter"), "the library has no line table")));
    let replaced = stack(&frames, &states, "replaced.so");
    let is_refused = |frame: &NativeFrame| {
        frame.function.is_none()
            && frame.missing.as_deref() == Some("the library's file is not the one that ran")
    };
    assert!(replaced.len() == 3 && replaced.iter().all(is_refused), "{replaced:?}");
}

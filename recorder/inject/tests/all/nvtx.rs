//! Ranges of NVTX, as a copy of NVTX in a program passes them on. The program uses them rightly and wrongly.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::{LossTotal, OpEnd};
use stallmap_schema::id::OpId;
use stallmap_schema::tables::tensor::{Op, OpMetric, OpRange};
use stallmap_schema::word::{OpKind, RangeSource};
use tempfile::TempDir;

use crate::faults::record;
use crate::python::rows;

/// A copy of NVTX: its tables, and calls of what the library puts into their slots.
const NVTX: &str = r#"
from ctypes import *
class Attributes(Structure):
    _fields_ = [("version", c_uint16), ("size", c_uint16), ("category", c_uint32), ("color", c_uint32 * 2),
        ("payload_type", c_int32), ("reserved", c_int32), ("payload", c_uint64), ("message_type", c_int32),
        ("message", c_void_p)]
class Table(Structure):
    _fields_ = [("size", c_size_t), ("slots", c_void_p)]
class Copy:
    def __init__(self, cores=16, domains=16, size=sizeof(Table)):
        self.functions = {1: (c_void_p * 16)(), 5: (c_void_p * 16)()}
        self.slots, self.counts = {}, {1: cores, 5: domains}
        for module, functions in self.functions.items():
            self.slots[module] = (c_void_p * 16)(*[addressof(functions) + 8 * slot for slot in range(16)])
            self.slots[module][12 if module == 1 else 6] = None
        kind = CFUNCTYPE(c_int, c_uint32, POINTER(c_void_p), POINTER(c_uint32))
        def slots(module, table, count):
            if module not in self.slots: return 0
            table[0] = addressof(self.slots[module])
            count[0] = self.counts[module]
            return 1
        self.give = kind(slots)
        self.table = Table(size, cast(self.give, c_void_p).value)
        self.tables = CFUNCTYPE(c_void_p, c_uint32)(lambda number: addressof(self.table) if number == 1 else None)
    def attach(self):
        return library.InitializeInjectionNvtx2(self.tables)
    def call(self, module, slot, result, *arguments):
        types, values = zip(*arguments) if arguments else ((), ())
        return CFUNCTYPE(result, *types)(self.functions[module][slot])(*values)
    def push(self, text): return self.call(1, 9, c_int, (c_char_p, text))
    def pop(self): return self.call(1, 11, c_int)
    def start(self, text): return self.call(1, 5, c_uint64, (c_char_p, text))
    def end(self, number): return self.call(1, 7, None, (c_uint64, number))
    def domain(self, name): return self.call(5, 12, c_void_p, (c_char_p, name))
    def register(self, domain, text): return self.call(5, 10, c_void_p, (c_void_p, domain), (c_char_p, text))
    def push_in(self, domain, attributes):
        return self.call(5, 4, c_int, (c_void_p, domain), (c_void_p, attributes and addressof(attributes)))
    def pop_in(self, domain): return self.call(5, 5, c_int, (c_void_p, domain))
def attributes(type, message, payload=(0, 0), category=0, size=sizeof(Attributes)):
    return Attributes(3, size, category, (c_uint32 * 2)(), payload[0], 0, payload[1], type, message)
def text_of(word):
    words.append(create_string_buffer(word)); return addressof(words[-1])
words = []
nvtx = Copy()
assert nvtx.attach() == 1
"#;

struct NvtxRecording {
    ops: Vec<Op>,
    ranges: BTreeMap<OpId, OpRange>,
    metrics: Vec<OpMetric>,
    losses: BTreeMap<String, u64>,
    ends: Vec<OpEnd>,
}

impl NvtxRecording {
    fn named(&self, name: &str) -> &Op {
        self.ops.iter().find(|op| op.name == name).unwrap_or_else(|| panic!("no {name}: {:?}", self.ops))
    }

    fn parent(&self, name: &str) -> Option<&str> {
        let parent = self.named(name).parent_op_id?;
        self.ops.iter().find(|op| op.op_id == parent).map(|op| op.name.as_str())
    }

    fn has_ended(&self, name: &str) -> bool {
        self.ends.iter().any(|end| end.op_id == self.named(name).op_id)
    }
}

fn run(program: &str) -> NvtxRecording {
    let (folder, output): (TempDir, _) = record(&format!("{NVTX}{program}"));
    assert!(output.status.success(), "{output:?}");
    let mut ops: Vec<Op> = rows::read(folder.path());
    ops.sort_by_key(|op| op.op_id);
    assert!(ops.iter().all(|op| op.kind == OpKind::Region));
    let ranges: Vec<OpRange> = rows::read(folder.path());
    let losses: Vec<LossTotal> = rows::read(folder.path());
    NvtxRecording {
        ops,
        ranges: ranges.into_iter().map(|range| (range.op_id, range)).collect(),
        metrics: rows::read(folder.path()),
        losses: losses.into_iter().map(|loss| (loss.reason, loss.total_count)).collect(),
        ends: rows::read(folder.path()),
    }
}

#[test]
fn ranges_of_every_kind_have_their_parent_domain_category_and_payload() {
    let recording = run(r#"
assert nvtx.push(b"outer") == 0
solver = nvtx.domain(b"solver")
smooth = nvtx.register(solver, b"smooth")
assert nvtx.push_in(solver, attributes(3, smooth, (3, 4609434218613702656), 7)) == 0
assert nvtx.push_in(solver, attributes(1, text_of(b"inner"), (5, 12))) == 1
started = nvtx.start(b"started")
assert nvtx.pop() == 0
nvtx.push(b"after outer")
nvtx.end(started)
nvtx.push(b"after started")
nvtx.push_in(0, attributes(1, text_of(b"structured"), (0xdfbd0009 - (1 << 32), 1)))
assert nvtx.pop_in(solver) == 1
wide = create_unicode_buffer("h\u00f6her")
nvtx.call(1, 10, c_int, (c_void_p, addressof(wide)))
nvtx.call(1, 2, None, (c_char_p, b"mark"))
"#);
    let parents = [
        ("outer", None),
        ("smooth", Some("outer")),
        ("inner", Some("smooth")),
        ("started", Some("inner")),
        ("after outer", Some("started")),
        ("after started", Some("after outer")),
        ("structured", Some("after started")),
        ("h\u{f6}her", Some("structured")),
    ];
    assert_eq!(parents.map(|(name, _)| (name, recording.parent(name))), parents);
    let smooth = &recording.ranges[&recording.named("smooth").op_id];
    assert_eq!((smooth.source, smooth.domain.as_deref()), (RangeSource::Nvtx, Some("solver")));
    let categories = ["smooth", "inner"].map(|name| recording.ranges[&recording.named(name).op_id].category);
    assert_eq!(categories, [Some(7), None]);
    assert_eq!(recording.ranges[&recording.named("outer").op_id].domain, None);
    let payloads: Vec<f64> = recording.metrics.iter().map(|metric| metric.value).collect();
    assert_eq!(payloads, [1.5, 12.0]);
    let ended =
        ["outer", "smooth", "inner", "started", "after outer", "mark"].map(|name| recording.has_ended(name));
    assert_eq!(ended, [true, false, true, true, false, true]);
    assert_eq!(recording.losses, BTreeMap::new());
}

#[test]
fn wrong_use_is_counted_and_ends_nothing_of_the_program() {
    let recording = run(r#"
assert nvtx.pop() == -1
assert nvtx.pop_in(12345) == -1
nvtx.end(0); nvtx.end(1 << 63); nvtx.end(77)
assert nvtx.push(None) == 0
assert nvtx.push_in(0, None) == 1
assert nvtx.push_in(0, attributes(1, None)) == 2
assert nvtx.push_in(0, attributes(3, 987654321)) == 3
assert nvtx.push_in(0, attributes(99, 1)) == 4
assert nvtx.push_in(0, attributes(1, text_of(b"short"), size=16)) == 5
assert nvtx.push_in(0, attributes(1, text_of(b"odd payload"), (-5, 1))) == 6
assert nvtx.push_in(0, attributes(1, text_of(b"\xff\xfe"))) == 7
nvtx.push(b"n" * 100000)
"#);
    let counts = |reason: &str| recording.losses.get(reason).copied().unwrap_or(0);
    assert_eq!(counts("a range ended that its thread had not begun"), 2);
    assert_eq!(counts("a range ended that had not begun"), 3);
    assert_eq!(counts("the name of an NVTX range cannot be read"), 6);
    assert_eq!(counts("the payload of an NVTX range is of a type that is not recorded"), 1);
    assert_eq!(recording.ops.iter().filter(|op| op.name == "(unnamed)").count(), 6);
    assert_eq!(recording.parent("\u{fffd}\u{fffd}"), Some("odd payload"));
    assert_eq!(recording.ops.last().map(|op| op.name.len()), Some(4096));
}

#[test]
fn ranges_that_never_end_are_bounded_and_the_others_are_counted() {
    let recording = run(r#"
for number in range(5000): assert nvtx.push(b"deep") == number
for number in range(5000): assert nvtx.pop() == 4999 - number
assert nvtx.pop() == -1
for number in range(5000): nvtx.start(b"started")
"#);
    assert_eq!(recording.ops.len(), 2 * 4096);
    assert_eq!(recording.losses["too many ranges are open on a thread"], 2 * 904);
    assert_eq!(recording.losses["a range ended that its thread had not begun"], 1);
    assert_eq!(recording.ends.len(), 4096);
}

#[test]
fn a_range_may_end_on_another_thread_and_never_in_another_thread_s_order() {
    let recording = run(r#"
import threading
number = nvtx.start(b"started")
nvtx.push(b"pushed")
def work():
    nvtx.end(number)
    assert nvtx.pop() == -1
    nvtx.push(b"elsewhere")
thread = threading.Thread(target=work); thread.start(); thread.join()
nvtx.push(b"later")
"#);
    assert_eq!([recording.has_ended("started"), recording.has_ended("pushed")], [true, false]);
    assert_eq!([recording.parent("elsewhere"), recording.parent("later")], [None, Some("pushed")]);
    assert_ne!(recording.named("elsewhere").thread_id, recording.named("later").thread_id);
}

#[test]
fn a_copy_of_nvtx_with_other_tables_is_refused_or_filled_as_far_as_it_goes() {
    let recording = run(r"
assert library.InitializeInjectionNvtx2(None) == 0
assert Copy(size=4).attach() == 0
small = Copy(cores=10, domains=0)
assert small.attach() == 1
assert small.functions[1][9] and not small.functions[1][11] and not any(small.functions[5])
empty = Copy(); empty.slots = {}
assert empty.attach() == 0
none = Copy(); none.tables = CFUNCTYPE(c_void_p, c_uint32)(lambda number: None)
assert none.attach() == 0
");
    assert!(recording.ops.is_empty());
}

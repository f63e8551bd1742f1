//! PyTorch's execution traces, alone and with a trace of the profiler.

use std::fs;

use super::base::expect_partial;
use super::{number, python, rows};
use crate::command::CommandFolder;

/// An execution trace in both forms, and a profiler's trace of the same run that lacks one op. Prints the number of ops.
const TRACES: &str = r#"
import json
names = ["aten::linear", "aten::addmm", "aten::relu", "step", "autograd::engine::evaluate_function: AddmmBackward0", "aten::mm"]
parents = [None, 0, None, None, None, 4]
nodes = [{"name": "[pytorch|profiler|execution_trace|process]", "id": 1, "parent": 1, "rf_id": 0, "tid": 0},
    {"name": "[pytorch|profiler|execution_trace|thread]", "id": 2, "parent": 1, "rf_id": 0, "tid": 1}]
for number, (name, parent) in enumerate(zip(names, parents)):
    nodes.append({"name": name, "id": 10 + number, "rf_id": 100 + number, "parent": 2 if parent is None else 10 + parent,
        "fw_parent": 11 if number == 5 else 0, "seq_id": number if number in (1, 5) else -1, "tid": 1,
        "scope": 7 if name == "step" else 1 if number == 4 else 0, "fw_tid": 1 if number == 4 else 0,
        "op_schema": f"{name}.default(Tensor self) -> Tensor" if name.startswith("aten") else "",
        "inputs": [[5, 6, 0, 4, 4, "cuda:0"]], "input_shapes": [[4]], "input_types": ["Tensor(float)"],
        "outputs": [[7, 8, 0, 4, 4, "cuda:0"], 3], "output_shapes": [[4], []], "output_types": ["Tensor(float)", "Int"]})
head = {"pid": 77, "time": "2026-01-01", "start_ts": 5}
json.dump({"schema": "1.0.1", **head, "nodes": nodes[::-1], "odd": {"a": [1]}}, open("old.json", "w"))
def newer(node):
    values = {"inputs": {"values": node.get("inputs", []), "shapes": [], "types": []}, "outputs": {"values": node.get("outputs", [])}}
    attrs = [{"name": key, "type": "int", "value": node[key]} for key in ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema") if key in node]
    return {"id": node["id"], "name": node["name"], "ctrl_deps": node["parent"], **values, "attrs": attrs + [{"name": "odd", "value": 1}]}
json.dump({"schema": "1.0.2-chakra.0.0.4", **head, "nodes": [newer(node) for node in nodes]}, open("new.json", "w"))
event = lambda number, key: {"ph": "X", "cat": "cpu_op", "name": names[number], "pid": 77, "tid": 77, "ts": 100 * number, "dur": 50,
    "args": {key: 100 + number, **({"External id": 7} if key != "External id" else {})}}
other = {"ph": "X", "cat": "cpu_op", "name": "aten::other", "pid": 77, "tid": 77, "ts": 9000, "dur": 5, "args": {"External id": 100}}
for file, key in (("a.json", "External id"), ("b.json", "Record function id")):
    json.dump({"traceEvents": [event(number, key) for number in range(5)] + [other]}, open(file, "w"))
for file, first in (("same", 0), ("later", 500)):
    events = [event(number, "External id") for number in range(5)]
    events[1]["args"]["Sequence number"] = first + 1
    json.dump({"traceEvents": events}, open(f"{file}.json", "w"))
print(len(names))
"#;

#[test]
fn both_forms_hold_the_same_ops() {
    let place = CommandFolder::new();
    let ops: u64 = python(&place, TRACES).parse().unwrap();
    let list = "SELECT o.name, o.kind, o.phase, o.sequence_number AS s, p.name AS outer, f.name AS forward FROM op o \
         LEFT JOIN op p ON p.op_id = o.parent_op_id LEFT JOIN op f ON f.op_id = o.forward_op_id ORDER BY o.op_id";
    for file in ["old.json", "new.json"] {
        let capture = format!("{file}.stallmap");
        place.run(&["import", file, "-o", &capture]).expect_ok();
        place.run(&["check", &capture]).expect_ok();
        assert_eq!(number(&place, &capture, "SELECT count(*) AS n FROM op"), ops);
        let unread = "SELECT lost_count AS n FROM loss WHERE kind = 'tensor'";
        assert_eq!(number(&place, &capture, unread), 3 * ops);
        let found = rows(&place, &capture, list);
        let row = |index: usize| {
            let row = &found[index];
            ["name", "kind", "phase", "s", "outer", "forward"]
                .map(|key| row[key].to_string().replace('"', ""))
        };
        assert_eq!(row(1), ["aten::addmm.default", "torch", "forward", "1", "aten::linear.default", "null"]);
        assert_eq!(row(3), ["step", "region", "forward", "null", "null", "null"]);
        let backward = "autograd::engine::evaluate_function: AddmmBackward0";
        assert_eq!(row(5), ["aten::mm.default", "torch", "backward", "5", backward, "aten::addmm.default"]);
        let odd = "SELECT count(*) AS n FROM loss WHERE detail = 'odd'";
        assert_eq!(number(&place, &capture, odd), 1);
        place.run(&["report", &capture]).expect_ok();
    }
    place.run(&["import", "old.json", "-o", "x.stallmap"]).check("import_execution_trace");
}

#[test]
fn ops_of_one_run_are_joined_by_their_record() {
    let place = CommandFolder::new();
    python(&place, TRACES);
    for (number, files) in [["a.json", "old.json"], ["new.json", "b.json"]].iter().enumerate() {
        let capture = format!("{number}.stallmap");
        place.run(&["import", files[0], files[1], "-o", &capture]).expect_ok();
        place.run(&["check", &capture]).expect_ok();
        let joined =
            "SELECT count(*) AS n FROM op WHERE name LIKE 'aten::%.default' AND end_ns - begin_ns = 50000";
        assert_eq!(super::number(&place, &capture, joined), 3);
        let option = "SELECT count(*) AS n FROM run_option WHERE name = 'joined.execution_trace' AND value = '5 of 6 ops'";
        assert_eq!(super::number(&place, &capture, option), 1);
        // The sixth op is in one file. Another op of the trace has the record of the first, and another name.
        let lost = "SELECT CAST(sum(lost_count) AS BIGINT) AS n FROM loss WHERE kind = 'op'";
        assert_eq!(super::number(&place, &capture, lost), 2);
        let files = "SELECT count(*) AS n FROM run_option WHERE name LIKE 'imported.hash%'";
        assert_eq!(super::number(&place, &capture, files), 2);
    }
    place.run(&["import", "a.json", "b.json", "-o", "x.stallmap"]).expect_error(2);
}

#[test]
fn ops_of_another_iteration_are_not_joined() {
    let place = CommandFolder::new();
    python(&place, TRACES);
    for (file, joined, other) in [("same", 3, 0), ("later", 0, 1)] {
        let (trace, capture) = (format!("{file}.json"), format!("{file}.stallmap"));
        place.run(&["import", &trace, "old.json", "-o", &capture]).expect_ok();
        let named = "SELECT count(*) AS n FROM op WHERE name LIKE 'aten::%.default'";
        assert_eq!(number(&place, &capture, named), joined, "{file}");
        let lost = "SELECT count(*) AS n FROM loss WHERE reason LIKE '%it is of another iteration' AND lost_count = 1";
        assert_eq!(number(&place, &capture, lost), other, "{file}");
    }
}

#[test]
fn cut_and_odd_traces_end() {
    let place = CommandFolder::new();
    python(&place, TRACES);
    let whole = fs::read(place.path("old.json")).unwrap();
    for length in (1..whole.len()).step_by(211) {
        fs::write(place.path("cut"), &whole[..length]).unwrap();
        let ran = place.run(&["import", "cut", "-o", "x.stallmap"]);
        expect_partial(&place, &ran, length);
    }
    let node = r#"{"id":1e99,"name":"a","parent":{},"inputs":7,"attrs":[1,{"name":[]}]}"#;
    place.file("odd", format!(r#"{{"nodes":[{node},7,[],null]}}"#));
    place.run(&["import", "odd", "-o", "x.stallmap"]).expect_error(5);
    // Nodes around each other, and nodes with one number.
    let nodes = r#"{"id":3,"name":"a","parent":4},{"id":4,"name":"b","parent":3},{"id":4,"name":"c","parent":-1,"tid":-9}"#;
    place.file("odd", format!(r#"{{"nodes":[{nodes}]}}"#));
    place.run(&["import", "odd", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let outer = "SELECT count(*) AS n FROM op WHERE parent_op_id IS NOT NULL";
    assert_eq!(number(&place, "x.stallmap", outer), 1);
}

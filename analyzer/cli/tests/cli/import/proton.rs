//! Proton's profiles: sums of call paths.

use std::fs;

use serde_json::json;

use super::base::expect_partial;
use super::{number, python, rows};
use crate::command::CommandFolder;

/// A profile as JSON and as MessagePack: scopes, Python frames, auxiliary kernels, samples of lines. Prints the sums of
/// time, launches and bytes.
const PROFILE: &str = r#"
import json, struct
def node(name, metrics=None, children=()):
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": metrics or {}}
total, launches, moved = 0, 0, 0
def kernel(name, time, count, children=(), **others):
    global total, launches, moved
    total, launches, moved = total + time, launches + count, moved + others.get("bytes", 0)
    return node(name, {"count": count, "time (ns)": time, "device_id": "0", "device_type": "CUDA", **others}, children)
line = node("/k.py:18", {"num_samples": 70, "num_stalled_samples": 60, "stalled_wait": 60})
tree = node("ROOT", {"count": 0, "time (ns)": 0, "bytes": 0}, [
    node("forward", {"flops": 10}, [
        kernel("k<int>", 1001, 3, [line], bytes=96),
        kernel("k<int>", 500, 1),
        node("__proton_launch_metadata", None, [kernel("aux", 4064, 2)]),
    ]),
    node("train.py:step@7", None, [node("model.py:3@forward", None, [kernel("gemm", 90000, 7, vector=[1, 2])])]),
    {"frame": {"name": "untyped"}, "metrics": {"time (ns)": 5}, "children": [], "odd": 1},
])
profile = [tree, {"CUDA": {"0": {"arch": "90", "bus_width": 6144, "clock_rate": 1980000, "memory_clock_rate": 2619000, "num_sms": 132}}}]
def pack(value):
    if isinstance(value, str):
        data = value.encode()
        return (bytes([0xa0 | len(data)]) if len(data) < 32 else b"\xd9" + bytes([len(data)])) + data
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(pack, value))
    return bytes([0x80 | len(value)]) + b"".join(pack(key) + pack(value[key]) for key in sorted(value, reverse=True))
def nested(depth):
    return kernel("deep", 1, 1) if depth == 0 else node(f"scope{depth}", None, [nested(depth - 1)])
open("p.hatchet", "w").write(json.dumps(profile))
open("p.msgpack", "wb").write(pack(profile))
print(total, launches, moved)
open("deep.hatchet", "w").write(json.dumps([nested(250)]))
open("deeper.hatchet", "w").write('[{"children":' * 100000)
"#;

#[test]
fn a_profile_keeps_its_sums_per_path_in_both_forms() {
    let place = CommandFolder::new();
    let printed = python(&place, PROFILE);
    let totals: Vec<u64> = printed.split(' ').map(|total| total.parse().unwrap()).collect();
    for file in ["p.hatchet", "p.msgpack"] {
        let capture = format!("{file}.stallmap");
        place.run(&["import", file, "-o", &capture]).expect_ok();
        place.run(&["check", &capture]).expect_ok();
        let sum = |metric: &str| {
            let sql = format!(
                "SELECT CAST(round(sum(value)) AS BIGINT) AS n FROM counter WHERE metric = '{metric}'"
            );
            number(&place, &capture, &sql)
        };
        let count = number(&place, &capture, "SELECT count(*) AS n FROM launch");
        assert_eq!([sum("gpu__time_duration.sum"), count, sum("bytes")], totals[..]);
        let time = "SELECT CAST(sum(time_ns) AS BIGINT) AS n FROM launch_time WHERE is_measured";
        assert_eq!(number(&place, &capture, time), totals[0]);
        let by_op = "SELECT coalesce(op || ' ', '') || coalesce(line, '') AS path, kernel, count(*) AS n, \
             CAST(sum(t.time_ns) AS BIGINT) AS ns FROM launch_context c JOIN launch_time t ON t.kernel_id = c.kernel_id \
             GROUP BY path, kernel ORDER BY path, kernel";
        let found: Vec<String> = rows(&place, &capture, by_op)
            .iter()
            .map(|row| {
                format!("{} {} {} {}", row["path"], row["kernel"], row["n"], row["ns"]).replace('"', "")
            })
            .collect();
        let expected = [
            // A launch without a stack has its innermost scope of the program for a line.
            "__proton_launch_metadata forward (range) aux 2 4064",
            "forward forward (range) k<int> 4 1501",
            "model.py:3 forward gemm 7 90000",
        ];
        assert_eq!(found, expected);
        let lost = "SELECT CAST(sum(lost_count) AS BIGINT) AS n FROM loss WHERE ";
        for (reason, count) in [
            ("kind = 'sample'", 70),
            ("reason LIKE 'times of single launches%'", 12),
            ("reason LIKE 'metrics of call paths without%'", 1),
            ("reason LIKE 'metrics with several values'", 1),
            ("reason LIKE 'keys of the imported file%' AND detail = 'odd'", 1),
        ] {
            assert_eq!(number(&place, &capture, &format!("{lost}{reason}")), count, "{reason}");
        }
        // A number of a scope is the scope's.
        let flops = "SELECT CAST(sum(value) AS BIGINT) AS n FROM range_metric WHERE range_name = 'forward' AND metric = 'flops'";
        assert_eq!(number(&place, &capture, flops), 10);
        place.run(&["report", &capture, "--all"]).expect_ok();
    }
    place.run(&["import", "p.hatchet", "-o", "x.stallmap"]).check("import_proton");
}

/// Cycles of scopes in kernels: a tree in which one kernel has launches and one has none, and Chrome traces of two launches of
/// a kernel and one of another, with and without the gap between launches. Prints the cycles of the scope `load`.
const CYCLES: &str = r#"
import json, random
def node(name, metrics=None, children=()):
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": metrics or {}}
def cycles(name, value, children=()):
    return node(name, {"cycles": value, "normalized_cycles": value / 4, "device_id": "0"}, children)
tree = node("ROOT", {}, [
    node("step", None, [node("add", None, [cycles("kernel", 1200, [cycles("load", 400), cycles("store", 100)])])]),
    node("mul", {"count": 2, "time (ns)": 50, "device_id": "0"}, [cycles("kernel", 600)]),
])
json.dump([tree, {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}], open("cycles.hatchet", "w"))
random.seed(3)
total = 0
def trace(name):
    global total
    gap, is_newer = name == "gap", name == "newer"
    events, total = [], 0
    for launch, kernel in enumerate(["add", "add", "mul"]):
        for block in range(3):
            for warp in range(2):
                for scope in ["load", "load", "store"]:
                    length = random.randrange(1, 900)
                    total += length * (scope == "load")
                    process = f"{kernel} Core{block % 2} CTA{block}" + ("" if is_newer else " [measure in clock cycle (assume 1GHz)]")
                    args = {"Unit": "GPU cycle", **({"Kernel Gap": "10000000cycle(ns)"} if gap else {})}
                    if is_newer:
                        args = {"Finalization Time (ns)": 128, "Frequency (MHz)": 1000.0, "call_stack": ["ROOT", "train.py:12@main", "step", kernel]}
                    events.append({"cname": "good", "name": scope, "cat": kernel, "ph": "X", "pid": process, "tid": f"warp {warp} (line 0)",
                                   "ts": (launch * 10**7 + random.randrange(1000)) / 1000.0, "dur": length / 1000.0, "args": args})
    events.append({"name": "load", "cat": "add", "ph": "X", "pid": "add", "tid": "x", "ts": 1})
    json.dump({"displayTimeUnit": "ns", "traceEvents": events}, open(f"{name}.json", "w"))
    return total
print(trace("gap"), trace("plain"), trace("newer"))
# A document for each stream, as `data="trace"` writes kernels.
with open("streams.json", "w") as file:
    for stream, scope in ((0, "forward"), (7, "backward")):
        events = [{"name": "mm", "cat": "kernel", "ph": "X", "ts": 10.0 * at + stream, "dur": 2.5, "tid": stream,
                   "args": {"call_stack": ["ROOT", "/home/me/train.py:12@main", scope, f"/home/me/train.py:{20 + at}@layer", "mm"]}} for at in range(3)]
        print(json.dumps({"displayTimeUnit": "us", "traceEvents": events}), file=file)
"#;

#[test]
fn scopes_of_kernels_have_their_cycles() {
    let place = CommandFolder::new();
    let printed = python(&place, CYCLES);
    let totals: Vec<u64> = printed.split(' ').map(|total| total.parse().unwrap()).collect();
    for (file, total) in ["gap.json", "plain.json", "newer.json"].into_iter().zip(totals) {
        let capture = format!("{file}.stallmap");
        let ran = place.run(&["import", file, "-o", &capture]);
        assert!(ran.expect_ok().stderr.contains("events without a kernel or a length: 1"), "{}", ran.stderr);
        place.run(&["check", &capture]).expect_ok();
        let one = |sql: &str| number(&place, &capture, sql);
        assert_eq!(one("SELECT count(*) AS n FROM launch"), 3, "{file}");
        let sum = |metric: &str| {
            one(&format!(
                "SELECT CAST(sum(value) AS BIGINT) AS n FROM counter WHERE metric = 'proton__{metric}'"
            ))
        };
        assert_eq!(sum("cycles.load"), total, "{file}");
        // Three launches of three blocks with two warps.
        assert_eq!([sum("scope_count.load"), sum("scope_count.store")], [36, 18], "{file}");
    }
    place.run(&["import", "cycles.hatchet", "-o", "tree.stallmap"]).expect_ok();
    place.run(&["check", "tree.stallmap"]).expect_ok();
    let sql = "SELECT launch_name.name || ' ' || c.metric || ' ' || CAST(CAST(sum(c.value) AS BIGINT) AS VARCHAR) || ' ' || CAST(count(*) AS VARCHAR) AS row \
               FROM counter c JOIN launch l ON l.kernel_id = c.kernel_id JOIN \"function\" launch_name ON launch_name.function_id = l.function_id \
               GROUP BY launch_name.name, c.metric ORDER BY row";
    let found: Vec<String> = rows(&place, "tree.stallmap", sql)
        .iter()
        .map(|row| row["row"].as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "add proton__cycles.kernel 1200 1",
        "add proton__cycles.kernel/load 400 1",
        "add proton__cycles.kernel/store 100 1",
        "add proton__normalized_cycles.kernel 300 1",
        "add proton__normalized_cycles.kernel/load 100 1",
        "add proton__normalized_cycles.kernel/store 25 1",
        "mul gpu__time_duration.sum 50 2",
        "mul proton__cycles.kernel 600 2",
        "mul proton__normalized_cycles.kernel 150 2",
    ];
    assert_eq!(found, expected);
    let around = "SELECT o.name AS scope, p.file || ':' || CAST(p.line AS VARCHAR) || ' ' || p.function AS line, count(*) AS n FROM launch l LEFT JOIN op o ON o.op_id = l.op_id \
                  LEFT JOIN python_state s ON s.pystates_hash = l.pystates_hash AND s.depth = 0 \
                  LEFT JOIN python_frame p ON p.frame_id = s.frame_id GROUP BY 1, 2 ORDER BY 1 DESC, 2";
    assert_eq!(
        rows(&place, "newer.json.stallmap", around),
        [json!({"scope": "step", "line": "train.py:12 main", "n": 3})]
    );
    place.run(&["import", "streams.json", "-o", "streams.stallmap"]).expect_ok();
    place.run(&["check", "streams.stallmap"]).expect_ok();
    let found: Vec<String> = rows(&place, "streams.stallmap", around)
        .iter()
        .map(|row| {
            format!("{} {} {}", row["scope"].as_str().unwrap(), row["line"].as_str().unwrap(), row["n"])
        })
        .collect();
    let lines =
        |scope: &str| (20..23).map(|line| format!("{scope} train.py:{line} layer 1")).collect::<Vec<_>>();
    assert_eq!(found, [lines("forward"), lines("backward")].concat());
    let spans = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM op";
    assert_eq!(number(&place, "streams.stallmap", spans), 2 * 22_500);
    // Scopes inside of a kernel are no regions of the program.
    assert_eq!(number(&place, "tree.stallmap", "SELECT count(*) AS n FROM op"), 1);
}

#[test]
fn deep_cut_and_odd_profiles_end() {
    let place = CommandFolder::new();
    python(&place, PROFILE);
    place.run(&["import", "deep.hatchet", "-o", "deep.stallmap"]).expect_ok();
    assert_eq!(number(&place, "deep.stallmap", "SELECT count(*) AS n FROM op"), 250);
    place.run(&["import", "deeper.hatchet", "-o", "x.stallmap"]).expect_error(5);
    for file in ["p.hatchet", "p.msgpack"] {
        let whole = fs::read(place.path(file)).unwrap();
        for length in (1..whole.len()).step_by(97) {
            fs::write(place.path("cut"), &whole[..length]).unwrap();
            let ran = place.run(&["import", "cut", "-o", "x.stallmap"]);
            expect_partial(&place, &ran, length);
        }
    }
    let kernel = |count: &str| {
        format!(r#"[{{"frame":{{"name":"k"}},"metrics":{{"count":{count},"time (ns)":1}},"children":[]}}]"#)
    };
    for odd in [
        kernel("1e18"),
        kernel("-1"),
        kernel("{}"),
        kernel("\"x\""),
        r#"[{"frame":7,"metrics":[],"children":{"a":1}}]"#.to_owned(),
        r#"[{"children":[1,null,"x",[[]]]}]"#.to_owned(),
    ] {
        place.file("odd", &odd);
        place.run(&["import", "odd", "-o", "x.stallmap"]).expect_error(5);
    }
}

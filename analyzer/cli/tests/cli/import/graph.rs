//! Graph pairs: the trace of a capture names the ops of kernels that a graph launches.

use super::{number, python, rows};
use crate::command::CommandFolder;

/// A trace that captures a graph of six kernels after a plain launch, and one that launches it twice after a plain launch.
/// `other` has one call more, `renamed` another name. Prints the time of the graph's kernels by op.
const TRACES: &str = r#"
import json
names = [f"k{number % 3}(int*)" for number in range(6)]
def event(cat, name, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 5 if cat != "kernel" else 0, "tid": tid, "ts": ts, "dur": dur, "args": args}
def plain():
    return [event("cuda_runtime", "hipLaunchKernel", 5, 1, 2, correlation=1, kernel="plain"),
        event("kernel", "plain", 7, 4, 1, correlation=1, device=0, stream=7, grid=[1, 1, 1], block=[32, 1, 1])]
def capture(names):
    events = plain()
    for number, name in enumerate(names):
        begin = 100 + 20 * number
        events.append(event("cpu_op", f"aten::op{number % 2}", 5, begin, 10))
        events.append(event("python_function", f"train.py({number % 2}): step", 5, begin - 1, 15))
        events.append(event("cuda_runtime", "hipLaunchKernel", 5, begin + 1, 2, correlation=10 + number, kernel=name, grid=[number + 1, 1, 1], block=[64, 1, 1]))
    return {"traceEvents": events[::-1]}
def execution():
    events, times = plain(), {}
    for launch in range(2):
        events.append(event("cuda_runtime", "hipGraphLaunch", 5, 1000 * (launch + 1), 5, correlation=50 + launch))
        for number, name in enumerate(names):
            length = 3 + number + launch
            times[number % 2] = times.get(number % 2, 0) + 1000 * length
            events.append(event("kernel", name, 7, 1000 * (launch + 1) + 50 * number + 10, length, correlation=50 + launch, device=0, stream=7))
    return {"traceEvents": events[::-1]}, times
run, times = execution()
for file, content in (("run", run), ("capture", capture(names)), ("other", capture(names + ["k9"])), ("renamed", capture(names[:5] + ["k9"]))):
    json.dump(content, open(f"{file}.json", "w"))
print(times[0], times[1])
"#;

#[test]
fn kernels_of_a_graph_get_the_ops_of_its_capture() {
    let place = CommandFolder::new();
    let printed = python(&place, TRACES);
    for files in [["run.json", "capture.json"], ["capture.json", "run.json"]] {
        let capture = format!("{}.stallmap", files[0]);
        place.run(&["import", files[0], files[1], "-o", &capture]).expect_ok();
        place.run(&["check", &capture]).expect_ok();
        let one = |sql: &str| number(&place, &capture, sql);
        assert_eq!(
            one("SELECT count(*) AS n FROM launch"),
            13,
            "kernels of the capture are not launches of the run"
        );
        let by_op = "SELECT op, line, count(*) AS n, CAST(sum(t.time_ns) AS BIGINT) AS ns FROM launch_context c \
             JOIN launch_time t ON t.kernel_id = c.kernel_id WHERE op IS NOT NULL GROUP BY op, line ORDER BY op";
        let found: Vec<String> = rows(&place, &capture, by_op)
            .iter()
            .map(|row| format!("{} {} {} {}", row["op"], row["line"], row["n"], row["ns"]).replace('"', ""))
            .collect();
        let (even, odd) = printed.split_once(' ').unwrap();
        assert_eq!(
            found,
            [format!("aten::op0 train.py:0 step 6 {even}"), format!("aten::op1 train.py:1 step 6 {odd}")]
        );
        assert_eq!(one("SELECT CAST(sum(grid_x) AS BIGINT) AS n FROM launch"), 1 + 2 * 21);
        let rate = "SELECT count(*) AS n FROM run_option WHERE name = 'joined.graph' AND value = '12 of 12 kernels of graphs, by order and name'";
        assert_eq!(one(rate), 1);
    }
}

#[test]
fn other_numbers_and_names_attribute_nothing() {
    let place = CommandFolder::new();
    python(&place, TRACES);
    place.run(&["import", "run.json", "other.json", "-o", "x.stallmap"]).expect_error(2);
    place.run(&["import", "run.json", "renamed.json", "-o", "y.stallmap"]).expect_error(2);
}

/// Two graph launches with two kernels, a copy and a fill each, a graph of two copies, and a copy by its own call.
const GRAPH_COPIES: &str = r#"
import json
events, gpu = [], {"device": 0, "stream": 7}
def event(cat, name, tid, ts, dur, **args):
    pid = 5 if cat in ("cuda_runtime", "cpu_op") else 0
    events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})
for number in range(2):
    at, own = 100 * number, {"correlation": 50 + number, **gpu}
    event("cuda_runtime", "cudaGraphLaunch", 5, at, 5, correlation=50 + number)
    event("gpu_memset", "Memset (Device)", 7, at + 10, 1, bytes=64, **own)
    for place in range(2):
        event("kernel", f"k{place}", 7, at + 20 + 10 * place, 3, grid=[1, 1, 1], block=[32, 1, 1], **own)
    event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 7, at + 50, 2, bytes=128, **own)
event("cuda_runtime", "cudaGraphLaunch", 5, 300, 5, correlation=60)
for place in range(2):
    event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 7, 310 + 10 * place, 2, bytes=128, correlation=60, **gpu)
event("cpu_op", "aten::copy_", 5, 400, 9)
event("cuda_runtime", "cudaMemcpyAsync", 5, 401, 5, correlation=70)
event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 410, 2, bytes=128, correlation=70, **gpu)
json.dump({"traceEvents": events}, open("trace.json", "w"))
"#;

/// Work by call: the name of each call with the number of kernels, copies and fills that have its correlation.
const CALLS: &str = r#"
import gzip, json
events = json.load(gzip.open("again.json.gz"))["traceEvents"]
work = [event["args"]["correlation"] for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
calls = [event for event in events if event.get("cat") == "cuda_runtime"]
print([(call["name"], work.count(call["args"]["correlation"])) for call in sorted(calls, key=lambda call: call["ts"])])
"#;

#[test]
fn copies_of_a_graph_share_its_launch_call_in_exports() {
    let place = CommandFolder::new();
    python(&place, GRAPH_COPIES);
    place.run(&["import", "trace.json", "-o", "x.stallmap"]).expect_ok();
    place.run(&["export", "kineto", "x.stallmap", "-o", "again.json.gz"]).expect_ok();
    let calls =
        "[('cudaGraphLaunch', 4), ('cudaGraphLaunch', 4), ('cudaGraphLaunch', 2), ('cudaMemcpyAsync', 1)]";
    assert_eq!(python(&place, CALLS).trim(), calls);
    place.run(&["export", "perfetto", "x.stallmap", "-o", "again.pftrace"]).expect_ok();
    for file in ["again.json.gz", "again.pftrace"] {
        place.run(&["import", file, "-o", &format!("{file}.stallmap")]).expect_ok();
    }
    let work = "SELECT call_name, call_begin_ns - min(call_begin_ns) OVER () AS at, count(*) AS n FROM gpu_activity \
         WHERE kind <> 'kernel' GROUP BY call_name, call_begin_ns ORDER BY at";
    let expected = rows(&place, "x.stallmap", work);
    assert_eq!(expected.len(), 4, "{expected:?}");
    for file in ["again.json.gz", "again.pftrace"] {
        assert_eq!(rows(&place, &format!("{file}.stallmap"), work), expected, "{file}");
    }
}

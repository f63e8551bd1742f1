//! Parts of a trace that a capture keeps: calls and ops of copies, streams, inputs of ops, and what exports make of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::base::{document, kernel_ns};
use super::{number, python, rows};
use crate::command::{CommandFolder, command};

/// A program with a copy and a fill in ops, shapes, one graph launch of three kernels, and a collective.
const TRACE: &str = r#"
import json
def event(cat, name, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0 if tid in (7, 20) else 30, "tid": tid, "ts": ts, "dur": dur, "args": args}
gpu = {"device": 0, "grid": [2, 1, 1], "block": [64, 1, 1]}
events = [
    event("python_function", "threading.py(9): run", 30, 90, 500), event("python_function", "train.py(7): step", 30, 95, 480),
    event("python_function", "torch/nn/modules/module.py(1736): _call_impl", 30, 99, 470),
    event("cpu_op", "aten::copy_", 30, 100, 20, **{"Input Dims": [[4, 8], [4, 8], []], "Input type": ["float", "c10::Half", "Scalar"],
        "Input Strides": [[8, 1], [1, 4], []], "Concrete Inputs": ["", "", "False"]}),
    event("cuda_runtime", "cudaMemcpyAsync", 30, 105, 4, correlation=1), event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 130, 9.5, correlation=1, device=0, stream=7, bytes=128),
    event("cpu_op", "aten::zero_", 30, 140, 10), event("cuda_runtime", "cudaMemsetAsync", 30, 142, 3, correlation=2),
    event("gpu_memset", "Memset (Device)", 7, 150, 2, correlation=2, device=0, stream=7, bytes=64),
    event("cpu_op", "aten::cat", 30, 160, 20, **{"Input Dims": [[[2, 3], [5, 3]], []], "Input type": ["TensorList", "Scalar"], "Input Strides": [[[3, 1], [3, 1]], []], "Concrete Inputs": ["", "0"]}),
    event("cuda_runtime", "cudaLaunchKernel", 30, 165, 4, correlation=3), event("kernel", "cat", 7, 180, 11, correlation=3, stream=7, **gpu),
    event("cuda_runtime", "cudaGraphLaunch", 30, 200, 8, correlation=4),
    *[event("kernel", f"node{n}", 7, 220 + 20 * n, 10 + n, correlation=4, stream=7, **gpu) for n in range(3)],
    event("cuda_runtime", "cudaLaunchKernelExC", 30, 300, 4, correlation=5),
    event("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 310, 100, correlation=5, stream=20, **gpu,
        **{"Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 4000, "Group size": 4, "dtype": "BFloat16",
            "Process Group Name": "3", "Process Group Description": "mesh", "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 9}),
    event("cuda_runtime", "cudaLaunchKernel", 30, 305, 3, correlation=6),
    event("cuda_sync", "Stream Sync", 7, 380, 9, correlation=7, stream=7, device=0, cuda_sync_kind="Stream Sync"),
    event("kernel", "void multimem_all_reduce_kernel<float>(float*)", 7, 500, 50, correlation=6, stream=7, **gpu),
]
json.dump({"schemaVersion": 1, "traceEvents": events}, open("t.json", "w"))
"#;

/// Rows as text: columns in the order of their names.
fn texts(place: &CommandFolder, capture: &str, sql: &str) -> Vec<String> {
    let cells = |row: &Value| row.as_object().unwrap().values().map(ToString::to_string).collect::<Vec<_>>();
    rows(place, capture, sql).iter().map(|row| cells(row).join(" ").replace('"', "")).collect()
}

/// The inputs of ops, the collectives, and copies with their calls.
const INPUTS: &str = "SELECT o.name AS c1, i.position AS c2, i.element AS c3, i.dtype AS c4, i.sizes AS c5, i.strides AS c6, i.value AS c7 FROM op_input i \
    JOIN op o ON o.op_id = i.op_id ORDER BY o.begin_ns, i.position, i.element";
const COLLECTIVES: &str = "SELECT kind AS c0, call_name AS c1, in_element_count AS c2, out_element_count AS c3, dtype AS c4, element_bytes AS c5, \
    group_name AS c6, group_description AS c7, group_ranks AS c8, group_size AS c9, sequence_number AS cx FROM launch_collective ORDER BY kernel_id";
const COPIES: &str = "SELECT a.kind AS c1, o.name AS c2, a.stream_id AS c3, a.begin_ns - a.call_begin_ns AS c4, a.call_end_ns - a.call_begin_ns AS c5, a.size_bytes AS c6, \
    a.call_name AS c7, a.copy_memory AS c8 FROM gpu_activity a JOIN op o ON o.op_id = a.op_id ORDER BY a.begin_ns";
const CALLS: &str = "SELECT count(*) AS c1, count(DISTINCT begin_ns) AS c2 FROM launch_run";
const NAMES: &str = "SELECT call_name AS c1, correlation_id AS c2, kind AS c3, count(*) AS c4 FROM gpu_activity GROUP BY 1, 2, 3 ORDER BY 2";

#[test]
fn copies_streams_inputs_and_collectives_come_over_and_back() {
    let place = CommandFolder::new();
    python(&place, TRACE);
    place.run(&["import", "t.json", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let one = |capture: &str, sql: &str| texts(&place, capture, sql);
    assert_eq!(
        one("x.stallmap", COPIES),
        [
            "copy aten::copy_ 7 25000 4000 128 cudaMemcpyAsync Pinned -> Device",
            "fill aten::zero_ 7 8000 3000 64 cudaMemsetAsync null"
        ]
    );
    assert_eq!(
        one("x.stallmap", INPUTS),
        [
            "aten::copy_ 0 0 float32 [4,8] [8,1] null",
            "aten::copy_ 1 0 float16 [4,8] [1,4] null",
            "aten::copy_ 2 0 null [] [] False",
            "aten::cat 0 0 null [2,3] [3,1] null",
            "aten::cat 0 1 null [5,3] [3,1] null",
            "aten::cat 1 0 null [] [] 0",
        ]
    );
    assert_eq!(
        one("x.stallmap", COLLECTIVES),
        [
            "all_gather _allgather_base 1000 4000 bfloat16 2 3 mesh [0, 1, 2, 3] 4 9",
            "all_reduce null null null null null null null null null null",
        ]
    );
    // (n-1)/n of 8,000 bytes in 100 us.
    let bus =
        "SELECT CAST(round(bus_bytes_per_second) AS BIGINT) AS n FROM collective WHERE kind = 'all_gather'";
    assert_eq!(number(&place, "x.stallmap", bus), 60_000_000);
    let collective = "SELECT CAST(collective_ns AS BIGINT) AS n FROM device_time";
    assert_eq!(number(&place, "x.stallmap", collective), 150_000);
    assert_eq!(one("x.stallmap", CALLS), ["6 4"]);
    assert_eq!(
        one("x.stallmap", NAMES)[4..],
        ["cudaLaunchKernelExC 5 kernel 1", "cudaLaunchKernel 6 kernel 1", "null 7 synchronization 1"]
    );
    // HTA 0.5 gives the same without its rounding.
    let times = "SELECT CAST(idle_ns AS BIGINT) AS c1, CAST(span_ns AS BIGINT) AS c2, CAST(kernel_ns AS BIGINT) AS c3 FROM device_time";
    assert_eq!(one("x.stallmap", times), ["214500 420000 194000"]);
    let left =
        "SELECT count(*) AS n FROM loss WHERE reason LIKE '%shapes%' OR reason LIKE 'calls of the runtime%'";
    assert_eq!(number(&place, "x.stallmap", left), 0);
    place.run(&["export", "kineto", "x.stallmap", "-o", "y.json"]).expect_ok();
    place.run(&["import", "y.json", "-o", "y.stallmap"]).expect_ok();
    for sql in [COPIES, INPUTS, CALLS, NAMES, times] {
        assert_eq!(one("x.stallmap", sql), one("y.stallmap", sql), "{sql}");
    }
    assert_eq!(one("x.stallmap", COLLECTIVES)[0], one("y.stallmap", COLLECTIVES)[0]);
    let named = python(
        &place,
        "import gzip, json\nevents = json.load(gzip.open('y.json'))['traceEvents']\nprint([e['name'] for e in events if e.get('cat') == 'cuda_runtime'])",
    );
    assert_eq!(named.matches("cudaGraphLaunch").count(), 1, "{named}");
    assert_eq!(named.matches("cudaLaunchKernel'").count(), 2, "{named}");
}

#[test]
fn exports_without_samples_have_the_time_of_kernels_and_copies() {
    let place = CommandFolder::new();
    python(&place, TRACE);
    place.run(&["import", "t.json", "-o", "x.stallmap"]).expect_ok();
    let total = kernel_ns(&place, "x.stallmap");
    assert_eq!(total, 11_000 + 10_000 + 11_000 + 12_000 + 100_000 + 50_000);
    for (format, file) in [
        ("speedscope", "s.json"),
        ("pprof", "p.pb.gz"),
        ("hatchet", "h.hatchet"),
        ("perfetto", "t.pftrace"),
        ("firefox", "f.json"),
        ("folded", "x.folded"),
    ] {
        place.run(&["export", format, "x.stallmap", "-o", file]).expect_ok();
    }
    let speedscope: Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
    let profiles = speedscope["profiles"].as_array().unwrap();
    assert_eq!((profiles.len(), profiles[0]["endValue"].as_f64()), (1, Some(total as f64)));
    let firefox: Value = serde_json::from_slice(&fs::read(place.path("f.json")).unwrap()).unwrap();
    let threads = firefox["threads"].as_array().unwrap().iter();
    let weights = threads.flat_map(|thread| thread["samples"]["weight"].as_array().unwrap());
    assert_eq!(weights.filter_map(Value::as_u64).sum::<u64>(), total);
    let folded = fs::read_to_string(place.path("x.folded")).unwrap();
    let weights = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(weights.sum::<u64>(), total);
    place.run(&["import", "h.hatchet", "-o", "h.stallmap"]).expect_ok();
    let times = "SELECT CAST(sum(time_ns) AS BIGINT) AS n FROM launch_time WHERE source = 'import'";
    assert_eq!(number(&place, "h.stallmap", times), total);
    assert_eq!(number(&place, "h.stallmap", "SELECT count(*) AS n FROM launch"), 6);
    place.run(&["import", "t.pftrace", "-o", "p.stallmap"]).expect_ok();
    let copies = "SELECT kind AS c1, stream_id AS c2, size_bytes AS c3, end_ns - begin_ns AS c4, begin_ns - call_begin_ns AS c5 \
         FROM gpu_activity WHERE kind <> 'kernel' ORDER BY begin_ns";
    assert_eq!(texts(&place, "p.stallmap", copies), ["copy 7 128 9500 25000", "fill 7 64 2000 8000"]);
    assert_eq!(texts(&place, "p.stallmap", CALLS), ["6 4"]);
    // Nothing to show is an error, and no file.
    let op = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":3,"tid":3,"ts":1,"dur":5,"args":{}}"#;
    place.file("ops.json", document(&[op.to_owned()]));
    place.run(&["import", "ops.json", "-o", "o.stallmap"]).expect_ok();
    for format in ["speedscope", "pprof", "hatchet"] {
        place.run(&["export", format, "o.stallmap", "-o", "none"]).expect_error(4);
        assert!(!place.path("none").exists(), "{format}");
    }
    place.run(&["export", "folded", "o.stallmap"]).expect_error(4);
}

#[test]
fn frames_of_libraries_are_no_frames_of_the_user() {
    let place = CommandFolder::new();
    python(&place, TRACE);
    place.run(&["import", "t.json", "-o", "x.stallmap"]).expect_ok();
    let frames = "SELECT DISTINCT array_to_string(frames, ' | ') AS c1, array_to_string(user_frames, ' | ') AS c2 FROM call_path_cost WHERE frames IS NOT NULL";
    assert_eq!(
        texts(&place, "x.stallmap", frames),
        ["threading.py:9 run | train.py:7 step | torch/nn/modules/module.py:1736 _call_impl train.py:7 step"]
    );
}

#[test]
fn less_of_the_same_work_is_not_faster() {
    let place = CommandFolder::new();
    for (name, count, length) in [("a", 34, "4000"), ("b", 30, "4013")] {
        let event = |n: u64| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"flash","pid":0,"tid":7,"ts":{},"dur":{length},"args":{{"device":0,"stream":7,"grid":[8,1,1],"block":[64,1,1]}}}}"#,
                n * 290_000 / (count - 1)
            )
        };
        place.file(&format!("{name}.json"), document(&(0..count).map(event).collect::<Vec<_>>()));
        place.run(&["import", &format!("{name}.json"), "-o", &format!("{name}.stallmap")]).expect_ok();
    }
    // Every launch is an iteration: each is as fast as before.
    let per_step = place.run(&["diff", "a.stallmap", "b.stallmap"]).expect_ok().stdout.clone();
    assert!(per_step.contains("b is as fast as a within noise"), "{per_step}");
    let text = place.run(&["diff", "a.stallmap", "b.stallmap", "--per", "total"]).expect_ok().stdout.clone();
    let line = text.lines().take(3).collect::<Vec<_>>().join(" ");
    assert!(line.contains("b is a smaller job than a (30 steps instead of 34): -11.5 % time"), "{text}");
    assert!(
        line.contains("By parts: -11.8 % by fewer calls, +0.3 % by the rest. Both last 294 ms."),
        "{text}"
    );
    place.run(&["diff", "a.stallmap", "b.stallmap", "--sql"]).expect_ok();
}

#[test]
fn launches_of_graphs_alone_are_refused_with_the_option_that_traces_their_kernels() {
    let place = CommandFolder::new();
    python(
        &place,
        r#"
import sqlite3
base = sqlite3.connect("g.sqlite")
base.executescript("""
CREATE TABLE StringIds (id, value);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, correlationId, globalPid, graphId);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 281475815571506, 21, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1000, 9000, 0, 7, 21, 281475815571456, 1);
""")
base.commit()
"#,
    );
    let ran = place.run(&["import", "g.sqlite", "-o", "x.stallmap"]);
    ran.expect_error(5);
    assert!(
        ran.stderr.contains("traced as a whole") && ran.stderr.contains("--cuda-graph-trace=node"),
        "{}",
        ran.stderr
    );
    // A copy is work that a capture can hold. The first releases name no process, and a program counts the GPUs that it sees.
    python(
        &place,
        r#"
import sqlite3
base = sqlite3.connect("g.sqlite")
base.executescript("""
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (9500, 9600, 0, 7, 22, 281475815571456, 64, 1);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, mangledName, clusterX, clusterY, clusterZ);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (970, 990, 0, 7, 21, 1, 2, 1, 1);
INSERT INTO StringIds VALUES (1, '_Z1kv');
CREATE TABLE TARGET_INFO_GPU (id, name);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'hidden'), (3, 'H100');
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId);
INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0);
""")
base.commit()
"#,
    );
    // A report as it is recorded is exported by the tool that is installed, or says why not.
    place.file("r.nsys-rep", "NVIDIA Tegra Profiler Report 2026@1\r\n\u{1}");
    fs::create_dir(place.path("bin")).unwrap();
    let tool = place.file("bin/nsys", "#!/bin/sh\ncp g.sqlite \"$5\"\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let import = |capture: &str| {
        let path = format!("bin:{}", std::env::var("PATH").unwrap_or_default());
        let arguments = ["import", "r.nsys-rep", "-o", capture];
        command(&place.path(".")).env("PATH", path).args(arguments).output().unwrap()
    };
    let ran = import("x.stallmap");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    place.file("bin/nsys", "#!/bin/sh\necho 'the report is newer' >&2\nexit 1\n");
    let text = String::from_utf8_lossy(&import("y.stallmap").stderr).into_owned();
    assert!(text.contains("`nsys export` fails: the report is newer"), "{text}");
    let sql = "SELECT d.name AS c1, count(*) AS c2, max(l.cluster_x) AS c3, max(t.call_ns) AS c4 FROM launch l \
         JOIN device d ON d.run_id = l.run_id AND d.device_id = l.device_id \
         JOIN launch_timeline t ON t.kernel_id = l.kernel_id GROUP BY d.name";
    assert_eq!(texts(&place, "x.stallmap", sql), ["H100 2 2 50"]);
}

//! Imports: totals of a capture equal those of the source, which a generator sums on its own.

mod base;
mod columns;
mod cutracer;
mod damage;
mod execution;
mod graph;
mod into;
mod memory;
mod operators;
mod packets;
mod packing;
mod page;
mod parquet;
mod processes;
mod proton;
mod ranks;
mod releases;
mod report;
mod rocpd;
mod rocprof;
mod screens;
mod xplane;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use stallmap_schema::capture::reader::CaptureReader;

use crate::command::{CommandFolder, command};

/// Kernels of a generated trace.
const KERNELS: u64 = 40;
/// Microseconds since the epoch, of a time that a double cannot hold with nanoseconds.
const EPOCH_US: u64 = 1_751_410_836_428_625;

/// Form of the times of a trace.
#[derive(Clone, Copy, PartialEq)]
enum TraceTimes {
    /// Whole microseconds since the epoch.
    Whole,
    /// Microseconds with three decimals since the epoch.
    Decimal,
    /// Microseconds with three decimals, relative to a base behind the events.
    Based,
}

/// Totals that the generator knows.
#[derive(Default)]
struct GeneratedTotals {
    kernel_ns: u64,
    by_op: [u64; 3],
    without_call_ns: u64,
    first_ns: u64,
}

/// A trace of PyTorch's profiler: three ops that launch kernels, one fill, and kernels from before the trace.
fn kineto(times: TraceTimes, is_array: bool) -> (String, GeneratedTotals) {
    let mut totals = GeneratedTotals::default();
    let unit = if times == TraceTimes::Whole { 1000 } else { 1 };
    let start_ns = if times == TraceTimes::Based { 5_000_000 } else { EPOCH_US * 1000 };
    let base_ns: u64 = if times == TraceTimes::Based { 1_751_410_836_000_000_000 } else { 0 };
    let time = |ns: u64| match times {
        TraceTimes::Whole => (ns / 1000).to_string(),
        // Zeros at the end go where a program writes a trace again.
        _ => format!("{}.{:03}", ns / 1000, ns % 1000).trim_end_matches('0').trim_end_matches('.').to_owned(),
    };
    let mut events = Vec::new();
    let mut event = |cat: &str, name: &str, pid: u64, tid: u64, begin: u64, length: u64, args: &str| {
        let (ts, dur) = (time(begin), time(length));
        events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    };
    for number in 0..KERNELS {
        let begin = start_ns + number * 100_000 * unit;
        let length = (1_000 + number * 37) * unit;
        let op = (number % 3) as usize;
        totals.kernel_ns += length;
        if number < 5 {
            totals.without_call_ns += length;
        } else {
            totals.by_op[op] += length;
            event("python_function", "train.py(7): step", 9, 9, begin - 500 * unit, 50_000 * unit, "");
            event(
                "cpu_op",
                ["aten::mm", "aten::add", "aten::mul"][op],
                9,
                9,
                begin,
                40_000 * unit,
                r#""Sequence number":3"#,
            );
            let args = format!(r#""correlation":{number},"External id":{number}"#);
            event("cuda_runtime", "cudaLaunchKernel", 9, 9, begin + 1_000 * unit, 5_000 * unit, &args);
        }
        let args = format!(
            r#""correlation":{number},"External id":{number},"device":0,"stream":7,"grid":[2,1,1],"block":[64,1,1],"registers per thread":16"#
        );
        event("kernel", "void k<int>(int*)", 0, 7, begin + 20_000 * unit, length, &args);
    }
    event(
        "gpu_memset",
        "Memset (Device)",
        0,
        7,
        start_ns,
        9_000 * unit,
        r#""device":0,"stream":7,"bytes":4096"#,
    );
    totals.first_ns = base_ns + start_ns + 20_000 * unit;
    let list = events.join(",\n");
    let mut text = format!("[{list}]");
    if !is_array {
        text =
            format!(r#"{{"schemaVersion":1,"metadata":{{"HF_TOKEN":"planted-secret"}},"traceEvents":{text}"#);
        if times == TraceTimes::Based {
            write!(text, r#","baseTimeNanoseconds":{base_ns}"#).unwrap();
        }
        text.push('}');
    }
    (text, totals)
}

/// The rows of a statement.
fn rows(place: &CommandFolder, capture: &str, sql: &str) -> Vec<Value> {
    let ran = place.run(&["sql", capture, "-c", sql, "--format", "json"]);
    serde_json::from_str(&ran.expect_ok().stdout).unwrap()
}

/// The only number of a statement.
fn number(place: &CommandFolder, capture: &str, sql: &str) -> u64 {
    rows(place, capture, sql)[0]["n"].as_u64().unwrap()
}

#[test]
fn a_trace_keeps_its_totals_in_every_form() {
    for (times, is_array) in [
        (TraceTimes::Whole, false),
        (TraceTimes::Decimal, true),
        (TraceTimes::Decimal, false),
        (TraceTimes::Based, false),
    ] {
        let place = CommandFolder::new();
        let (text, totals) = kineto(times, is_array);
        place.file("trace.anything", &text);
        place.run(&["import", "trace.anything", "-o", "x.stallmap"]).expect_ok();
        place.run(&["check", "x.stallmap"]).expect_ok();
        let sum =
            "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
        assert_eq!(number(&place, "x.stallmap", sum), totals.kernel_ns);
        let begin = "SELECT min(begin_ns) AS n FROM gpu_activity WHERE kind = 'kernel'";
        assert_eq!(number(&place, "x.stallmap", begin), totals.first_ns);
        assert_eq!(number(&place, "x.stallmap", "SELECT count(*) AS n FROM launch"), KERNELS);
        let by_op = "SELECT o.name, CAST(sum(a.end_ns - a.begin_ns) AS BIGINT) AS n FROM gpu_activity a \
             JOIN launch l ON l.kernel_id = a.kernel_id LEFT JOIN op o ON o.op_id = l.op_id GROUP BY o.name ORDER BY o.name";
        let found: Vec<u64> =
            rows(&place, "x.stallmap", by_op).iter().map(|row| row["n"].as_u64().unwrap()).collect();
        assert_eq!(found, [totals.by_op[1], totals.by_op[0], totals.by_op[2], totals.without_call_ns]);
        let line = "SELECT count(*) AS n FROM launch_context WHERE line = 'train.py:7 step'";
        assert_eq!(number(&place, "x.stallmap", line), KERNELS - 5);
        let lost = "SELECT lost_count AS n FROM loss WHERE reason LIKE 'kernels without a launch call%'";
        assert_eq!(number(&place, "x.stallmap", lost), 5);
    }
}

#[test]
fn an_imported_capture_is_reported_and_holds_no_environment() {
    let place = CommandFolder::new();
    let (text, _) = kineto(TraceTimes::Based, false);
    let mut gzip =
        Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    place.file("trace.json", gzip.wait_with_output().unwrap().stdout);
    place.run(&["import", "trace.json", "-o", "x.stallmap"]).check("import_kineto");
    place.run(&["unpack", "x.stallmap", "x"]).expect_ok();
    let tables =
        fs::read_dir(place.path("x/tables")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let secret = b"planted-secret".as_slice();
    assert!(tables.into_iter().all(|bytes| !bytes.windows(secret.len()).any(|part| part == secret)));
    place.run(&["x.stallmap"]).check("import_verdict");
    // By default, rows of views are stored, and nothing else differs.
    let prepared = ["import", "trace.json", "-o", "prepared.stallmap"];
    let output = command(&place.path("")).args(prepared).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let open = |name: &str| CaptureReader::open(&place.path(name)).unwrap();
    let (plain, prepared) = (open("x.stallmap"), open("prepared.stallmap"));
    let has_rows = |reader: &CaptureReader| reader.tables().iter().any(|table| table.name == "stored_answer");
    assert!(has_rows(&prepared) && !has_rows(&plain));
    let hashes = |reader: &CaptureReader| {
        let tables =
            reader.tables().iter().filter(|table| !["stored_answer", "run_option"].contains(&&*table.name));
        tables.map(|table| (table.name.clone(), table.rows)).collect::<Vec<_>>()
    };
    assert_eq!(hashes(&prepared), hashes(&plain));
    place.run(&["check", "prepared.stallmap"]).expect_ok();
    for command in
        [&["report", "x.stallmap", "--all"][..], &["top", "kernels", "x.stallmap"], &["tree", "x.stallmap"]]
    {
        place.run(command).expect_ok();
    }
    let findings = "SELECT count(*) AS n FROM finding WHERE finding = 'unused_memory'";
    assert_eq!(number(&place, "x.stallmap", findings), 0, "uses were not recorded");
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let place = CommandFolder::new();
    let (whole, _) = kineto(TraceTimes::Decimal, false);
    let deep = format!("{{\"traceEvents\":{}", "[".repeat(100_000));
    let long = format!("{{\"traceEvents\":[{{\"name\":\"{}\"}}]}}", "x".repeat(2 << 20));
    for (name, content) in [
        ("cut", &whole[..20]),
        ("deep", deep.as_str()),
        ("long", long.as_str()),
        ("none", "{}"),
        ("empty", ""),
        ("words", "neither JSON nor a table"),
        ("pickle", "\u{80}"),
        ("numbers", r#"{"traceEvents":[{"ph":"X","cat":"kernel","ts":1e999,"dur":-}]}"#),
    ] {
        place.file(name, content);
        place.run(&["import", name, "-o", "x.stallmap"]).expect_error(5);
        assert!(!place.path("x.stallmap").exists(), "{name}");
    }
    place.run(&["import", "missing", "-o", "x.stallmap"]).expect_error(5);
    place.file("trace.json", &whole);
    place.run(&["import", "trace.json", "-o", "tiny.stallmap"]).expect_error(5);
    assert_eq!(place.run(&["import", "trace.json"]).code, Some(2));
    place.run(&["import", "trace.json", "trace.json", "-o", "x.stallmap"]).expect_error(2);
}

#[test]
fn times_beyond_all_bounds_are_no_panic() {
    let place = CommandFolder::new();
    let event = |ts: &str, dur: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k\u001b[2J","pid":0,"tid":"x","ts":{ts},"dur":{dur},"args":{{"grid":[-1,0,99999999999],"correlation":-5,"device":99999999999}}}}"#
        )
    };
    let events = [
        event("9.2e15", "9.2e15"),
        event("-9.2e15", "1"),
        event("1e30", "1"),
        event("1", "-4"),
        event("null", "1"),
    ];
    place.file(
        "t.json",
        format!(r#"{{"traceEvents":[{}],"baseTimeNanoseconds":9223372036854775807}}"#, events.join(",")),
    );
    place.run(&["import", "t.json", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let ran = place.run(&["report", "x.stallmap"]);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// Runs a Python program, which writes files in the folder.
fn python(place: &CommandFolder, program: &str) -> String {
    let python = std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let ran = Command::new(python).args(["-c", program]).current_dir(place.path("")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

/// A report of Nsight Systems with two processes whose correlation ids are equal. Prints its sum of kernel times.
const NSYS: &str = r#"
import sqlite3
base = sqlite3.connect("r.sqlite")
base.executescript("""
CREATE TABLE StringIds (id, value);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName,
    gridX, gridY, gridZ, blockX, blockY, blockZ);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME_V2 (start, end, globalTid, correlationId);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind);
CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text, textId);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs);
CREATE TABLE META_DATA_CAPTURE (name, value);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, correlationId, globalPid, graphId);
CREATE TABLE TARGET_INFO_GPU (cuDevice, name, l2CacheSize, clockRate);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'Test GPU', 52428800, 1980000000);
INSERT INTO META_DATA_CAPTURE VALUES ('ENVIRONMENT_VARIABLE', 'planted-secret');
INSERT INTO META_DATA_CAPTURE VALUES ('CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Graph');
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
INSERT INTO StringIds VALUES (1, 'k(int*)'), (2, 'forward');
""")
total = 0
for pid in (11, 12):
    for number in range(20):
        begin = 1000 * number
        length = 100 + number * pid
        total += length
        thread = pid << 24 | 5
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,7,?,?,1,4,1,1,32,1,1)",
            (begin + 500, begin + 500 + length, number, pid << 24))
        if number >= 4:
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME_V2 VALUES (?,?,?,?)", (begin + pid, begin + 50, thread, number))
    base.execute("INSERT INTO NVTX_EVENTS VALUES (4000, 9999, 59, ?, NULL, 2)", (thread,))
    for number in (20, 21, 22):
        base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, NULL)",
            (1000 * number, 1000 * number + 500, thread, f"aten::mul, seq = {number}, op_id = {90 + number}"))
    base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (30000, 34000, 0, 7, 98, ?, 5)", (pid << 24,))
    base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 9, 0, 7, 99, ?, 64, 1)", (pid << 24,))
base.commit()
print(total)
"#;

/// The time of its launches of graphs, which were traced as a whole.
const GRAPHS_NS: u64 = 8000;

#[test]
fn a_report_of_two_processes_joins_calls_within_each() {
    let place = CommandFolder::new();
    let total: u64 = python(&place, NSYS).parse().unwrap();
    place.run(&["import", "r.sqlite", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let sum = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(number(&place, "x.stallmap", sum), total + GRAPHS_NS);
    // The call of each launch is of its own process: its begin holds the process's number.
    let calls = "SELECT count(*) AS n FROM launch_run c JOIN run r ON r.run_id = c.run_id \
         WHERE (c.begin_ns - 1700000000000000000) % 1000 = r.process_id";
    assert_eq!(number(&place, "x.stallmap", calls), 32);
    let ranged = "SELECT count(*) AS n FROM launch_context WHERE op = 'forward'";
    assert_eq!(number(&place, "x.stallmap", ranged), 12);
    assert_eq!(number(&place, "x.stallmap", "SELECT sum(size_bytes) AS n FROM gpu_activity"), 128);
    let lost = "SELECT lost_count AS n FROM loss WHERE reason LIKE 'kernels of CUDA graphs%'";
    assert_eq!(number(&place, "x.stallmap", lost), 2);
    let graphs = "SELECT CAST(sum(a.end_ns - a.begin_ns) AS BIGINT) AS n FROM gpu_activity a \
         JOIN launch_context l ON l.kernel_id = a.kernel_id WHERE l.kernel = 'CUDA graph 5'";
    assert_eq!(number(&place, "x.stallmap", graphs), GRAPHS_NS);
    // Ops of `emit_nvtx` lose the numbers behind their names.
    let ops = "SELECT count(*) AS n FROM op WHERE name = 'aten::mul' AND kind = 'torch' AND sequence_number IN (20, 21, 22)";
    assert_eq!(number(&place, "x.stallmap", ops), 6);
    let gpus = "SELECT count(*) AS n FROM device WHERE sm_clock_khz = 1980000 AND l2_bytes = 52428800";
    assert_eq!(number(&place, "x.stallmap", gpus), 2);
    place.run(&["report", "x.stallmap"]).expect_ok();
    let bytes = fs::read(place.path("x.stallmap")).unwrap();
    let secret = b"planted-secret".as_slice();
    assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    fs::write(place.path("cut.sqlite"), &fs::read(place.path("r.sqlite")).unwrap()[..5000]).unwrap();
    place.run(&["import", "cut.sqlite", "-o", "y.stallmap"]).expect_error(5);
}

/// A memory snapshot: an address that is used twice, memory from before the events, and a block that is still allocated.
const SNAPSHOT: &str = r#"
import pickle, sys
frames = [{"filename": "train.py", "line": 7, "name": "step"}, {"filename": "a.cpp", "line": 1, "name": "c10::f"}]
def event(action, addr, size, time):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": frames}
trace = [event("free_completed", 4096, 512, 10), event("alloc", 8192, 1024, 20), event("free_requested", 8192, 1024, 30),
    event("free_completed", 8192, 1024, 31), event("alloc", 8192, 2048, 40)]
block = lambda address, size, state: {"address": address, "size": size, "requested_size": size, "state": state, "frames": frames}
segment = {"device": 0, "address": 1 << 20, "total_size": 4096, "blocks": [block(1 << 20, 256, "active_allocated"),
    block((1 << 20) + 256, 3840, "inactive")]}
for protocol in (2, 4, 5):
    with open(f"s{protocol}.pickle", "wb") as file:
        pickle.dump({"segments": [segment], "device_traces": [trace]}, file, protocol)
timeless = [{key: value for key, value in event.items() if key != "time_us"} for event in trace[1:4]]
with open("timeless.pickle", "wb") as file:
    pickle.dump({"segments": [], "device_traces": [timeless]}, file)
class Run:
    def __reduce__(self):
        return print, ("planted",)
with open("run.pickle", "wb") as file:
    pickle.dump({"segments": [], "device_traces": [[Run()]]}, file, 4)
"#;

#[test]
fn a_snapshot_gives_lifetimes_and_runs_nothing() {
    let place = CommandFolder::new();
    python(&place, SNAPSHOT);
    for protocol in [2, 4, 5] {
        let (file, capture) = (format!("s{protocol}.pickle"), format!("s{protocol}.stallmap"));
        place.run(&["import", &file, "-o", &capture]).expect_ok();
        place.run(&["check", &capture]).expect_ok();
        let sql =
            "SELECT size_bytes, origin, free_ns IS NOT NULL AS is_freed FROM storage ORDER BY size_bytes";
        let found: Vec<String> = rows(&place, &capture, sql)
            .iter()
            .map(|row| {
                format!("{} {} {}", row["size_bytes"], row["origin"].as_str().unwrap(), row["is_freed"])
            })
            .collect();
        assert_eq!(
            found,
            ["256 tensor false", "512 tensor true", "1024 allocator true", "2048 allocator false"]
        );
        let lines = "SELECT count(*) AS n FROM op_context WHERE line = 'train.py:7 step'";
        // Two events, and a block that is older than they are.
        assert_eq!(number(&place, &capture, lines), 3);
    }
    // The order of events is known without their times.
    place.run(&["import", "timeless.pickle", "-o", "timeless.stallmap"]).expect_ok();
    place.run(&["check", "timeless.stallmap"]).expect_ok();
    let freed = "SELECT count(*) AS n FROM storage WHERE size_bytes = 1024 AND alloc_ns < free_ns";
    assert_eq!(number(&place, "timeless.stallmap", freed), 1);
    let ran = place.run(&["import", "run.pickle", "-o", "x.stallmap"]);
    ran.expect_error(5);
    assert!(ran.stderr.contains("STACK_GLOBAL") && !ran.stdout.contains("planted"), "{}", ran.stderr);
}

#[test]
fn an_exported_trace_is_imported_with_the_same_times() {
    let place = CommandFolder::new();
    let (text, totals) = kineto(TraceTimes::Based, false);
    place.file("trace.json", text);
    place.run(&["import", "trace.json", "-o", "a.stallmap"]).expect_ok();
    place.run(&["export", "kineto", "a.stallmap", "-o", "again.json.gz"]).expect_ok();
    place.run(&["import", "again.json.gz", "-o", "b.stallmap"]).expect_ok();
    let sum = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(number(&place, "b.stallmap", sum), totals.kernel_ns);
    let times = "SELECT begin_ns, end_ns, kind, size_bytes FROM gpu_activity ORDER BY begin_ns, end_ns, kind";
    assert_eq!(rows(&place, "a.stallmap", times), rows(&place, "b.stallmap", times));
}

#[test]
fn a_profile_of_ops_is_exported_and_imported_with_its_totals() {
    let place = CommandFolder::new();
    let (text, totals) = kineto(TraceTimes::Based, false);
    place.file("trace.json", text);
    place.run(&["import", "trace.json", "-o", "a.stallmap"]).expect_ok();
    place.run(&["export", "operator-profiler", "a.stallmap", "-o", "profile.json"]).expect_ok();
    let profile: Value = serde_json::from_slice(&fs::read(place.path("profile.json")).unwrap()).unwrap();
    let sums = |key: &str| {
        let operators = profile["operators"].as_array().unwrap().iter();
        operators.map(|operator| operator["aggregated"][key].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sums("total_duration_ns"), [totals.by_op[1], totals.by_op[0], totals.by_op[2]]);
    assert_eq!(sums("kernel_count").iter().sum::<u64>(), KERNELS - 5);
    place.run(&["import", "profile.json", "-o", "b.stallmap"]).expect_ok();
    place.run(&["check", "b.stallmap"]).expect_ok();
    let by_op = "SELECT o.name, CAST(sum(a.end_ns - a.begin_ns) AS BIGINT) AS n FROM gpu_activity a \
         JOIN launch l ON l.kernel_id = a.kernel_id LEFT JOIN op o ON o.op_id = l.op_id GROUP BY o.name ORDER BY o.name";
    assert_eq!(rows(&place, "a.stallmap", by_op), rows(&place, "b.stallmap", by_op));
    let profile = r#"{"operators":[],"unattributed_kernels":[{"kernel_name":"k","start_ns":1,"end_ns":3,
        "metrics":{"raw":{"dram__bytes_read.sum":791.04,"l1tex__t_sector_hit_rate.pct":50}}}],"warnings":["k_00001 (x): flagged as initialization kernel"]}"#;
    place.file("units.json", profile);
    place.run(&["import", "units.json", "-o", "c.stallmap"]).expect_ok();
    let unknown = "SELECT count(*) AS n FROM counter WHERE unit = 'unknown'";
    assert_eq!(number(&place, "c.stallmap", unknown), 1);
}

#[test]
fn names_beyond_the_bound_of_a_capture_are_cut() {
    let place = CommandFolder::new();
    let event = |name: &str, cat: &str| {
        let name = name.repeat(70_000);
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":9,"tid":9,"ts":1,"dur":1,"args":{{}}}}"#)
    };
    let events = [event("k", "kernel"), event("o", "cpu_op"), event("f", "python_function")];
    place.file("t.json", format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")));
    place.run(&["import", "t.json", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let lengths = "SELECT octet_length(name) AS n FROM op UNION ALL SELECT octet_length(name) FROM function";
    let found: Vec<u64> =
        rows(&place, "x.stallmap", lengths).iter().map(|row| row["n"].as_u64().unwrap()).collect();
    assert_eq!(found, [65_536, 65_536]);
}

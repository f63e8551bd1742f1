//! Profiles of rocprofv3: totals of dispatches, with names and GPUs behind their uses.

use std::fs;

use super::base::expect_partial;
use super::{number, python};
use crate::command::CommandFolder;

/// A profile of two processes whose correlation ids are equal. Prints the sum of the kernels' times.
const PROFILE: &str = r#"
import json
total, tools = 0, []
for pid in (31, 32):
    dispatches, calls = [], []
    for number in range(25):
        begin, length = 63857982592000 + 10000 * number, 500 + number * pid
        total += length
        dispatches.append({"size": 184, "kind": 11, "operation": 2, "thread_id": pid, "correlation_id": {"internal": number, "external": 0},
            "start_timestamp": begin, "end_timestamp": begin + length, "stream_id": {"handle": 0}, "dispatch_info": {"agent_id": {"handle": 37946},
            "kernel_id": 5 + number % 2, "workgroup_size": {"x": 64, "y": 2, "z": 1}, "grid_size": {"x": 640, "y": 3, "z": 1}}})
        if number >= 5:
            calls.append({"thread_id": pid, "correlation_id": {"internal": number, "external": 0}, "start_timestamp": begin - pid, "end_timestamp": begin})
    copies = [{"operation": 2, "correlation_id": {"internal": 90}, "start_timestamp": 5, "end_timestamp": 9, "bytes": 64,
        "dst_agent_id": {"handle": 37946}, "src_agent_id": {"handle": 37944}}]
    symbols = [{"kernel_id": 5, "kernel_name": "_Z1kPi.kd", "formatted_kernel_name": "k(int*)", "arch_vgpr_count": 8},
        {"kernel_id": 6, "kernel_name": "copy.kd", "formatted_kernel_name": ""}, {"kernel_id": 7, "kernel_name": "unused"}]
    agents = [{"id": {"handle": 37944}, "type": 1, "name": "CPU"}, {"id": {"handle": 37946}, "type": 2, "name": "gfx950", "product_name": "MI350X", "cu_count": 256}]
    tools.append({"metadata": {"pid": pid, "command": ["planted-secret"], "environment": {"TOKEN": "planted-secret"}},
        "buffer_records": {"kernel_dispatch": dispatches, "hip_api": calls, "memory_copy": copies, "pc_sample_host_trap": [{}, {}], "marker_api": [{"odd": 1}]},
        "kernel_symbols": symbols, "agents": agents, "strings": {}, "odd": 1})
json.dump({"rocprofiler-sdk-tool": tools}, open("r.json", "w"))
print(total)
"#;

#[test]
fn a_profile_keeps_its_totals_and_counts_blocks() {
    let place = CommandFolder::new();
    let total: u64 = python(&place, PROFILE).parse().unwrap();
    place.run(&["import", "r.json", "-o", "x.stallmap"]).check("import_rocprof");
    place.run(&["check", "x.stallmap"]).expect_ok();
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    let sum = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(one(sum), total);
    assert_eq!(one("SELECT count(*) AS n FROM launch WHERE grid_x = 10 AND grid_y = 2 AND block_y = 2"), 50);
    assert_eq!(
        one("SELECT count(*) AS n FROM launch_context WHERE kernel = 'k(int*)' AND device_id = 0"),
        26
    );
    assert_eq!(one("SELECT count(*) AS n FROM device WHERE name = 'MI350X' AND device_id = 0"), 2);
    let calls = "SELECT count(*) AS n FROM launch_run c JOIN run r ON r.run_id = c.run_id WHERE c.end_ns - c.begin_ns = r.process_id";
    assert_eq!(one(calls), 40);
    let lost = "SELECT CAST(sum(lost_count) AS BIGINT) AS n FROM loss WHERE ";
    for (reason, count) in
        [("kind = 'sample'", 4), ("reason LIKE 'kernels without a launch call%'", 10), ("detail = 'odd'", 2)]
    {
        assert_eq!(one(&format!("{lost}{reason}")), count, "{reason}");
    }
    assert_eq!(one("SELECT sum(size_bytes) AS n FROM gpu_activity WHERE copy_kind = 'host_to_device'"), 128);
    let bytes = fs::read(place.path("x.stallmap")).unwrap();
    let secret = b"planted-secret".as_slice();
    assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    place.run(&["report", "x.stallmap"]).expect_ok();
}

#[test]
fn kernels_of_counters_alone_are_kernels() {
    let profile = r#"{"rocprofiler-sdk-tool":[{"metadata":{"pid":9},"agents":[{"id":{"handle":4},"type":2,"name":"gfx942"}],
        "kernel_symbols":[{"kernel_id":1,"formatted_kernel_name":"k"}],
        "callback_records":{"counter_collection":[{"thread_id":9,"dispatch_data":{"correlation_id":{"internal":3},
            "start_timestamp":1000,"end_timestamp":3600,"dispatch_info":{"agent_id":{"handle":4},"kernel_id":1,
            "workgroup_size":{"x":64,"y":1,"z":1},"grid_size":{"x":100,"y":1,"z":1}}},
            "records":[{"counter_id":{"handle":7},"value":30.0},{"counter_id":{"handle":7},"value":12.0}]}]},
        "counters":[{"id":{"handle":7},"name":"SQ_WAVES"}]}]}"#;
    let place = CommandFolder::new();
    place.file("counters", profile);
    place.run(&["import", "counters", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    assert_eq!(one("SELECT end_ns - begin_ns AS n FROM gpu_activity"), 2_600);
    assert_eq!(one("SELECT count(*) AS n FROM launch_context WHERE kernel = 'k' AND device_id = 0"), 1);
    assert_eq!(one("SELECT CAST(value AS BIGINT) AS n FROM counter WHERE metric = 'SQ_WAVES'"), 42);
}

#[test]
fn cut_and_odd_profiles_end() {
    let place = CommandFolder::new();
    python(&place, PROFILE);
    let whole = fs::read(place.path("r.json")).unwrap();
    for length in (1..whole.len()).step_by(1499) {
        fs::write(place.path("cut"), &whole[..length]).unwrap();
        let ran = place.run(&["import", "cut", "-o", "x.stallmap"]);
        expect_partial(&place, &ran, length);
    }
    let dispatch = r#"{"start_timestamp":9,"end_timestamp":1,"dispatch_info":{"workgroup_size":{"x":0,"y":1,"z":-1},"grid_size":[1]},"correlation_id":7}"#;
    place.file("odd", format!(r#"{{"rocprofiler-sdk-tool":[7,{{"buffer_records":{{"kernel_dispatch":[{dispatch},3,null]}},"agents":{{}}}}]}}"#));
    place.run(&["import", "odd", "-o", "odd.stallmap"]).expect_ok();
    place.run(&["check", "odd.stallmap"]).expect_ok();
    place.file("none", r#"{"rocprofiler-sdk-tool":{}}"#);
    place.run(&["import", "none", "-o", "x.stallmap"]).expect_error(5);
}

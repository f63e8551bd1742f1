//! CUTracer's traces: memory accesses of launches, with the tool's traps.

use std::fs;

use super::{number, python, rows};
use crate::command::CommandFolder;

/// A trace of two launches of a grid of 3 by 2 blocks with two warps each. Prints sums that the generator adds up on its
/// own: requests, lanes, the sum of all addresses modulo 2^61.
const TRACE: &str = r#"
import json
lines, requests, lanes, addresses = [], 0, 0, 0
sass = {"0": "LDC R1, c[0x0][0x28] ;", "1": "LDG.E.64 R4, [R2.64] ;", "2": "@!P0 STG.E.U8 [R2.64], R4 ;",
    "3": "LDS.128 R4, [R2] ;", "4": "LD.E R4, [R2.64] ;"}
for launch in (7, 8):
    lines.append({"type": "kernel_metadata", "mangled_name": "_Z4copyPfS_", "kernel_checksum": f"c{launch}", "grid": [3, 2, 1],
        "block": [33, 1, 1], "cluster_dim": [1, 1, 1], "sm_family": 90, "instructions": {key: {"sass": text} for key, text in sass.items()}})
    for opcode, shape in ((1, lambda lane: 8 * lane), (2, lambda lane: lane * lane), (3, lambda lane: -16 * lane), (4, lambda lane: 0)):
        for block in range(6):
            for warp in range(2):
                # The number of a warp runs on across blocks. Lanes without activity have any address.
                mask = 0xffffffff if warp == 0 else 1 if opcode == 1 else 0x80000007
                base = 0x7f0000000000 + 4096 * (block * 2 + warp) + launch
                values = [base + shape(lane) if mask >> lane & 1 else 0xdead for lane in range(32)]
                lines.append({"type": "mem_addr_trace", "ctx": "0x5a", "grid_launch_id": launch, "cta": [block % 3, block // 3, 0],
                    "warp": block * 2 + warp, "pc": hex(16 * opcode), "opcode_id": opcode, "active_mask": hex(mask), "addrs": values, "ipoint": "B"})
                if opcode != 4:
                    active = [value for lane, value in enumerate(values) if mask >> lane & 1]
                    requests, lanes, addresses = requests + 1, lanes + len(active), addresses + sum(active)
def extra(**fields):
    lines.append({"type": "mem_addr_trace", "grid_launch_id": 8, "cta": [0, 0, 0], "warp": 0, "pc": "0x10", "opcode_id": 1,
        "active_mask": "0x1", "addrs": [1] * 32, **fields})
extra(cta=[3, 0, 0])
extra(active_mask=None)
extra(pc="zz")
extra(addrs=[])
extra(active_mask="0x0")
extra(warp=None)
extra(opcode_id=0)
extra(odd=1, opcode_id=0)
lines.append({"type": "reg_trace", "grid_launch_id": 8, "regs": [[1]]})
text = "\n".join(map(json.dumps, lines)) + "\nnot json\n{\"type\":\n"
open("t.ndjson", "w").write(text)
stack = {"type": "callstack_def", "callstack_id": "s", "frames": ["run.py:3 in main", "test.py:42 in step", "odd"], "source": "cpython"}
events = [{"type": "kernel_launch", "kernel_launch_id": 7 + number, "kernel_name": "copy(float*)", "kernel_checksum": "c7", "grid": [3, 2, 1],
    "block": [33, 1, 1], "nregs": 16, "shmem": 0, "stream_id": 1, "callstack_id": "s" if number < 3 else "t"} for number in range(4)]
open("events.ndjson", "w").write("\n".join(map(json.dumps, events + [stack])))
print(requests, lanes, addresses % (1 << 61))
"#;

#[test]
fn accesses_keep_their_lanes_and_addresses() {
    let place = CommandFolder::new();
    let printed = python(&place, TRACE);
    let totals: Vec<u64> = printed.split(' ').map(|total| total.parse().unwrap()).collect();
    place.run(&["import", "t.ndjson", "-o", "x.stallmap"]).check("import_cutracer");
    place.run(&["check", "x.stallmap"]).expect_ok();
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    assert_eq!(one("SELECT CAST(sum(request_count) AS BIGINT) AS n FROM launch_run"), totals[0]);
    assert_eq!(one("SELECT CAST(sum(lane_access_count) AS BIGINT) AS n FROM launch_run"), totals[1]);
    assert_eq!(one("SELECT count(*) AS n FROM memory_access"), totals[0]);
    let shape = "SELECT kind, space, access_bytes AS b, count(*) AS n, count(stride_bytes) AS s, min(stride_bytes) AS low, max(warp) AS w \
         FROM memory_access GROUP BY kind, space, access_bytes ORDER BY b";
    let found: Vec<String> = rows(&place, "x.stallmap", shape)
        .iter()
        .map(|row| {
            let cells = ["kind", "space", "b", "n", "s", "low", "w"].map(|key| row[key].to_string());
            cells.join(" ").replace('"', "")
        })
        .collect();
    assert_eq!(
        found,
        ["write global 1 24 0 null 1", "read global 8 24 24 0 1", "read shared 16 24 24 -16 1"]
    );
    // Regular rows: address + stride * (lane - first). Irregular ones: address + distance.
    let sum = "WITH lanes AS (SELECT m.*, CAST(l.value AS BIGINT) AS lane FROM memory_access m CROSS JOIN \
         (SELECT value FROM generate_series(0, 31)) l WHERE (CAST(lane_mask AS BIGINT) >> CAST(l.value AS BIGINT)) % 2 = 1), \
         first AS (SELECT *, CASE WHEN stride_bytes < 0 THEN max(lane) OVER w ELSE min(lane) OVER w END AS first, \
         row_number() OVER (PARTITION BY kernel_id, pc, block, warp, sequence ORDER BY lane) AS k FROM lanes \
         WINDOW w AS (PARTITION BY kernel_id, pc, block, warp, sequence)) \
         SELECT CAST(sum(CAST(address AS BIGINT) + CASE WHEN stride_bytes IS NULL THEN CAST(offsets[CAST(k AS BIGINT)] AS BIGINT) * \
         CAST(power(2, offset_shift) AS BIGINT) ELSE stride_bytes * (lane - first) END) AS BIGINT) AS n FROM first";
    assert_eq!(one(sum) % (1 << 61), totals[2]);
    let names = "SELECT count(*) AS n FROM function WHERE demangled_name = 'copy(float*, float*)'";
    assert_eq!(one(names), 2, "equal names with other checksums are other code");
    assert_eq!(one("SELECT CAST(sum(lost_count) AS BIGINT) AS n FROM loss WHERE kind = 'access'"), 24 + 8);
    assert_eq!(one("SELECT CAST(sum(lost_request_count) AS BIGINT) AS n FROM launch_run"), 24 + 8);
    let lines = "SELECT lost_count AS n FROM loss WHERE reason = 'lines that are not complete JSON'";
    assert_eq!(one(lines), 2);
    for command in
        [&["report", "x.stallmap", "--all"][..], &["top", "kernels", "x.stallmap"], &["x.stallmap"]]
    {
        place.run(command).expect_ok();
    }
}

#[test]
fn events_of_kernels_have_stacks_and_no_accesses() {
    let place = CommandFolder::new();
    python(&place, TRACE);
    place.run(&["import", "events.ndjson", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    assert_eq!(one("SELECT count(*) AS n FROM launch WHERE grid_x = 3 AND register_count = 16"), 4);
    assert_eq!(one("SELECT count(*) AS n FROM launch_context WHERE line = 'test.py:42 step'"), 3);
    assert_eq!(one("SELECT count(*) AS n FROM launch_run WHERE NOT recorded AND request_count = 0"), 4);
    assert_eq!(one("SELECT lost_count AS n FROM loss WHERE kind = 'launch'"), 4);
    assert_eq!(
        one("SELECT lost_count AS n FROM loss WHERE reason = 'launches whose stack the file lacks'"),
        1
    );
}

#[test]
fn odd_traces_end() {
    let place = CommandFolder::new();
    python(&place, TRACE);
    let whole = fs::read(place.path("t.ndjson")).unwrap();
    for length in (1..whole.len()).step_by(9973) {
        fs::write(place.path("cut"), &whole[..length]).unwrap();
        let ran = place.run(&["import", "cut", "-o", &format!("{length}.stallmap")]);
        assert!(
            matches!(ran.code, Some(0 | 5)) && !ran.stderr.contains("panicked"),
            "{length}: {}",
            ran.stderr
        );
    }
    let head = r#"{"kernel_checksum":"c","type":"kernel_metadata","grid":[4294967295,4294967295,4294967295],"block":[4294967295,4294967295,4294967295]}"#;
    let record = r#"{"type":"mem_addr_trace","grid_launch_id":-5,"cta":[4294967294,4294967294,4294967294],"warp":18446744073709551615,
        "pc":"0xffffffff","sass":"LDG.E R1, [R2]","active_mask":"0xffffffff","addrs":[0,18446744073709551615,1,2,3]}"#;
    place.file("odd", format!("{head}\n{}\n", record.replace('\n', " ")));
    place.run(&["import", "odd", "-o", "odd.stallmap"]).expect_ok();
    place.run(&["check", "odd.stallmap"]).expect_ok();
    let lost = "SELECT count(*) AS n FROM loss WHERE kind = 'access' AND reason = 'requests of blocks with too many warps'";
    assert_eq!(number(&place, "odd.stallmap", lost), 1);
    place.file("none", r#"{"type":"reg_trace","grid_launch_id":0}"#);
    place.run(&["import", "none", "-o", "x.stallmap"]).expect_error(5);
}

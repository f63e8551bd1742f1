//! A memory snapshot of a training step that ran out of memory: its peak, what holds it, its segments, what failed.

use super::{number, python, rows};
use crate::command::CommandFolder;

/// Two segments, one of which is freed before the peak. Memory of modules, of forward, backward and the optimizer, one
/// temporary of each of forward and backward, and an allocation that fails. Sizes are no multiples of 512.
const STEP: &str = r#"
import pickle
def stack(*frames):
    return [{"filename": file, "line": line, "name": name} for file, line, name in frames]
TORCH = "/usr/lib/python3/site-packages/torch/"
setup = stack((TORCH + "nn/modules/linear.py", 99, "__init__"), ("/srv/job/train.py", 3, "build"))
forward = stack((TORCH + "nn/modules/linear.py", 120, "forward"), (TORCH + "nn/modules/module.py", 1700, "_call_impl"), ("/srv/job/train.py", 10, "step"))
backward = stack((TORCH + "autograd/__init__.py", 300, "backward"), (TORCH + "_tensor.py", 500, "backward"), ("/srv/job/train.py", 11, "step"))
optimizer = stack((TORCH + "optim/adam.py", 150, "_init_group"), ("/srv/job/train.py", 12, "step"))
trace, living, clock, next_address = [], {}, 0, 1 << 20
def event(action, frames, **more):
    global clock
    clock += 1
    trace.append({"action": action, "stream": 0, "time_us": clock, "frames": frames, **more})
def alloc(size, frames):
    global next_address
    address = next_address
    next_address += (size + 511) // 512 * 512
    event("alloc", frames, addr=address, size=size)
    living[address] = (size, frames)
    return address
def free(address):
    size, frames = living.pop(address)
    for action in ("free_requested", "free_completed"):
        event(action, frames, addr=address, size=size)
event("segment_alloc", setup, addr=1 << 20, size=1 << 20)
event("segment_alloc", setup, addr=1 << 30, size=4096)
event("segment_free", setup, addr=1 << 30, size=4096)
weight = alloc(100_000, setup)
saved = alloc(50_000, forward)
scratch = alloc(1_000, forward)
free(scratch)
output = alloc(30_000, forward)
small = alloc(700, backward)
free(small)
grad = alloc(100_000, backward)
free(saved)
state = alloc(200_000, optimizer)
again = alloc(60_001, forward)
event("oom", forward, size=1 << 40, device_free=12_345)
blocks, at = [], 1 << 20
for address, (size, frames) in sorted(living.items()):
    if address > at:
        blocks.append({"address": at, "size": address - at, "requested_size": 0, "state": "inactive", "frames": []})
    given = (size + 511) // 512 * 512 + (1024 if size == 60_001 else 0)
    blocks.append({"address": address, "size": given, "requested_size": size, "state": "active_allocated", "frames": frames})
    at = address + given
blocks.append({"address": at, "size": (1 << 20) + (1 << 20) - at, "requested_size": 0, "state": "inactive", "frames": []})
segment = {"device": 0, "address": 1 << 20, "total_size": 1 << 20, "blocks": blocks}
with open("step.pickle", "wb") as file:
    pickle.dump({"segments": [segment], "device_traces": [trace]}, file)
given = sum(block["size"] for block in blocks if block["state"] != "inactive")
free = [block["size"] for block in blocks if block["state"] == "inactive"]
print(given, sum(size for size, _ in living.values()), sum(free), len(free), max(free))
"#;

#[test]
fn a_snapshot_of_a_step_has_its_peak_by_category() {
    let place = CommandFolder::new();
    let printed = python(&place, STEP);
    let wanted: Vec<u64> = printed.split(' ').map(|number| number.parse().unwrap()).collect();
    let [given, requested, unused, pieces, largest] = wanted[..] else { panic!("{printed}") };
    place.run(&["import", "step.pickle", "-o", "step.stallmap"]).expect_ok();
    place.run(&["check", "step.stallmap"]).expect_ok();

    let peak = "SELECT live_bytes AS n FROM memory_peak";
    assert_eq!(number(&place, "step.stallmap", peak), given);
    let reserve = &rows(&place, "step.stallmap", "SELECT * FROM memory_reserve")[0];
    for (column, value) in [
        ("live_bytes", given),
        ("requested_bytes", requested),
        ("reserved_bytes", 1 << 20),
        ("unused_bytes", unused),
        ("unused_count", pieces),
        ("largest_unused_bytes", largest),
    ] {
        assert_eq!(reserve[column].as_u64(), Some(value), "{column}");
    }
    let held = "SELECT category, sum(CAST(requested_bytes AS BIGINT)) AS bytes FROM peak_object GROUP BY category ORDER BY category";
    let held: Vec<(String, u64)> = rows(&place, "step.stallmap", held)
        .iter()
        .map(|row| (row["category"].as_str().unwrap().to_owned(), row["bytes"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("activations", 90_001),
        ("gradients", 100_000),
        ("optimizer state", 200_000),
        ("parameters", 100_000),
    ];
    assert_eq!(held, expected.map(|(category, bytes)| (category.to_owned(), bytes)));
    // What is gone at the peak: one activation that backward freed, and two temporaries.
    let gone = "SELECT count(*) AS n FROM object_category c JOIN memory_object m ON m.object_id = c.object_id \
                WHERE m.free_ns IS NOT NULL AND c.category = CASE m.size_bytes WHEN 50176 THEN 'activations' ELSE 'temporaries' END";
    assert_eq!(number(&place, "step.stallmap", gone), 3);
    let failed = "SELECT f.requested_bytes AS n, f.free_bytes, x.line FROM allocation_failure f JOIN op_context x ON x.op_id = f.op_id";
    let failed = &rows(&place, "step.stallmap", failed)[0];
    assert_eq!((failed["n"].as_u64(), failed["free_bytes"].as_u64()), (Some(1 << 40), Some(12_345)));
    assert_eq!(failed["line"], "train.py:10 step");

    place.run(&["top", "memory", "step.stallmap"]).check("top_memory_snapshot");
    let ran = place.run(&["report", "step.stallmap", "--html", "page.html"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains(
        "1 allocation failed, the largest of 1 TiB while the GPU had 12.1 KiB free, at train.py:10 step"
    ));
    assert!(page.contains("No work of the GPUs has measured times in this capture"));
}

#[test]
fn memory_is_ranked_by_bytes_for_the_whole_program() {
    let place = CommandFolder::new();
    place.run(&["top", "memory", "tiny.stallmap"]).check("top_memory");
    place.run(&["top", "memory", "tiny.stallmap", "--sort", "time"]).expect_error(2);
    place.run(&["top", "memory", "tiny.stallmap", "--op", "add"]).expect_error(2);
}

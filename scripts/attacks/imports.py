"""Attacks on imports: damaged recordings of other tools, bombs, deep nesting, gigantic numbers, steering names."""

import functools
import gzip
import json
import pickle
import re
import shutil
import sqlite3
import tempfile
import pathlib

from attacks.base import ROOT, Ran, flipped
from attacks.files import damaged_part
from attacks.rows import changed_rows

# Formats that `export` writes.
EXPORTS = {"kineto": "json.gz", "perfetto": "pftrace", "memory-snapshot": "pickle", "operator-profiler": "json"}
NUMBERS = ["1e400", "-1", "0", "18446744073709551615", "9" * 400, "-9223372036854775808", "1e-320", "0.1", "2147483648"]
OTHER_VALUES = [b"null", b"[]", b"{}", b"-1", b"1e400", b"1.5", b"true", b'""', b'"7"', b"[[[1]]]", b'{"a": [null]}', b"9223372036854775807"]
CELLS = [None, -1, 0, 2**63 - 1, -(2**63), 1.5, "x", "", "12", b"\xff\x00", "9" * 400]
STEERING = "\\u001b]0;title\\u0007\\u202etxt\\u009b2J\\r"
# Most bytes of a bomb, and of a nest.
BOMB_BYTES, DEEP = 1 << 28, 200_000


@functools.cache
def samples(stallmap):
    """Small recordings of every format, by name."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        options = type("Options", (), {"stallmap": stallmap, "most_mb": 4096, "most_seconds": 60})
        for name, ending in EXPORTS.items():
            file = pathlib.Path(folder) / f"{name}.{ending}"
            ran = Ran(options, ["export", name, ROOT / "testdata/time_truth.stallmap", "-o", file])
            if ran.code:
                raise SystemExit(f"campaign: export {name}: {ran.text}")
            content = file.read_bytes()
            found[name] = gzip.decompress(content) if ending.endswith("gz") else content
        base = pathlib.Path(folder) / "nsys.sqlite"
        database(base)
        found["nsys"] = base.read_bytes()
    for file in (ROOT / "testdata/ncu").glob("*.gz"):
        found[file.name.removesuffix(".gz")] = gzip.decompress(file.read_bytes())
    found["cutracer"] = "\n".join(map(json.dumps, cutracer())).encode()
    found["rocprofv3"] = json.dumps(rocprof()).encode()
    found["execution trace"] = json.dumps(execution()).encode()
    found["hatchet"] = json.dumps(tree()).encode()
    found["manifest"] = json.dumps(manifest()).encode()
    found["xplane"] = xplane()
    found["proton cycles"] = json.dumps(cycles()).encode()
    with tempfile.TemporaryDirectory() as folder:
        rocpd(pathlib.Path(folder) / "rocpd.db")
        found["rocpd"] = (pathlib.Path(folder) / "rocpd.db").read_bytes()
    return found


def message(*fields):
    """A message of protocol buffers: numbers and their values, which are numbers, texts or messages."""
    found = b""
    for number, value in fields:
        value = value.encode() if isinstance(value, str) else value
        found += varint(number << 3 | 2) + varint(len(value)) + value if isinstance(value, bytes) else varint(number << 3) + varint(value)
    return found


def varint(value):
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def xplane():
    """A trace of XLA's profiler: a GPU with a stream, and a thread that launches."""
    names = ["profile_start_time", "correlation_id", "kernel_details", "memcpy_details", "hlo_op", "hlo_module", "step_num"]
    details = "regs:32 static_shared:0 dynamic_shared:0 grid:8,1,1 block:128,1,1 occ_pct:100"
    stats = [(5, message((1, number), (2, message((1, number), (2, name))))) for number, name in enumerate(names, 1)]
    events = [(4, message((1, number), (2, message((1, number), (2, name))))) for number, name in enumerate(["fusion", "MemcpyD2H", "train"], 1)]
    work, calls = [], []
    for number in range(20):
        correlation = (4, message((1, 2), (3, number)))
        origin = [(4, message((1, 5), (5, "fusion"))), (4, message((1, 6), (5, "jit_f")))]
        kernel = message((1, 1), (2, number * 10**6), (3, 10**5), correlation, (4, message((1, 3), (5, details))), *origin)
        work.append((4, kernel if number % 4 else message((1, 2), (2, number * 10**6), (3, 10**4), correlation, (4, message((1, 4), (5, "size:4"))))))
        calls.append((4, message((1, 3), (2, number * 10**6), (3, 10**5), (4, message((1, 7), (3, number))) if number % 5 == 0 else correlation)))
    device = message((2, "/device:GPU:0"), (3, message((1, 7), (2, "Stream #7(Compute)"), *work)), *events, *stats)
    host = message((2, "/host:CPU"), (3, message((1, 9), (2, "python3"), *calls)), *events, *stats)
    environment = message((2, "Task Environment"), *stats, (6, message((1, 1), (3, 1_795_865_630_717_919_801))))
    return message((1, device), (1, host), (1, environment))


def tree():
    """A profile of Proton: scopes with numbers, frames, kernels."""
    def node(name, children=(), **metrics):
        metrics = {key.replace("_", " "): value for key, value in metrics.items()}
        return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}

    kernels = [node(f"k{number}", count=3 + number, **{"time (ns)": 1000 * number + 7, "device_id": "0"}, bytes=64) for number in range(4)]
    scopes = [node("a.py:f@3", [node("scope", kernels, flops16=1.5)]), node("other", kernels[:1])]
    return [node("ROOT", scopes, count=0, **{"time (ns)": 0}), {"CUDA": {"0": {"arch": "90", "num_sms": 132, "clock_rate": 1_980_000}}}]


def manifest():
    """The manifest of Operator Profiler: kernels with their ranges."""
    kernels = [{"kernel_id": f"k_{number:05}", "kernel_name": f"k{number % 3}", "start_ns": 100 * number, "end_ns": 100 * number + 50,
                "stream_id": 7, "device_id": 0, "grid_dim": [4, 1, 1], "block_dim": [32, 1, 1],
                "layer_partition": "blocks_0", "attribution": {"source_operators": ["aten::mm, op_id = 7"]}}
               for number in range(8)]
    return {"schema_version": "1.0", "kernels": kernels}


def cycles():
    events = []
    for number in range(24):
        process = f"k Core{number % 2} CTA{number % 3} [measure in clock cycle (assume 1GHz)]"
        events.append({"name": "load", "cat": "k", "ph": "X", "pid": process, "tid": "warp 0 (line 0)", "ts": number / 8, "dur": 0.5,
                       "args": {"Unit": "GPU cycle", "Kernel Gap": "10000000cycle(ns)"}})
    return {"displayTimeUnit": "ns", "traceEvents": events}


def database(path):
    base = sqlite3.connect(path)
    base.executescript(
        "CREATE TABLE StringIds (id, value);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName,"
        " gridX, gridY, gridZ, blockX, blockY, blockZ);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);"
        "INSERT INTO StringIds VALUES (1, 'k(int*)');"
    )
    for number in range(20):
        row = (1000 * number, 1000 * number + 100, number, 11 << 24)
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, 1, 4, 1, 1, 32, 1, 1)", row)
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", (*row[:2], 11 << 24 | 5, number))
    base.commit()
    base.close()


def rocpd(path):
    base = sqlite3.connect(path)
    base.executescript(
        "CREATE TABLE rocpd_string_1 (id, string); CREATE TABLE rocpd_event_1 (id, stack_id, category_id);"
        "CREATE TABLE rocpd_info_kernel_symbol_1 (id, display_name); CREATE TABLE rocpd_info_agent_1 (id, type, type_index);"
        'CREATE TABLE rocpd_region_1 (start, "end", tid, name_id, event_id, extdata);'
        'CREATE TABLE rocpd_kernel_dispatch_1 (start, "end", agent_id, stream_id, kernel_id, event_id, workgroup_size_x);'
        "INSERT INTO rocpd_string_1 VALUES (1, 'MARKER_CORE_API'), (2, 'HIP_RUNTIME_API'), (3, 'hipLaunchKernel');"
        "INSERT INTO rocpd_info_kernel_symbol_1 VALUES (1, 'k(int*)'); INSERT INTO rocpd_info_agent_1 VALUES (1, 'GPU', 0);"
    )
    for number in range(20):
        base.execute("INSERT INTO rocpd_event_1 VALUES (?, ?, ?)", (number, number // 2, 1 + number % 2))
        base.execute("INSERT INTO rocpd_region_1 VALUES (?, ?, 7, 3, ?, '{}')", (1000 * number, 1000 * number + 500, number))
        base.execute("INSERT INTO rocpd_kernel_dispatch_1 VALUES (?, ?, 1, 2, 1, ?, 64)", (1000 * number, 1000 * number + 100, number))
    base.commit()
    base.close()


def cutracer():
    code = {"0": {"sass": "LDG.E.64 R4, [R2.64] ;"}, "1": {"sass": "STG.E [R2.64], R4 ;"}}
    head = {"type": "kernel_metadata", "mangled_name": "_Z1kPf", "kernel_checksum": "c", "grid": [2, 1, 1], "block": [32, 1, 1]}
    yield {**head, "sm_family": 90, "instructions": code}
    for number in range(8):
        record = {"type": "mem_addr_trace", "ctx": "0x5a", "grid_launch_id": 0, "cta": [number % 2, 0, 0], "warp": number % 2}
        yield {**record, "pc": hex(16 * (number % 2)), "opcode_id": number % 2, "active_mask": "0xffffffff", "addrs": list(range(32))}


def rocprof():
    dispatches = [
        {"start_timestamp": 100 * number, "end_timestamp": 100 * number + 50, "thread_id": 1, "correlation_id": {"internal": number},
         "dispatch_info": {"agent_id": {"handle": 1}, "kernel_id": 5, "workgroup_size": {"x": 64, "y": 1, "z": 1},
                           "grid_size": {"x": 640, "y": 1, "z": 1}}}
        for number in range(10)
    ]
    symbols = [{"kernel_id": 5, "kernel_name": "_Z1kPi.kd", "formatted_kernel_name": "k(int*)"}]
    agents = [{"id": {"handle": 1}, "type": 2, "name": "gfx950", "cu_count": 256}]
    tool = {"metadata": {"pid": 1}, "buffer_records": {"kernel_dispatch": dispatches}, "kernel_symbols": symbols, "agents": agents}
    return {"rocprofiler-sdk-tool": [tool]}


def execution():
    nodes = [{"name": "[pytorch|profiler|execution_trace|process]", "id": 1, "parent": 1, "rf_id": 0, "tid": 0}]
    for number in range(6):
        nodes.append({"name": "aten::mm", "id": 10 + number, "rf_id": 100 + number, "parent": 9 + number if number else 1, "tid": 1,
                      "seq_id": number, "inputs": [[5, 6, 0, 4, 4, "cuda:0"]], "input_shapes": [[4]], "input_types": ["Tensor(float)"]})
    return {"schema": "1.0.1", "pid": 77, "time": "2026-01-01", "start_ts": 5, "nodes": nodes}


def mutated(content, chance):
    """A recording with changed bytes, cut, repeated, nested, or with other numbers and names."""
    if content.startswith(b"SQLite") and chance.random() < 0.5:
        return changed_base(content, chance)
    if content[:1] in (b"{", b"[") and chance.random() < 0.3:
        return changed_values(content, chance)
    kind = chance.randrange(9)
    if kind == 0:
        return content[: chance.randrange(len(content))]
    if kind == 1:
        return flipped(content, chance)
    if kind == 2:
        at, length = chance.randrange(len(content)), 1 + chance.randrange(4096)
        return content[:at] + content[at : at + length] * chance.choice([2, 100]) + content[at + length :]
    if kind == 3:
        at = chance.choice([0, *(match.end() for match in re.finditer(rb"[:\[,]", content[: 1 << 16]))])
        return content[:at] + chance.choice([b"[", b'{"a":', b"(", b"\x0a\xff\xff\xff\xff\x7f"]) * DEEP + content[at:]
    if kind == 4:
        return gzip.compress(content[:1] + b" " * (BOMB_BYTES * chance.randrange(1, 5) // 4) + content[1:], 1)
    if kind == 5 and content[:1] == b"\x80":
        return pickle.dumps({"segments": [], "device_traces": [[Planted()] * 3]})
    if kind in (6, 7):
        pattern, values = (rb"\d+", NUMBERS) if kind == 6 else (rb'(?<=")[^"\\]{2,40}(?=")', [STEERING, "x/" * 50_000, ""])
        places = list(re.finditer(pattern, content[: 1 << 20]))
        for match in sorted(chance.sample(places, min(len(places), 12)), key=lambda match: -match.start()):
            content = content[: match.start()] + chance.choice(values).encode() + content[match.end() :]
        return content
    return content + flipped(content, chance)


def changed_values(content, chance):
    """JSON with some values of another type, without some members, or with some twice."""
    members = list(re.finditer(rb'"[^"\\]*" ?: ?("[^"\\]*"|[-0-9.e]+|\[[^][{}]*\]|\{[^][{}]*\})', content[: 1 << 20]))
    for match in sorted(chance.sample(members, min(len(members), 12)), key=lambda match: -match.start()):
        name = match.group()[: match.start(1) - match.start()]
        other = chance.choice(members).group(1)
        member = chance.choice([*(name + value for value in OTHER_VALUES), name + other, match.group() + b"," + name + other, b'"x": 1'])
        content = content[: match.start()] + member + content[match.end() :]
    return content


def changed_base(content, chance):
    """A database with cells of other types, or without some rows, tables or columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "base"
        path.write_bytes(content)
        base = sqlite3.connect(path, isolation_level=None)
        for _ in range(chance.randint(1, 8)):
            tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if not tables:
                break
            table = chance.choice(tables)
            columns = [row[1] for row in base.execute(f'PRAGMA table_info("{table}")')]
            column, kind = chance.choice(columns), chance.randrange(8)
            some = f"rowid % {chance.randint(1, 9)} = 0"
            try:
                if kind < 5:
                    base.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {some}', (chance.choice(CELLS),))
                elif kind == 5:
                    base.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE {some}')
                elif kind == 6:
                    base.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
                else:
                    base.execute(f'DROP TABLE "{table}"' if chance.random() < 0.3 else f'DELETE FROM "{table}" WHERE {some}')
            except sqlite3.Error:
                pass  # As of a table with a constraint.
        base.close()
        return path.read_bytes()


class Planted:
    """Asks a careless reader of pickles to make a file."""

    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path("planted"),))


def damaged_imports(counts, capture, place, chance):
    """Imports a damaged recording. What it writes passes `check`, and its names steer nothing."""
    name, content = chance.choice(list(samples(counts.options.stallmap).items()))
    file, output = place / "trace", place / "out.stallmap"
    file.write_bytes(mutated(content, chance))
    ran = Ran(counts.options, ["import", file, "-o", output])
    problem = ran.problem(counts.options)
    left = [new.name for new in place.iterdir() if new not in (file, output)]
    if ran.code and output.exists():
        problem = problem or "an error, and an output"
    counts.note(ran, problem or (f"left {left}" if left else None), [file])
    if ran.code or not output.exists():
        return
    checked = Ran(counts.options, ["check", output])
    counts.note(checked, checked.problem(counts.options, {0}), [file, output])
    words = chance.choice([[output], ["report", output], ["info", output], ["tree", output], ["top", "kernels", output]])
    shown = Ran(counts.options, words)
    counts.note(shown, shown.problem(counts.options, CODES_OF_RESULTS), [file, output])
    for new in place.iterdir():
        shutil.rmtree(new) if new.is_dir() else new.unlink()


def damaged_joins(counts, capture, place, chance):
    """Adds a recording to a capture. One of both is damaged, or they are of different programs."""
    _, content = chance.choice(list(samples(counts.options.stallmap).items()))
    file, output, into = place / "trace", place / "out.stallmap", capture
    kind = chance.randrange(4)
    file.write_bytes(mutated(content, chance) if kind < 2 else content)
    if kind > 1:
        into = (damaged_part if kind == 2 else changed_rows)(capture, place, chance)
    if into is None:
        return
    before = set(place.iterdir())
    ran = Ran(counts.options, ["import", file, "--into", into, "-o", output])
    problem = ran.problem(counts.options)
    left = [new.name for new in set(place.iterdir()) - before if new != output]
    if ran.code and output.exists():
        problem = problem or "an error, and an output"
    counts.note(ran, problem or (f"left {left}" if left else None), [file, into])
    # Rows of a damaged capture are taken as they are.
    if ran.code == 0 and Ran(counts.options, ["check", into]).code == 0:
        checked = Ran(counts.options, ["check", output])
        counts.note(checked, checked.problem(counts.options, {0}), [file, into, output])


# What a command on a capture that `check` accepts may end with.
CODES_OF_RESULTS = {0, 1, 5, 6, 7}
ATTACKS = {"imports": damaged_imports, "imports into captures": damaged_joins}

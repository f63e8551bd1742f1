"""Checks the Python side on a machine with a GPU, where the tests of the repository cannot.

    STALLMAP_LIBRARY=.../libstallmap_inject.so SEGMENT_ROWS=.../examples/segment_rows python gpu_check.py

Runs itself twice under the recorder (accesses, samples), reads the segments, prints facts. Ends with 1 if one is
wrong.
`segment_rows` is built by `cargo build -p stallmap-schema --example segment_rows`.
"""

import collections
import glob
import json
import os
import subprocess
import sys
import tempfile


def program():
    import torch
    import triton
    import triton.language as tl

    import stallmap

    kernel = triton.jit(_double)
    kernel.fn.__globals__["tl"] = tl
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 64), layer, torch.nn.Linear(64, 1000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(0, 1000, (4, 32), device="cuda")
    for _ in range(2):
        with stallmap.region("step"):
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()  # line: backward
            optimizer.step()
            optimizer.zero_grad()
    x = torch.ones(4096, device="cuda")
    kernel[(4,)](x, 4096, BLOCK=1024)
    compiled = torch.compile(lambda value: (value.sin() * 2 + 1).cos())
    compiled(x)
    compiled(x)
    torch.cuda.synchronize()
    print("sum", float(x.sum()), "loss", float(loss))


def _double(x, count, BLOCK: "tl.constexpr"):  # noqa: F821
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # noqa: F821
    tl.store(x + at, tl.load(x + at, mask=at < count) * 2, mask=at < count)  # noqa: F821


def record(instrument, directory):
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {
        **os.environ,
        "STALLMAP_CONFIG": json.dumps({"directory": directory, "instrument": instrument}),
        "CUDA_INJECTION64_PATH": os.environ["STALLMAP_LIBRARY"],
        "PYTHONPATH": os.path.join(here, "..", "hook"),
        # Launches of helper processes of the compiler are not this program's.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    subprocess.run([sys.executable, os.path.abspath(__file__), "program"], env=environment, check=True)
    tables = collections.defaultdict(list)
    for segment in glob.glob(os.path.join(directory, "run-*", "rows.seg")):
        lines = subprocess.run([os.environ["SEGMENT_ROWS"], segment], check=True, capture_output=True, text=True).stdout
        for line in lines.splitlines():
            row = json.loads(line)
            tables[row["table"]].append(row["row"])
    return tables


class Check:
    def __init__(self):
        self.failed = 0

    def __call__(self, what, holds, fact=""):
        self.failed += not holds
        print("ok  " if holds else "FAIL", what, fact)


def check_accesses(tables, check):
    print({name: len(rows) for name, rows in sorted(tables.items())})
    for loss in tables["loss"]:
        print("loss:", loss)
    check_storages(tables, check)
    check_backward(tables, check)
    check_names(tables, check)
    ops = {op["op_id"]: op for op in tables["op"]}
    inside = [launch for launch in tables["launch"] if launch.get("op_id") in ops]
    check("launches have ops", len(inside) > 0.95 * len(tables["launch"]), f"{len(inside)}/{len(tables['launch'])}")
    kinds = collections.Counter(ops[launch["op_id"]]["kind"] for launch in inside)
    check("launches of Triton kernels have ops", kinds["triton"] >= 2, dict(kinds))
    print("triton:", sorted({op["name"] for op in ops.values() if op["kind"] == "triton"}))
    states = {state["pystates_hash"] for state in tables["python_state"]}
    known = sum(launch.get("pystates_hash") in states for launch in inside)
    check("launches have known stacks", known == len(inside), f"{known}/{len(inside)}")
    bare = collections.Counter(launch.get("op_id") is None for launch in tables["launch"])
    print("launches without op:", bare[True])


def check_storages(tables, check):
    events = tables["storage_event"]
    allocated = {event["storage_id"]: event for event in events if not event["is_free"]}
    origins = collections.Counter(event["origin"] for event in allocated.values())
    check("storages come from the allocator", origins["tensor"] == 0, dict(origins))
    freed = {event["storage_id"] for event in events if event["is_free"]}
    check("storages are freed", len(freed) > 100, f"{len(freed)}/{len(allocated)}")
    wrong = [
        tensor
        for tensor in tables["tensor"]
        if not 0
        <= tensor["address"] - allocated[tensor["storage_id"]]["address"]
        <= allocated[tensor["storage_id"]]["size_bytes"] - tensor["span_bytes"]
    ]
    check("tensors lie in their storages", not wrong, f"{len(tables['tensor'])} tensors {wrong[:1]}")


def check_backward(tables, check):
    ops = {op["op_id"]: op for op in tables["op"]}
    threads = {op["thread_id"] for op in tables["op"] if op["phase"] == "forward"}
    backward = [op for op in tables["op"] if op["phase"] == "backward"]
    other = sum(op["thread_id"] not in threads for op in backward)
    check("backward ops run on the engine's thread", other > 0, f"{other}/{len(backward)}")
    numbered = [op for op in backward if op.get("sequence_number") is not None]
    found = [op for op in numbered if op.get("forward_op_id") in ops]
    check("backward ops know their forward op", len(found) == len(numbered), f"{len(found)}/{len(numbered)}")
    frames = {frame["frame_id"]: frame for frame in tables["python_frame"]}
    with open(__file__) as file:
        line = next(number for number, text in enumerate(file, 1) if text.rstrip().endswith("# line: backward"))
    called = {
        state["pystates_hash"]
        for state in tables["python_state"]
        if frames[state["frame_id"]]["line"] == line and frames[state["frame_id"]]["file"] == "gpu_check.py"
    }
    # Compiled code has no backward here. Every call of backward is that line's.
    placed = sum(op["pystates_hash"] in called for op in backward)
    check("backward ops know where backward was called", placed == len(backward), f"{placed}/{len(backward)}")


def check_names(tables, check):
    roles = collections.Counter(name["role"] for name in tables["tensor_name"] if name.get("name"))
    print("names:", dict(roles))
    for role in ("parameter", "gradient", "optimizer_state"):
        names = {name.get("name") for name in tables["tensor_name"] if name["role"] == role}
        check(f"{role} of the encoder is named", any(n and "1.linear1.weight" in n for n in names))


def check_light(light, accesses, check):
    check("samples record no tensors", not light["tensor"] and not light["op_tensor"] and not light["storage_event"])

    def launches(tables):
        names = {op["op_id"]: op["name"] for op in tables["op"]}
        launches = sorted(tables["launch"], key=lambda launch: launch["ordinal"])
        return collections.Counter(
            (names.get(launch.get("op_id")), launch.get("pystates_hash"), launch["function_id"]) for launch in launches
        )

    one, two = launches(accesses), launches(light)
    common = sum((one & two).values())
    total = sum(one.values())
    check("both runs launch the same from the same states", common > 0.95 * total, f"{common}/{total}")


def main():
    if sys.argv[1:] == ["program"]:
        return program()
    check = Check()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        accesses = record("accesses", first)
        check_accesses(accesses, check)
        check_light(record("pc_samples", second), accesses, check)
    print(f"{check.failed} failed")
    return sys.exit(check.failed > 0)


if __name__ == "__main__":
    main()

"""Traces of eight ranks in the form of PyTorch's profiler, with delays of three kinds at known collectives.

Nothing runs: times are simulated. Each rank has a clock of its own, some milliseconds off, and begins at another collective.
`python ranks.py FOLDER [--no-numbers] [--old]` writes `rank0.json` to `rank7.json` and `expected.json`, which holds facts
that the simulation knows and the traces do not state. `--no-numbers` leaves out the sequence numbers of collectives, `--old`
the arguments of their kernels, as releases before 2.2 do.
"""

import json
import random
import sys
from pathlib import Path

RANKS = 8
STEPS = 12
US = 1_000
MS = 1_000_000
# Rank, step, and the kind of delay before the second all-reduce of the step, the first for input.
DELAYS = {(5, 4): "kernels", (2, 7): "launch", (6, 10): "input"}
DELAY_NS = {"kernels": 3 * MS, "launch": 4 * MS, "input": 5 * MS}
ELEMENTS = [4_194_304, 1_048_576, 2_097_152]
GEMM_NS = [410 * US, 385 * US, 432 * US]
BUS_BYTES_PER_SECOND = 200e9


class Rank:
    """The state of one rank while it is simulated, in true time."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.random = random.Random(rank)
        # The first is the reference.
        self.clock_ns = 0 if rank == 0 else (rank * 7919 % 13 - 6) * 1_300 * US + rank * 17_003
        self.cpu = 50 * US + rank * 3 * US
        self.free = {"compute": 0, "comm": 0}
        self.correlation = 100
        self.events: list[dict] = []
        self.busy: list[tuple[int, int]] = []
        self.collectives: list[dict] = []

    def event(self, category: str, name: str, lane: tuple[int, int], begin: int, end: int, **arguments: object) -> None:
        pid, tid = lane
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "begin": begin, "end": end, "args": arguments}
        )

    def host(self, category: str, name: str, length: int, **arguments: object) -> int:
        """A call on the CPU. Returns its begin."""
        begin = self.cpu
        self.cpu += length
        self.event(category, name, (4000 + self.rank, 4000 + self.rank), begin, self.cpu, **arguments)
        return begin

    def call(self, name: str) -> int:
        """A launch call in an op. Returns its correlation."""
        self.correlation += 1
        self.cpu += 1 * US
        self.host("cuda_runtime", name, 4 * US, correlation=self.correlation)
        self.cpu += 1 * US
        return self.correlation

    def op(self, name: str, call: str, **arguments: object) -> tuple[int, int]:
        """An op around a launch call. Returns the correlation and the time after the call."""
        begin = self.cpu
        correlation = self.call(call)
        self.event("cpu_op", name, (4000 + self.rank, 4000 + self.rank), begin, self.cpu, **arguments)
        return correlation, self.cpu

    def work(self, category: str, name: str, stream: str, length: int, made: tuple[int, int], after: int = 0, **arguments: object) -> int:
        """Work of the GPU after its call, the work before on the stream, and other work. Returns its end."""
        correlation, called = made
        begin = max(called + 2 * US, self.free[stream], after)
        end = begin + length
        self.free[stream] = end
        number = {"compute": 7, "comm": 20}[stream]
        sizes = {} if category == "gpu_memcpy" else {"grid": [132, 1, 1], "block": [256, 1, 1], "registers per thread": 64}
        self.event(category, name, (0, number), begin, end, device=0, stream=number, correlation=correlation, **sizes, **arguments)
        if category == "kernel" and stream == "compute":
            self.busy.append((begin, end))
        return end


def arguments_of(collective: str, group: list[int], number: int, name: str, inner: int, outer: int) -> dict:
    return {
        "Collective name": collective, "In msg nelems": inner, "Out msg nelems": outer, "Group size": len(group),
        "dtype": "BFloat16", "Process Group Name": name, "Process Group Description": "default_pg" if name == "0" else "pairs",
        "Process Group Ranks": str(group), "Seq": number,
    }


def run_collective(ranks: list[Rank], kind: str, group: list[int], number: int, name: str, elements: int, ready: dict[int, int], made: dict[int, tuple[int, int]], step: int) -> None:
    """One collective of a group: all end together after the last has come."""
    n = len(group)
    factor = 2 * (n - 1) / n if kind == "allreduce" else (n - 1) / n
    inner, outer = (elements, elements) if kind == "allreduce" else (elements, elements // n)
    kernel = {"allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "_reduce_scatter_base": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"}[kind]
    begins = {rank: max(made[rank][1] + 3 * US, ranks[rank].free["comm"], ready[rank]) for rank in group}
    last = max(begins.values())
    transfer = round(max(inner, outer) * 2 * factor / BUS_BYTES_PER_SECOND * 1e9)
    ends = {}
    for rank in group:
        end = last + transfer + ranks[rank].random.randrange(0, 1_500)
        length = end - begins[rank]
        ranks[rank].work("kernel", kernel, "comm", length, made[rank], begins[rank], **arguments_of(kind, group, number, name, inner, outer))
        ends[rank] = end
    came = sorted((begin, rank) for rank, begin in begins.items())
    fact = {
        "group": name, "number": number, "step": step, "last_rank": came[-1][1], "delay_ns": came[-1][0] - came[-2][0],
        "wait_ns": sum(last - begin for begin in begins.values()),
        "bus": max(inner, outer) * 2 * factor / (max(ends.values()) - last) * 1e9,
    }
    for rank in group:
        ranks[rank].collectives.append({**fact, "begin": begins[rank], "end": ends[rank]})


def overlap(spans: list[tuple[int, int]], begin: int, end: int) -> int:
    """Time of a span in which another one runs. These do not overlap each other."""
    return sum(max(0, min(end, other) - max(begin, first)) for first, other in spans)


def simulate() -> list[Rank]:
    ranks = [Rank(number) for number in range(RANKS)]
    world = list(range(RANKS))
    numbers = {"world": 0, "pair": 0}
    for step in range(STEPS):
        begins = [rank.cpu for rank in ranks]
        for rank in ranks:
            delay = DELAYS.get((rank.rank, step))
            slow = DELAY_NS["input"] if delay == "input" else 0
            rank.host("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 30 * US + slow)
            rank.work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "compute", 40 * US, rank.op("aten::copy_", "cudaMemcpyAsync"), bytes=2_097_152)
            for length in GEMM_NS:
                made = rank.op("aten::mm", "cudaLaunchKernel", **{"Input Dims": [[8, 1024], [1024, 4096]],
                    "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[1024, 1], [1, 1024]]})
                rank.work("kernel", "void gemm<128, 256>(float*)", "compute", length + rank.random.randrange(0, 3_000), made)
        for bucket, elements in enumerate(ELEMENTS):
            ready, made = {}, {}
            for rank in ranks:
                delay = DELAYS.get((rank.rank, step)) if bucket == 1 else None
                if delay == "launch":
                    rank.cpu += DELAY_NS["launch"]
                length = GEMM_NS[bucket] + (DELAY_NS["kernels"] if delay == "kernels" else 0) + rank.random.randrange(0, 3_000)
                ready[rank.rank] = rank.work("kernel", "void gemm_backward<128, 256>(float*)", "compute", length, rank.op("aten::mm", "cudaLaunchKernel"))
                made[rank.rank] = rank.op("record_param_comms", "cudaLaunchKernelExC", **arguments_of("allreduce", world, numbers["world"], "0", elements, elements))
            run_collective(ranks, "allreduce", world, numbers["world"], "0", elements, ready, made, step)
            numbers["world"] += 1
        for first in range(0, RANKS, 2):
            pair = [first, first + 1]
            ready = {rank: ranks[rank].free["compute"] for rank in pair}
            made = {rank: ranks[rank].op("record_param_comms", "cudaLaunchKernelExC", **arguments_of("_reduce_scatter_base", pair, numbers["pair"], str(1 + first // 2), 262_144, 131_072)) for rank in pair}
            run_collective(ranks, "_reduce_scatter_base", pair, numbers["pair"], str(1 + first // 2), 262_144, ready, made, step)
        numbers["pair"] += 1
        for rank, begin in zip(ranks, begins):
            end = rank.work("kernel", "void multi_tensor_apply_kernel<Adam>(float*)", "compute", 60 * US, rank.op("Optimizer.step#Adam.step", "cudaLaunchKernel"), rank.free["comm"])
            rank.cpu = max(rank.cpu, end) + 5 * US
            rank.event("user_annotation", f"ProfilerStep#{step}", (4000 + rank.rank, 4000 + rank.rank), begin, rank.cpu)
    return ranks


def written(rank: Rank, first: int, with_numbers: bool, is_old: bool) -> dict:
    """The trace of a rank from a time on, by its own clock. Its base and its events have other origins."""
    base = 1_700_000_000 * 1_000_000_000
    events = []
    for event in rank.events:
        if event["begin"] < first:
            continue
        arguments = {key: value for key, value in event["args"].items() if with_numbers or key != "Seq"}
        if is_old and event["cat"] == "kernel":
            arguments = {key: value for key, value in arguments.items() if key.islower() or " per " in key}
            arguments.pop("dtype", None)
        begin = event["begin"] + rank.clock_ns + 1_000 * MS
        times = {"ts": begin / 1000, "dur": (event["end"] - event["begin"]) / 1000}
        events.append({key: event[key] for key in ("ph", "cat", "name", "pid", "tid")} | times | {"args": arguments})
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank.rank, "world_size": RANKS},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "totalGlobalMem": 85_000_000_000}],
        "baseTimeNanoseconds": base, "traceEvents": events}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    ranks = simulate()
    # The trace of rank 3 begins with the second step.
    begins = {3: ranks[3].collectives[4]["begin"] - 2 * MS}
    seen = {rank.rank: [one for one in rank.collectives if one["begin"] >= begins.get(rank.rank, 0)] for rank in ranks}
    for rank in ranks:
        trace = written(rank, begins.get(rank.rank, 0), "--no-numbers" not in sys.argv, "--old" in sys.argv)
        (folder / f"rank{rank.rank}.json").write_text(json.dumps(trace))
    delays = []
    for (rank, step), cause in DELAYS.items():
        number = 3 * step + (0 if cause == "input" else 1)
        delays.append({"group": "0", "number": number, "last_rank": rank, "cause": cause})
    expected = {
        "delays": delays,
        "clocks": {rank.rank: -rank.clock_ns for rank in ranks},
        "collectives": {f"{one['group']} {one['number']}": {key: one[key] for key in ("last_rank", "delay_ns", "wait_ns", "bus")}
            for rank in ranks for one in rank.collectives if one["step"] > 0},
        "hidden": {rank.rank: sum(overlap(rank.busy, one["begin"], one["end"]) for one in seen[rank.rank]) for rank in ranks},
        "all": {rank.rank: sum(one["end"] - one["begin"] for one in seen[rank.rank]) for rank in ranks},
    }
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()

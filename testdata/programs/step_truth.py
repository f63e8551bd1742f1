#!/usr/bin/env python3
"""Write a trace of PyTorch's profiler with steps whose times are known: no GPU is needed.

Set-up: three copies of weights and twenty kernels that draw them. Then eleven steps, the first of them warm-up, and one
kernel behind the last. Nothing names the steps. Times are microseconds.

One step, from the end of the step before it:
  100  idle: the host loads data, then copies it to the GPU
   20  copy to the GPU
    2  idle: launch
  450  an embedding, four layers of two kernels, a head: 50 + 4 * (30 + 60) + 40, no gaps
   30  a collective, alone
    5  copy to the host, which waits for it
  150  idle: the host works, then launches
   40  the optimizer's kernel
Together 797. In step 6 the host takes 400 longer before the optimizer. In the first step, the warm-up, it takes 1,000
longer before the optimizer.
"""

import json
import sys

events = []
clock = 1_000.0
host = 0.0
correlation = 0


def event(category, name, begin, duration, thread, arguments):
    events.append(
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": duration, "args": arguments}
    )


def work(category, name, duration, idle=0.0, call=None, arguments=None):
    """Work of the GPU after some idle time. `call`: time from the call's begin to the work's. Else calls run ahead."""
    global clock, host, correlation
    clock += idle
    host = clock - call if call else host + 2
    correlation += 1
    known = {"device": 0, "stream": 7, "correlation": correlation, **(arguments or {})}
    event(category, name, clock, duration, 7, known)
    runtime = {"kernel": "cudaLaunchKernel", "gpu_memcpy": "cudaMemcpyAsync"}[category]
    event("cuda_runtime", runtime, host, 1.0, 100, {"correlation": correlation})
    clock += duration


def kernel(name, duration, idle=0.0, call=None):
    work("kernel", name, duration, idle, call, {"grid": [256, 1, 1], "block": [128, 1, 1]})


def step(longer=0.0):
    work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20, 100, 1, {"bytes": 20_000})
    kernel("embedding", 50, 2)
    for _ in range(4):
        kernel("attention", 30)
        kernel("mlp", 60)
    kernel("head", 40)
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30)
    work("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 5, 0, None, {"bytes": 4})
    kernel("adam", 40, 150 + longer, 1.5)


for _ in range(3):
    work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 200, 50, 1, {"bytes": 4_000_000})
for _ in range(20):
    kernel("normal", 10, 30, 3)
for number in range(11):
    step({0: 1_000, 6 + 1: 400}.get(number, 0.0))
kernel("evaluate", 500, 100, 3)
json.dump(
    {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "totalGlobalMem": 85_000_000_000}
        ],
        "traceEvents": events,
    },
    sys.stdout,
)

"""Profilers of the program itself: Proton, which raises where another profiler is, JAX's and PyTorch's."""

import os
import sys
import types

import torch

from _stallmap_record import _profilers
from _stallmap_record._session import SESSION


def start(name):
    """Stands for Proton, without rights and on a GPU that is taken."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert ("TRITON_CUPTI_LIB_PATH" in os.environ) == ("libcupti.so" in maps.read()), "a CUPTI is shared"
    raise RuntimeError(f"failed to subscribe with error {name}")


def finalize():
    """Stands for Proton's end, which fails without a start."""
    raise RuntimeError("nothing was started")


SESSION.poll()
proton = types.SimpleNamespace(start=start, activate=finalize, deactivate=finalize, finalize=finalize)
sys.modules["triton.profiler.profile"] = proton
_profilers.hook_proton()
for call in (lambda: proton.start("35"), lambda: proton.start("39"), proton.finalize):
    try:
        print(call())
    except RuntimeError as error:
        print(error)
jax = types.SimpleNamespace(start_trace=str.upper, start_server=abs)
sys.modules["jax._src.profiler"] = jax
_profilers.hook_jax()
print(jax.start_trace("folder"), jax.start_server(-1))
prepared = []
profiler = sys.modules["torch.autograd.profiler"]
profiler._prepare_profiler = lambda config, activities: prepared.append(activities)
_profilers.hook_torch()
for activity in (torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA):
    profiler._prepare_profiler(None, {activity})
print(len(prepared))

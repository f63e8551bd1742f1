"""Profilers of the program itself: Proton, which raises where another profiler is, and PyTorch's."""

import sys
import types

import torch

from _stallmap_record import _profilers
from _stallmap_record._session import SESSION


def start(name):
    """Stands for Proton, without rights and on a GPU that is taken."""
    raise RuntimeError(f"failed to subscribe with error {name}")


def finalize():
    """Stands for Proton's end, which fails without a start."""
    raise RuntimeError("nothing was started")


SESSION.poll()
proton = types.SimpleNamespace(start=start, activate=finalize, deactivate=finalize, finalize=finalize)
sys.modules["triton.profiler.profile"] = proton
_profilers.hook_proton()
for name in ("35", "39"):
    try:
        print(proton.start(name))
    except RuntimeError as error:
        print(error)
print(proton.finalize())
prepared = []
profiler = sys.modules["torch.autograd.profiler"]
profiler._prepare_profiler = lambda config, activities: prepared.append(activities)
_profilers.hook_torch()
for activity in (torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA):
    profiler._prepare_profiler(None, {activity})
print(len(prepared))

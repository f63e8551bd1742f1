"""Profilers of the program itself: Proton, which raises where another profiler is, and PyTorch's."""

import sys
import types

import torch

from _stallmap_record import _profilers
from _stallmap_record._session import SESSION


def start(*names):
    """Stands for Proton, on a GPU that is taken."""
    raise RuntimeError(f"{names} cannot subscribe")


SESSION.poll()
sys.modules["triton.profiler.profile"] = types.SimpleNamespace(start=start)
_profilers.hook_proton()
try:
    print(sys.modules["triton.profiler.profile"].start("report"))
except RuntimeError as error:
    print(error)
prepared = []
profiler = sys.modules["torch.autograd.profiler"]
profiler._prepare_profiler = lambda config, activities: prepared.append(activities)
_profilers.hook_torch()
for activity in (torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA):
    profiler._prepare_profiler(None, {activity})
print(len(prepared))

"""Profilers of the program itself. NVIDIA's profiling interface has one user: ours gives way."""

import sys

from _stallmap_record._session import SESSION


def hook_torch():
    """Gives way before `torch.profiler` starts to look at the GPU."""
    profiler = sys.modules["torch.autograd.profiler"]
    activity = profiler.ProfilerActivity.CUDA
    prepare = profiler._prepare_profiler

    def give_way_and_prepare(config, activities, *more, **named):
        if activity in activities:
            _give_way("torch.profiler")
        return prepare(config, activities, *more, **named)

    profiler._prepare_profiler = give_way_and_prepare


def hook_proton():
    """Gives way before Proton starts. Where it cannot run, the program does without."""
    proton = sys.modules["triton.profiler.profile"]
    start = proton.start

    def give_way_and_start(*values, **named):
        if _give_way("triton.profiler"):
            return start(*values, **named)
        try:
            return start(*values, **named)
        except RuntimeError as error:
            SESSION.library.lose_source("the program's own profiler could not start", error)
            return None

    proton.start = give_way_and_start


def _give_way(name):
    """False where the profiler may not work in this run."""
    return not SESSION.open() or bool(SESSION.library.give_way(name))

"""Profilers of the program itself. NVIDIA's profiling interface has one user: ours gives way."""

import sys

from _stallmap_record._session import SESSION

# In the error of a profiler that finds another one.
_TAKEN = "error 39"
# Proton's functions on a profile that was started.
_PROTON = ("activate", "deactivate", "finalize")

# True once Proton could not start.
_is_refused = False


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
    """Gives way before Proton starts. Where it cannot run nevertheless, the program does without."""
    proton = sys.modules["triton.profiler.profile"]
    proton.start = _starting(proton.start)
    for name in _PROTON:
        setattr(proton, name, _of_started(getattr(proton, name)))


def _starting(start):
    def give_way_and_start(*values, **named):
        global _is_refused
        _give_way("triton.profiler")
        try:
            return start(*values, **named)
        except RuntimeError as error:
            if _TAKEN not in str(error) or SESSION.library is None:
                raise
            SESSION.library.lose_source("the program's own profiler could not start", error)
            _is_refused = True
            return None

    return give_way_and_start


def _of_started(function):
    def call(*values, **named):
        return None if _is_refused else function(*values, **named)

    return call


def _give_way(name):
    """Leaves the interface to a profiler, where this run can."""
    if SESSION.open():
        SESSION.library.give_way(name)

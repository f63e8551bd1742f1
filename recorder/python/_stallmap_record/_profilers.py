"""Profilers of the program itself. NVIDIA's profiling interface has one user: ours gives way."""

import contextlib
import functools
import os
import sys
import tempfile

from _stallmap_record._session import INSTRUMENT, SESSION

# In the error of a profiler that finds another one.
_TAKEN = "error 39"
# Proton's functions on a profile that was started.
_PROTON = ("activate", "deactivate", "finalize")
# The folder from which Proton loads CUPTI, whose file has a name without a version.
_PROTON_FOLDER = "TRITON_CUPTI_LIB_PATH"
_PROTON_FILE = "libcupti.so"

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


def hook_jax():
    """Gives way before JAX's profiler starts. What asks its server may do so at any time."""
    profiler = sys.modules["jax._src.profiler"]
    for name in ("start_trace", "start_server"):
        setattr(profiler, name, _giving_way("jax.profiler", getattr(profiler, name)))


def _giving_way(profiler, start):
    @functools.wraps(start)
    def give_way_and_start(*values, **named):
        _give_way(profiler)
        return start(*values, **named)

    return give_way_and_start


def hook_proton():
    """Gives way before Proton starts. Where it cannot run nevertheless, the program does without."""
    proton = sys.modules["triton.profiler.profile"]
    proton.start = _starting(proton.start)
    for name in _PROTON:
        setattr(proton, name, _of_started(getattr(proton, name)))


def _starting(start):
    @functools.wraps(start)
    def give_way_and_start(*values, **named):
        global _is_refused
        _give_way("triton.profiler")
        try:
            with _shared_cupti():
                return start(*values, **named)
        except RuntimeError as error:
            if _TAKEN not in str(error) or not _is_ours():
                raise
            SESSION.library.lose_source("the program's own profiler could not start", error)
            _is_refused = True
            return None

    return give_way_and_start


def _is_ours():
    """True if the recorder keeps other profilers out: in the runs of times and samples it has left."""
    return SESSION.library is not None and INSTRUMENT not in ("timeline", "pc_samples")


@contextlib.contextmanager
def _shared_cupti():
    """Lets Proton load the CUPTI that is in the process: the driver takes no second one, even after the first has left."""
    loaded = _loaded_cupti()
    if loaded is None or _PROTON_FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(loaded, os.path.join(folder, _PROTON_FILE))
        os.environ[_PROTON_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[_PROTON_FOLDER]


def _loaded_cupti():
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = [line.rstrip("\n").split(maxsplit=5)[-1] for line in maps if _PROTON_FILE in line]
    return paths[0] if paths else None


def _of_started(function):
    @functools.wraps(function)
    def call(*values, **named):
        return None if _is_refused else function(*values, **named)

    return call


def _give_way(name):
    """Leaves the interface to a profiler, where this run can."""
    if SESSION.open():
        SESSION.library.give_way(name)

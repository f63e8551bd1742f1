"""Trials of tuners: launches that choose a kernel's configuration, and are not the program's work."""

import functools
import os
import sys
import threading

from _stallmap_record._session import SESSION

# Ops of which cuDNN chooses the kernel, by measuring where the program asks for it.
CONVOLUTIONS = frozenset(
    f"aten::{name}"
    for name in (
        "convolution",
        "_convolution",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "convolution_backward",
    )
)
_MOST = 1 << 12
_CACHE = "TRITON_CACHE_DIR"
# The folder that the program began with.
_FOLDER = os.environ.get(_CACHE)

# Triton may be used without PyTorch, which must not be imported for it.
_recorder = None
_key = None
_convolutions = set()


class Trials(threading.local):
    """True where this thread runs trials."""

    def __init__(self):
        self.are_running = False


TRIALS = Trials()


def set_recorder(recorder, key):
    """Marks trials from now on. `key` is the dispatcher's key of the hooks."""
    global _recorder, _key
    _recorder, _key = recorder, key


def hook_triton():
    """Marks the trials of `triton.autotune`."""
    from triton.runtime import autotuner

    _mark(autotuner.Autotuner, "_bench", "triton.autotune")
    _keep_choices(autotuner)


def _keep_choices(autotuner):
    """Keeps choices where the next run looks for them.

    torch.compile moves Triton's cache while a program runs, but not in a run whose code comes from its own cache.
    """
    make = getattr(autotuner, "get_cache_manager", None)
    if make is None:
        return

    def get_cache_manager(key):
        folder = os.environ.get(_CACHE)
        if folder == _FOLDER:
            return make(key)
        _set_cache(_FOLDER)
        try:
            return make(key)
        finally:
            _set_cache(folder)

    autotuner.get_cache_manager = get_cache_manager


def _set_cache(folder):
    if folder is None:
        os.environ.pop(_CACHE, None)
    else:
        os.environ[_CACHE] = folder


def hook_generated():
    """Marks the trials of the configurations of a generated kernel."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    # Kernels that are loaded for trials get the recorder's code with their first launch that is none.
    for name in ("precompile", "bench", "benchmark_all_configs", "coordinate_descent_tuning"):
        _mark(CachingAutotuner, name, "torch.compile")


def hook_benchmarks():
    """Marks the measurements by which Inductor chooses among kernels."""
    from torch._inductor.runtime import benchmarking

    for name in ("Benchmarker", "TritonBenchmarker", "InductorBenchmarker"):
        owner = getattr(benchmarking, name, None)
        for method in ("benchmark", "benchmark_gpu"):
            _mark(owner, method, "torch.compile")


def hook_choices():
    """Marks the choice of a template or a library for a matrix product, with the making of its arguments."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    for name in ("benchmark", "benchmark_choices", "benchmark_in_current_process"):
        _mark(AlgorithmSelectorCache, name, "torch.compile")


def is_first(name, args):
    """True of a convolution that cuDNN measures: the first one of its shapes, if the program asks for that."""
    if not sys.modules["torch"].backends.cudnn.benchmark or len(_convolutions) >= _MOST:
        return False
    key = name, *(_shape(value) for value in args)
    if key in _convolutions:
        return False
    _convolutions.add(key)
    return True


def _shape(value):
    if hasattr(value, "stride"):
        return tuple(value.shape), value.stride(), value.dtype, str(value.device)
    return str(value)


def around(tuner, run, args, kwargs):
    """The result of a call whose launches are trials."""
    if TRIALS.are_running:
        return run(args, kwargs)
    op_id = _begin(tuner)
    if not op_id:
        return run(args, kwargs)
    # Ops of trials are not recorded: the tuner measures the program's time.
    dispatcher = sys.modules["torch"]._C
    is_excluded = dispatcher._dispatch_tls_is_dispatch_key_excluded(_key)
    TRIALS.are_running = True
    dispatcher._dispatch_tls_set_dispatch_key_excluded(_key, True)
    try:
        return run(args, kwargs)
    finally:
        dispatcher._dispatch_tls_set_dispatch_key_excluded(_key, is_excluded)
        TRIALS.are_running = False
        SESSION.library.op_end([op_id])


def _mark(owner, name, tuner):
    """Wraps a method of a class, where it has it, in an op that says so."""
    member = vars(owner).get(name) if owner is not None else None
    kind = type(member) if isinstance(member, (classmethod, staticmethod)) else None
    function = member.__func__ if kind else member
    if not callable(function):
        return

    @functools.wraps(function)
    def trial(*args, **kwargs):
        return around(tuner, lambda args, kwargs: function(*args, **kwargs), args, kwargs)

    setattr(owner, name, kind(trial) if kind else trial)


def _begin(tuner):
    if _recorder is None or not (SESSION.active or SESSION.poll()):
        return 0
    try:
        return _recorder.tuning(f"tuning by {tuner}")
    except Exception as error:
        SESSION.library.lose_op("a tuner's trial could not be marked", error)
        return 0

"""Launches of Triton kernels, the program's and the compiler's: they pass PyTorch's dispatcher by."""

from _stallmap_record._session import SESSION

_recorder = None


def set_recorder(recorder):
    """Records launches from now on. Before PyTorch is imported there is no recorder for them."""
    global _recorder
    _recorder = recorder


def hook_functions():
    """Hooks the launches of `triton.jit` functions."""
    from triton.runtime.jit import JITFunction

    run = JITFunction.run

    def launch(self, *args, grid, warmup, **kwargs):
        if warmup or _recorder is None or not SESSION.active:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        return _record(self.__name__, self, args, kwargs, lambda: run(self, *args, grid=grid, warmup=warmup, **kwargs))

    JITFunction.run = launch


def hook_generated():
    """Hooks the launches of the kernels that torch.compile writes."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    run = CachingAutotuner.run

    def launch(self, *args, **kwargs):
        if _recorder is None or not SESSION.active:
            return run(self, *args, **kwargs)
        name = (self.inductor_meta or {}).get("kernel_name") or self.fn.__name__
        return _record(name, self.fn, args, kwargs, lambda: run(self, *args, **kwargs))

    CachingAutotuner.run = launch


def _record(name, function, args, kwargs, run):
    library = _recorder.library
    op_id = 0
    try:
        names = function.arg_names
        values = [*args, *(kwargs.get(name) for name in names[len(args) :])]
        op_id = _recorder.launch(library.text(name), names, values)
    except Exception as error:
        library.lose_op("a Triton launch could not be described", error)
    try:
        return run()
    finally:
        if op_id:
            library.op_end([op_id])

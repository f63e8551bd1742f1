"""Launches of Triton kernels, the program's and the compiler's: they pass PyTorch's dispatcher by."""

from _stallmap_record._session import SESSION
from _stallmap_record._tuning import TRIALS

_recorder = None
# Compiled kernels that were reported, by id. The reference prevents that another one gets the id.
_reported = {}
_MOST = 1 << 14


def set_recorder(recorder):
    """Records launches from now on. Before PyTorch is imported there is no recorder for them."""
    global _recorder
    _recorder = recorder


def hook_functions():
    """Hooks the launches of `triton.jit` functions."""
    from triton.runtime.jit import JITFunction

    run = JITFunction.run

    def launch(self, *args, grid, warmup, **kwargs):
        if warmup or _recorder is None or not SESSION.active or TRIALS.are_running:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        compiled = _record(
            self.__name__, self, args, kwargs, lambda: run(self, *args, grid=grid, warmup=warmup, **kwargs)
        )
        _report(self, compiled, _facts_of_function)
        return compiled

    JITFunction.run = launch


def hook_generated():
    """Hooks the launches of the kernels that torch.compile writes."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    run = CachingAutotuner.run

    def launch(self, *args, **kwargs):
        if _recorder is None or not SESSION.active or TRIALS.are_running:
            return run(self, *args, **kwargs)
        name = (self.inductor_meta or {}).get("kernel_name") or self.fn.__name__
        result = _record(name, self.fn, args, kwargs, lambda: run(self, *args, **kwargs))
        launchers = self.launchers
        if len(launchers) == 1:
            _report(self, launchers[0], _facts_of_generated)
        return result

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


def _report(function, compiled, facts):
    """Reports a compiled kernel, once."""
    key = id(compiled)
    if compiled is None or key in _reported or len(_reported) >= _MOST:
        return
    _reported[key] = compiled
    try:
        name, file, line, signature, options = facts(function, compiled)
        texts = [", ".join(f"{key}: {value}" for key, value in facts.items()) for facts in (signature, options)]
        _recorder.library.triton_kernel([name, file, str(line), *texts])
    except Exception as error:
        _recorder.library.lose_op("a compiled Triton kernel could not be described", error)


def _facts_of_function(function, compiled):
    source, metadata = compiled.src, compiled.metadata
    names = function.arg_names
    constants = {names[index[0]]: value for index, value in source.constants.items() if len(index) == 1}
    signature = {name: kind for name, kind in source.signature.items() if kind != "constexpr"}
    options = {
        name: getattr(metadata, name) for name in ("num_warps", "num_stages", "num_ctas") if hasattr(metadata, name)
    }
    code = function.fn.__code__
    return function.__name__, code.co_filename, code.co_firstlineno, signature, {**constants, **options}


def _facts_of_generated(tuner, launcher):
    meta, config = tuner.triton_meta or {}, launcher.config
    name = (tuner.inductor_meta or {}).get("kernel_name") or tuner.fn.__name__
    signature = {key: kind for key, kind in meta.get("signature", {}).items() if kind != "constexpr"}
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return name, tuner.filename or "", 1, signature, {**config.kwargs, **options}

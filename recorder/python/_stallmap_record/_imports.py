"""Hooks a module when the program has imported it, whenever that is."""

import sys

from _stallmap_record import _failure, _public


def _torch():
    from _stallmap_record._session import SESSION

    if SESSION.open():
        from _stallmap_record import _activate, _profilers

        _activate.torch_imported()
        _launcher()
        _profilers.hook_torch()


def _launcher():
    from _stallmap_record._session import HAS_STACKS, SESSION

    if HAS_STACKS and SESSION.open():
        from _stallmap_record import _frames

        _frames.learn(SESSION.library)


def driver_started():
    """Called by the library where CUDA starts in a program that has imported none of the packages below."""
    try:
        _launcher()
    except Exception as error:
        _failure.leave("Python stacks of launches outside ops", error)


def _triton():
    from _stallmap_record import _triton

    _triton.hook_functions()


def _proton():
    from _stallmap_record import _profilers

    _profilers.hook_proton()


def _inductor():
    from _stallmap_record import _triton, _tuning

    _triton.hook_generated()
    _tuning.hook_generated()


def _inductor_metadata():
    from _stallmap_record import _compiled

    _compiled.hook_metadata()


def _inductor_cache():
    from _stallmap_record import _compiled

    _compiled.hook_cache()


def _inductor_packages():
    from _stallmap_record import _compiled

    _compiled.hook_packages()


def _inductor_benchmarks():
    from _stallmap_record import _tuning

    _tuning.hook_benchmarks()


def _triton_tuner():
    from _stallmap_record import _tuning

    _tuning.hook_triton()


def _inductor_choices():
    from _stallmap_record import _tuning

    _tuning.hook_choices()


def _jax_profiler():
    from _stallmap_record import _profilers

    _profilers.hook_jax()


def _jax():
    from _stallmap_record import _jax as jax

    jax.hook()


# What to do after the import of a module.
_AFTER = {
    _public.NAME: _public.connect,
    "torch": _torch,
    # Packages that launch kernels without PyTorch.
    "cupy": _launcher,
    "numba.cuda": _launcher,
    "jax": _launcher,
    "pycuda.driver": _launcher,
    "warp": _launcher,
    "jax._src.compiler": _jax,
    "jax._src.profiler": _jax_profiler,
    "triton.runtime.jit": _triton,
    "triton.runtime.autotuner": _triton_tuner,
    "torch._inductor.utils": _inductor_metadata,
    "torch._inductor.codecache": _inductor_cache,
    "torch._inductor.runtime.triton_heuristics": _inductor,
    "torch.export.pt2_archive._package": _inductor_packages,
    "torch._inductor.runtime.benchmarking": _inductor_benchmarks,
    "torch._inductor.select_algorithm": _inductor_choices,
    "triton.profiler.profile": _proton,
}


def watch():
    """Waits for the imports, or acts at once on those that are done."""
    sys.meta_path.insert(0, _Watcher())
    for name, act in _AFTER.items():
        if name in sys.modules:
            act()


class _Watcher:
    """A finder that finds what the other finders find, and acts when it has been executed."""

    def __init__(self):
        self._finding = set()

    def find_spec(self, name, path=None, target=None):
        """The other finders' result."""
        if name not in _AFTER or name in self._finding:
            return None
        self._finding.add(name)
        try:
            spec = self._ask_others(name, path, target)
            if name == _public.NAME:
                spec = _public.chosen(spec)
        finally:
            self._finding.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _act_after(spec.loader, _AFTER[name])
        return spec

    def _ask_others(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                return spec
        return None


def _act_after(loader, act):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        try:
            act()
        except Exception as error:  # The program's import has succeeded, whatever is wrong here.
            _failure.leave(f"Python hooks of {module.__name__}", error)
            print(f"stallmap: failed to hook `{module.__name__}`: {type(error).__name__}: {error}", file=sys.stderr)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        _failure.leave(f"Python hooks: {type(loader).__name__} takes no attribute", loader)
        print(f"stallmap: failed to hook an import: {type(loader).__name__} takes no attribute", file=sys.stderr)

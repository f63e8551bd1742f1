"""Programs that JAX compiles: each is left in the recording's folder, where finalizing finds its instructions.

Nothing is done when a program runs: JAX launches compiled programs without Python. XLA names a kernel after its
instruction, and an instruction names the lines at which it was traced.
"""

import functools
import json
import os
import sys
import time

from _stallmap_record import _failure, _wire
from _stallmap_record._files import Files

_VERSION = 1
# The largest program, and all of a process. What is larger is counted as lost.
_MOST_BYTES = 64 << 20
_MOST_TOTAL = 1 << 30
_MOST_FRAMES = 256
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LOST = "HLO of a program that JAX compiled"


def hook():
    """Hooks the function that gives JAX every executable, compiled or from its cache."""
    compiler = sys.modules["jax._src.compiler"]
    compile_program = getattr(compiler, "compile_or_get_cached", None)
    if compile_program is None:
        _failure.leave("HLO of all programs: the compiler of this JAX cannot be hooked", "no compile_or_get_cached")
        return
    programs = _Programs()

    @functools.wraps(compile_program)
    def compile_or_get_cached(*args, **kwargs):
        _share_tuning(args)
        begin_ns = time.time_ns()
        executable = compile_program(*args, **kwargs)
        try:
            programs.leave(executable, args, begin_ns, sys._getframe(1))
        except Exception as error:  # The program has its executable, whatever is wrong here.
            _failure.leave(_LOST, error)
        return executable

    compiler.compile_or_get_cached = compile_or_get_cached


def _share_tuning(args):
    """Makes the passes of a recording take the choices of the first one's trials, unless the program keeps its own."""
    try:
        for argument in args:
            build = getattr(argument, "executable_build_options", None)
            if build is not None and build.debug_options.xla_gpu_per_fusion_autotune_cache_dir == "":
                folder = os.path.join(_folder(), "hlo-tuning")
                # Not made where the recording has ended: XLA refuses a folder that is missing.
                if not os.path.isdir(folder):
                    os.mkdir(folder)
                build.debug_options.xla_gpu_per_fusion_autotune_cache_dir = folder
    except Exception as error:
        _failure.leave("choices of XLA's tuning are not shared between passes", error)


def _folder():
    return json.loads(os.environ["STALLMAP_CONFIG"])["directory"]


class _Programs:
    """The programs of this process."""

    def __init__(self):
        self._files = Files()
        self._count = 0
        self._bytes = 0

    def leave(self, executable, args, begin_ns, frame):
        """Writes a program with the facts that only this process has."""
        end_ns = time.time_ns()
        module = executable.hlo_modules()[0]
        proto = module.as_serialized_hlo_module_proto()
        try:
            # The code and the buffers too.
            kind, content = "executable", executable.serialize()
        except Exception as error:
            _failure.leave("code and buffers of a program that JAX compiled", error)
            kind, content = "module", proto
        if len(content) > _MOST_BYTES:
            kind, content = "module", proto
        if len(content) > _MOST_BYTES or self._bytes + len(content) > _MOST_TOTAL:
            _failure.leave(f"{_LOST}: it is too large", f"{module.name}: {len(content)} bytes")
            return
        facts = {
            "version": _VERSION,
            "process_id": os.getpid(),
            "kind": kind,
            "name": module.name,
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "files": {file: [self._files.normalized(file), _as_named(file)] for file in _wire.file_names(proto)},
            "results": _results(args),
            "stack": self._stack(frame),
        }
        self._write(json.dumps(facts).encode("utf-8", "replace"), content)

    def _write(self, facts, content):
        self._count += 1
        self._bytes += len(content)
        path = os.path.join(_folder(), f"hlo-{os.getpid()}-{self._count}")
        with open(path + ".part", "wb") as file:
            file.write(facts + b"\n")
            file.write(content)
        os.replace(path + ".part", path + ".program")

    def _stack(self, frame):
        """The frames of the call that compiles, innermost first."""
        frames = []
        while frame is not None and len(frames) < _MOST_FRAMES:
            code = frame.f_code
            if not code.co_filename.startswith(_OWN):
                name = getattr(code, "co_qualname", code.co_name)
                file = self._files.normalized(code.co_filename)
                frames.append([file, code.co_filename, name, code.co_firstlineno, frame.f_lineno or 0])
            frame = frame.f_back
        return frames


def _as_named(file):
    """A file as Python names it: JAX makes the program's own name absolute."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return main if main and os.path.abspath(main) == file else file


def _results(args):
    """The path of each result in what the function returns. Empty where this version of JAX does not name them."""
    try:
        return [name for module in args[1:2] for name in _result_names(module)]
    except Exception:
        return []


def _result_names(module):
    for function in module.body.operations:
        attributes = function.attributes
        if "res_attrs" in attributes and "main" in str(attributes["sym_name"]):
            for result in attributes["res_attrs"]:
                yield result["jax.result_info"].value if "jax.result_info" in result else ""

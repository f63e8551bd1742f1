"""Starts stallmap's Python side in a recorded program: Python imports this file by itself when it starts.

`stallmap-record` puts this folder first on PYTHONPATH. Nothing is printed and nothing raised here, and a sitecustomize
that this one hides runs as if it were alone.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _watch():
    try:
        # Last, because it must not hide anything of the program.
        sys.path.append(os.path.dirname(_HERE))
        from _stallmap_record import _imports

        _imports.watch()
    except Exception as error:  # The program must start whatever is wrong here.
        _leave(error)


def _leave(error):
    try:
        from _stallmap_record import _failure

        _failure.leave("Python stacks, ops and tensors: the hooks failed to start", error)
    except Exception:
        pass


def _run_hidden():
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("STALLMAP_CONFIG"):
    _watch()
_run_hidden()

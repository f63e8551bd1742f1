"""Regions that the program names."""

import functools
import sys


class region:
    """`with region(name):` or `@region(name)`. Costs next to nothing where nothing is recorded."""

    def __init__(self, name):
        self._name = str(name)
        self._open = []

    def __enter__(self):
        # Only a program that has imported PyTorch under `stallmap-record` has this module.
        activated = sys.modules.get("stallmap._activate")
        self._open.append(activated.begin_region(self._name) if activated else None)
        return self

    def __exit__(self, *_):
        op_id = self._open.pop()
        if op_id:
            sys.modules["stallmap._activate"].end_region(op_id)
        return False

    def __call__(self, function):
        name = self._name

        @functools.wraps(function)
        def in_region(*args, **kwargs):
            with region(name):
                return function(*args, **kwargs)

        return in_region

"""Regions that the program names."""

import functools

# What begins and ends regions, once PyTorch is imported under `stallmap-record`.
hooks = None


class region:
    """`with region(name):` or `@region(name)`. Costs next to nothing where nothing is recorded."""

    def __init__(self, name):
        self._name = str(name)
        self._open = []

    def __enter__(self):
        self._open.append(hooks.begin_region(self._name) if hooks is not None else None)
        return self

    def __exit__(self, *_):
        op_id = self._open.pop()
        if op_id:
            hooks.end_region(op_id)
        return False

    def __call__(self, function):
        name = self._name

        @functools.wraps(function)
        def in_region(*args, **kwargs):
            with region(name):
                return function(*args, **kwargs)

        return in_region

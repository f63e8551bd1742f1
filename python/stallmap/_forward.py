"""Calls that reach the recorder while `stallmap-record` runs the program, and otherwise do nothing."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

# The recorder's hooks connect to a package with this number only.
INTERFACE = 1

# The hooks, put here by `stallmap-record`.
recorder: Any = None

_Function = TypeVar("_Function", bound=Callable[..., Any])


class region:
    """Names a part of the program: `with stallmap.region(name):` or `@stallmap.region(name)`."""

    def __init__(self, name: str) -> None:
        self._name = str(name)
        self._open: list[Any] = []

    def __enter__(self) -> region:
        self._open.append(recorder.begin_region(self._name) if recorder is not None else None)
        return self

    def __exit__(self, *_: object) -> None:
        op_id = self._open.pop()
        if op_id:
            recorder.end_region(op_id)

    def __call__(self, function: _Function) -> _Function:
        name = self._name

        @functools.wraps(function)
        def in_region(*args: Any, **kwargs: Any) -> Any:
            with region(name):
                return function(*args, **kwargs)

        return in_region  # type: ignore[return-value]


def start() -> None:
    """Records from here on, where `stop` or `stallmap-record --paused` has stopped it."""
    if recorder is not None:
        recorder.start()


def stop() -> None:
    """Records nothing from here on. Omitted launches are counted."""
    if recorder is not None:
        recorder.stop()

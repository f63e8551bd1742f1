"""Calls that reach the recorder while `stallmap-record` runs the program, and otherwise do nothing."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

# The recorder's hooks connect to a package with this number only.
INTERFACE = 1

# The hooks, put here by `stallmap-record`.
recorder: Any = None

_Function = TypeVar("_Function", bound=Callable[..., Any])


# Units of numbers of regions, by name.
_UNITS = {"flops": "flop", "bytes": "B"}


class region:
    """Names a part of the program: `with stallmap.region(name):` or `@stallmap.region(name)`.

    Numbers are what each execution of the part does, such as `flops=2 * m * n * k` or `bytes=4 * n`. `stallmap tree -m`
    and the view `range_metric` set them against the time that the GPU took.
    """

    def __init__(
        self, name: str, *, flops: float | None = None, bytes: float | None = None, **metrics: float
    ) -> None:
        self._name = str(name)
        self._metrics = _numbers({"flops": flops, "bytes": bytes, **metrics})
        self._open: list[Any] = []

    def __enter__(self) -> region:
        self._open.append(recorder.begin_region(self._name, self._metrics) if recorder is not None else None)
        return self

    def __exit__(self, *_: object) -> None:
        op_id = self._open.pop()
        if op_id:
            recorder.end_region(op_id)

    def __call__(self, function: _Function) -> _Function:
        name, numbers = self._name, {name: value for name, value, _ in self._metrics}

        @functools.wraps(function)
        def in_region(*args: Any, **kwargs: Any) -> Any:
            with region(name, **numbers):
                return function(*args, **kwargs)

        return in_region  # type: ignore[return-value]


def step(name: str = "step", **metrics: float) -> region:
    """Names one step of the program's loop: `with stallmap.step():` around its body."""
    return region(name, **metrics)


def _numbers(metrics: dict[str, float | None]) -> list[tuple[str, float, str | None]]:
    """Names with values and units. A value that is not a number raises, as any wrong argument does."""
    return [(name, float(value), _UNITS.get(name)) for name, value in metrics.items() if value is not None]


def start() -> None:
    """Records from here on, where `stop` or `stallmap-record --paused` has stopped it."""
    if recorder is not None:
        recorder.start()


def stop() -> None:
    """Records nothing from here on. Omitted launches are counted."""
    if recorder is not None:
        recorder.stop()

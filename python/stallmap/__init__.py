"""stallmap: the tensor, line and kernel that a GPU waits for.

Queries of captures:

    capture = stallmap.open("train.stallmap")
    capture.findings.pl()
    capture.sql("SELECT * FROM object_cost ORDER BY samples DESC LIMIT 5").df()

Names in a recorded program. They do nothing where nothing is recorded:

    with stallmap.region("attention"):
        ...

    @stallmap.region("step")
    def step(): ...

    stallmap.start()    # with `stallmap-record --paused`
    stallmap.stop()
"""

from stallmap._forward import region, start, step, stop
from stallmap._version import VERSION as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stallmap._capture import Capture as Capture
    from stallmap._capture import open as open
    from stallmap._diff import Diff as Diff
    from stallmap._errors import Error as Error
    from stallmap._errors import LossWarning as LossWarning
    from stallmap._result import Result as Result

__all__ = ["Capture", "Diff", "Error", "LossWarning", "Result", "__version__", "open", "region", "start", "step", "stop"]

_HOMES = {
    "Capture": "_capture",
    "Diff": "_diff",
    "Error": "_errors",
    "LossWarning": "_errors",
    "Result": "_result",
    "open": "_capture",
}


def __getattr__(name: str) -> object:
    # A recorded program pays for regions only.
    if name not in _HOMES:
        raise AttributeError(f"module 'stallmap' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"stallmap.{_HOMES[name]}"), name)


def __dir__() -> "list[str]":
    return sorted([*globals(), *_HOMES])


def load_ipython_extension(shell: object) -> None:
    """Adds `%%stallmap`, for `%load_ext stallmap`."""
    from stallmap._notebook import load

    load(shell)

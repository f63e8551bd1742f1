"""`%%stallmap` in notebooks: a statement over a capture, with its rows below.

%load_ext stallmap
%%stallmap train.stallmap
SELECT * FROM object_cost ORDER BY samples DESC LIMIT 5
"""

from __future__ import annotations

import shlex
from typing import Any, Dict, Tuple

from stallmap._capture import Capture, open
from stallmap._errors import Error

# The captures of earlier cells, which stay open.
_opened: Dict[Tuple[str, ...], Capture] = {}


def load(shell: Any) -> None:
    """Adds the magic to a shell of IPython."""
    shell.register_magic_function(lambda line, cell=None: cell_magic(line, cell, shell.user_ns), "cell", "stallmap")


def cell_magic(line: str, cell: Any, names: Dict[str, Any]) -> Any:
    """The rows of the cell's statement: `%%stallmap CAPTURE`, `%%stallmap a=ONE b=TWO`, or a variable's name."""
    words = tuple(shlex.split(line))
    if not words:
        raise Error("`%%stallmap` names no capture", "%%stallmap train.stallmap", 2)
    capture = names.get(words[0]) if len(words) == 1 else None
    if not isinstance(capture, Capture):
        capture = _opened.get(words)
    if capture is None:
        named = dict(word.split("=", 1) for word in words) if "=" in words[0] and len(words) > 1 else {}
        capture = _opened[words] = open(**named) if named else open(words[0])
    return capture.sql(cell)

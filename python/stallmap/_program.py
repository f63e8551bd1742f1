"""The installed program `stallmap`: its path, and single runs of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from typing import Iterator, List, Sequence

from stallmap._errors import Error

# Names a program to use instead of the installed one.
VARIABLE = "STALLMAP_PROGRAM"
_NAME = "stallmap.exe" if os.name == "nt" else "stallmap"


def path() -> str:
    """The program's path: from `STALLMAP_PROGRAM`, next to this package's Python, or on PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    for folder in _folders():
        candidate = os.path.join(folder, _NAME)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    found = shutil.which(_NAME)
    if found is None:
        hint = f"install the wheel of stallmap, or name the program in {VARIABLE}"
        raise Error("the program `stallmap` is not installed", hint, 5)
    return found


def _folders() -> Iterator[str]:
    yield sysconfig.get_path("scripts")
    if sys.version_info >= (3, 10):
        yield sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    yield os.path.dirname(sys.executable or "")


def output(arguments: Sequence[str]) -> str:
    """The text that one run of the program prints."""
    command: List[str] = [path(), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8")
    except OSError as error:
        raise not_started(command[0], error) from error
    if done.returncode != 0:
        raise of_messages(done.stderr, done.returncode)
    return done.stdout


def not_started(program: str, error: OSError) -> Error:
    """The failure of starting the program."""
    return Error(f"failed to start `{program}`: {error.strerror}", f"check {VARIABLE}, or install stallmap again", 5)


def of_messages(messages: str, code: int) -> Error:
    """The failure that a program's messages report."""
    lines = messages.strip().splitlines() or ["it reports no reason"]
    start = next((at for at, line in enumerate(lines) if line.startswith("error: ")), 0)
    hints = [line[len("hint: ") :] for line in lines if line.startswith("hint: ")]
    excerpt = [line for line in lines[start + 1 :] if not line.startswith("hint: ")]
    text = lines[start]
    text = text[len("error: ") :] if text.startswith("error: ") else text
    return Error(text, hints[-1] if hints else None, code, "\n".join(excerpt) or None)

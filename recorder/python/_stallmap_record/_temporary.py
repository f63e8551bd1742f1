"""Names of temporary files that differ from run to run, where a program writes code to such files and runs it."""

import hashlib
import tempfile

# Python makes up names of this length.
_LENGTH = 8
_MOST_NAMES = 100_000
_MOST_BYTES = 16 << 20


class Temporary:
    """The names that Python makes up in this process."""

    def __init__(self):
        self._names = set()
        self._watch()

    def _watch(self):
        sequence = getattr(tempfile, "_RandomNameSequence", None)
        make = getattr(sequence, "__next__", None)
        if make is None:
            return
        names = self._names

        def __next__(self):
            name = make(self)
            if len(names) < _MOST_NAMES:
                names.add(name)
            return name

        sequence.__next__ = __next__

    def stable(self, name, path):
        """`name` with a hash of the file's content for each name that was made up: equal code has one name in all runs."""
        content = None
        for start in range(len(name) - _LENGTH + 1):
            part = name[start : start + _LENGTH]
            if part in self._names:
                content = content or _hash(path)
                name = name.replace(part, content or part)
        return name


def _hash(path):
    """None where the file cannot be read: it keeps its name."""
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError:
        return None
    return hashlib.blake2b(content, digest_size=_LENGTH // 2).hexdigest() if len(content) <= _MOST_BYTES else None

"""File names that are the same on every machine: relative to the longest of script folder, sys.path, site-packages."""

import os
import sys
import sysconfig
import tempfile

from _stallmap_record._temporary import Temporary


class Files:
    """Normalized names, each found once."""

    def __init__(self):
        self._names = {}
        self._temporary = Temporary()
        # Python puts the script's folder there before the program can change directory or path.
        self._first = [entry for entry in sys.path[:1] if entry]
        self._start = os.getcwd()
        paths = sysconfig.get_paths()
        # Code that the compiler writes: its names are hashes of its content, its folder holds the user's name.
        generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or os.path.join(tempfile.gettempdir(), f"torchinductor_{_user()}")
        self._fixed = [generated, *(paths[kind] for kind in ("purelib", "platlib", "stdlib") if kind in paths)]

    def normalized(self, file):
        """The name of a file, relative if a root holds it. Names that are not files stay."""
        name = self._names.get(file)
        if name is None:
            name = self._names[file] = self._normalize(file)
        return name

    def _normalize(self, file):
        if not file or file.startswith("<"):
            return file
        absolute = os.path.normpath(os.path.join(self._start, file))
        best = ""
        for root in self._roots():
            if len(root) > len(best) and absolute.startswith(root):
                best = root
        return self._temporary.stable(absolute[len(best) :], absolute).replace(os.sep, "/")

    def _roots(self):
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        scripts = [os.path.dirname(os.path.join(self._start, main))] if main else []
        entries = [os.path.join(self._start, entry) for entry in [*self._first, *sys.path]]
        roots = [*scripts, *self._fixed, *entries]
        return {os.path.normpath(root).rstrip(os.sep) + os.sep for root in roots}


def _user():
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""

"""The package `stallmap` of a recorded program: found, and connected to the hooks.

A program may import its own module of that name, which stays as it is. An installed package of another release gives
way to the recorder's copy, which fits these hooks.
"""

import os
import sys
from importlib.util import spec_from_file_location

import _stallmap_record
from _stallmap_record import _failure

NAME = "stallmap"
_INTERFACE = 1
_COPY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), NAME)

# The folders of the package whose frames are no part of the program's stacks.
folders = []


def chosen(spec):
    """The spec to import: `spec`, or the recorder's copy where `spec` is an installed package of another release."""
    folder = os.path.dirname(getattr(spec, "origin", None) or "")
    version = _version(folder)
    own = _version(_COPY)
    if version is None or own is None or version == own:
        return spec
    return spec_from_file_location(NAME, os.path.join(_COPY, "__init__.py"), submodule_search_locations=[_COPY])


def connect():
    """Makes the imported package forward to the hooks. A module of another origin is left alone."""
    module = sys.modules[NAME]
    folder = os.path.dirname(getattr(module, "__file__", None) or "")
    forward = getattr(module, "_forward", None)
    if _version(folder) is None or forward is None:
        return
    if getattr(forward, "INTERFACE", None) != _INTERFACE:
        # Only a package that something imported before the hooks began.
        return _failure.leave("regions: the imported package `stallmap` is of another release", _version(folder))
    forward.recorder = _stallmap_record
    folders.append(folder + os.sep)
    if _stallmap_record.hooks is not None:
        _stallmap_record.hooks.hide(NAME)


def _version(folder):
    """The text that names the release of stallmap's package in a folder. None where another package is."""
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            text = file.read(1000)
    except (OSError, ValueError):
        return None
    return text if "Version of stallmap" in text and os.path.exists(os.path.join(folder, "_forward.py")) else None

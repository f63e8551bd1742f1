"""Stacks of launches that no op explains: the library reads them, without the GIL, as this module describes one to it."""

import os
import sys
import types

from _stallmap_record import _public
from _stallmap_record._files import Files

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep

_is_settled = False


def learn(library):
    """Lets the library learn how this Python lays out its frames, once. One that it cannot read is counted."""
    global _is_settled
    if _is_settled:
        return
    _is_settled = True
    roots = sorted(Files()._roots())
    folders = "\n".join([*roots, "", _OWN, *_public.folders])
    if sys.implementation.name != "cpython" or not library.frames(_described(sys._getframe(1)), folders):
        library.lose_source("Python stacks of launches outside ops: frames of this Python are not known")


def _described(frame):
    words = [id(types.CodeType)]
    while frame is not None:
        code = frame.f_code
        # Python 3.10 has no qualified names.
        name = getattr(code, "co_qualname", code.co_name)
        words += [id(code), frame.f_lasti, frame.f_lineno or 0, code.co_firstlineno]
        words += [id(code.co_filename), id(name), id(code.co_linetable)]
        frame = frame.f_back
    return words

"""Python stacks, each recorded once: the walk is all that a known stack costs."""

import os
import sys

from _stallmap_record import _origins, _public

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Innermost frames of these files show how PyTorch called stallmap, not what the program did.
_DISPATCH = ("utils/_python_dispatch.py", "_ops.py", "_compile.py", "_dynamo/eval_frame.py")
# Frames between generated code and its caller: code that was just compiled is called by others than code from a cache.
_MACHINERY = ("_dynamo", "_functorch", "_inductor")
_MOST = 100_000


class Stack:
    """A recorded stack."""

    __slots__ = ("callers", "codes", "fields", "hash", "in_optimizer", "is_generated", "origin")

    def __init__(self, fields, hash, in_optimizer, codes, is_generated, origin, callers):
        self.fields = fields
        # Of a call by generated code in forward: the fields of the frames around the compiled function.
        self.callers = callers
        self.hash = hash
        self.in_optimizer = in_optimizer
        # True of a call by generated code, and the operation that it computes, where that is known.
        self.is_generated = is_generated
        self.origin = origin
        # Keeps the code objects alive: the key holds their addresses.
        self.codes = codes


class Stacks:
    """Every stack seen so far."""

    def __init__(self, library, files, compiled, torch_folder):
        self._library = library
        self._files = files
        self._compiled = compiled
        self._dispatch = tuple(os.path.join(torch_folder, *name.split("/")) for name in _DISPATCH)
        self._machinery = tuple(os.path.join(torch_folder, name) + os.sep for name in _MACHINERY)
        self._optimizer = os.path.join(torch_folder, "optim", "optimizer.py")
        self._stacks = {}

    def forget(self):
        """Records every stack again: a new session has none."""
        self._stacks.clear()

    def here(self, frame, outer=None, is_backward=False):
        """The stack of a frame, and outside of it `outer`, a stack of the thread that this one works for."""
        first = frame
        key = [outer.hash if outer is not None else 0, is_backward]
        add = key.append
        while frame is not None:
            add(id(frame.f_code))
            add(frame.f_lasti)
            frame = frame.f_back
        key = tuple(key)
        stack = self._stacks.get(key)
        if stack is None:
            if len(self._stacks) >= _MOST:
                self._stacks.clear()
            stack = self._stacks[key] = self._record(first, outer, is_backward)
        return stack

    def _record(self, frame, outer, is_backward):
        fields, codes, in_optimizer, is_generated, origin = [], [], False, False, None
        compiled, callers = None, None
        own = (_OWN, *_public.folders)
        while frame is not None:
            code = frame.f_code
            codes.append(code)
            file = code.co_filename
            if compiled == (file, str(code.co_firstlineno)):
                # The compiler's own frame of this function, which has a line, stands for it.
                compiled = None
            elif is_generated and file.startswith(self._machinery):
                pass
            elif not file.startswith(own) and (fields or file not in self._dispatch):
                name = getattr(code, "co_qualname", code.co_name)
                normalized = self._files.normalized(file)
                fields += (normalized, file, name, str(code.co_firstlineno), str(frame.f_lineno or 0))
                # PyTorch wraps the step of every optimizer, the program's own too.
                in_optimizer |= file == self._optimizer and code.co_name == "wrapper"
                if not is_generated and _origins.is_generated(file):
                    is_generated = True
                    origin = self._compiled.origin(file, frame.f_lineno or 0, name, code.co_firstlineno)
                    if origin is not None and not (is_backward or origin.is_backward):
                        # The compiler inlined these calls into the generated one. In backward they are the forward's.
                        fields += origin.fields
                        compiled = tuple(origin.fields[-4::2][:2]) if origin.fields else None
                        in_optimizer |= origin.in_optimizer
                        callers = len(fields)
            frame = frame.f_back
        if outer is not None:
            fields += outer.fields
        state = self._library.state(fields)
        around = fields[callers:] if callers is not None else []
        return Stack(fields, state, in_optimizer, codes, is_generated, origin, around)


def caller(depth):
    """The frame `depth` calls outside of the caller. None on a thread that is not Python's, where there is none."""
    return sys._getframe(depth).f_back

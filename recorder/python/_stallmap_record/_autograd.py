"""Autograd: which forward op a backward op belongs to, and where backward was called."""

import torch

from _stallmap_record._session import SESSION
from _stallmap_record._stacks import caller
from _stallmap_record._threads import HERE

# Forward ops that are remembered: those of one graph of autograd, and of some before it. They take 26 MB.
_MOST = 1 << 17

_current_node = torch._C._current_autograd_node
_sequence_number = torch.autograd._get_sequence_nr


def _wrap_engine(begin, end):
    """Wraps the engine's entry: `end` runs when it has finished, with what `begin` returned before."""
    original = torch.autograd.graph._engine_run_backward

    def _engine_run_backward(*args, **kwargs):
        if torch.compiler.is_compiling() or not SESSION.poll():
            return original(*args, **kwargs)
        call = begin()
        try:
            return original(*args, **kwargs)
        finally:
            end(call)

    for module in (torch.autograd.graph, torch.autograd):
        if getattr(module, "_engine_run_backward", None) is original:
            module._engine_run_backward = _engine_run_backward


def hook_engine(library):
    """Gives launches of the engine's threads, which run no Python, the stack of the call of backward that runs."""
    _wrap_engine(lambda: library.engine(1), lambda _: library.engine(0))


# No forward op, and no frames that called it.
_UNKNOWN = 0, []


class Autograd:
    """Forward ops by sequence number, and the running calls of backward."""

    def __init__(self, library, stacks):
        self._library = library
        self._stacks = stacks
        self._forward = {}
        self._last_forgotten = -1
        self._threads = set()
        self._calls = []

    def forget(self):
        """Forgets ops of an earlier session."""
        self._forward.clear()
        self._last_forgotten = -1
        self._calls.clear()

    def forward_sequence(self):
        """The sequence number of the node that autograd made for the op that now begins, or -1.

        Autograd makes the node just before the op reaches the mode. Numbers count by thread. An unchanged number
        means that there is no node.
        """
        number = _sequence_number()
        if number == HERE.sequence:
            return -1
        HERE.sequence = number
        return number - 1

    def remember(self, sequence, op_id, callers):
        """The op is the forward op of the node with that number on this thread. Frames around compiled code called it."""
        self._threads.add(HERE.number)
        forward = self._forward
        if len(forward) >= _MOST:
            first = next(iter(forward))
            self._last_forgotten = max(self._last_forgotten, first[0])
            del forward[first]
        # A number that is used again must move to the end.
        forward.pop((sequence, HERE.number), None)
        forward[sequence, HERE.number] = op_id, callers

    def node(self):
        """(name's text, sequence number, forward op and the frames that called it) of this thread's node, or None."""
        node = _current_node()
        if node is None:
            return None
        sequence = node._sequence_nr()
        # Nodes that accumulate gradients have the largest number.
        if not 0 <= sequence < 1 << 62:
            return self._library.text(node.name()), -1, _UNKNOWN
        forward = self._forward_op(sequence)
        if forward is _UNKNOWN and sequence <= self._last_forgotten:
            self._library.lose_op("the forward op of a gradient is no longer known")
        return self._library.text(node.name()), sequence, forward

    def _forward_op(self, sequence):
        """The forward op on the thread that called backward. On another thread only if no other has such a number."""
        calls = self._calls
        if calls:
            op = self._forward.get((sequence, calls[-1][0]))
            if op is not None:
                return op
        ops = [self._forward.get((sequence, number)) for number in list(self._threads)]
        found = [op for op in ops if op]
        return found[0] if len(found) == 1 else _UNKNOWN

    def outer_stack(self):
        """The stack of the call of backward that this thread works for, where that is another thread's."""
        calls = self._calls
        for number, _, outer in reversed(calls):
            if number == HERE.number:
                return outer
        return calls[-1][1] if calls else None

    def hook(self, after):
        """Wraps the engine's entry; `after` runs when it has finished."""

        def end(call):
            if call is not None:
                self._calls.remove(call)
            after()

        _wrap_engine(self._begin_call, end)

    def _begin_call(self):
        try:
            # A backward inside a backward (reentrant checkpoints) is called from the engine's thread.
            outer = self.outer_stack() if _current_node() is not None else None
            call = (HERE.number, self._stacks.here(caller(2), outer), outer)
            self._calls.append(call)
            return call
        except Exception as error:
            self._library.lose_op("where backward was called is not known", error)
            return None

"""State of the hooks on each thread, and the dispatch mode on every thread that Python starts."""

import itertools
import threading

import torch

_numbers = itertools.count()


class Here(threading.local):
    """The running thread: its number, autograd's last sequence number, and the modules that are being called."""

    def __init__(self):
        self.number = next(_numbers)
        self.sequence = torch.autograd._get_sequence_nr()
        self.modules = []
        self.module = 0


HERE = Here()


def enter(mode):
    """Puts the mode at the bottom of this thread's stack of modes, unless it is there or others already are.

    Not by `with`: that would set PyTorch's process-wide flags for an active mode, which make it treat compiled code
    differently.
    """
    if torch._C._len_torch_dispatch_stack() == 0:
        torch._C._push_on_torch_dispatch_stack(mode)


def leave(mode):
    """Takes the mode from the stack, if it is the last one there."""
    if torch._C._len_torch_dispatch_stack() == 1 and torch._C._get_dispatch_stack_at(0) is mode:
        torch._C._pop_torch_dispatch_stack(None)


def enter_every(mode):
    """Enters the mode on this thread and on those to come."""
    enter(mode)
    run = threading.Thread._bootstrap_inner

    def _bootstrap_inner(self):
        enter(mode)
        try:
            run(self)
        finally:
            leave(mode)

    threading.Thread._bootstrap_inner = _bootstrap_inner

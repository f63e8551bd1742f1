"""State of the hooks on each thread, and the dispatch key of the handlers of ops."""

import itertools
import threading

import torch

# See `_dispatch.py`.
KEY = "Fake"

_numbers = itertools.count()
_include = torch._C._dispatch_tls_set_dispatch_key_included


class Here(threading.local):
    """The running thread: its number, autograd's last sequence number, and the modules that are being called."""

    def __init__(self):
        self.number = next(_numbers)
        self.sequence = torch.autograd._get_sequence_nr()
        self.modules = []
        self.module = 0


HERE = Here()


def enter():
    """Switches on the key of the handlers of ops, on this thread and on those of its calls of backward."""
    _include(KEY, True)


def leave():
    """Switches it off."""
    _include(KEY, False)


def enter_every():
    """Switches it on for this thread and those to come."""
    enter()
    run = threading.Thread._bootstrap_inner

    def _bootstrap_inner(self):
        enter()
        try:
            run(self)
        finally:
            leave()

    threading.Thread._bootstrap_inner = _bootstrap_inner

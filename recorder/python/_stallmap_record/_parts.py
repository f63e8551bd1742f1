"""Tensors composed of other tensors, such as those of distributed or quantized models.

PyTorch switches the handlers' key off while such a class takes its tensors apart. A dispatch mode sees the ops on the
parts, for as long as the class runs.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from _stallmap_record._tensors import is_plain

_push, _pop = torch._C._push_on_torch_dispatch_stack, torch._C._pop_torch_dispatch_stack
_depth = torch._C._len_torch_dispatch_stack
# A compiler's modes, which only simulate ops.
_SIMULATING = [getattr(torch._C._TorchDispatchModeKey, name) for name in ("FAKE", "PROXY", "FUNCTIONAL")]


class PartsMode(TorchDispatchMode):
    """Records ops on plain tensors, and leaves those on composed tensors to their class."""

    # Without this, higher-order operators would raise under the mode.
    supports_higher_order_operators = True

    def __init__(self, run):
        super().__init__()
        self._run = run

    @classmethod
    def _should_skip_dynamo(cls):
        # PyTorch would wrap the handler, at 100 microseconds an op; `_activate` marks it for the compiler instead.
        return False

    @classmethod
    def ignore_compile_internals(cls):
        """Compiled code stays compiled."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Called by PyTorch with the mode switched off."""
        kwargs = kwargs or {}
        if all(map(is_plain, types)):
            return self._run(func, args, kwargs)
        # A compiler's tensors, which have no memory, or another mode, which comes next.
        if _depth() > 0 or any("torch._subclasses" in kind.__module__ for kind in types):
            return func(*args, **kwargs)
        return NotImplemented

    def around(self, run, args, kwargs):
        """The result of an op on composed tensors.

        Not by `with`: that would set PyTorch's process-wide flags for an active mode, which make it treat compiled code
        differently.
        """
        _push(self)
        try:
            return run(*args, **kwargs)
        finally:
            _pop(None)


def is_simulated():
    """True if ops only run on shapes: nothing reaches the GPU."""
    return any(torch._C._get_dispatch_mode(key) is not None for key in _SIMULATING)


def has_parts(values):
    """True if one of these arguments is a tensor composed of others."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if has_parts(value):
                return True
        elif isinstance(value, torch.Tensor) and not is_plain(type(value)):
            return True
    return False

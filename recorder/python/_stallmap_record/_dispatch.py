"""Every operator that PyTorch's dispatcher runs, seen just before its kernel."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from _stallmap_record._schemas import Schema
from _stallmap_record._session import SESSION
from _stallmap_record._stacks import caller
from _stallmap_record._tensors import is_plain

_depth = torch._C._len_torch_dispatch_stack


class DispatchMode(TorchDispatchMode):
    """Records an op and runs it. Errors here are counted and never reach the program."""

    # Without this, higher-order operators would raise under the mode.
    supports_higher_order_operators = True

    def __init__(self, recorder):
        super().__init__()
        self._recorder = recorder
        self._library = recorder.library
        self._schemas = {}

    @classmethod
    def _should_skip_dynamo(cls):
        # PyTorch would wrap the handler, at 100 microseconds an op; `_activate` marks it for the compiler instead.
        return False

    @classmethod
    def ignore_compile_internals(cls):
        """Compiled code stays compiled. The mode sees the ops that it calls."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Called by PyTorch with the mode switched off."""
        kwargs = kwargs or {}
        if not SESSION.active and not SESSION.poll():
            return func(*args, **kwargs)
        if types and not all(map(is_plain, types)):
            return self._subclass(func, types, args, kwargs)
        if _depth() > 0 and _is_tracing():
            return func(*args, **kwargs)
        schema = self._schemas.get(id(func))
        if schema is None:
            schema = self._schemas[id(func)] = Schema(func, self._library)
        if schema.is_mark or _is_abstract(args, kwargs):
            return func(*args, **kwargs)
        op = self._begin(schema, args, kwargs)
        if op is None:
            return func(*args, **kwargs)
        result = None
        try:
            result = func(*args, **kwargs)
            return result
        finally:
            self._end(schema, op, result)

    def _begin(self, schema, args, kwargs):
        try:
            return self._recorder.begin(schema, args, kwargs, caller(2))
        except Exception as error:
            self._library.lose_op(f"{schema.name} could not be described", error)
            return None

    def _end(self, schema, op, result):
        try:
            self._recorder.end(schema, op, result)
        except Exception as error:
            self._library.lose_tensor(f"results of {schema.name} could not be described", error)
            self._library.op_end([op[0]])

    def _subclass(self, func, types, args, kwargs):
        """Tensors composed of other tensors: the class takes them apart, and its ops on the parts come back here.

        Under another mode (a compiler's, tracing with tensors that have no memory) the op goes on to that one.
        """
        if _depth() > 0 or any("torch._subclasses" in kind.__module__ for kind in types):
            return func(*args, **kwargs)
        return NotImplemented


def _is_tracing():
    """True if ops are only simulated, with tensors that have no memory."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def _is_abstract(args, kwargs):
    """True if an op works on shapes only: nothing runs on the GPU."""
    for value in args:
        if isinstance(value, torch.Tensor):
            return value.is_meta
    device = kwargs.get("device")
    return device is not None and str(device).startswith("meta")

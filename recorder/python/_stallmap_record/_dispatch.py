"""Every operator that PyTorch's dispatcher runs, seen just before its kernel.

Not by a dispatch mode: in many places PyTorch asks for one, and then takes another way to its result. Gradients are no
longer added in place, and `ctc_loss` refuses arguments that it otherwise takes.

The dispatcher goes through a list of keys for each op: autograd, modes and classes of tensors, the device. One key
between autograd and modes is reserved for extensions, and PyTorch does not use it. Each op gets a handler for that key,
and threads that are recorded have the key switched on. PyTorch runs the same kernels as without stallmap.
"""

from functools import partial

import torch

from _stallmap_record._library import TORCH
from _stallmap_record._parts import PartsMode, has_parts, is_simulated
from _stallmap_record._schemas import Operator
from _stallmap_record._session import SESSION
from _stallmap_record._stacks import caller
from _stallmap_record._tensors import is_plain
from _stallmap_record._threads import KEY

# PyTorch makes tensors of other classes from their results, which must not have an object yet.
_UNSEEN = ("aten::detach", "aten::alias", "aten::lift_fresh")

_key = torch._C._parse_dispatch_key(KEY)
_after = torch._C._dispatch_keyset_full_after(_key)
_python = torch._C.DispatchKey.Python
_exclude = torch._C._dispatch_tls_set_dispatch_key_excluded


class Dispatch:
    """A handler for each op. Errors here are counted and never reach the program."""

    def __init__(self, recorder):
        self._recorder = recorder
        self._library = recorder.library
        self._namespaces = {}
        self._operators = {}
        self._parts = PartsMode(self._run_part)

    def hook(self):
        """Gives a handler to each op that there is, and to those of extensions when the program looks them up.

        An op without a handler runs as it does without stallmap, and is not recorded.
        """
        self._namespace("_").fallback(torch.library.fallthrough_kernel, KEY)
        for name in torch._C._dispatch_get_all_op_names():
            self._add(name)
        self._watch_namespaces()
        _pass_higher_order()

    def _namespace(self, name):
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = torch.library.Library(name, "IMPL")
        return namespace

    def _add(self, name):
        """Gives a handler to `namespace::op` or `namespace::op.overload`."""
        if name in self._operators or name in _UNSEEN or not torch._C._dispatch_has_kernel(name):
            return
        namespace, own = name.split("::", 1)
        try:
            operator = self._operators[name] = Operator(name)
            # `Library.impl` itself does more for each op: half a second for all.
            self._namespace(namespace).m.impl(own, KEY, self._handler(operator), True)
        except Exception as error:
            self._library.lose_op(f"{name} cannot be recorded", error)

    def _watch_namespaces(self):
        look_up = torch._ops._OpNamespace.__getattr__

        def __getattr__(namespace, name):
            packet = look_up(namespace, name)
            op = f"{namespace.name}::{name}"
            for overload in packet.overloads():
                self._add(op if overload == "default" else f"{op}.{overload}")
            return packet

        torch._ops._OpNamespace.__getattr__ = __getattr__

    def _handler(self, operator):
        """The function that PyTorch calls before the op's kernel."""
        parts, record, redispatch = self._parts, self._record, operator.redispatch

        def handler(keys, *args, **kwargs):
            # Only the ordinary call takes numbers for tensors.
            run = operator.run if operator.has_number(args) else partial(redispatch, keys & _after)
            # Ops that the kernel calls belong to this one.
            _exclude(KEY, True)
            try:
                # Other modes, or tensors composed of others.
                if keys.has(_python):
                    if is_simulated():
                        return run(*args, **kwargs)
                    if has_parts(args) or has_parts(kwargs.values()):
                        return parts.around(run, args, kwargs)
                return record(operator, run, args, kwargs)
            finally:
                _exclude(KEY, False)

        return handler

    def _record(self, operator, run, args, kwargs):
        """The result of the op, which is recorded."""
        if operator.begins or operator.ends:
            return self._mark(operator, run, args, kwargs)
        if not (SESSION.active or SESSION.poll()) or _is_abstract(args, kwargs):
            return run(*args, **kwargs)
        op = self._begin(operator, args, kwargs)
        if op is None:
            return run(*args, **kwargs)
        result = None
        try:
            result = run(*args, **kwargs)
            return result
        finally:
            self._end(operator, op, result)

    def _mark(self, operator, run, args, kwargs):
        """The result of an op that begins or ends a range of PyTorch's profiler."""
        result = run(*args, **kwargs)
        # Before the session begins, too: a range may enclose the program's first launch.
        library = SESSION.library
        if library is not None:
            try:
                if operator.begins:
                    library.range_push(TORCH, args[0] if args else kwargs["name"])
                else:
                    library.range_pop(TORCH)
            except Exception as error:
                library.lose_op(f"{operator.name} cannot be recorded", error)
        return result

    def _run_part(self, func, args, kwargs):
        """The result of an op on the parts of a composed tensor."""
        operator = self._operators.get(func.name()) if isinstance(func, torch._ops.OpOverload) else None
        return func(*args, **kwargs) if operator is None else self._record(operator, func, args, kwargs)

    def _begin(self, operator, args, kwargs):
        try:
            schema = operator.schema(self._library)
            return self._recorder.begin(schema, args, kwargs, caller(3))
        except Exception as error:
            self._library.lose_op(f"{operator.name} could not be described", error)
            return None

    def _end(self, operator, op, result):
        try:
            self._recorder.end(operator.schema(self._library), op, result)
        except Exception as error:
            self._library.lose_tensor(f"results of {operator.name} could not be described", error)
            self._library.op_end([op[0]])


def _pass_higher_order():
    """Lets operators that take functions pass the key. Ops of these functions are seen."""
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_key)
    for operator in list(torch._ops._higher_order_ops.values()):
        operator.fallthrough(_key)


def _is_abstract(args, kwargs):
    """True if an op works on shapes only: nothing runs on the GPU."""
    for value in args:
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, torch.Tensor):
            return value.is_meta or not is_plain(type(value))
    device = kwargs.get("device")
    return device is not None and str(device).startswith("meta")

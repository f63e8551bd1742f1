"""Puts every hook in place, once PyTorch is imported."""

import atexit
import os
import sys
import threading
import types

import torch

from stallmap import _autograd, _dispatch, _modules, _names, _optimizers
from stallmap import _recorder, _stacks, _tensors, _threads, _triton
from stallmap._files import Files
from stallmap._session import CPU, SESSION

_active = None


def torch_imported():
    """Hooks PyTorch, once."""
    global _active
    if _active is None:
        _active = _activate(SESSION.library)


def begin_region(name):
    """Begins a region; what `end_region` needs, or None."""
    if _active is None or not SESSION.poll():
        return None
    return _active.region(name)


def end_region(op_id):
    """Ends it."""
    if SESSION.library is not None:
        SESSION.library.op_end([op_id])


def _activate(library):
    stacks = _stacks.Stacks(library, Files(), os.path.dirname(os.path.abspath(torch.__file__)))
    tensors = _tensors.Tensors(library)
    names = _names.Names(library, tensors)
    autograd = _autograd.Autograd(library, stacks)
    optimizers = _optimizers.Optimizers(library, names)
    recorder = _recorder.Recorder(library, stacks, tensors, autograd, optimizers)
    mode = _dispatch.DispatchMode(recorder)
    _hide_from_compiler()
    _hook_allocator(library)
    autograd.hook(names.tell_gradients)
    optimizers.hook()
    _modules.Modules(library, names).hook()
    _triton.set_recorder(recorder)
    _threads.enter_every(mode)
    _report_other_threads(library)
    atexit.register(_threads.leave, mode)
    return recorder


def _hook_allocator(library):
    if CPU or not torch.version.cuda:
        return
    backend = torch.cuda.get_allocator_backend()
    if backend != "native" or not library.hook_allocator():
        reason = "the caching allocator's events: lives of storages are those of their tensors"
        library.lose_source(reason, Warning(backend))


def _report_other_threads(library):
    """Threads that were running before: their dispatch cannot be hooked from here."""
    for _ in range(threading.active_count() - 1):
        library.lose_source("ops of a thread that was started before PyTorch was imported")


def _hide_from_compiler():
    """Tells torch.compile to run our functions as they are, whoever calls them."""
    try:
        from torch._C._dynamo.eval_frame import skip_code
    except ImportError:
        return
    for name, module in list(sys.modules.items()):
        if name == "stallmap" or name.startswith("stallmap."):
            for value in list(vars(module).values()):
                for code in _codes(value, module.__name__):
                    skip_code(code)


def _codes(value, module):
    """The code of a function, of a class's methods, and of the functions inside them."""
    if getattr(value, "__module__", None) != module:
        return
    members = vars(value).values() if isinstance(value, type) else [value]
    for member in members:
        function = getattr(member, "__func__", member)
        if isinstance(function, types.FunctionType):
            yield from _nested(function.__code__)


def _nested(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)

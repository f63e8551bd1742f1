"""Puts every hook in place, once PyTorch is imported."""

import atexit
import os
import sys
import threading
import types

import torch

import _stallmap_record
from _stallmap_record import _autograd, _compiled, _dispatch, _modules, _names, _optimizers
from _stallmap_record import _public, _recorder, _stacks, _tensors, _threads, _triton, _tuning
from _stallmap_record._files import Files
from _stallmap_record._session import CPU, HAS_STACKS, LIGHT, SESSION

_active = None


def torch_imported():
    """Hooks PyTorch, once."""
    global _active
    if _active is None:
        _active = _activate(SESSION.library)
        _stallmap_record.hooks = sys.modules[__name__]


def begin_region(name, metrics):
    """Begins a region. Returns the value that `end_region` needs, or None."""
    if torch.compiler.is_compiling():
        return None
    if _active is None or not SESSION.poll():
        return None
    op_id = _active.region(name)
    if metrics and op_id:
        SESSION.library.metrics(op_id, metrics)
    return op_id


def end_region(op_id):
    """Ends it."""
    if SESSION.library is not None:
        SESSION.library.op_end([op_id])


def _activate(library):
    files = Files()
    compiled = _compiled.CompiledCode(library, files)
    stacks = _stacks.Stacks(library, files, compiled, os.path.dirname(os.path.abspath(torch.__file__)))
    SESSION.forgetters += [stacks.forget, compiled.forget]
    tensors = _tensors.Tensors(library)
    names = _names.Names(library, tensors)
    autograd = _autograd.Autograd(library, stacks)
    SESSION.forgetters += [names.forget, autograd.forget]
    optimizers = _optimizers.Optimizers(library, names)
    recorder = _recorder.Recorder(library, stacks, compiled, tensors, autograd, optimizers)
    hide("_stallmap_record")
    if _public.folders:
        hide(_public.NAME)
    _tuning.set_recorder(recorder, _threads.KEY)
    if LIGHT:
        if HAS_STACKS:
            _autograd.hook_engine(library)
        return recorder
    _hook_allocator(library)
    autograd.hook(names.announce_gradients)
    optimizers.hook()
    _modules.Modules(library, names).hook()
    _triton.set_recorder(recorder)
    _compiled.set_recorder(recorder)
    if _hook_ops(recorder):
        _threads.enter_every()
        _report_other_threads(library)
        atexit.register(_threads.leave)
    return recorder


def _hook_ops(recorder):
    try:
        _dispatch.Dispatch(recorder).hook()
        return True
    except Exception as error:
        recorder.library.lose_source("ops: the dispatcher of this PyTorch takes no handlers", error)
        return False


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


def hide(package):
    """Makes torch.compile run the functions of a package of stallmap's as they are, whoever calls them."""
    skip = _skip()
    if skip is None:
        reason = "torch.compile may compile the recorder's own functions in this version of PyTorch"
        SESSION.library.lose_source(reason)
        return
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            for value in list(vars(module).values()):
                for code in _codes(value, module.__name__):
                    skip(code)


def _skip():
    """The function that keeps the compiler from a code object, without importing the compiler."""
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "skip_code"):
        return eval_frame.skip_code
    try:
        action = eval_frame._FrameAction
        strategy = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)
        return lambda code: eval_frame.set_code_exec_strategy(code, strategy)
    except AttributeError:
        return None


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

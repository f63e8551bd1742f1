"""Path of the nn.Module that is being called, dotted, from the outermost module that was called or calls it.

A trainer calls a method of a module that is not `forward`, and a recomputation calls a part of a model alone: such a root
is looked for in the models that are known, and among the callers.
"""

import sys
import weakref

import torch
from torch.compiler import is_compiling

from _stallmap_record._names import plain
from _stallmap_record._session import SESSION
from _stallmap_record._threads import HERE

# Callers that may own a module that is called.
_MAX_CALLERS = 64


class Modules:
    """Paths of modules, found once a root."""

    def __init__(self, library, names):
        self._library = library
        self._names = names
        # id of a root that was called -> (weak reference, its paths, which may be those of a larger model).
        self._roots = {}
        # id of a module -> paths of the model that holds it.
        self._models = {}

    def hook(self):
        """Hooks every call of every module.

        Not by PyTorch's own global hooks: with those, compiled modules warn, and compilers trace them. A compiler that
        is imported after this takes our function for PyTorch's own and goes past it.
        """
        call = torch.nn.Module._call_impl
        enter, leave = self._enter, self._leave

        def _call_impl(self, *args, **kwargs):
            if is_compiling() or not SESSION.active:
                return call(self, *args, **kwargs)
            enter(self)
            try:
                return call(self, *args, **kwargs)
            finally:
                leave(self)

        torch.nn.Module._call_impl = _call_impl

    def _enter(self, module):
        try:
            stack = HERE.modules
            root = stack[0][2] if stack else self._root(module)
            path = root.path(module)
            if path is None:
                root = self._root(module)
                path = root.path(module)
            stack.append((module, HERE.module, root))
            HERE.module = path
        except Exception as error:
            self._library.lose_op("its module's path is not known", error)

    def _leave(self, module):
        stack = HERE.modules
        # A call that was left by an exception leaves its entry: it goes with its caller's.
        while stack:
            entered, before, _ = stack.pop()
            HERE.module = before
            if entered is module:
                return

    def _root(self, module):
        reference, root = self._roots.get(id(module), (None, None))
        if root is None or reference() is not module or root.reference() is None:
            key = id(module)
            reference = weakref.ref(module, lambda _: self._roots.pop(key, None))
            root = self._model(module) or self._new_root(_owner(module) or module)
            self._roots[key] = reference, root
        if SESSION.tensors:
            root.announce()
        return root

    def _model(self, module):
        """The paths of a known model that holds the module."""
        root = self._models.get(id(module))
        return root if root is not None and root.holds(module) else None

    def _new_root(self, module):
        keys = [id(part) for part in module.modules()]

        def forget(_):
            for key in keys:
                if self._models.get(key) is root:
                    del self._models[key]

        root = _Root(weakref.ref(module, forget), self._library, self._names)
        self._models.update(dict.fromkeys(keys, root))
        return root


def _owner(module):
    """The outermost module among the callers' `self` that holds a module which is called."""
    owner, frame = None, sys._getframe(1)
    for _ in range(_MAX_CALLERS):
        frame = frame.f_back
        if frame is None:
            break
        code = frame.f_code
        # Names of arguments come first. A frame of another name is not worth a copy of its variables.
        if code.co_argcount and code.co_varnames[0] == "self":
            caller = frame.f_locals.get("self")
            is_other = isinstance(caller, torch.nn.Module) and caller is not module
            # One that is being made may have no modules yet.
            if is_other and "_modules" in vars(caller) and any(part is module for part in caller.modules()):
                owner = caller
    return owner


class _Root:
    """A module that was called from outside any other."""

    def __init__(self, reference, library, names):
        self.reference = reference
        self._library = library
        self._names = names
        # id -> path as PyTorch has it.
        self._known = {}
        self._paths = self._find_paths()
        # Ids of modules that are called from below and are not children: looked for once.
        self._absent = set()
        self._owned = None

    def path(self, module):
        """The text of a submodule's path. The root's own is its class. None of a module that is not below."""
        path = self._paths.get(id(module))
        if path is None and id(module) not in self._absent:
            self._paths = self._find_paths()
            path = self._paths.get(id(module))
            if path is None:
                self._absent.add(id(module))
        return path

    def holds(self, module):
        """True if a module is still below. Ids come round again."""
        root, path = self.reference(), self._known.get(id(module))
        if root is None or path is None:
            return False
        try:
            return root.get_submodule(path) is module
        except AttributeError:
            return False

    def announce(self):
        """Names parameters and buffers that are new or have moved."""
        if self._owned is None or not self._names.announce(self._owned):
            self._owned = self._names.of_root(self.reference())
            self._names.announce(self._owned)

    def _find_paths(self):
        root = self.reference()
        self._known = {id(module): path for path, module in root.named_modules()}
        return {key: self._library.text(plain(path) or _class(root)) for key, path in self._known.items()}


def _class(module):
    kind = type(getattr(module, "_orig_mod", module))
    # FSDP makes a class of its own and the module's for each module that it shards.
    sharded = kind.__bases__[-1] if kind.__bases__[0].__name__ == "FSDPModule" else kind
    return sharded.__name__

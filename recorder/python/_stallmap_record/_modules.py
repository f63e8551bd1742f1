"""Path of the nn.Module that is being called, dotted, from the outermost module that was called."""

import weakref

import torch
from torch.compiler import is_compiling

from _stallmap_record._session import SESSION
from _stallmap_record._threads import HERE


class Modules:
    """Paths of modules, found once a root."""

    def __init__(self, library, names):
        self._library = library
        self._names = names
        self._roots = {}

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
        root = self._roots.get(id(module))
        if root is None or root.reference() is not module:
            key = id(module)
            reference = weakref.ref(module, lambda _: self._roots.pop(key, None))
            root = self._roots[key] = _Root(reference, self._library, self._names)
        if SESSION.tensors:
            root.announce()
        return root


class _Root:
    """A module that was called from outside any other."""

    def __init__(self, reference, library, names):
        self.reference = reference
        self._library = library
        self._names = names
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

    def announce(self):
        """Names parameters and buffers that are new or have moved."""
        if self._owned is None or not self._names.announce(self._owned):
            self._owned = self._names.of_root(self.reference())
            self._names.announce(self._owned)

    def _find_paths(self):
        root = self.reference()
        named = root.named_modules()
        return {id(module): self._library.text(_plain(path) or _class(root)) for path, module in named}


def _plain(path):
    """The path without the wrappers of torch.compile: the module is the program's."""
    return ".".join(name for name in path.split(".") if name != "_orig_mod")


def _class(module):
    return type(getattr(module, "_orig_mod", module)).__name__

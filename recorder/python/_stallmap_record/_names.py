"""Roles of tensors in the model: parameters, buffers, gradients, optimizer state, by their dotted names."""

import weakref

from _stallmap_record._session import SESSION
from _stallmap_record._tensors import IN, NO_BASE, is_plain, is_tensor

# Wrappers of modules: torch.compile, FSDP, checkpoints. The program's module is the one inside.
_WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


def plain(path):
    """A dotted path without wrappers."""
    return ".".join(name for name in path.split(".") if name not in _WRAPPERS)


def _own(tensor):
    """The tensor that has the memory: a distributed tensor has a local one. None of another composed tensor."""
    if is_plain(type(tensor)):
        return tensor
    local = getattr(tensor, "_local_tensor", None)
    return local if is_tensor(local) and is_plain(type(local)) else None


class Names:
    """The names learnt so far. Names reach the library whenever the tensor behind one has changed."""

    def __init__(self, library, tensors):
        self._library = library
        self._tensors = tensors
        # id -> (weak reference, name) of parameters.
        self._parameters = {}
        # id of a parameter or buffer -> {role or state's key: address that was last named}.
        self._addresses = {}

    def forget(self):
        """Names everything again: a new session knows none of it."""
        self._addresses.clear()

    def of_root(self, module):
        """[(weak reference, name, role)] of a root module's parameters and buffers."""
        owned = [(weakref.ref(tensor), plain(name), "parameter") for name, tensor in module.named_parameters()]
        for reference, name, _ in owned:
            self._parameters[id(reference())] = (reference, name)
        owned += [(weakref.ref(tensor), plain(name), "buffer") for name, tensor in module.named_buffers()]
        for reference, _, _ in owned:
            # The id may have been another tensor's.
            self._addresses.pop(id(reference()), None)
        return owned

    def announce(self, owned):
        """Names the parameters and buffers that have moved since they were named. Returns whether all still live."""
        words, is_complete = [], True
        for reference, name, role in owned:
            tensor = reference()
            if tensor is None:
                is_complete = False
                continue
            own = _own(tensor)
            if own is not None and self._has_moved(tensor, role, own):
                self._add(words, name, role, own)
        self._library.name(words)
        return is_complete

    def announce_gradients(self, parameters=None):
        """Names the gradients of the parameters given, or of all that are known."""
        if not (SESSION.active and SESSION.tensors):
            return
        words = []
        try:
            for parameter in self._living() if parameters is None else parameters:
                gradient = None if parameter.grad is None else _own(parameter.grad)
                if gradient is not None:
                    self._add(words, self._name(parameter), "gradient", gradient)
            self._library.name(words)
        except Exception as error:
            self._library.lose_tensor("a gradient's name is not known", error)

    def announce_state(self, optimizer):
        """Names an optimizer's state: the parameter's name, then the state's."""
        words = []
        for parameter, state in optimizer.state.items():
            name = self._name(parameter) if is_tensor(parameter) else None
            for key, value in state.items() if isinstance(state, dict) else ():
                own = _own(value) if is_tensor(value) else None
                if own is not None and self._has_moved(parameter, key, own):
                    self._add(words, f"{name}.{key}" if name else None, "optimizer_state", own)
        self._library.name(words)

    def _living(self):
        for key, (reference, _) in list(self._parameters.items()):
            parameter = reference()
            if parameter is None:
                del self._parameters[key]
            else:
                yield parameter

    def _name(self, parameter):
        reference, name = self._parameters.get(id(parameter), (None, None))
        return name if reference is not None and reference() is parameter else None

    def _has_moved(self, owner, key, tensor):
        address = tensor.data_ptr()
        known = self._addresses.setdefault(id(owner), {})
        if known.get(key) == address:
            return False
        known[key] = address
        return True

    def _add(self, words, name, role, tensor):
        record = []
        try:
            if self._tensors.add(record, tensor, IN, 0, 0, 0, NO_BASE):
                words += (self._library.text(name), self._library.text(role), *record)
        except Exception as error:
            self._library.lose_tensor("could not be described", error)

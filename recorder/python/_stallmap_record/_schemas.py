"""Facts about an op: how PyTorch runs it, and its schema, looked up when they are first needed."""

import torch

# Ops that only mark ranges for PyTorch's profiler: those that begin one and those that end one.
_BEGINNINGS = ("profiler::_record_function_enter",)
_ENDINGS = ("profiler::_record_function_exit",)
# Types of arguments that are one tensor, and those of numbers that PyTorch passes for tensors.
_ONE_TENSOR = ("Tensor", "Optional[Tensor]")
_NUMBERS = (int, float, bool, complex)


class Operator:
    """One op of the dispatcher, by the name `namespace::op` or `namespace::op.overload`."""

    __slots__ = ("_op", "_overload", "_packet", "_schema", "_tensors", "begins", "ends", "name", "redispatch")

    def __init__(self, name):
        self.name = name
        self.begins, self.ends = name.startswith(_BEGINNINGS), name.startswith(_ENDINGS)
        self._packet, _, self._overload = name.partition(".")
        self._op = self._schema = self._tensors = None
        # Runs the op from the next key on.
        self.redispatch = torch._C._dispatch_find_schema_or_throw(self._packet, self._overload).redispatch_boxed

    def run(self, *args, **kwargs):
        """Runs the op from its first key on, as a call by the program does."""
        if self._op is None:
            self._op, _, _ = torch._C._get_operation_overload(self._packet, self._overload)
        return self._op(*args, **kwargs)

    def has_number(self, args):
        """True if a number stands for a tensor."""
        if self._tensors is None:
            self._tensors = self._places()
        count = len(args)
        for index in self._tensors:
            if index < count and type(args[index]) in _NUMBERS:
                return True
        return False

    def _places(self):
        try:
            arguments = enumerate(self._facts().arguments)
            return [index for index, argument in arguments if str(argument.type) in _ONE_TENSOR]
        except RuntimeError:
            # An op that only C++ knows takes no number.
            return []

    def schema(self, library):
        """Its schema, with texts of the library."""
        if self._schema is None:
            self._schema = Schema(self._facts(), library)
        return self._schema

    def _facts(self):
        return torch._C._get_schema(self._packet, self._overload)


class Schema:
    """`arguments` holds (index, name, its text, whether a list, whether written, whether results may be views of it) of
    those that are tensors. `written` marks each result that is a written argument."""

    __slots__ = ("arguments", "text", "written")

    def __init__(self, schema, library):
        name = f"{schema.name}.{schema.overload_name or 'default'}"
        self.text = library.text(name)
        self.arguments = _arguments(schema, library)
        self.written = [result.alias_info is not None and result.alias_info.is_write for result in schema.returns]


def _arguments(schema, library):
    arguments = []
    for index, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if "Tensor" not in kind:
            continue
        alias = argument.alias_info
        is_written = alias is not None and alias.is_write
        is_list = "List" in kind
        may_be_viewed = alias is not None and not is_written and not is_list
        name = argument.name
        arguments.append((index, name, library.text(name), is_list, is_written, may_be_viewed))
    return arguments

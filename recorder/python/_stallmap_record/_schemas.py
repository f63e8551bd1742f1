"""Facts from an op's schema about its arguments and results, looked up once per op."""

# Ops that only mark ranges for PyTorch's profiler.
_MARKS = ("profiler::",)


class Schema:
    """One op: `arguments` holds (index, name, its text, whether a list, whether written, whether results may be views
    of it) of those that are tensors. `written` marks each result that is a written argument."""

    __slots__ = ("arguments", "function", "is_mark", "name", "text", "written")

    def __init__(self, function, library):
        # Keeps the op alive: it is looked up by its address.
        self.function = function
        schema = getattr(function, "_schema", None)
        self.name = _name(function, schema)
        self.text = library.text(self.name)
        self.is_mark = self.name.startswith(_MARKS)
        self.arguments = None if schema is None else _arguments(schema, library)
        returns = [] if schema is None else schema.returns
        self.written = [result.alias_info is not None and result.alias_info.is_write for result in returns]


def _name(function, schema):
    if schema is None:
        return f"{getattr(function, 'namespace', 'higher_order')}::{getattr(function, '__name__', function)}"
    return f"{schema.name}.{schema.overload_name or 'default'}"


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

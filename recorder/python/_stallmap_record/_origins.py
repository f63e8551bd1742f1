"""Origins of the kernels that torch.compile generates: written into the generated source, and read from it.

Inductor knows for each kernel the operations that it computes, with the lines and the modules that they come from. Its
caches keep the generated source only. So the origins are a comment of that source: they reach every process that takes
the source from a cache, in this recording or in a later one.
"""

import ast
import base64
import json
import linecache
import os
import re
import zlib

from _stallmap_record import _public

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
# The generated call of a kernel comes below a comment of Inductor's with its operations' names.
MARK = " stallmap origins 1 "
_COMMENT = re.compile(r"^\s*(?:#|//) (?:Topologically Sorted|Unsorted) Source Nodes: \[.*\], Original ATen: \[(.*?)\]")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+?)\s*$', re.MULTILINE)
# A module's path by Dynamo: the local variable of the root, then names, or indexes of lists.
_ROOT = re.compile(r"^L\[(['\"]).*?\1\]\.?")
_INDEX = re.compile(r"\[(\d+)\]")
_STEM = re.compile(r"^c[a-z2-7]{51}$")
_MAX_FRAMES = 32
# Operations that only name memory: they take no part in a kernel.
_VIEWS = frozenset(
    "view reshape _unsafe_view _reshape_alias as_strided permute transpose t expand squeeze unsqueeze slice select "
    "detach alias unbind split split_with_sizes chunk narrow diagonal view_as lift_fresh".split()
)

FORWARD, BACKWARD = "f", "b"


def is_generated(file):
    """True for a file whose name Inductor made: a hash of its content."""
    stem, extension = os.path.splitext(os.path.basename(file))
    return extension in (".py", ".cpp") and _STEM.match(stem) is not None


class ForwardOps:
    """Forward operations by autograd's number and their line: the backward of a graph is compiled after its forward."""

    def __init__(self):
        self._facts = {}

    def add(self, node, name, module):
        """Remembers a forward operation."""
        if len(self._facts) < 1 << 16:
            self._facts[_identity(node)] = name, module

    def of_gradient(self, node):
        """(name, module) of the operation whose gradient a node computes, Nones where it is not known."""
        return self._facts.get(_identity(node), (None, None))


def _identity(node):
    return node.meta.get("seq_nr"), node.meta.get("stack_trace")


def comment(node_schedule, forward_ops):
    """The words that the comment above a call gets, or none of a kernel whose operations have no facts."""
    roots, nodes = _nodes(node_schedule)
    groups, frames = {}, {}
    for node in nodes:
        is_backward = node.meta.get("partitioner_tag") == "is_backward" or "is_gradient_acc" in node.meta
        name, module, forward = _name(node), _module(node, is_backward), None
        if is_backward:
            forward, of_forward = forward_ops.of_gradient(node)
            module = module or of_forward
        else:
            forward_ops.add(node, name, module)
        stack = [frames.setdefault(frame, len(frames)) for frame in _frames(node.meta.get("stack_trace"))]
        key = (name, BACKWARD if is_backward else FORWARD, forward, module, tuple(stack))
        count, is_root = groups.get(key, (0, False))
        groups[key] = count + 1, is_root or node in roots
    if not groups:
        return ""
    rows = [[*key[:4], list(key[4]), count, int(is_root)] for key, (count, is_root) in groups.items()]
    text = json.dumps({"o": rows, "f": list(frames)}, separators=(",", ":"))
    return MARK + base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()


def _nodes(node_schedule):
    """(the operations that a library or a template computes, all operations)."""
    if not isinstance(node_schedule, (list, tuple)):
        root = node_schedule.get_origin_node()
        # A library computes one operation. What Inductor lists more computes its arguments, elsewhere.
        if root is not None:
            return {root}, [root]
        return set(), _computing(node_schedule.origins)
    roots, all_nodes = set(), {}
    for scheduled in node_schedule:
        buffer = getattr(scheduled, "node", None)
        if buffer is None:
            continue
        all_nodes.update(dict.fromkeys(buffer.origins))
        if type(buffer).__name__.endswith("TemplateBuffer"):
            root = buffer.get_origin_node()
            if root is not None:
                roots.add(root)
    return roots, _computing(all_nodes)


def _computing(nodes):
    nodes = [node for node in nodes if node.op == "call_function"]
    order = {node: index for graph in {node.graph for node in nodes} for index, node in enumerate(graph.nodes)}
    nodes.sort(key=order.__getitem__)
    return [node for node in nodes if not _is_view(node)] or nodes


def _is_view(node):
    return _short(node.meta.get("original_aten") or node.target) in _VIEWS or _short(node.target) in _VIEWS


def _short(op):
    return str(getattr(op, "_overloadpacket", op)).rsplit(".", 1)[-1]


def _name(node):
    op = node.meta.get("original_aten") or node.target
    if hasattr(op, "_schema"):
        return f"{op._schema.name}.{op._schema.overload_name or 'default'}"
    name = getattr(op, "name", None)
    return str(name() if callable(name) else getattr(op, "__name__", op))


def _module(node, is_backward):
    """The module's path below the module that was compiled, the class of that itself, None outside modules."""
    stack = node.meta.get("nn_module_stack") or (node.meta.get("fwd_nn_module_stack") if is_backward else None)
    if not stack:
        return None
    path, owner = list(stack.values())[-1]
    path = _INDEX.sub(r".\1", _ROOT.sub("", path)).replace("_modules.", "").strip(".")
    names = [name for name in path.split(".") if name not in ("", "_orig_mod")]
    return ".".join(names) or str(getattr(owner, "__name__", owner)).rsplit(".", 1)[-1]


def _frames(trace):
    """(file, line, function) of a stack, the innermost first."""
    own = (_OWN, *_public.folders)
    # The compiler sees the hooks of modules, which the program's author does not.
    found = [frame for frame in _FRAME.findall(trace or "") if not frame[0].startswith(own)][-_MAX_FRAMES:]
    return [(file, int(line), function) for file, line, function in reversed(found)]


class Origin:
    """An operation that a kernel computes, with its share of the kernel."""

    __slots__ = ("forward", "frames", "is_backward", "is_root", "module", "op", "weight")

    def __init__(self, row, frames, total):
        self.op, direction, self.forward, self.module, stack, count, is_root = row
        # None where only the name is known.
        self.is_backward = None if direction is None else direction == BACKWARD
        self.is_root = bool(is_root)
        self.frames = tuple(tuple(frames[index]) for index in stack)
        self.weight = count / total


class GeneratedCall:
    """A call of a kernel in generated source: the lines of its code, and its origins."""

    __slots__ = ("first", "last", "origins", "primary")

    def __init__(self, first, origins):
        self.first = self.last = first
        self.origins = origins
        # The operation of a template or a library, else the line with the largest share.
        self.primary = max(origins, key=lambda origin: (origin.is_root, _line_weight(origins, origin)), default=None)


def _line_weight(origins, origin):
    return sum(other.weight for other in origins if other.frames[:1] == origin.frames[:1])


def calls(source):
    """The calls in generated source, ordered by line, from its comments."""
    found, current = [], None
    for number, line in enumerate(source.splitlines(), 1):
        match = _COMMENT.match(line)
        if match is not None and line[:1].isspace():
            current = GeneratedCall(number, _origins(line, match.group(1)))
            found.append(current)
        elif current is not None and line[:1].isspace() and not line.lstrip().startswith(("return", "def ", "class ")):
            current.last = number
        elif line:
            current = None
    return found


def _origins(line, names):
    """The origins that a comment holds, else those that Inductor names itself: without lines."""
    _, mark, packed = line.partition(MARK)
    if mark:
        facts = json.loads(zlib.decompress(base64.b64decode(packed.strip())))
        rows, frames = facts["o"], facts["f"]
        total = sum(row[5] for row in rows)
        return [Origin(row, frames, total) for row in rows]
    ops = [name.strip() for name in names.split(",") if name.strip()]
    return [Origin([op.replace(".", "::", 1), None, None, None, [], 1, 0], [], len(ops)) for op in ops]


class SourceFunctions:
    """Functions of source files, by file and line: stacks of the compiler have names without classes."""

    def __init__(self):
        self._functions = {}

    def at(self, file, line, name):
        """(qualified name, first line) of the function of that name around a line. The name of one that is not in the
        file is in angle brackets."""
        best = None
        for first, last, short, qualified in self._of_file(file):
            if short == name and first <= line <= last and (best is None or first > best[0]):
                best = first, qualified
        return (best[1], best[0]) if best is not None else (f"<{name.strip('<>')}>", line)

    def _of_file(self, file):
        functions = self._functions.get(file)
        if functions is None:
            try:
                tree = ast.parse("".join(linecache.getlines(file)))
                functions = list(_walk(tree, ""))
            except (SyntaxError, ValueError, RecursionError):
                functions = []
            self._functions[file] = functions
        return functions


def _walk(node, prefix):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield first, child.end_lineno, child.name, prefix + child.name
            yield from _walk(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{prefix}{child.name}.")
        else:
            yield from _walk(child, prefix)

"""Code that torch.compile generates: whose lines, modules and operations its launches are."""

import bisect
import re

from _stallmap_record import _origins
from _stallmap_record._session import SESSION

_ORIGIN = 3
_FORWARD = 0
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_OPTIMIZERS = "torch/optim/"

_forward_ops = _origins.ForwardOps()
_recorder = None


def hook_metadata():
    """Lets Inductor write origins into its comments. Modules that are imported later take the function from here."""
    from torch._inductor import utils

    metadata = utils.get_kernel_metadata

    def get_kernel_metadata(node_schedule, wrapper):
        short, detailed = metadata(node_schedule, wrapper)
        return short + _comment(node_schedule), detailed

    utils.get_kernel_metadata = get_kernel_metadata


def _comment(node_schedule):
    try:
        return _origins.comment(node_schedule, _forward_ops)
    except Exception as error:
        if SESSION.library is not None:
            SESSION.library.lose_op("origins of compiled code could not be described", error)
        return ""


def hook_cache():
    """Keeps sources with origins apart in Inductor's caches: what a run without stallmap generated has none.

    Choices of tuners have other keys: they are shared with runs without stallmap.
    """
    from torch._inductor.codecache import FxGraphHashDetails

    init = FxGraphHashDetails.__init__

    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.cache_key_tag = f"{getattr(self, 'cache_key_tag', '')}{_origins.MARK}"

    FxGraphHashDetails.__init__ = __init__


def set_recorder(recorder):
    """Records calls of packages from now on."""
    global _recorder
    _recorder = recorder


def hook_packages():
    """Records calls of models that AOTInductor compiled: their code is C++, and passes the dispatcher by."""
    from torch.export.pt2_archive._package import AOTICompiledModel

    call = AOTICompiledModel.__call__

    def __call__(self, *args, **kwargs):
        op_id = _begin_package(args)
        try:
            return call(self, *args, **kwargs)
        finally:
            if op_id:
                SESSION.library.op_end([op_id])

    AOTICompiledModel.__call__ = __call__


def _begin_package(args):
    if _recorder is None or not SESSION.active:
        return 0
    try:
        return _recorder.package("aoti::run", args)
    except Exception as error:
        SESSION.library.lose_op("a call of a compiled package could not be described", error)
        return 0


class InlinedOrigin:
    """The operation that stands for the kernel of a generated line, as the recorder names it."""

    __slots__ = ("fields", "forward", "in_optimizer", "is_backward", "module", "state")

    def __init__(self, origin, fields, state, module):
        # Frames of the compiled function, innermost first. In backward they are those of the forward op.
        self.fields = fields
        self.state = state
        self.module = module
        # The name of the forward op whose gradient it is. In a compiled backward it may be computed again.
        self.forward = origin.forward or origin.op
        self.is_backward = origin.is_backward
        self.in_optimizer = any(_OPTIMIZERS in file for file in fields[1::5])


class CompiledCode:
    """Generated files, each read when the first stack has a frame in it."""

    def __init__(self, library, files):
        self._library = library
        self._files = files
        self._functions = _origins.SourceFunctions()
        self._calls = {}
        self._lines = {}
        self._forward = {}

    def forget(self):
        """Reports everything again: a new session has none of it."""
        self._lines.clear()
        self._forward.clear()

    def origin(self, file, line, function, first_line):
        """The origin that stands for the kernel of a generated line, None where none is known."""
        key = file, line, function
        if key not in self._lines:
            try:
                self._lines[key] = self._report(file, line, function, first_line)
            except Exception as error:
                self._lines[key] = None
                self._library.lose_op("origins of compiled code could not be read", error)
        return self._lines[key]

    def module(self, origin, module):
        """The text of the module's path: the origin's, else that of the module that is being called."""
        return origin.module or module

    def forward_op(self, origin, callers):
        """The op that stands for the forward operation of an origin: it has its line and module, and no launches.

        `callers` are the frames around the compiled function, which may be a library's.
        """
        if origin.state is None:
            return 0
        state = self._library.state(origin.fields + callers) if callers else origin.state
        key = origin.forward, origin.module, state
        op_id = self._forward.get(key)
        if op_id is None:
            name = self._library.text(origin.forward)
            words = [_ORIGIN, name, _FORWARD, 0, -1, 0, 0, origin.module, 1, state]
            op_id = self._forward[key] = self._library.op_begin(words)
            self._library.op_end([op_id])
        return op_id

    def _call(self, file, line):
        known = self._calls.get(file)
        if known is None:
            with open(file, encoding="utf-8", errors="replace") as source:
                calls = _origins.calls(source.read())
            known = self._calls[file] = calls, [call.first for call in calls]
        calls, beginnings = known
        index = bisect.bisect_right(beginnings, line) - 1
        return calls[index] if index >= 0 and line <= calls[index].last else None

    def _report(self, file, line, function, first_line):
        call = self._call(file, line)
        if call is None or call.primary is None:
            return None
        words, first = [self._files.normalized(file), function, str(first_line), str(line)], None
        for origin in sorted(call.origins, key=lambda origin: origin is not call.primary):
            fields = self._fields(origin.frames)
            state = self._library.state(fields) if fields else None
            inlined = InlinedOrigin(origin, fields, state, self._library.text(origin.module))
            phase = "" if origin.is_backward is None else _phase(inlined)
            state = "" if state is None else str(state)
            words += [origin.op, phase, origin.forward or "", origin.module or "", state, repr(origin.weight)]
            first = first or inlined
        self._library.origins(words)
        return first

    def _fields(self, frames):
        fields = []
        for file, line, function in frames:
            resumed = _RESUMED.match(function)
            name, first = self._functions.at(file, line, resumed.group(1) if resumed else function)
            fields += (self._files.normalized(file), file, name, str(first), str(line))
        return fields


def _phase(inlined):
    if inlined.is_backward:
        return "backward"
    return "optimizer" if inlined.in_optimizer else "forward"

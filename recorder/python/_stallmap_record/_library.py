"""The injected library's C interface; `recorder/instruments/src/torch.rs` documents it."""

import os
import struct
import sys

from _stallmap_record import _failure

ABI_VERSION = 5

# Sources of ranges.
TORCH, STALLMAP = 0, 1

_OP, _TENSOR, _SOURCE = 0, 1, 2


def load():
    """The library, or None. If a recording was requested, one line reports why it is missing."""
    import ctypes

    if not os.environ.get("STALLMAP_CONFIG"):
        return None
    path = os.environ.get("STALLMAP_LIBRARY")
    if not path:
        return _give_up("STALLMAP_LIBRARY is not set")
    try:
        # The driver injects the same file: this is then the same instance. Calls keep the GIL: they are shorter than
        # giving it up and taking it again.
        library = ctypes.PyDLL(path)
        version = library.stallmap_abi_version()
    except (OSError, AttributeError) as error:
        return _give_up(f"failed to load `{path}`: {error}")
    if version != ABI_VERSION:
        return _give_up(f"`{path}` has interface version {version}, this package needs {ABI_VERSION}: use one release")
    return Library(library, ctypes)


def _give_up(why):
    _failure.leave("Python stacks, ops and tensors: the recorder's library cannot be used", why)
    print(f"stallmap: Python stacks and tensors are not recorded: {why}", file=sys.stderr)


class Library:
    """The functions, with Python's types."""

    def __init__(self, library, ctypes):
        words = [ctypes.c_char_p, ctypes.c_size_t]
        self._text = _function(library.stallmap_text, ctypes.c_int64, words)
        self._state = _function(library.stallmap_state, ctypes.c_int64, words)
        self._origins = _function(library.stallmap_origins, None, words)
        self._triton_kernel = _function(library.stallmap_triton_kernel, None, words)
        self._op_begin = _function(library.stallmap_op_begin, ctypes.c_int64, words)
        self._op_end = _function(library.stallmap_op_end, None, words)
        self._range_push = _function(library.stallmap_range_push, None, words)
        self._range_pop = _function(library.stallmap_range_pop, None, [ctypes.c_uint32])
        self._metrics = _function(library.stallmap_metrics, None, words)
        self._name = _function(library.stallmap_name, None, words)
        self._pause = _function(library.stallmap_pause, None, [ctypes.c_uint32])
        self._fact = _function(library.stallmap_fact, None, [ctypes.c_int64] * 2)
        lose = [ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_int64]
        self._lose = _function(library.stallmap_lose, None, lose)
        self.mode = _function(library.stallmap_mode, ctypes.c_uint32, [ctypes.c_uint32])
        self._give_way = _function(library.stallmap_give_way, None, [ctypes.c_int64])
        self._frames = _function(library.stallmap_frames, ctypes.c_uint32, words + words)
        self.stack = _function(library.stallmap_stack, ctypes.c_int64, [])
        self.engine = _function(library.stallmap_engine, None, [ctypes.c_uint32])
        self.hook_allocator = _function(library.stallmap_hook_allocator, ctypes.c_int64, [])
        self._numbers = {"": 0, None: 0}
        self._packers = {}

    def text(self, text):
        """The number of a text; 0 of none."""
        number = self._numbers.get(text)
        if number is None:
            encoded = text.encode("utf-8", "replace")
            number = self._numbers[text] = self._text(encoded, len(encoded))
        return number

    def state(self, fields):
        """Records a stack: five fields per frame. Returns its hash."""
        encoded = "".join([field + "\0" for field in fields]).encode("utf-8", "replace")
        return self._state(encoded, len(encoded))

    def origins(self, fields):
        """Records the operations that a line of generated code computes."""
        self._send(self._origins, fields)

    def triton_kernel(self, fields):
        """Records a compiled version of a Triton kernel."""
        self._send(self._triton_kernel, fields)

    def _send(self, function, fields):
        encoded = "".join([field.replace("\0", "") + "\0" for field in fields]).encode("utf-8", "replace")
        function(encoded, len(encoded))

    def op_begin(self, words):
        """Begins an op. Returns its op_id, 0 if it is not recorded."""
        return self._op_begin(self._pack(words), len(words))

    def op_end(self, words):
        """Ends an op."""
        self._op_end(self._pack(words), len(words))

    def range_push(self, source, name, metrics=()):
        """Begins a range of this thread."""
        words = [source, self.text(name), *self._metric_words(metrics)]
        self._range_push(self._pack(words), len(words))

    def range_pop(self, source):
        """Ends the innermost range of this thread and a source."""
        self._range_pop(source)

    def metrics(self, op_id, metrics):
        """Gives numbers to a region: (name, value, unit) each."""
        words = [op_id, *self._metric_words(metrics)]
        self._metrics(self._pack(words), len(words))

    def _metric_words(self, metrics):
        words = []
        for name, value, unit in metrics:
            bits = int.from_bytes(struct.pack("=d", value), sys.byteorder, signed=True)
            words += [self.text(name), bits, self.text(unit)]
        return words

    def name(self, words):
        """Sets the roles of tensors in the model."""
        if words:
            self._name(self._pack(words), len(words))

    def frames(self, words, folders):
        """Describes a stack of this thread. Returns whether the library can read others then."""
        encoded = folders.encode("utf-8", "replace")
        return bool(self._frames(self._pack(words), len(words), encoded, len(encoded)))

    def pause(self, paused):
        """Leaves launches out, or no longer."""
        self._pause(int(paused))

    def fact(self, name, value):
        """Records a version."""
        self._fact(self.text(name), self.text(value))

    def give_way(self, profiler):
        """Leaves NVIDIA's profiling interface to another profiler, where this run can."""
        self._give_way(self.text(profiler))

    def lose_op(self, reason, error=None):
        """Counts an op that is not recorded."""
        self._lost(_OP, reason, error)

    def lose_tensor(self, reason, error=None):
        """Counts a tensor that is not recorded."""
        self._lost(_TENSOR, reason, error)

    def lose_source(self, reason, error=None):
        """Reports that a kind of event is not recorded."""
        self._lost(_SOURCE, reason, error)

    def _lost(self, kind, reason, error):
        detail = None if error is None else f"{type(error).__name__}: {error}"[:500]
        self._lose(kind, self.text(reason), 1, self.text(detail))

    def _pack(self, words):
        count = len(words)
        pack = self._packers.get(count)
        if pack is None:
            pack = self._packers[count] = struct.Struct(f"={count}q").pack
        return pack(*words)


def _function(function, result, arguments):
    function.restype = result
    function.argtypes = arguments
    return function

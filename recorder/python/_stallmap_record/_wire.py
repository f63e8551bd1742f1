"""The names of files in a serialized HLO module, which is a protocol buffer."""

# Fields of HloModuleProto and of its stack frames.
_FRAMES, _FILES = 17, 1


def file_names(module):
    """The files that its stack frames name."""
    return [
        name.decode("utf-8", "replace")
        for frames in _fields(module, _FRAMES)
        for name in _fields(frames, _FILES)
    ]


def _fields(message, wanted):
    """The values of a field of bytes."""
    view, at = memoryview(message), 0
    while at < len(view):
        key, at = _number(view, at)
        kind = key & 7
        if kind == 0:
            _, at = _number(view, at)
        elif kind == 2:
            length, at = _number(view, at)
            if key >> 3 == wanted:
                yield bytes(view[at : at + length])
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"field of kind {kind}")


def _number(view, at):
    number = shift = 0
    while True:
        byte = view[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at

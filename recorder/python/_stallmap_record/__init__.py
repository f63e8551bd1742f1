"""Recording of a Python program: hooks for PyTorch, and the functions that the package `stallmap` forwards to.

Only the recorder's folder holds this package, so no installed package can be imported in its place.
"""

# Begins and ends regions, once PyTorch is imported and hooked: the module `_activate`.
hooks = None


def begin_region(name, metrics=()):
    """Begins a region, with numbers as (name, value, unit). Returns the value that `end_region` needs, or None."""
    return _begin_range(name, metrics) if hooks is None else hooks.begin_region(name, metrics)


def end_region(op_id):
    """Ends it."""
    if op_id == _RANGE:
        _end_range()
    elif hooks is not None:
        hooks.end_region(op_id)


# Stands for a region of a program without PyTorch, which ends in order.
_RANGE = -1


def _begin_range(name, metrics):
    from _stallmap_record._session import SESSION

    if not SESSION.open():
        return None
    from _stallmap_record import _library

    SESSION.library.range_push(_library.STALLMAP, name, metrics)
    return _RANGE


def _end_range():
    from _stallmap_record import _library
    from _stallmap_record._session import SESSION

    if SESSION.library is not None:
        SESSION.library.range_pop(_library.STALLMAP)


def start():
    """Records from here on, where `stop` or `stallmap-record --paused` has stopped it."""
    from _stallmap_record._session import SESSION

    SESSION.pause(False)


def stop():
    """Records nothing from here on. Omitted launches are counted."""
    from _stallmap_record._session import SESSION

    SESSION.pause(True)

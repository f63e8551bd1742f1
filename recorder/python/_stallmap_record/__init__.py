"""Recording of a Python program: hooks for PyTorch, and the functions that the package `stallmap` forwards to.

Only the recorder's folder holds this package, so no installed package can be imported in its place.
"""

# Begins and ends regions, once PyTorch is imported and hooked: the module `_activate`.
hooks = None


def begin_region(name):
    """Begins a region. Returns the value that `end_region` needs, or None."""
    return None if hooks is None else hooks.begin_region(name)


def end_region(op_id):
    """Ends it."""
    if hooks is not None:
        hooks.end_region(op_id)


def start():
    """Records from here on, where `stop` or `stallmap-record --paused` has stopped it."""
    from _stallmap_record._session import SESSION

    SESSION.pause(False)


def stop():
    """Records nothing from here on. Omitted launches are counted."""
    from _stallmap_record._session import SESSION

    SESSION.pause(True)

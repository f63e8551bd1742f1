"""Address and size of a tensor's storage.

Not by `untyped_storage()`: the object that it makes lives as long as the storage and counts as another owner of it. Then
autograd no longer adds gradients in place.
"""

import ctypes

import torch

_COUNT = 8
# The first 64 bytes of PyTorch's storage object. It has more.
_words = (ctypes.c_int64 * _COUNT).from_address
_object = torch._C._storage_address


def _places():
    """Where address and size stand among these words, found by two storages of which both are known."""
    found = None
    for size_bytes in (1237, 4099):
        tensor = torch.empty(size_bytes, dtype=torch.uint8, device="cpu")
        words = list(_words(_object(tensor)))
        places = words.index(tensor.data_ptr()), words.index(size_bytes)
        if found not in (None, places):
            raise ValueError(f"{found} and {places}")
        found = places
    return found


try:
    _ADDRESS, _SIZE = _places()
except (AttributeError, ValueError):

    def of(tensor):
        """(address, bytes) of the storage."""
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()

else:

    def of(tensor):
        """(address, bytes) of the storage."""
        place = _object(tensor)
        if not place:
            raise ValueError("a tensor without a storage")
        words = _words(place)
        return words[_ADDRESS], words[_SIZE]

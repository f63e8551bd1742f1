"""Tensor records for the library: 13 words, sizes, strides."""

import torch

from _stallmap_record import _storages
from _stallmap_record._session import CPU

IN, OUT, INOUT, MENTIONED = 0, 1, 2, 3
NO_BASE = -1

_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
_strided = torch.strided
# The address of the tensor's storage. Unlike `data_ptr`, it makes no copy of a tensor that PyTorch has cloned lazily.
_address = torch._C._data_address
_no_dispatch = torch._C._disabled_torch_dispatch_impl


class Tensors:
    """Describes tensors."""

    def __init__(self, library):
        self._library = library
        self._types = {}

    def add(self, words, tensor, direction, position, element, argument, base):
        """Appends the record of a tensor. Returns whether it has one. The base is a record's index in the op."""
        if not (tensor.is_cuda or (CPU and tensor.device.type == "cpu")):
            return False
        kind = type(tensor)
        if kind is not _Tensor and kind is not _Parameter and not is_plain(kind):
            return False
        if tensor.layout is not _strided:
            self._library.lose_tensor("not strided: its parts are recorded where ops take them")
            return False
        dtype = tensor.dtype
        known = self._types.get(dtype)
        if known is None:
            known = self._types[dtype] = (self._library.text(str(dtype)[6:]), tensor.element_size())
        sizes = tensor.shape
        words += (
            direction,
            position,
            element,
            argument,
            base,
            tensor.get_device(),
            *_storages.of(tensor),
            _address(tensor) + tensor.storage_offset() * known[1],
            *known,
            kind is _Parameter,
            len(sizes),
            *sizes,
            *tensor.stride(),
        )
        return True


def is_plain(kind):
    """True if tensors of a class have memory of their own. Parts of composed tensors are seen themselves."""
    return kind.__torch_dispatch__ is _no_dispatch


def is_tensor(value):
    """True if a value is a tensor that has memory of its own."""
    return isinstance(value, _Tensor)

"""Errors of the program stay the program's: types, messages and state after them."""

import weakref

import torch


class Broken(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(3, 5)


try:
    Broken()(torch.ones(2, 2))
except RuntimeError as error:
    print(type(error).__name__, "shapes" in str(error))


class Scaled(torch.Tensor):
    """A tensor that wraps another: its ops must reach the parts."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(arg.inner if isinstance(arg, cls) else arg for arg in args), **(kwargs or {}))


print(torch.sinh(Scaled(torch.zeros(2))).sum().item())
print(torch.vmap(torch.sum)(torch.ones(2, 3)).tolist())
print(torch.ones(3, device="meta").add(1).device.type)
print(torch.ones(3).to_sparse().add(torch.ones(3).to_sparse()).to_dense().tolist())

result = torch.ones(2).add(1)
reference = weakref.ref(result)
del result
print("freed", reference() is None)

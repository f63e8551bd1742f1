"""Ops of which PyTorch runs other ones under a dispatch mode, and the ways by which ops reach the dispatcher.

Prints every op that ran, as PyTorch's own profiler sees them: the same with the recorder and without it.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)


def ran(name, function):
    """Prints the ops that a function runs, forward and backward."""
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        result = function()
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.sum().backward()
    ops = sorted(profile.function_events, key=lambda event: (event.time_range.start, event.id))
    names = [event.name for event in ops if event.name.startswith("aten::")]
    # Ops on the parts of a composed tensor go by a mode, which the profiler sees as the op once more.
    print(name, *(sorted(set(names)) if name == "wrapped" else names))


def leaf(*sizes):
    return torch.rand(*sizes, requires_grad=True)


def residual():
    x = leaf(4, 4)
    return x.sin() + x.cos() * x


class Wrapped(torch.Tensor):
    """A tensor composed of another."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(func(*(arg.inner if isinstance(arg, cls) else arg for arg in args), **(kwargs or {})))


class Marked(torch.Tensor):
    """A class of tensors that adds nothing."""


@torch.library.custom_op("stallmap_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def flops():
    with FlopCounterMode(display=False) as counter:
        torch.ones(4, 8) @ torch.ones(8, 4)
    print(counter.get_total_flops())


def losses():
    lengths = torch.full((2,), 5)
    return torch.nn.functional.ctc_loss(leaf(5, 2, 4).log_softmax(2), torch.ones(2, 2, dtype=int), lengths, lengths - 3)


ran("residual", residual)
ran("cumprod", lambda: leaf(3, 3).cumprod(0))
ran("max", lambda: leaf(3, 3).max())
ran("atan2", lambda: leaf(3).atan2(leaf(3)))
ran("masked", lambda: leaf(3).masked_select(torch.tensor([True, False, True])))
ran("ctc", losses)
ran("numbers", lambda: 2 - leaf(3) ** 2 / 3)
ran("vmap", lambda: torch.vmap(torch.sum)(torch.ones(2, 3)))
ran("gradient", lambda: torch.func.grad(lambda x: (x * x).sum())(torch.ones(3)))
ran("condition", lambda: torch.ops.higher_order.cond(torch.tensor(True), torch.sin, torch.cos, (torch.ones(2),)))
ran("wrapped", lambda: Wrapped(torch.ones(2)).sinh())
ran("marked", lambda: torch.ones(2).as_subclass(Marked) + Marked([1.0, 2.0]))
ran("parameter", lambda: torch.nn.Parameter(torch.ones(2)).exp())
ran("custom", lambda: twice(torch.ones(2)))
ran("lazy", lambda: torch._lazy_clone(torch.ones(2)).sum())
with torch.inference_mode():
    ran("inference", lambda: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)))
with torch.autocast("cpu", torch.bfloat16):
    ran("autocast", lambda: torch.ones(2, 3) @ leaf(3, 4))
flops()
try:
    torch.linalg.inv(torch.zeros(2, 2))
except torch.linalg.LinAlgError as error:
    print("singular" in str(error))

"""Ranges of PyTorch's profiler and regions with numbers, nested."""

import threading

import stallmap
import torch
from torch.profiler import record_function

with record_function("before"):
    weights = torch.ones(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
with stallmap.step(tokens=16):
    with record_function("forward"):
        with stallmap.region("product", flops=128, bytes=192.5):
            loss = (weights @ weights).sum()
        loss = loss.exp()
    loss.backward()
    optimizer.step()


@stallmap.region("decorated", flops=3)
def decorated():
    weights.detach().cosh()


decorated()
decorated()
try:
    with record_function("raises"):
        raise KeyError
except KeyError:
    pass
weights.detach().sinh()


@torch.jit.script
def scripted(x):
    with record_function("scripted"):
        return x.tanh()


scripted(weights.detach())


def work():
    with record_function("worker"):
        weights.detach().cos()


thread = threading.Thread(target=work)
thread.start()
thread.join()
print(float(loss))

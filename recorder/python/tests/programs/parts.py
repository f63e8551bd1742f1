"""Modules that a trainer calls in parts: by a method, in a closure of the optimizer, in a recomputation, in shards."""

import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.up(x).relu()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(Block(), Block())
        self.head = torch.compile(torch.nn.Linear(8, 2), backend="eager")

    def training_step(self, x):
        for block in self.encoder:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x).square().mean()


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.by


def fit(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def closure():
        optimizer.zero_grad()
        loss = net.training_step(torch.ones(4, 8))
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)


def shards():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, distribute_module, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False))
    distribute_module(layers, mesh)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9, foreach=True)
    for _ in range(2):
        layers(distribute_tensor(torch.ones(4, 8), mesh, [Replicate()])).sum().backward()
        optimizer.step()
    fully_shard(Scale(), mesh=mesh)(torch.ones(4, 8)).sum().backward()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    fit(Net())
    shards()
    print("fitted")

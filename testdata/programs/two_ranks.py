"""Two training steps of a scale under DistributedDataParallel, one process a GPU.

Started by torchrun: `torchrun --standalone --nproc-per-node 2 two_ranks.py`. What a capture of it must show:

- Two ranks of a world of two, each with a device of its own, in each pass. Passes are paired by rank.
- Both ranks launch the same kernels as often, all matched between the passes.
- The kernels of NCCL are counted and not recorded: they wait for the other GPU.

Rank 0 prints one JSON object: whether both ranks hold the same weights, which the all-reduce of gradients makes so.
"""

import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 2


class Scale(torch.nn.Module):
    """Multiplies each column by a weight."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(256))

    def forward(self, batch):
        return batch * self.weight


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    model = DistributedDataParallel(Scale().cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    # Each rank sees data of its own.
    generator = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        batch = torch.randn(32, 256, generator=generator).cuda()
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        optimizer.step()
    weight = model.module.weight.detach()
    weights = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, weight)
    right = all(torch.equal(weights[0], other) for other in weights)
    if rank == 0:
        print(json.dumps({"right": right, "ranks": dist.get_world_size(), "steps": STEPS}), flush=True)
    dist.destroy_process_group()
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""DistributedDataParallel, one process per GPU, under torchrun: 3 steps on integers. Rank 0 prints."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SIDE = 64


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    layer = nn.Linear(SIDE, SIDE, bias=False).cuda()
    with torch.no_grad():
        layer.weight.copy_(torch.remainder(torch.arange(SIDE * SIDE).view(SIDE, SIDE), 5))
    model = DistributedDataParallel(layer, device_ids=[rank])
    batch = torch.remainder(torch.arange(32 * SIDE, device="cuda").view(32, SIDE), 7).float() + 2 * rank
    for step in range(3):
        layer.zero_grad()
        model(batch + 2 * step).sum().backward()
        # The mean over two ranks of sums of integers: they may be halves, which are exact too.
        gradient = float(layer.weight.grad.sum())
        if rank == 0:
            print(f"step {step}: gradient {gradient:.1f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

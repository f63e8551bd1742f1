"""nn.DataParallel over two GPUs: one process, a thread for each GPU. Integers make sums exact."""

import torch
from torch import nn

SIDE = 64


def main():
    layer = nn.Linear(SIDE, SIDE, bias=False).cuda()
    with torch.no_grad():
        layer.weight.copy_(torch.remainder(torch.arange(SIDE * SIDE).view(SIDE, SIDE), 5))
    model = nn.DataParallel(layer, device_ids=[0, 1])
    batch = torch.remainder(torch.arange(32 * SIDE, device="cuda").view(32, SIDE), 7).float()
    for step in range(3):
        layer.zero_grad()
        result = model(batch + step)
        result.sum().backward()
        print(f"step {step}: result {int(result.sum())}, gradient {int(layer.weight.grad.sum())}")


if __name__ == "__main__":
    main()

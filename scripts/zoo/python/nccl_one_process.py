"""NCCL within one process: each kernel waits for its partner on the other GPU, which is launched after it."""

import torch
from torch.cuda import nccl

COUNT = 1 << 16


def main():
    tensors = [torch.full((COUNT,), device + 1, device=f"cuda:{device}", dtype=torch.int32) for device in range(2)]
    for step in range(5):
        nccl.all_reduce(tensors)
        for device in range(2):
            torch.cuda.synchronize(device)
        print(f"step {step}:", [int(tensor.sum(dtype=torch.int64)) for tensor in tensors])


if __name__ == "__main__":
    main()

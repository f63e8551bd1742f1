"""A DataLoader whose workers are forked before CUDA starts, and once more after it. Only the parent uses CUDA."""

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1024,), index, dtype=torch.float32)


def main():
    loader = DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=False, multiprocessing_context="fork")
    for epoch in range(2):
        total = torch.zeros((), dtype=torch.float64)
        for batch in loader:
            total += (batch.cuda() * 2 + 1).sum(dtype=torch.float64).cpu()
        print(f"epoch {epoch}: sum {int(total)}")


if __name__ == "__main__":
    main()

"""Code that torch.compile generates: products only, whose calls need no compiler of C++ here."""

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16, bias=False)
        self.down = torch.nn.Linear(16, 8, bias=False)

    def forward(self, x):
        wide = self.up(x)  # up
        return self.down(wide)  # down


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)  # block
        return x


torch.manual_seed(0)
model = torch.compile(Model())
for _ in range(2):
    y = model(torch.ones(4, 8))  # call
    y.backward(torch.ones_like(y))  # backward
print(y.sum().item())

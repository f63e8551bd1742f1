"""torch.compile under the recorder: it must compile what it compiles alone, without a graph break of ours."""

import torch
import torch._dynamo.utils


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


model = torch.compile(Model(), backend="aot_eager", fullgraph=True)
for _ in range(2):
    model(torch.randn(4, 8, requires_grad=True)).sum().backward()
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])

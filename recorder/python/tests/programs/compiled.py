"""torch.compile under the recorder: it must compile and leave out what it compiles and leaves out alone."""

import stallmap
import torch
import torch._dynamo.utils


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)

    def forward(self, x):
        with stallmap.region("compiled"):
            return self.second(torch.relu(self.first(x)))


def inner(x):
    return x.sin() + 1


def broken(x):
    # A frame that is skipped: its ops run one by one while the compiler listens.
    try:
        y = x.cos()
        torch._dynamo.graph_break()
        with torch.no_grad():
            exec("z = 1")
            y = inner(y).tan()
        torch._dynamo.graph_break()
    finally:
        y = y * 2
    return y


torch.manual_seed(0)
whole = torch.compile(Model(), backend="aot_eager", fullgraph=True)
for _ in range(2):
    whole(torch.randn(4, 8, requires_grad=True)).sum().backward()
pieces = torch.compile(broken, backend="eager")
for _ in range(3):
    print(pieces(torch.ones(3)).tolist())
counters = torch._dynamo.utils.counters
print(dict(counters["stats"]), sum(counters["graph_break"].values()))

"""A training step under torch.compile with CUDA graphs, and a kernel that Triton tunes.

What a capture of it must show, whatever the GPU:

- Each launch of the compiled forward has a line of `Block.forward` or `Model.forward`, and the module of that line.
- Each launch of the compiled backward is a gradient of one of these lines.
- Launches of `add` that choose its configuration are trials. One launch of each later call is none.

The step runs STEPS times. Its second run becomes graphs, which later runs replay. Prints one JSON object.
"""

import json

import torch
import torch._inductor.config
import torch.nn.functional as F
import triton
import triton.language as tl

STEPS = 4
ROWS, WIDTH = 32, 32


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.up(self.norm(x))
        y = F.gelu(y)
        return x + self.down(y)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(WIDTH, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x).square().mean()


@triton.autotune(configs=[triton.Config({"BLOCK": block}, num_warps=4) for block in (128, 256, 512)], key=["count"])
@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def main():
    torch.manual_seed(0)
    model = Model().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    # Fewer trials.
    torch._inductor.config.triton.autotune_pointwise = False
    compiled = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(ROWS, WIDTH).to("cuda")
    losses = []
    for _ in range(STEPS):
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    out = torch.empty_like(x)
    for _ in range(2):
        add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, out, x.numel())
    is_right = losses[-1] < losses[0] and torch.equal(out.cpu(), 2 * x.cpu())
    print(json.dumps({"steps": STEPS, "blocks": 2, "falls": bool(is_right)}))


if __name__ == "__main__":
    main()

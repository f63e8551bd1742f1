"""One training step of each kind of program that replay must serve: a transformer, a conv net, Triton kernels.

    training_parts.py [--parts transformer,conv,triton] [--steps N] [--small] [--time]

What a recording with --replay must show, whatever the GPU:

- The transformer's products run on tensor cores (cuBLAS) and its attention in one fused kernel. On Hopper both read
  through tensor maps.
- The conv net's kernels come from cuDNN.
- Triton's kernels come from cubins that were compiled at run time. One of them adds with atomics, whose order, and
  with it the last bits of `sums`, differ from launch to launch.

Prints one JSON object: losses, and with --time the seconds of each part's steps.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A transformer layer with fused attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        parts = self.into(self.norms[0](hidden)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.narrow(F.gelu(self.wide(self.norms[1](hidden))))


class Transformer(nn.Module):
    def __init__(self, vocabulary, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.block = Block(width, heads)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.block(self.tokens(tokens)))


def transformer(steps, is_small):
    vocabulary, width, heads, batch, length = (256, 64, 2, 2, 64) if is_small else (4096, 512, 8, 8, 256)
    model = Transformer(vocabulary, width, heads).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(vocabulary, (batch, length + 1)).cuda()

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return [step() for _ in range(steps)]


def conv(steps, is_small):
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(64 * 16, 10),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    batch, size = (2, 16) if is_small else (16, 64)
    images, labels = torch.randn(batch, 3, size, size).cuda(), torch.randint(10, (batch,)).cuda()

    def step():
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return [step() for _ in range(steps)]


def triton(steps, is_small):
    import triton_parts

    return [triton_parts.step(*((64, 128) if is_small else (1024, 512))) for _ in range(steps)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="transformer,conv,triton")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    facts = {}
    for part in options.parts.split(","):
        begin = time.perf_counter()
        facts[part] = globals()[part](options.steps, options.small)
        torch.cuda.synchronize()
        if options.time:
            facts[part + "_s"] = round(time.perf_counter() - begin, 4)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()

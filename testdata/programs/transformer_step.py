"""Training steps of a small transformer: forward, backward, AdamW.

What a capture of it must show, whatever the GPU:

- Every step has launches in all three phases, and kernels of the backward pass lead to the forward line whose gradient
  they compute: `scores` in `Attention.forward`, `hidden` in `Block.forward`, and so on.
- The embedding's weight, (vocabulary, width), is read by the forward pass and written by the optimizer.
- The optimizer's kernels touch a parameter, its gradient and its two moments: four storages of one size.
- Steps 2 and later launch the same kernels: only the first one makes the optimizer's state.

Weights and tokens are made on the CPU and copied, so no kernel that only prepares is in the capture. Prints one JSON
object: shapes, tensors with addresses, losses. With --time also the fastest step in milliseconds.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Causal self-attention over `heads` heads, written with a line of its own for every product."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        q, k, v = self.into(hidden).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        hidden_keys = torch.ones(length, length, dtype=torch.bool, device=hidden.device).triu(1)
        weights = scores.masked_fill(hidden_keys, float("-inf")).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)


class Block(nn.Module):
    """One layer: attention and a two-layer perceptron, each behind a norm and parallel to a residual."""

    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, hidden):
        hidden = hidden + self.attention(self.norms[0](hidden))
        expanded = F.gelu(self.wide(self.norms[1](hidden)))
        return hidden + self.narrow(expanded)


class Model(nn.Module):
    """Embedding, layers, and a projection onto the vocabulary."""

    def __init__(self, vocabulary, width, heads, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


def train_step(model, optimizer, tokens, targets):
    optimizer.zero_grad(set_to_none=True)
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--time", action="store_true", help="print the time of the fastest step after the first")
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(1)
    model = Model(options.vocabulary, options.width, options.heads, options.layers)
    tokens = torch.randint(options.vocabulary, (options.batch, options.length + 1))
    model = model.to(getattr(torch, options.dtype)).to(options.device)
    tokens = tokens.to(options.device)
    tokens, targets = tokens[:, :-1], tokens[:, 1:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    losses, times = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        losses.append(train_step(model, optimizer, tokens, targets).item())
        times.append((time.perf_counter() - begin) * 1e3)

    facts = {
        "program": "transformer_step",
        "steps": options.steps,
        "layers": options.layers,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tensors": [
            {
                "name": name,
                "address": parameter.data_ptr(),
                "shape": list(parameter.shape),
                "bytes": parameter.numel() * parameter.element_size(),
            }
            for name, parameter in model.named_parameters()
        ],
        "losses": losses,
    }
    if options.time:
        facts["first_step_ms"] = round(times[0], 3)
        facts["step_ms"] = round(min(times[1:], default=times[0]), 3)
    print(json.dumps(facts))
    return 0 if losses[-1] == losses[-1] else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""A one-layer transformer under torch.compile.

`default` trains it for 3 steps; `reduce-overhead` calls it 6 times, which captures graphs and replays them.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, BATCH, LENGTH = 512, 128, 4, 2, 64


class Layer(nn.Module):
    """Attention and a gated network, as in Llama."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.into = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, hidden):
        parts = self.into(self.norms[0](hidden)).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        normed = self.norms[1](hidden)
        return hidden + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layer = Layer()
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.layer(self.tokens(tokens))))


def train(model, tokens):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model)
    for step in range(3):
        loss = F.cross_entropy(compiled(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")


@torch.no_grad()
def infer(model, tokens):
    compiled = torch.compile(model, mode="reduce-overhead")
    for call in range(6):
        # Its memory belongs to the next replay.
        result = compiled((tokens + call) % VOCABULARY).square().mean().item()
        print(f"call {call}: mean square {result:.3f}")


def main():
    torch.manual_seed(7)
    model = Model().cuda()
    tokens = (torch.arange(BATCH * LENGTH, device="cuda").view(BATCH, LENGTH) * 37) % VOCABULARY
    {"default": train, "reduce-overhead": infer}[sys.argv[1]](model, tokens)


if __name__ == "__main__":
    main()

"""Two training steps of a small model: what every hook must see. The tests name these lines by their comments."""

import threading

import stallmap
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))  # line: block


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 16)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.register_buffer("scale", torch.ones(16))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return (x * self.scale) @ self.embedding.weight.t()  # line: head


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x  # line: square

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient * x  # line: square backward


def step(model, optimizer, tokens):
    logits = model(tokens)
    loss = torch.nn.functional.cross_entropy(logits.view(-1, 10), tokens.view(-1))
    Square.apply(loss).backward()  # line: backward
    optimizer.step()  # line: step
    optimizer.zero_grad()


def elsewhere():
    x = torch.ones(8)
    x.add_(1)  # line: thread
    pieces = torch.cat([x, x]).split(4)
    pieces[1].mul_(2)
    torch.ones(4, 6)[1:, ::2].t().relu()


def main():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(0, 10, (4, 8))
    for _ in range(2):
        with stallmap.region("step"):
            step(model, optimizer, tokens)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    stallmap.stop()
    torch.ones(3).neg()
    stallmap.start()
    torch.ones(3).sign()
    print("trained")


main()

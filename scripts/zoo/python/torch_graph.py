"""A training step captured into a CUDA graph and replayed 20 times. Small integers make sums exact."""

import torch

SIDE = 128
REPLAYS = 20


class Step:
    """Forward, backward and update of one weight, which keeps it among the integers from 0 to 6."""

    def __init__(self):
        numbers = torch.arange(SIDE * SIDE, device="cuda", dtype=torch.float32).view(SIDE, SIDE)
        self.input = torch.remainder(numbers, 5)
        self.weight = torch.remainder(numbers, 7).requires_grad_()
        self.weight.grad = torch.zeros_like(self.weight)

    def run(self):
        self.weight.grad.zero_()
        product = self.input @ self.weight
        (product * self.input).sum().backward()
        with torch.no_grad():
            self.weight.copy_(torch.remainder(self.weight + self.weight.grad, 7))
        return product


def main():
    step = Step()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step.run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = step.run()
    for number in range(REPLAYS):
        graph.replay()
        if number % 5 == 4:
            print(f"replay {number + 1}: product {int(product.double().sum())}, weight {int(step.weight.sum())}")
    by_hand = Step()
    for _ in range(3 + REPLAYS):
        by_hand.run()
    print("equal to steps without a graph:", bool(torch.equal(by_hand.weight, step.weight)))


if __name__ == "__main__":
    main()

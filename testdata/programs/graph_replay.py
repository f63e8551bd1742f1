"""Inference as a CUDA graph: captured once, replayed four times with other inputs.

What a capture of it must show, whatever the GPU:

- The graph has three kernel nodes, of `aten::embedding`, `aten::mul` and `aten::sum`. Each replay launches the three:
  12 launches, in the order of the capture, each with the op and the Python line of its capture.
- Every replay makes the same requests by pc. The embedding reads count x width elements of `table`, at other rows each
  time.
- `scaled`, the product, lives in the graph's private memory. Python drops it during the capture, and the graph writes
  it in every replay: its memory belongs to that tensor in all of them.
- The four `replay()` calls are four rows of `graph_launch` in each pass.

Before the capture the same function runs twice on a side stream, as PyTorch asks for, and PyTorch sets up its random
generator for graphs: 8 launches of no graph. Tensors
are made on the CPU and copied. The results are compared with those of the CPU. Prints one JSON object.
"""

import argparse
import json

import torch
import torch.nn.functional as F

REPLAYS = 4


def score(table, indices):
    rows = F.embedding(indices, table)
    scaled = rows * 2
    return scaled.sum(1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the embedding table")
    parser.add_argument("--width", type=int, default=128, help="elements of a row")
    parser.add_argument("--count", type=int, default=512, help="rows that are looked up")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def captured(table, indices):
    """The graph of `score`, and the tensor that holds its result."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            score(table, indices)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = score(table, indices)
    return graph, result


def main():
    options = parse()
    torch.manual_seed(0)
    table = torch.randint(-8, 9, (options.rows, options.width)).float()
    inputs = [torch.randint(options.rows, (options.count,)) for _ in range(REPLAYS)]
    expected = [score(table, indices) for indices in inputs]
    if options.device == "cpu":
        found = [score(table, indices) for indices in inputs]
    else:
        static = inputs[0].cuda()
        graph, result = captured(table.cuda(), static)
        found = []
        for indices in inputs:
            static.copy_(indices)
            graph.replay()
            found.append(result.cpu())
    right = all(torch.equal(got, want) for got, want in zip(found, expected))
    print(json.dumps({"right": right, "replays": REPLAYS, "count": options.count, "width": options.width}))
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

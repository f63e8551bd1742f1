"""Inference that waits for a transposed view, and for an embedding table larger than the L2 cache.

What a capture of it must show, whatever the GPU:

- `look_up` reads `table`, (rows, width) float32 of 205 MB, at random rows, each once: count x width elements, 4 bytes
  each. Most memory stalls of its kernel are for `table`; the indices are 1 / 128 of the bytes that it reads.
- `add_transposed` adds `projected.t()`, a view with strides (1, side), to the contiguous `residual`. Its kernel reads
  side x side elements of each, once, and writes as many. A warp's request to `residual` touches up to 8 sectors, one
  to `projected` 32, each in a row of its own: `projected` has 8 times the sectors of `residual` or more, and the stalls.
- `add_contiguous` computes the same from `projected` copied to rows beforehand by the CPU: the same counts without the
  strides, for comparison. Its two arguments have equal sectors.
- With --contiguous `projected` is laid out to make `projected.t()` contiguous, and `add_transposed` costs the same as
  `add_contiguous`. Nothing else differs: a pair of recordings to compare.

Tensors are made on the CPU and copied, so these are the only kernels. Prints one JSON object: tensors with addresses,
sizes, strides, and the counts. With --time also the fastest of ten calls each in milliseconds.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F


def look_up(table, indices):
    return F.embedding(indices, table)


def add_transposed(residual, projected):
    # The first argument's layout is the result's, so the second is read down its columns.
    return residual + projected.t()


def add_contiguous(residual, rows):
    return residual + rows


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the embedding table")
    parser.add_argument("--width", type=int, default=256, help="elements of a row")
    parser.add_argument("--count", type=int, default=2048, help="rows that are looked up")
    parser.add_argument("--side", type=int, default=512, help="side of the square matrices")
    parser.add_argument("--contiguous", action="store_true", help="lay `projected` out for its transposed view")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--time", action="store_true", help="call each function ten times more, and print the fastest")
    return parser.parse_args()


def laid_out(tensors, is_contiguous):
    return {**tensors, "projected": tensors["rows"].t()} if is_contiguous else tensors


def describe(name, tensor):
    return {
        "name": name,
        "address": tensor.data_ptr(),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "bytes": tensor.untyped_storage().nbytes(),
    }


def fastest_ms(function, device):
    def once():
        begin = time.perf_counter()
        function()
        if device != "cpu":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3

    return round(min(once() for _ in range(10)), 4)


def main():
    options = parse()
    torch.manual_seed(1)
    on_cpu = {
        "table": torch.arange(options.rows * options.width, dtype=torch.float32).view(options.rows, options.width),
        # No row twice: every element is read exactly once.
        "indices": torch.randperm(options.rows)[: options.count],
        "residual": torch.randn(options.side, options.side),
        "projected": torch.randn(options.side, options.side),
    }
    on_cpu["rows"] = on_cpu["projected"].t().contiguous()
    tensors = {name: tensor.to(options.device) for name, tensor in laid_out(on_cpu, options.contiguous).items()}
    calls = {
        "look_up": lambda: look_up(tensors["table"], tensors["indices"]),
        "add_transposed": lambda: add_transposed(tensors["residual"], tensors["projected"]),
        "add_contiguous": lambda: add_contiguous(tensors["residual"], tensors["rows"]),
    }
    with torch.inference_mode():
        results = {name: call() for name, call in calls.items()}
        times = {name: fastest_ms(call, options.device) for name, call in calls.items()} if options.time else None

    right = torch.equal(results["look_up"].cpu(), on_cpu["table"][on_cpu["indices"]])
    right &= torch.equal(results["add_transposed"].cpu(), on_cpu["residual"] + on_cpu["rows"])
    right &= torch.equal(results["add_contiguous"].cpu(), on_cpu["residual"] + on_cpu["rows"])
    facts = {
        "program": "inference_views",
        "tensors": [describe(name, tensor) for name, tensor in tensors.items()],
        "results": [describe(name, tensor) for name, tensor in results.items()],
        "elements": {
            "look_up": options.count * options.width,
            "add_transposed": options.side**2,
            "add_contiguous": options.side**2,
        },
        "right": right,
    }
    if times:
        facts["call_ms"] = times
    print(json.dumps(facts))
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

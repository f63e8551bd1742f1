"""Products by tensor maps in which blocks share one operand by rows of the grid, and the other one by columns.

The first index of a block selects rows of the left operand (rows), or columns of the right one (columns). Blocks begin with
the first index, so those at work at once need all that it selects, and few parts of the other operand.

    python3 testdata/programs/tile_order.py
"""

import json

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TILE, STEP = 128, 64
# Order, rows, columns, inner size: the operands have 4 to 64 MiB.
PRODUCTS = [
    ("rows", 2048, 8192, 1024), ("rows", 2048, 8192, 2048), ("columns", 8192, 2048, 3072), ("rows", 4096, 4096, 2048),
    ("columns", 3072, 3072, 2048), ("rows", 1024, 16384, 2048), ("columns", 4096, 4096, 6144), ("rows", 6144, 4096, 2048),
]


def filled(*shape, scale=1.0):
    """A tensor on the GPU that no kernel fills, and that repeats every 4 KiB."""
    piece = (torch.randn(2048) * scale).to(torch.bfloat16)
    size = torch.Size(shape).numel()
    return piece.repeat(-(-size // 2048))[:size].reshape(shape).cuda()


@triton.jit
def rows_first(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        total = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, total)
    c.store([row, column], total.to(tl.bfloat16))


@triton.jit
def columns_first(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(1) * BM, tl.program_id(0) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        total = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, total)
    c.store([row, column], total.to(tl.bfloat16))


def main():
    torch.manual_seed(0)
    for order, m, n, k in PRODUCTS:
        a, b, c = filled(m, k), filled(n, k, scale=0.02), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        maps = [TensorDescriptor.from_tensor(t, x) for t, x in ((a, [TILE, STEP]), (b, [TILE, STEP]), (c, [TILE, TILE]))]
        grid = (m // TILE, n // TILE) if order == "rows" else (n // TILE, m // TILE)
        kernel = rows_first if order == "rows" else columns_first
        kernel[grid](*maps, k, TILE, TILE, STEP, num_stages=4, num_warps=4)
        torch.cuda.synchronize()
        print(json.dumps({"order": order, "m": m, "n": n, "k": k}), flush=True)


if __name__ == "__main__":
    main()

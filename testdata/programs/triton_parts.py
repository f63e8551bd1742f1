"""Three Triton kernels: a softmax over rows, a product on tensor cores, sums by atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(source, target, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(source + row * columns + column, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(target + row * columns + column, powers / tl.sum(powers, 0), mask=inside)


@triton.jit
def product(a, b, c, size, TILE: tl.constexpr):
    row, column = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    sums = tl.zeros((TILE, TILE), tl.float32)
    for begin in range(0, size, TILE):
        inner = begin + tl.arange(0, TILE)
        left = tl.load(a + row[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + column[None, :])
        sums += tl.dot(left, right)
    tl.store(c + row[:, None] * size + column[None, :], sums)


@triton.jit
def column_sums(source, sums, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(source + row * columns + column, mask=inside, other=0.0)
    tl.atomic_add(sums + column, values, mask=inside)


def step(rows, size):
    columns = 1000
    source = torch.randn(rows, columns).cuda()
    weights = torch.empty_like(source)
    softmax_rows[(rows,)](source, weights, columns, BLOCK=1024)
    a, b = torch.randn(size, size).cuda().half(), torch.randn(size, size).cuda().half()
    c = torch.empty(size, size, device="cuda")
    product[(size // 64, size // 64)](a, b, c, size, TILE=64)
    sums = torch.zeros(columns, device="cuda")
    column_sums[(rows,)](weights, sums, columns, BLOCK=1024)
    return float(sums.sum()) + float(c[0, 0])

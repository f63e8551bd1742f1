"""The Triton pieces of pairs.py."""

import torch
import triton
import triton.language as tl

ROWS, COLUMNS = 8192, 1024


@triton.jit
def sums_by_row(source, sums, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    values = tl.load(source + tl.program_id(0) * columns + column)
    tl.atomic_add(sums + column, values)


@triton.jit
def sums_by_rows(source, sums, columns, ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(ROWS_EACH):
        total += tl.load(source + (tl.program_id(0) * ROWS_EACH + row) * columns + column)
    tl.atomic_add(sums + column, total)


@triton.jit
def exponents_down(source, target, rows, columns, BLOCK: tl.constexpr):
    """Lanes of a warp go down a column."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1)
    tl.store(target + row * columns + column, tl.exp(tl.load(source + row * columns + column)))


@triton.jit
def exponents_along(source, target, rows, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.exp(tl.load(source + at)))


@triton.jit
def scaled(source, target, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at) * factor)


@triton.jit
def shifted(source, target, addend, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at) + addend)


@triton.jit
def scaled_and_shifted(source, target, factor, addend, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at) * factor + addend)


@triton.jit
def product(a, b, c, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), tl.float32)
    for begin in range(0, size, K):
        inner = begin + tl.arange(0, K)
        left = tl.load(a + row[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + column[None, :])
        sums += tl.dot(left, right)
    tl.store(c + row[:, None] * size + column[None, :], sums)


class Table:
    def __init__(self):
        self.source = torch.rand(ROWS, COLUMNS, device="cuda")
        self.target = torch.empty_like(self.source)
        self.between = torch.empty_like(self.source)


class AtomicsOfEachRow(Table):
    finding = "atomic_wait"

    def bad(self):
        sums = torch.zeros(COLUMNS, device="cuda")
        sums_by_row[(ROWS,)](self.source, sums, COLUMNS, BLOCK=COLUMNS)

    def good(self):
        sums = torch.zeros(COLUMNS, device="cuda")
        sums_by_rows[(ROWS // 32,)](self.source, sums, COLUMNS, ROWS_EACH=32, BLOCK=COLUMNS)


class LanesDownAColumn(Table):
    finding = "uncoalesced_access"

    def bad(self):
        exponents_down[(ROWS // 256, COLUMNS)](self.source, self.target, ROWS, COLUMNS, BLOCK=256)

    def good(self):
        exponents_along[(ROWS * COLUMNS // 1024,)](self.source, self.target, ROWS, COLUMNS, BLOCK=1024)


class TwoPasses(Table):
    finding = "busy_memory"

    def bad(self):
        grid = (ROWS * COLUMNS // 1024,)
        scaled[grid](self.source, self.between, 2.0, BLOCK=1024)
        shifted[grid](self.between, self.target, 1.0, BLOCK=1024)

    def good(self):
        scaled_and_shifted[(ROWS * COLUMNS // 1024,)](self.source, self.target, 2.0, 1.0, BLOCK=1024)


class TileThatSpills:
    finding = "local_memory"

    def __init__(self):
        self.a, self.b = (torch.rand(2048, 2048, device="cuda").half() for _ in range(2))
        self.c = torch.empty(2048, 2048, device="cuda")

    def bad(self):
        product[(16, 8)](self.a, self.b, self.c, 2048, M=128, N=256, K=32, num_warps=4, num_stages=3)

    def good(self):
        product[(16, 16)](self.a, self.b, self.c, 2048, M=128, N=128, K=32, num_warps=4, num_stages=3)


PIECES = [AtomicsOfEachRow, LanesDownAColumn, TwoPasses, TileThatSpills]

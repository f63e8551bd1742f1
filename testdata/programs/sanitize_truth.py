"""PyTorch and Triton programs that each access memory wrongly in one known way, and the correct twin of each.

    python sanitize_truth.py wrong|right|library [NAME ...]

A line `# at: NAME` holds the wrong access of case NAME, or the call of the op that makes it. Prints a line of JSON for
each case: the defect, the line, the tensor with its address and shape, and the element. `library` runs ops of PyTorch that
are easily taken for wrong.
"""

import json
import pathlib
import sys

import torch
import triton
import triton.language as tl

CASES = {}


@triton.jit
def add_one(source, target, count, MASK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    if MASK:
        values = tl.load(source + at, mask=inside)
    else:
        values = tl.load(source + at)  # at: unmasked_load
    tl.store(target + at, values + 1, mask=inside)


@triton.jit
def fill(target, count, MASK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASK:
        tl.store(target + at, 1.0, mask=at < count)
    else:
        tl.store(target + at, 1.0)  # at: unmasked_store


@triton.jit
def fill_past(target, count, extra, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, 1.0, mask=at < count + extra)  # at: past_storage


@triton.jit
def sum_rows(source, target, stride, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(source + row * stride + tl.arange(0, COLUMNS))  # at: wrong_stride
    tl.store(target + row, tl.sum(values, 0))


@triton.jit
def row_before(source, target, first, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    values = tl.load(source + (row - first) * COLUMNS + column)  # at: row_before
    tl.store(target + row * COLUMNS + column, values)


@triton.jit
def look_up(table, index, target, COLUMNS: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    column = tl.arange(0, COLUMNS)
    values = tl.load(table + row * COLUMNS + column)  # at: wrong_index
    tl.store(target + tl.program_id(0) * COLUMNS + column, values)


@triton.jit
def total(source, sums, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    values = tl.load(source + tl.program_id(0) * BLOCK + column)
    if ATOMIC:
        tl.atomic_add(sums + column, values)
    else:
        old = tl.load(sums + column)  # with: racing_total
        tl.store(sums + column, old + values)  # at: racing_total


@triton.jit
def shift(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + at + 1)  # with: shifted_in_place
    tl.store(target + at, values)  # at: shifted_in_place


@triton.jit
def read_pointer(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at))  # at: freed_pointer


class Pointer:
    """A tensor's address, as programs keep it that forget the tensor."""

    def __init__(self, tensor):
        self.dtype, self.address = tensor.dtype, tensor.data_ptr()

    def data_ptr(self):
        return self.address


def case(defect):
    def add(function):
        CASES[function.__name__] = (defect, function)
        return function

    return add


def device(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape).cuda()


@case("out_of_view")
def unmasked_load(wrong):
    source, target = device(1000), device(1000)
    add_one[(4,)](source, target, 1000, MASK=not wrong, BLOCK=256)
    return source, [1000]


@case("out_of_view")
def unmasked_store(wrong):
    target = device(1000)
    fill[(4,)](target, 1000, MASK=not wrong, BLOCK=256)
    return target, [1000]


@case("out_of_bounds")
def past_storage(wrong):
    count = 3 << 17  # 1.5 MiB: a block of the pool of large blocks, free memory behind it
    target = torch.zeros(count, device="cuda")
    fill_past[(count // 1024 + 1,)](target, count, 64 if wrong else 0, BLOCK=1024)
    return target, [count]


@case("out_of_view")
def wrong_stride(wrong):
    source, target = device(32, 128)[:, :64], device(32)
    sum_rows[(32,)](source, target, 64 if wrong else 128, COLUMNS=64)
    return source, [0, 64]


@case("out_of_view")
def row_before_view(wrong):
    source, target = device(64, 64)[10:20], device(10, 64)
    row_before[(10,)](source, target, 1 if wrong else 0, COLUMNS=64)
    return source, [-1, 0]


@case("out_of_view")
def wrong_index(wrong):
    table, target = device(80, 64)[:70], device(4, 64)
    index = torch.tensor([0, 5, 70 if wrong else 69, 7], device="cuda")
    look_up[(4,)](table, index, target, COLUMNS=64)
    return table, [70, 0]


@case("use_after_free")
def freed_pointer(wrong):
    source, target = device(7 << 18), device(1024)  # 7 MiB: memory that nothing takes again
    pointer = Pointer(source)
    facts = describe(source, [0])
    if wrong:
        del source
    read_pointer[(4,)](pointer, target, BLOCK=256)
    return facts


@case("uninitialized_read")
def empty_read(wrong):
    source = torch.empty(1000, device="cuda")
    if not wrong:
        source.zero_()
    source + 1  # at: empty_read
    return source, [0]


@case("uninitialized_read")
def half_filled(wrong):
    source = torch.empty(2, 512, device="cuda")
    source[0].fill_(1)
    if not wrong:
        source[1].fill_(1)
    source * 3  # at: half_filled
    return source, [1, 0]


@case("uninitialized_read")
def empty_like_sum(wrong):
    source = device(64, 64)
    sums = torch.empty_like(source) if wrong else torch.zeros_like(source)
    sums += source  # at: empty_like_sum
    return sums, [0, 0]


@case("block_race")
def racing_total(wrong):
    source, sums = device(8, 128), torch.zeros(128, device="cuda")
    total[(8,)](source, sums, ATOMIC=not wrong, BLOCK=128)
    return sums, [0]


@case("block_race")
def shifted_in_place(wrong):
    source, target = device(1025), device(1024)
    shift[(8,)](source, source if wrong else target, BLOCK=128)
    return source, [128]


def library():
    """Ops that are easily taken for wrong."""
    x = device(64, 96)
    torch.nn.functional.layer_norm(x, (96,))
    (x @ x.t()).softmax(-1)
    torch.cat([x, x.t().contiguous().view(64, 96)], 1).sort(1)
    x.expand(4, 64, 96).contiguous().cumsum(0)
    torch.nn.functional.conv2d(x.view(1, 1, 64, 96), device(1, 1, 3, 3), padding=1)
    torch.as_strided(x, (60, 5), (96, 1)).sum()
    x[torch.tensor([1, 5, 60], device="cuda")].unique()
    torch.zeros(64, device="cuda").scatter_add_(0, torch.randint(0, 64, (1000,), device="cuda"), torch.ones(1000, device="cuda"))
    torch.randperm(5000, device="cuda").topk(7)
    mask = x > 100
    x.masked_select(mask).nonzero()
    empty = torch.empty(64, 96, device="cuda")
    torch.add(x, 1, out=empty)
    torch._foreach_add_([x, empty], 1)
    x.to(torch.bfloat16).mean(0).std()


def describe(tensor, element):
    return {"address": tensor.data_ptr(), "shape": list(tensor.shape), "strides": list(tensor.stride()), "element": element}


def line_with(mark):
    lines = pathlib.Path(__file__).read_text().splitlines()
    return next((number for number, text in enumerate(lines, 1) if text.endswith(mark)), 0)


def main():
    if sys.argv[1] == "library":
        library()
        return torch.cuda.synchronize()
    wrong, names = sys.argv[1] == "wrong", sys.argv[2:]
    views = []
    for name, (defect, function) in list(CASES.items()):
        if names and name not in names:
            continue
        facts = function(wrong)
        if not isinstance(facts, dict):
            views.append(facts[0])
            facts = describe(*facts)
        torch.cuda.synchronize()
        mark = "row_before" if name == "row_before_view" else name
        facts |= {"case": name, "defect": defect if wrong else "", "line": line_with(f"# at: {mark}"), "with_line": line_with(f"# with: {mark}")}
        print(json.dumps(facts), flush=True)
    torch.cuda.synchronize()


main()

"""More PyTorch, Triton and inline CUDA programs that each access memory wrongly in one known way, and the correct twin of each.

    python defect_truth.py wrong|right [NAME ...]

A line `# at: NAME` (`// at: NAME` in CUDA) holds the wrong access of case NAME, or the call of the op that makes it. Prints a line of
JSON for each case. Cases whose names begin with `inline_` compile an extension and run only when named, `streams_` ones need times.
"""

import ctypes
import json
import pathlib
import sys

import torch
import triton
import triton.language as tl

CASES = {}


@triton.jit
def softmax(source, target, columns, MASK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = source + tl.program_id(0) * columns
    if MASK:
        x = tl.load(row + at, mask=at < columns, other=-float("inf"))
    else:
        x = tl.load(row + at)  # at: wide_softmax
    y = tl.exp(x - tl.max(x, 0))
    tl.store(target + tl.program_id(0) * columns + at, y / tl.sum(y, 0), mask=at < columns)


@triton.jit
def store_rows(source, target, rows, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    value = tl.load(source + row * WIDTH + column, mask=row < rows)
    tl.store(target + row * WIDTH + column, value * 2, mask=row < rows + 3)  # at: rows_past


@triton.jit
def good_rows(source, target, rows, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    value = tl.load(source + row * WIDTH + column, mask=row < rows)
    tl.store(target + row * WIDTH + column, value * 2, mask=row < rows)


@triton.jit
def read_old(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at))  # at: old_pointer


@triton.jit
def read_given(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at))  # at: given_pointer


@triton.jit
def fill_some(target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, 1.0, mask=at < count)


@triton.jit
def sum_tile(source, sums, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(source + at), 0))  # at: tail_of_empty


@triton.jit
def count_bins(source, bins, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = bins + tl.load(source + at).to(tl.int32) % 32
    if ATOMIC:
        tl.atomic_add(where, 1.0)
    else:
        tl.store(where, tl.load(where) + 1.0)  # at: bins_plain


@triton.jit
def flip(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + count - 1 - at)  # with: flip_in_place
    tl.store(target + at, value)  # at: flip_in_place


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
def wide_softmax(wrong):
    source, target = device(16, 100), torch.zeros(16, 100, device="cuda")
    softmax[(16,)](source, target, 100, MASK=not wrong, BLOCK=128)
    return source, [16, 0]


@case("out_of_view")
def rows_past(wrong):
    source, target = device(50, 64), torch.zeros(64, 64, device="cuda")[:50]
    (store_rows if wrong else good_rows)[(4,)](source, target, 50, WIDTH=64, ROWS=16)
    return target, [50, 0]


@case("use_after_free")
def old_pointer(wrong):
    source, target = device(11 << 18), device(1024)  # 11 MiB: memory that nothing takes again
    pointer, facts = Pointer(source), describe(source, [0])
    if wrong:
        del source
    read_old[(4,)](pointer, target, BLOCK=256)
    return facts


@case("use_after_free")
def given_pointer(wrong):
    target = device(1024)
    torch.empty(9 << 20, device="cuda")  # 36 MiB, of which the allocator makes what follows
    first, source = torch.zeros(4 << 20, device="cuda"), torch.zeros(4 << 20, device="cuda")
    pointer, facts = Pointer(source), describe(source, [0])
    if wrong:
        del first, source
    other = torch.ones(8 << 20, device="cuda")  # of both
    read_given[(4,)](pointer, target, BLOCK=256)
    print("given_pointer: inside", other.data_ptr() < pointer.address < other.data_ptr() + other.nbytes, file=sys.stderr)
    return facts


@case("uninitialized_read")
def tail_of_empty(wrong):
    source, sums = torch.empty(1024, device="cuda"), torch.zeros(4, device="cuda")
    fill_some[(4,)](source, 900 if wrong else 1024, BLOCK=256)
    sum_tile[(4,)](source, sums, BLOCK=256)
    return source, [900]


@case("uninitialized_read")
def unset_cache(wrong):
    cache = torch.empty(8, 32, device="cuda")
    for row in range(6 if wrong else 8):
        cache[row].fill_(row)
    cache.sum(1)  # at: unset_cache
    return cache, [6, 0]


@case("uninitialized_read")
def unset_grad(wrong):
    weight = device(512)
    grad = torch.empty_like(weight) if wrong else torch.zeros_like(weight)
    grad.add_(weight, alpha=2)  # at: unset_grad
    return grad, [0]


@case("block_race")
def bins_plain(wrong):
    source, bins = device(8 * 128), torch.zeros(32, device="cuda")
    count_bins[(8,)](source, bins, ATOMIC=not wrong, BLOCK=128)
    return bins, [0]


@case("block_race")
def flip_in_place(wrong):
    source, target = device(1024), device(1024)
    flip[(4,)](source, source if wrong else target, 1024, BLOCK=256)
    return source, [0]


@case("wide_view")
def window_view(wrong):
    source = device(256)
    part = source[:200]
    torch.as_strided(part if wrong else source, (60, 8), (4, 1), 0).mean()  # at: window_view
    return part, [200]


def runtime():
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    return ctypes.CDLL(next(word for word in maps if "libcudart" in word))


@case("overlapping_copy")
def moved_up(wrong):
    source = device(2048)
    address = source.data_ptr()
    copy = runtime().cudaMemcpy
    copy(ctypes.c_void_p(address + (256 if wrong else 4096)), ctypes.c_void_p(address), ctypes.c_size_t(1024), 3)  # at: moved_up
    return source, [64]


@case("wide_copy")
def pitch_past(wrong):
    source, target = device(16, 64), torch.zeros(16, 64, device="cuda")
    pitch, width, copy = ctypes.c_size_t(264 if wrong else 256), ctypes.c_size_t(256), runtime().cudaMemcpy2D
    copy(ctypes.c_void_p(target.data_ptr()), pitch, ctypes.c_void_p(source.data_ptr()), width, width, ctypes.c_size_t(16), 3)  # at: pitch_past
    return target, [16, 0]


@case("wide_copy")
def copy_past(wrong):
    source, target = device(2048), torch.zeros(1000, device="cuda")
    copy = runtime().cudaMemcpy
    copy(ctypes.c_void_p(target.data_ptr()), ctypes.c_void_p(source.data_ptr()), ctypes.c_size_t(4256 if wrong else 4000), 3)  # at: copy_past
    return target, [1000]


INLINE = r"""
#include <torch/extension.h>

__global__ void inline_add(const float *in, float *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= count) out[i] = in[i] + 1; // at: inline_add
}

__global__ void inline_add_right(const float *in, float *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] + 1;
}

template <bool WRONG> __global__ void inline_reverse(const float *in, float *out) {
    __shared__ float tile[256];
    *(volatile float *)(tile + threadIdx.x) = in[threadIdx.x]; // at: inline_reverse
    if (!WRONG) __syncthreads();
    out[threadIdx.x] = *(volatile float *)(tile + 255 - threadIdx.x); // with: inline_reverse
}

template <bool WRONG> __global__ void inline_sum(const float *in, float *sum) {
    if (threadIdx.x) return;
    if (WRONG) *sum = *sum + in[blockIdx.x]; // at: inline_sum
    else atomicAdd(sum, in[blockIdx.x]);
}

__global__ void inline_empty(const float *in, float *out) {
    out[threadIdx.x] = in[threadIdx.x]; // at: inline_empty
}

void add(torch::Tensor in, torch::Tensor out, bool wrong) {
    int count = out.numel();
    if (wrong) inline_add<<<count / 256 + 1, 256>>>(in.data_ptr<float>(), out.data_ptr<float>(), count);
    else inline_add_right<<<count / 256 + 1, 256>>>(in.data_ptr<float>(), out.data_ptr<float>(), count);
}

void reverse(torch::Tensor in, torch::Tensor out, bool wrong) {
    if (wrong) inline_reverse<true><<<1, 256>>>(in.data_ptr<float>(), out.data_ptr<float>());
    else inline_reverse<false><<<1, 256>>>(in.data_ptr<float>(), out.data_ptr<float>());
}

void sum(torch::Tensor in, torch::Tensor out, bool wrong) {
    if (wrong) inline_sum<true><<<8, 32>>>(in.data_ptr<float>(), out.data_ptr<float>());
    else inline_sum<false><<<8, 32>>>(in.data_ptr<float>(), out.data_ptr<float>());
}

void empty(torch::Tensor in, torch::Tensor out) { inline_empty<<<1, 256>>>(in.data_ptr<float>(), out.data_ptr<float>()); }
"""
EXTENSION = []


def extension():
    if not EXTENSION:
        from torch.utils.cpp_extension import load_inline

        header = "#include <torch/extension.h>\n" + "".join(
            f"void {name}(torch::Tensor, torch::Tensor{flag});\n" for name, flag in [("add", ", bool"), ("reverse", ", bool"), ("sum", ", bool"), ("empty", "")]
        )
        EXTENSION.append(
            load_inline("defects", header, INLINE, functions=["add", "reverse", "sum", "empty"], extra_cuda_cflags=["-lineinfo", "-gencode=arch=compute_90,code=sm_90"])
        )
    return EXTENSION[0]


@case("out_of_bounds")
def inline_add(wrong):
    source, target = device(2048), torch.zeros(1000, device="cuda")
    extension().add(source, target, wrong)
    return target, [1000]


@case("shared_race")
def inline_reverse(wrong):
    source, target = device(256), device(256)
    extension().reverse(source, target, wrong)
    return source, [0]


@case("block_race")
def inline_sum(wrong):
    source, target = device(256), torch.zeros(1, device="cuda")
    extension().sum(source, target, wrong)
    return target, [0]


@case("uninitialized_read")
def inline_empty(wrong):
    source, target = torch.empty(256, device="cuda"), torch.zeros(256, device="cuda")
    if not wrong:
        source.zero_()
    extension().empty(source, target)
    return source, [0]


def two_streams(wrong, waits):
    """Memory that a side stream still uses is given to the main stream."""
    side = torch.cuda.Stream()
    source, result = torch.ones(1 << 18, device="cuda"), torch.zeros(1 << 18, device="cuda")
    facts = describe(source, [0])
    torch.add(source, 1, out=result).fill_(0)  # its code is loaded before the streams run
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(60_000_000)
        torch.add(source, 1, out=result)  # at: streams_record
    if not wrong and waits:
        torch.cuda.current_stream().wait_stream(side)
    elif not wrong:
        source.record_stream(side)
    del source
    other = torch.empty(1 << 18, device="cuda")
    other.fill_(2)
    print("two_streams: same memory", other.data_ptr() == facts["address"], file=sys.stderr)
    torch.cuda.synchronize()
    return facts


@case("reused_memory")
def streams_record(wrong):
    return two_streams(wrong, False)


@case("reused_memory")
def streams_wait(wrong):
    return two_streams(wrong, True)


def describe(tensor, element):
    return {"address": tensor.data_ptr(), "shape": list(tensor.shape), "strides": list(tensor.stride()), "element": element}


def line_with(mark):
    lines = pathlib.Path(__file__).read_text().splitlines()
    return next((number for number, text in enumerate(lines, 1) if text.endswith(mark)), 0)


def main():
    wrong, names = sys.argv[1] == "wrong", sys.argv[2:]
    views = []
    for name, (defect, function) in list(CASES.items()):
        if name not in names if names else name.startswith(("inline_", "streams_")):
            continue
        facts = function(wrong)
        if not isinstance(facts, dict):
            views.append(facts[0])
            facts = describe(*facts)
        torch.cuda.synchronize()
        mark = "//" if name.startswith("inline") else "#"
        facts |= {"case": name, "defect": defect if wrong else "", "line": line_with(f"{mark} at: {name}"), "with_line": line_with(f"{mark} with: {name}")}
        print(json.dumps(facts), flush=True)
    torch.cuda.synchronize()


main()

"""Launches and ops that are each inefficient in one known way: what findings must find.

finding_truth.py LIBRARY: LIBRARY is finding_truth.cu, built as that file says. Every call of a
kernel or an op is a function of its own, named after the finding. Checks every result, and prints one JSON object.
"""

import ctypes
import json
import sys

import torch

BLOCKS, THREADS = 528, 128
WORDS = 1 << 21


def words(count):
    return torch.arange(count, dtype=torch.int32).to("cuda")


class Kernels:
    """The library's kernels. Each writes a word per thread."""

    def __init__(self, path):
        # PyTorch sees nothing of these calls: their launches have no op around them, and no line.
        self.library = ctypes.CDLL(path)

    def __call__(self, name, source, count=0, blocks=BLOCKS, threads=THREADS):
        result = torch.empty(blocks * threads, dtype=source.dtype, device="cuda")
        start = getattr(self.library, f"start_{name}")
        start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        error = start(source.data_ptr(), result.data_ptr(), count, blocks, threads)
        assert error == 0, f"{name}: CUDA error {error}"
        return result


def local_memory(kernels, source):
    return kernels("local_array", source)


def float64(kernels, source):
    return kernels("double_constant", source)


def low_occupancy(kernels, source):
    return kernels("large_tile", source, count=16, threads=64)


def misaligned_access(kernels, source):
    return kernels("copy_words", source[1:])


def aligned_access(kernels, source):
    return kernels("copy_words", source)


def bank_conflict(kernels, source):
    return kernels("tile_columns", source, threads=32)


def redundant_in_block(kernels, table):
    return kernels("table_again", table, count=table.numel())


def redundant_in_thread(kernels, source):
    return kernels("own_again", source, count=32)


def redundant_copy(state):
    return state.clone()


def repeated_cast(weight):
    return weight.half()


def hashed(values):
    """What the kernels make of the words that they read."""
    total = 0
    for value in values:
        total = (total * 3 + value) % (1 << 32)
    return total


def expected_local(word):
    products = [word * place % (1 << 32) for place in range(64)]
    total, at = 0, word % 64
    for step in range(256):
        total, at = (total + products[at]) % (1 << 32), (products[at] + step) % 64
    return total


def expected_float64(value):
    for _ in range(256):
        value = ctypes.c_float(value * 1.000001 + 0.5).value
    return value


def main():
    kernels = Kernels(sys.argv[1])
    source = words(BLOCKS * THREADS + 8)
    table = words(1024)
    rows = words(16 * BLOCKS * 64)
    values = (torch.arange(BLOCKS * THREADS, dtype=torch.float32) / 1024).to("cuda")
    state = torch.ones(WORDS).to("cuda")
    made = {
        "local_memory": local_memory(kernels, source),
        "float64": float64(kernels, values),
        "low_occupancy": low_occupancy(kernels, rows),
        "misaligned_access": misaligned_access(kernels, source),
        "aligned_access": aligned_access(kernels, source),
        "bank_conflict": bank_conflict(kernels, source),
        "redundant_in_block": redundant_in_block(kernels, table),
        "redundant_in_thread": redundant_in_thread(kernels, source),
    }
    copied = [redundant_copy(state)]
    copied += [repeated_cast(state) for _ in range(3)]
    torch.cuda.synchronize()
    expected = {
        "local_memory": expected_local,
        "float64": lambda thread: expected_float64(thread / 1024),
        "low_occupancy": lambda thread: sum(row * BLOCKS * 64 + thread for row in range(16)) % (1 << 32),
        "misaligned_access": lambda thread: thread + 1,
        "aligned_access": lambda thread: thread,
        "bank_conflict": lambda thread: hashed(thread // 32 * 32 + column + thread % 32 for column in range(32)),
        "redundant_in_block": lambda thread: hashed(range(thread % 32, 1024, 32)),
        "redundant_in_thread": lambda thread: hashed([thread] * 32),
    }
    right = {}
    for name, result in made.items():
        found = result.tolist()
        of_type = (lambda value: value) if name == "float64" else (lambda value: value % (1 << 32))
        threads = range(0, len(found), 997)
        right[name] = all(abs(of_type(found[thread]) - expected[name](thread)) <= 1e-3 for thread in threads)
    right["copies"] = all(copy.tolist() == [1.0] * WORDS for copy in copied)
    print(json.dumps({"program": "finding_truth", "right": right}))
    return 0 if all(right.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

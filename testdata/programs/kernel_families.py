"""One launch or few of the kernel families that models spend their time in, with tensors larger than any L2 cache.

    python3 testdata/programs/kernel_families.py [--parts gemm_decode,...]

The content of a tensor repeats every 4 KiB: a capture with its memory is small. Prints a line of JSON per family.
"""

import argparse
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def filled(*shape, dtype=torch.bfloat16, scale=1.0):
    """A tensor on the GPU that no kernel fills."""
    count = 4096 // torch.empty((), dtype=dtype).element_size()
    piece = (torch.randn(count) * scale).to(dtype)
    size = torch.Size(shape).numel()
    whole = piece.repeat(-(-size // count))[:size]
    return whole.reshape(shape).cuda()


def linear(rows, outputs, inputs):
    rows, weight = filled(rows, inputs), filled(outputs, inputs, scale=0.02)
    return lambda: F.linear(rows, weight)


def attention(backend, batch, heads, queries, keys):
    query = filled(batch, heads, queries, 128)
    key, value = filled(batch, heads, keys, 128), filled(batch, heads, keys, 128)

    def run():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(query, key, value)

    return run


def convolution():
    image = filled(16, 64, 64, 256).permute(0, 3, 1, 2)
    weight = filled(256, 3, 3, 256, scale=0.02).permute(0, 3, 1, 2)
    return lambda: F.conv2d(image, weight, padding=1)


def softmax():
    scores = filled(2048, 8192)
    return lambda: torch.softmax(scores, -1)


def layer_norm():
    rows, weight, bias = filled(2048, 8192), filled(8192), filled(8192)
    return lambda: F.layer_norm(rows, (8192,), weight, bias)


def reduction():
    rows = filled(2048, 8192, dtype=torch.float32)
    return lambda: rows.sum(-1)


def embedding():
    table = filled(32768, 512)
    index = torch.randint(32768, (32768,)).cuda()
    return lambda: F.embedding(index, table)


def add():
    left, right = filled(2048, 8192), filled(2048, 8192)
    return lambda: left + right


def triton_parts():
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def described_matmul(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(0, tl.cdiv(k, BK)):
            left = a.load([row, step * BK])
            right = b.load([column, step * BK])
            total = tl.dot(left, right.T, total)
        c.store([row, column], total.to(tl.bfloat16))

    @triton.jit
    def attention_rows(q, k, v, out, scale, keys, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
        head, first = tl.program_id(1), tl.program_id(0) * BM
        queries = tl.num_programs(0) * BM
        rows, columns = first + tl.arange(0, BM), tl.arange(0, D)
        query = tl.load(q + head * queries * D + rows[:, None] * D + columns[None, :])
        most = tl.full((BM,), -1e30, dtype=tl.float32)
        total = tl.zeros((BM,), dtype=tl.float32)
        mixed = tl.zeros((BM, D), dtype=tl.float32)
        for start in range(0, keys, BN):
            places = head * keys * D + (start + tl.arange(0, BN))[:, None] * D + columns[None, :]
            scores = tl.dot(query, tl.load(k + places).T) * scale
            new = tl.maximum(most, tl.max(scores, 1))
            weights, factor = tl.exp2(scores - new[:, None]), tl.exp2(most - new)
            total = total * factor + tl.sum(weights, 1)
            mixed = tl.dot(weights.to(tl.bfloat16), tl.load(v + places), mixed * factor[:, None])
            most = new
        tl.store(out + head * queries * D + rows[:, None] * D + columns[None, :], (mixed / total[:, None]).to(tl.bfloat16))

    def matmul(m, n, k):
        a, b = filled(m, k), filled(n, k, scale=0.02)
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        bm, bn, bk = (64, 64, 128) if m <= 64 else (128, 128, 64)
        tensors = [TensorDescriptor.from_tensor(t, block) for t, block in ((a, [bm, bk]), (b, [bn, bk]), (c, [bm, bn]))]
        grid = (triton.cdiv(m, bm), triton.cdiv(n, bn))
        return lambda: described_matmul[grid](*tensors, k, bm, bn, bk, num_stages=4, num_warps=4)

    def flash(queries, heads, keys):
        q, k, v = filled(heads, queries, 128), filled(heads, keys, 128), filled(heads, keys, 128)
        out = torch.empty_like(q)
        grid = (queries // 64, heads)
        return lambda: attention_rows[grid](q, k, v, out, 0.12, keys, 64, 64, 128, num_stages=3, num_warps=4)

    return {
        "triton_tma_decode": lambda: matmul(64, 16384, 4096),
        "triton_tma_large": lambda: matmul(4096, 4096, 4096),
        "triton_attention_decode": lambda: flash(64, 128, 1024),
        "triton_attention_prefill": lambda: flash(1024, 8, 1024),
    }


FLASH, CUDNN = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION
PARTS = {
    "gemm_decode": lambda: linear(4, 14336, 4096),
    "gemm_split_k": lambda: linear(4, 2048, 16384),
    "gemm_rows_64": lambda: linear(64, 14336, 4096),
    "gemm_large": lambda: linear(4096, 4096, 4096),
    "attention_decode_cudnn": lambda: attention(CUDNN, 8, 32, 1, 1024),
    "attention_decode_flash": lambda: attention(FLASH, 8, 32, 1, 1024),
    "attention_prefill_cudnn": lambda: attention(CUDNN, 1, 16, 4096, 4096),
    "attention_prefill_flash": lambda: attention(FLASH, 1, 4, 1024, 1024),
    "convolution": convolution,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "reduction": reduction,
    "embedding": embedding,
    "add": add,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", help="families, separated by commas [default: all]")
    options = parser.parse_args()
    torch.manual_seed(0)
    wanted = options.parts.split(",") if options.parts else None
    parts = dict(PARTS)
    if wanted is None or any(name.startswith("triton") for name in wanted):
        parts |= triton_parts()
    for name in wanted or parts:
        with torch.no_grad():
            try:
                parts[name]()()
                torch.cuda.synchronize()
                print(json.dumps({"family": name}), flush=True)
            except Exception as error:
                # A version of a library may lack one: the rest counts.
                print(json.dumps({"family": name, "error": str(error)[:300]}), flush=True)


if __name__ == "__main__":
    main()

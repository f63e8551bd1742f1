"""One Triton kernel in 20 configurations, which all have its name and are different code.

The chosen one may differ from run to run, but its results do not. Each is measured by 4 launches, which fixes their
number.
"""

import torch
import triton
import triton.language as tl

COUNT = 1 << 20
LAUNCHES = 4


def measure(call, quantiles):
    """The shortest of a few launches, for every requested quantile."""
    times = []
    for _ in range(LAUNCHES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return [min(times)] * len(quantiles)


CONFIGURATIONS = [
    triton.Config({"BLOCK": block}, num_warps=warps) for block in (128, 256, 512, 1024, 2048) for warps in (1, 2, 4, 8)
]


@triton.autotune(configs=CONFIGURATIONS, key=["count"], do_bench=measure)
@triton.jit
def combine(left, right, result, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    values = tl.load(left + places, mask=inside) * 3 + tl.load(right + places, mask=inside)
    tl.store(result + places, values, mask=inside)


def main():
    left = torch.arange(COUNT, device="cuda", dtype=torch.int32)
    right = torch.flip(left, [0])
    result = torch.empty_like(left)
    for count in (COUNT, COUNT // 2 + 16):
        result.zero_()
        for _ in range(5):
            combine[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](left, right, result, count)
        is_right = torch.equal(result[:count], left[:count] * 3 + right[:count])
        print(f"{count} elements: {'right' if is_right else 'WRONG'}, sum {int(result.sum(dtype=torch.int64))}")
    print("configurations:", len(CONFIGURATIONS))


if __name__ == "__main__":
    main()

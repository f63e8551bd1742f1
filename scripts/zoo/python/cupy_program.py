"""CuPy: elementwise kernels, a reduction, a raw kernel, a product by cuBLAS, all of integers."""

import cupy

COUNT = 1 << 20

RAW = cupy.RawKernel(
    r"""
extern "C" __global__ void zoo_raw(const int *from, int *to, int count) {
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) to[place] = from[count - 1 - place] * 2;
}
""",
    "zoo_raw",
)

blend = cupy.ElementwiseKernel("int32 x, int32 y", "int32 z", "z = x * 3 - y", "zoo_blend")


def main():
    numbers = cupy.arange(COUNT, dtype=cupy.int32)
    reverse = cupy.empty_like(numbers)
    RAW((COUNT // 256,), (256,), (numbers, reverse, cupy.int32(COUNT)))
    print("raw kernel:", int(reverse.sum()), int(reverse[0]))
    blended = blend(numbers, reverse)
    print("elementwise kernel:", int(blended.sum()), int(blended.max()))
    print("fused:", int(((numbers & 255) * 2 + 1).sum()))
    square = (numbers[: 256 * 256] % 7).reshape(256, 256).astype(cupy.float32)
    print("product:", int((square @ square).sum()))


if __name__ == "__main__":
    main()

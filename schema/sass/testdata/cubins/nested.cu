// Kernels whose lines are inlined into each other: the test of the line tables.
//
// `scripts/check-lines --update` compiles this and writes what nvdisasm says of the lines.

template <typename T> struct Pair {
    T first;
    T second;
};

/// Sums N neighbours: unrolled, so that one line is many instructions.
template <typename T, int N> __device__ __forceinline__ T sum(const T* in, int i)
{
    T total = 0;
    for (int k = 0; k < N; ++k)
        total += in[i * N + k];
    return total;
}

template <typename T> __device__ __forceinline__ Pair<T> both(const T* in, int i)
{
    return {sum<T, 2>(in, i), sum<T, 4>(in, i)};
}

/// Not inlined: a function of its own behind the kernel, with inlined lines of its own.
__device__ __noinline__ float called(const float* in, int i)
{
    return sum<float, 3>(in, i) * in[i];
}

namespace shapes {
/// The divisions call a function of the compiler's, which has no lines.
__global__ void nested(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Pair<float> pair = both(in, i);
        out[i] = pair.first / pair.second + called(in, i);
    }
}
} // namespace shapes

template <typename T> __global__ void sums(T* out, const T* in)
{
    out[threadIdx.x] = sum<T, 8>(in, threadIdx.x);
}
template __global__ void sums<double>(double*, const double*);

/// An indirect branch: its targets stand beside the code.
__global__ void chosen(float* out, int which, float x)
{
    switch (which) {
    case 0: x = __sinf(x); break;
    case 1: x = __expf(x) * 3.0f; break;
    case 2: x = __logf(x) + 1.0f; break;
    case 3: x = sqrtf(x) - x; break;
    case 4: x = x * x + 4.0f; break;
    case 5: x = fabsf(x) + 2.0f; break;
    case 6: x = 1.0f / x; break;
    case 7: x = x + 9.0f; break;
    case 8: x = __cosf(x); break;
    }
    out[threadIdx.x] = x;
}

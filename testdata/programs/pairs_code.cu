// The piece `instruction_fetch` of pairs.cu.

#include <cstdint>

namespace {

using Word = uint32_t;

__device__ int thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Straight code of some hundred kilobytes, that each warp runs once.
__global__ void unrolled(const Word *in, Word *out) {
    Word value = in[thread_number()];
#pragma unroll
    for (int round = 0; round < 6000; round++) value = (value ^ (value >> 3)) + Word(round) * 2654435761u;
    out[thread_number()] = value;
}

__global__ void rolled(const Word *in, Word *out) {
    Word value = in[thread_number()];
#pragma unroll 8
    for (int round = 0; round < 6000; round++) value = (value ^ (value >> 3)) + Word(round) * 2654435761u;
    out[thread_number()] = value;
}

} // namespace

void launch_unrolled(const Word *in, Word *out) { unrolled<<<132, 32>>>(in, out); }

void launch_rolled(const Word *in, Word *out) { rolled<<<132, 32>>>(in, out); }

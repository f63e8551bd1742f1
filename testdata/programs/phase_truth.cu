// Warps that wait for a known number of cycles, at a barrier and at an mbarrier, in each of six rounds.
//
// In a round, warp w works for 1500 cycles times (w + round) % 8 before the barrier, and 500 times w before the mbarrier: the
// last one waits for nothing, and every other one for the difference. Prints the sum of what it computes.
#include <cuda/barrier>
#include <cuda_pipeline.h>
#include <cstdio>

constexpr int WARPS = 8, ROUNDS = 6, BLOCKS = 64, THREADS = 32 * WARPS;

__device__ void work(int cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

__global__ void rounds(const float4 *in, float4 *out) {
    __shared__ float4 tile[THREADS];
    __shared__ cuda::barrier<cuda::thread_scope_block> full;
    int thread = threadIdx.x, warp = thread / 32;
    if (thread == 0) init(&full, THREADS);
    __syncthreads();
    for (int round = 0; round < ROUNDS; ++round) {
        work(1500 * ((warp + round) % WARPS));
        __syncthreads();
        __pipeline_memcpy_async(&tile[thread], &in[blockIdx.x * THREADS + thread], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(0);
        work(500 * warp);
        full.arrive_and_wait();
        float4 value = tile[(thread + 32 * round) % THREADS];
        value.x += round;
        out[blockIdx.x * THREADS + thread] = value;
    }
}

int main() {
    float4 *in, *out, value;
    size_t bytes = sizeof(float4) * BLOCKS * THREADS;
    cudaMalloc(&in, bytes);
    cudaMalloc(&out, bytes);
    cudaMemset(in, 0, bytes);
    for (int launch = 0; launch < 2; ++launch) rounds<<<BLOCKS, THREADS>>>(in, out);
    cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDeviceToHost);
    printf("%g\n", value.x);
    return cudaGetLastError() != cudaSuccess;
}

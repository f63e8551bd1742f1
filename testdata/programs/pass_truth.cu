// Kernels that read an array in two passes, so large that a default recording has the order of requests of the first pass only.
//
//   center_large   96 MiB, more than L2: both passes read device memory
//   center_small   16 MiB, which L2 holds: the second pass does not
//
// Arrays are zero, so their pages take no space in a capture. Prints one JSON object a kernel: its loads of one pass by lanes,
// and the bytes that it reads from device memory.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o pass_truth pass_truth.cu

#include "truth.h"

constexpr size_t MIB = 1 << 20;
constexpr uint32_t BLOCK = 512;

__device__ float value_of(float value) { return value; }
__device__ float value_of(float4 value) { return value.x + value.y + value.z + value.w; }

// The variance of a row of values: their mean first.
template <typename Value> __device__ void center(const Value *row, uint32_t count, float *out) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    float part = 0;
    for (uint32_t at = threadIdx.x; at < count; at += BLOCK) part += value_of(row[at]);
    atomicAdd(&sum, part);
    __syncthreads();
    float mean = sum / count, squares = 0;
    for (uint32_t at = threadIdx.x; at < count; at += BLOCK) {
        float difference = value_of(row[at]) - mean;
        squares += difference * difference;
    }
    atomicAdd(out, squares);
}

__global__ void center_large(const float4 *values, uint32_t count, float *out) {
    center(values + (size_t)blockIdx.x * count, count, out + blockIdx.x);
}

__global__ void center_small(const float *values, uint32_t count, float *out) {
    center(values + (size_t)blockIdx.x * count, count, out + blockIdx.x);
}

int main() {
    const uint32_t blocks = 128;
    float *values, *out;
    std::vector<float> found(blocks);
    for (bool is_large : {true, false}) {
        size_t bytes = (is_large ? 96 : 16) * MIB;
        uint32_t count = bytes / blocks / (is_large ? sizeof(float4) : sizeof(float));
        CHECK(cudaMalloc(&values, bytes));
        CHECK(cudaMalloc(&out, blocks * sizeof(float)));
        CHECK(cudaMemset(values, 0, bytes));
        CHECK(cudaMemset(out, 0, blocks * sizeof(float)));
        if (is_large) center_large<<<blocks, BLOCK>>>((const float4 *)values, count, out);
        else center_small<<<blocks, BLOCK>>>(values, count, out);
        CHECK(cudaMemcpy(found.data(), out, blocks * sizeof(float), cudaMemcpyDeviceToHost));
        bool is_right = true;
        for (float squares : found) is_right &= squares == 0;
        printf("{\"kernel\": \"%s\", \"loads\": %llu, \"device_bytes\": %llu, \"right\": %s}\n", is_large ? "center_large" : "center_small",
               (unsigned long long)blocks * count, (unsigned long long)bytes * (is_large ? 2 : 1), is_right ? "true" : "false");
        CHECK(cudaFree(values));
        CHECK(cudaFree(out));
    }
}

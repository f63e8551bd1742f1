// Kernels that are each inefficient in one known way. finding_truth.py calls them by name on memory of its tensors.
//
//   local_array      keeps 64 words a thread, at places that only data tell: they lie in local memory
//   double_constant  multiplies and adds float32 with constants of double precision
//   large_tile       takes 100 KiB of shared memory a block of two warps, and waits for each word that it reads
//   copy_words       copies words, misaligned if its source begins 4 bytes past a sector
//   tile_columns     each lane reads a row of 32 words of shared memory: 32 lanes meet in one bank
//   table_again      each of the four warps of a block reads the same 1024 words: 3 of 4 loads are redundant in the block
//   own_again        each thread reads its word 32 times: 31 of 32 loads are redundant in the thread
//
// Build: nvcc -O3 -lineinfo -shared -Xcompiler -fPIC -gencode 'arch=compute_90,code=[sm_90,compute_90]'
//        -o libfinding_truth.so finding_truth.cu

#include <cstdint>

namespace {

constexpr int KEPT = 64, TILE = 32, TILE_BYTES = 100 << 10;

__device__ int thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ uint32_t load(const uint32_t *address) {
    uint32_t value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__global__ void local_array(const uint32_t *in, uint32_t *out, int) {
    uint32_t kept[KEPT], sum = 0, at = in[thread_number()] % KEPT;
    for (int place = 0; place < KEPT; place++) kept[place] = in[thread_number()] * place;
#pragma unroll 1
    for (int step = 0; step < 4 * KEPT; step++) {
        sum += kept[at];
        at = (kept[at] + step) % KEPT;
    }
    out[thread_number()] = sum;
}

__global__ void double_constant(const float *in, float *out, int) {
    float value = in[thread_number()];
#pragma unroll 1
    for (int step = 0; step < 256; step++) value = value * 1.000001 + 0.5;
    out[thread_number()] = value;
}

__global__ void large_tile(const uint32_t *in, uint32_t *out, int rows) {
    extern __shared__ uint32_t tile[];
    tile[threadIdx.x] = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row++) tile[threadIdx.x] += load(in + row * gridDim.x * blockDim.x + thread_number());
    out[thread_number()] = tile[threadIdx.x];
}

__global__ void copy_words(const uint32_t *in, uint32_t *out, int) { out[thread_number()] = in[thread_number()]; }

__global__ void tile_columns(const uint32_t *in, uint32_t *out, int) {
    __shared__ volatile uint32_t tile[TILE][TILE];
    for (int row = 0; row < TILE; row++) tile[row][threadIdx.x] = in[thread_number()] + row;
    uint32_t sum = 0;
    for (int column = 0; column < TILE; column++) sum = sum * 3 + tile[threadIdx.x][column];
    out[thread_number()] = sum;
}

__global__ void table_again(const uint32_t *table, uint32_t *out, int words) {
    uint32_t sum = 0;
#pragma unroll 1
    for (int word = threadIdx.x % TILE; word < words; word += TILE) sum = sum * 3 + load(table + word);
    out[thread_number()] = sum;
}

__global__ void own_again(const uint32_t *in, uint32_t *out, int times) {
    uint32_t sum = 0;
#pragma unroll 1
    for (int time = 0; time < times; time++) sum = sum * 3 + load(in + thread_number());
    out[thread_number()] = sum;
}

template <typename Kernel, typename Word>
int start(Kernel kernel, const Word *in, Word *out, int count, int blocks, int threads, int shared_bytes = 0) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    kernel<<<blocks, threads, shared_bytes>>>(in, out, count);
    return cudaGetLastError();
}

} // namespace

extern "C" {
// Each starts one launch on the default stream, and gives CUDA's error.
int start_local_array(const uint32_t *in, uint32_t *out, int count, int blocks, int threads) {
    return start(local_array, in, out, count, blocks, threads);
}
int start_double_constant(const float *in, float *out, int count, int blocks, int threads) {
    return start(double_constant, in, out, count, blocks, threads);
}
int start_large_tile(const uint32_t *in, uint32_t *out, int count, int blocks, int threads) {
    return start(large_tile, in, out, count, blocks, threads, TILE_BYTES);
}
int start_copy_words(const uint32_t *in, uint32_t *out, int count, int blocks, int threads) {
    return start(copy_words, in, out, count, blocks, threads);
}
int start_tile_columns(const uint32_t *in, uint32_t *out, int count, int blocks, int threads) {
    return start(tile_columns, in, out, count, blocks, threads);
}
int start_table_again(const uint32_t *in, uint32_t *out, int count, int blocks, int threads) {
    return start(table_again, in, out, count, blocks, threads);
}
int start_own_again(const uint32_t *in, uint32_t *out, int count, int blocks, int threads) {
    return start(own_again, in, out, count, blocks, threads);
}
}

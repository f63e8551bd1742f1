// Pairs of one piece of work: inefficient in one known way, and with the advice of its finding taken.
//
// pairs PIECE bad|good [STEPS]: STEPS steps [12] of the piece and of a kernel that is the same in all programs. Prints one
// JSON line with a sum over the results.
// pairs --time: each piece, bad and good in turns, natively. Prints the median time of a step of both, nanoseconds.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o pairs pairs.cu pairs_code.cu

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <nvtx3/nvToolsExt.h>

// In pairs_code.cu: modules are loaded, and recorded, where they are used.
void launch_unrolled(const uint32_t *in, uint32_t *out);
void launch_rolled(const uint32_t *in, uint32_t *out);

namespace {

using Word = uint32_t;

constexpr int THREADS = 256, BLOCKS = 2112, LARGE = 1 << 24, KEPT = 48, TILE = 32, SIDE = 4096, BINS = 64;

void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "pairs: %s\n", cudaGetErrorString(error));
    std::exit(1);
}

__device__ int thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ Word load(const Word *address) {
    Word value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// The work of a step that no advice is about.
__global__ void rest(const Word *in, Word *out, int words) {
    for (int at = thread_number(); at < words; at += gridDim.x * blockDim.x) out[at] += in[at] * 3 + 1;
}

// Words of a thread, at places that only data tell: they lie in local memory.
__global__ void kept_by_index(const Word *in, Word *out) {
    Word kept[KEPT], sum = 0;
    const Word first = in[thread_number()];
#pragma unroll 1
    for (int place = 0; place < KEPT; place++) kept[place] = first * (place + 1);
#pragma unroll 1
    for (int round = 0; round < 8; round++)
#pragma unroll 1
        for (int place = 0; place < KEPT; place++) sum = sum * 3 + kept[place];
    out[thread_number()] = sum;
}

__global__ void kept_in_registers(const Word *in, Word *out) {
    Word kept[KEPT], sum = 0;
    const Word first = in[thread_number()];
#pragma unroll
    for (int place = 0; place < KEPT; place++) kept[place] = first * (place + 1);
#pragma unroll 1
    for (int round = 0; round < 8; round++)
#pragma unroll
        for (int place = 0; place < KEPT; place++) sum = sum * 3 + kept[place];
    out[thread_number()] = sum;
}

__global__ void constants(const Word *in, Word *out) {
    float value = in[thread_number()];
#pragma unroll 1
    for (int round = 0; round < 256; round++) value = value * 0.999 + 0.5;
    out[thread_number()] = Word(value);
}

__global__ void short_constants(const Word *in, Word *out) {
    float value = in[thread_number()];
#pragma unroll 1
    for (int round = 0; round < 256; round++) value = value * 0.999f + 0.5f;
    out[thread_number()] = Word(value);
}

// Each word is waited for. Shared memory that nothing needs decides how many blocks fit.
__global__ void waiting_rows(const Word *in, Word *out, int rows) {
    extern __shared__ Word tile[];
    Word sum = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row++) {
        tile[threadIdx.x] = load(in + size_t(row) * gridDim.x * blockDim.x + thread_number());
        sum = sum * 3 + tile[threadIdx.x];
    }
    out[thread_number()] = sum;
}

__global__ void copy_words(const Word *in, Word *out) { out[thread_number()] = in[thread_number()]; }

template <int PADDING>
__global__ void transpose(const Word *in, Word *out) {
    __shared__ Word tile[TILE][TILE + PADDING];
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    for (int at = 0; at < TILE; at += 8) tile[threadIdx.y + at][threadIdx.x] = in[size_t(row + at) * SIDE + column];
    __syncthreads();
    column = blockIdx.y * TILE + threadIdx.x, row = blockIdx.x * TILE + threadIdx.y;
    for (int at = 0; at < TILE; at += 8) out[size_t(row + at) * SIDE + column] = tile[threadIdx.x][threadIdx.y + at];
}

// Every warp of a block reads the same table.
__global__ void table_by_warp(const Word *table, Word *out, int words) {
    Word sum = 0;
#pragma unroll 1
    for (int word = threadIdx.x % TILE; word < words; word += TILE) sum = sum * 3 + load(table + word);
    out[thread_number()] = sum;
}

__global__ void table_by_block(const Word *table, Word *out, int words) {
    extern __shared__ Word tile[];
    for (int word = threadIdx.x; word < words; word += blockDim.x) tile[word] = table[word];
    __syncthreads();
    Word sum = 0;
#pragma unroll 1
    for (int word = threadIdx.x % TILE; word < words; word += TILE) sum = sum * 3 + tile[word];
    out[thread_number()] = sum;
}

__global__ void own_again(const Word *in, Word *out, int times) {
    Word sum = 0;
#pragma unroll 1
    for (int time = 0; time < times; time++) sum = sum * 3 + load(in + thread_number());
    out[thread_number()] = sum;
}

__global__ void own_once(const Word *in, Word *out, int times) {
    const Word own = in[thread_number()];
    Word sum = 0;
#pragma unroll 1
    for (int time = 0; time < times; time++) sum = sum * 3 + own;
    out[thread_number()] = sum;
}

// A field of records of `stride` words.
__global__ void field(const Word *in, Word *out, int stride) {
    out[thread_number()] = in[size_t(thread_number()) * stride] * 3;
}

__global__ void histogram(const Word *in, Word *bins, int words) {
    for (int at = thread_number(); at < words; at += gridDim.x * blockDim.x) atomicAdd(bins + in[at] % BINS, 1u);
}

__global__ void histogram_by_block(const Word *in, Word *bins, int words) {
    __shared__ Word own[BINS];
    if (threadIdx.x < BINS) own[threadIdx.x] = 0;
    __syncthreads();
    for (int at = thread_number(); at < words; at += gridDim.x * blockDim.x) atomicAdd(own + in[at] % BINS, 1u);
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(bins + threadIdx.x, own[threadIdx.x]);
}

__global__ void gather(const Word *in, const Word *index, Word *out) {
    out[thread_number()] = in[index[thread_number()]];
}

// A long chain of arithmetic for each unit.
__device__ Word unit_of_work(Word value, int rounds) {
#pragma unroll 1
    for (int round = 0; round < rounds; round++) value = value * 1664525u + 1013904223u;
    return value;
}

// Units are dealt to blocks in turn. Shared memory decides how many blocks fit.
__global__ void units(const Word *in, Word *out, int count, int rounds) {
    for (int unit = blockIdx.x; unit < count; unit += gridDim.x) {
        const int at = unit * blockDim.x + threadIdx.x;
        out[at] = unit_of_work(in[at], rounds);
    }
}

// Units smaller by a factor of 8, so that blocks can share evenly.
__global__ void small_units(const Word *in, Word *out, int count, int rounds) {
    const int first = int(int64_t(count) * blockIdx.x / gridDim.x), last = int(int64_t(count) * (blockIdx.x + 1) / gridDim.x);
    for (int unit = first; unit < last; unit++) {
        const int at = unit * blockDim.x + threadIdx.x;
        out[at] = unit_of_work(in[at], rounds);
    }
}

// In each round one warp works longer, and all wait for it.
__global__ void unequal_warps(const Word *in, Word *out, int rounds) {
    __shared__ Word sums[8];
    Word value = in[thread_number()];
    for (int round = 0; round < rounds; round++) {
        value = unit_of_work(value, threadIdx.x / 32 == round % 8 ? 8 * 16 : 0);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
        __syncthreads();
        value += sums[(threadIdx.x / 32 + 1) % 8];
        __syncthreads();
    }
    out[thread_number()] = value;
}

__global__ void equal_warps(const Word *in, Word *out, int rounds) {
    __shared__ Word sums[8];
    Word value = in[thread_number()];
    for (int round = 0; round < rounds; round++) {
        value = unit_of_work(value, 16);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
        __syncthreads();
        value += sums[(threadIdx.x / 32 + 1) % 8];
        __syncthreads();
    }
    out[thread_number()] = value;
}

// Sums of the rows of a matrix: a thread goes along its row, or lanes share a row.
__global__ void sum_own_row(const Word *in, Word *out, int columns) {
    Word sum = 0;
#pragma unroll 4
    for (int column = 0; column < columns; column++) sum += in[size_t(thread_number()) * columns + column];
    out[thread_number()] = sum;
}

__global__ void sum_rows_by_warp(const Word *in, Word *out, int columns) {
    for (int row = thread_number() / 32 * 32, last = row + 32; row < last; row++) {
        Word sum = 0;
        for (int column = threadIdx.x % 32; column < columns; column += 32) sum += in[size_t(row) * columns + column];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (threadIdx.x % 32 == 0) out[row] = sum;
    }
}

// One counter for all threads.
__global__ void count_by_thread(const Word *in, Word *count, int words) {
    for (int at = thread_number(); at < words; at += gridDim.x * blockDim.x)
        if (in[at] % 3 == 0) atomicAdd(count + in[at] % 7, 1u);
}

__global__ void count_by_block(const Word *in, Word *count, int words) {
    __shared__ Word own[7];
    if (threadIdx.x < 7) own[threadIdx.x] = 0;
    __syncthreads();
    for (int at = thread_number(); at < words; at += gridDim.x * blockDim.x)
        if (in[at] % 3 == 0) atomicAdd(own + in[at] % 7, 1u);
    __syncthreads();
    if (threadIdx.x < 7) atomicAdd(count + threadIdx.x, own[threadIdx.x]);
}

// Partial sums by blocks: lanes of a warp with strides of 32 words meet in one bank.
template <int STRIDE>
__global__ void sum_in_shared(const Word *in, Word *out) {
    __shared__ Word sums[32 * 33];
    const int own = threadIdx.x % 32 * STRIDE + threadIdx.x / 32;
    Word sum = 0;
    for (int round = 0; round < 64; round++) {
        sums[own] = in[thread_number()] + round;
        __syncthreads();
        sum = sum * 3 + sums[(threadIdx.x + 5) % 32 * STRIDE + threadIdx.x / 32];
        __syncthreads();
    }
    out[thread_number()] = sum;
}

// A stencil whose neighbours are loaded for each of its points.
__global__ void stencil(const Word *in, Word *out) {
    Word sum = 0;
#pragma unroll 1
    for (int point = 0; point < 9; point++) sum = sum * 3 + __ldcg(in + thread_number() + point);
    out[thread_number()] = sum;
}

__global__ void stencil_by_tile(const Word *in, Word *out) {
    __shared__ Word tile[THREADS + 8];
    tile[threadIdx.x] = in[thread_number()];
    if (threadIdx.x < 8) tile[THREADS + threadIdx.x] = in[thread_number() + THREADS];
    __syncthreads();
    Word sum = 0;
#pragma unroll
    for (int point = 0; point < 9; point++) sum = sum * 3 + tile[threadIdx.x + point];
    out[thread_number()] = sum;
}

// Too few registers for what a thread keeps: the rest is spilled.
__device__ Word kept_values(const Word *in) {
    Word kept[64], sum = 0;
#pragma unroll
    for (int place = 0; place < 64; place++) kept[place] = in[thread_number() + place * 64] * (place + 3);
#pragma unroll 1
    for (int round = 0; round < 16; round++)
#pragma unroll
        for (int place = 0; place < 64; place++) kept[place] = kept[place] * 5 + kept[(place + 7) % 64];
#pragma unroll
    for (int place = 0; place < 64; place++) sum += kept[place];
    return sum;
}

__global__ void __launch_bounds__(THREADS, 8) few_registers(const Word *in, Word *out) { out[thread_number()] = kept_values(in); }

__global__ void __launch_bounds__(THREADS, 2) enough_registers(const Word *in, Word *out) {
    out[thread_number()] = kept_values(in);
}

// Four words at once.
__device__ uint4 mapped(uint4 words, Word factor, Word addend) {
    return {words.x * factor + addend, words.y * factor + addend, words.z * factor + addend, words.w * factor + addend};
}

__global__ void scale(const uint4 *in, uint4 *out) { out[thread_number()] = mapped(in[thread_number()], 3, 0); }

__global__ void shift(const uint4 *in, uint4 *out) { out[thread_number()] = mapped(in[thread_number()], 1, 7); }

__global__ void scale_and_shift(const uint4 *in, uint4 *out) { out[thread_number()] = mapped(in[thread_number()], 3, 7); }

// A short kernel of many, and one that does the work of eight.
template <int NUMBER>
__global__ void short_part(const Word *in, Word *out) {
    out[thread_number()] = in[thread_number()] * (2 * NUMBER + 1) + NUMBER;
}

__global__ void short_parts(const Word *in, Word *out) {
    Word value = in[thread_number()];
    for (int number = 0; number < 8; number++) value = value * (2 * number + 1) + number;
    out[thread_number()] = value;
}

__global__ void tiny(const Word *in, Word *out) { out[thread_number()] = in[thread_number()] + 1; }

// Memory of all pieces.
struct Buffers {
    Word *in = nullptr, *out = nullptr, *shuffled = nullptr, *sorted = nullptr, *other = nullptr, *sums = nullptr;
    Word *pageable = nullptr, *pinned[2] = {};
    cudaStream_t side = nullptr;
    cudaEvent_t copied = nullptr, used = nullptr;
    cudaGraphExec_t graph = nullptr;
    std::vector<Word> source;

    Buffers() {
        check(cudaMalloc(&in, sizeof(Word) * LARGE));
        check(cudaMalloc(&out, sizeof(Word) * LARGE));
        check(cudaMalloc(&other, sizeof(Word) * LARGE));
        check(cudaMalloc(&sums, sizeof(Word) * LARGE / 4));
        check(cudaMemset(sums, 0, sizeof(Word) * LARGE / 4));
        std::vector<Word> words(LARGE);
        for (int at = 0; at < LARGE; at++) words[at] = at * 2654435761u >> 7;
        check(cudaMemcpy(in, words.data(), sizeof(Word) * LARGE, cudaMemcpyHostToDevice));
        check(cudaMemset(out, 0, sizeof(Word) * LARGE));
        check(cudaMemset(other, 0, sizeof(Word) * LARGE));
    }

    static uint4 *four(Word *words) { return reinterpret_cast<uint4 *>(words); }

    void with_indices() {
        const int count = LARGE / 4;
        std::vector<Word> index(count);
        std::iota(index.begin(), index.end(), 0u);
        check(cudaMalloc(&sorted, sizeof(Word) * count));
        check(cudaMemcpy(sorted, index.data(), sizeof(Word) * count, cudaMemcpyHostToDevice));
        std::shuffle(index.begin(), index.end(), std::mt19937(1));
        check(cudaMalloc(&shuffled, sizeof(Word) * count));
        check(cudaMemcpy(shuffled, index.data(), sizeof(Word) * count, cudaMemcpyHostToDevice));
    }

    void with_host_memory() {
        source.assign(INPUT, 1u);
        pageable = static_cast<Word *>(std::malloc(sizeof(Word) * INPUT));
        for (auto &buffer : pinned) check(cudaMallocHost(&buffer, sizeof(Word) * INPUT));
        check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
        check(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
        check(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
    }

    static constexpr int INPUT = 1 << 20;
};

// The loader's work on the CPU.
void make_input(Buffers &b, Word *to, int step) {
    for (int at = 0; at < Buffers::INPUT; at++) to[at] = b.source[at] * Word(step + 1) + Word(at);
}

// What a framework does on the CPU for each launch.
void call_framework() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(8);
    while (std::chrono::steady_clock::now() < end) {}
}

void launch_tiny(Buffers &b, cudaStream_t stream, bool waits, bool has_framework = false) {
    for (int at = 0; at < 40; at++) {
        if (has_framework) call_framework();
        tiny<<<BLOCKS / 8, THREADS, 0, stream>>>(at % 2 ? b.other : b.in, at % 2 ? b.out : b.other);
        if (waits) check(cudaStreamSynchronize(stream));
    }
}

void launch_graph(Buffers &b) {
    if (!b.graph) {
        cudaStream_t stream;
        cudaGraph_t graph;
        check(cudaStreamCreate(&stream));
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        launch_tiny(b, stream, false);
        check(cudaStreamEndCapture(stream, &graph));
        check(cudaGraphInstantiate(&b.graph, graph, 0));
    }
    check(cudaGraphLaunch(b.graph, nullptr));
}

// One step of a piece. `step` counts from 0.
struct Piece {
    const char *finding;
    std::function<void(Buffers &, int)> bad, good;
    int rest_words = LARGE / 4;
};

constexpr int LARGE_TILE = 100 << 10, HALF_TILE = 100 << 10;

const std::map<std::string, Piece> &pieces() {
    static const std::map<std::string, Piece> all = {
        {"local_memory", {"local_memory",
            [](Buffers &b, int) { kept_by_index<<<BLOCKS, THREADS>>>(b.in, b.out); },
            [](Buffers &b, int) { kept_in_registers<<<BLOCKS, THREADS>>>(b.in, b.out); }}},
        {"float64", {"float64",
            [](Buffers &b, int) { constants<<<BLOCKS, THREADS>>>(b.in, b.out); },
            [](Buffers &b, int) { short_constants<<<BLOCKS, THREADS>>>(b.in, b.out); }}},
        {"low_occupancy", {"low_occupancy",
            [](Buffers &b, int) { waiting_rows<<<BLOCKS, 64, LARGE_TILE>>>(b.in, b.out, 64); },
            [](Buffers &b, int) { waiting_rows<<<BLOCKS, 64, 256>>>(b.in, b.out, 64); }}},
        {"misaligned_access", {"misaligned_access",
            [](Buffers &b, int) { copy_words<<<LARGE / 2 / THREADS, THREADS>>>(b.in + 1, b.out); },
            [](Buffers &b, int) { copy_words<<<LARGE / 2 / THREADS, THREADS>>>(b.in + 8, b.out); }}},
        {"bank_conflict", {"bank_conflict",
            [](Buffers &b, int) { transpose<0><<<dim3(SIDE / TILE, SIDE / TILE), dim3(TILE, 8)>>>(b.in, b.out); },
            [](Buffers &b, int) { transpose<1><<<dim3(SIDE / TILE, SIDE / TILE), dim3(TILE, 8)>>>(b.in, b.out); }}},
        {"redundant_in_block", {"redundant_load",
            [](Buffers &b, int) { table_by_warp<<<BLOCKS, THREADS>>>(b.in, b.out, 4096); },
            [](Buffers &b, int) { table_by_block<<<BLOCKS, THREADS, 4096 * 4>>>(b.in, b.out, 4096); }}},
        {"redundant_in_thread", {"redundant_load",
            [](Buffers &b, int) { own_again<<<BLOCKS, THREADS>>>(b.in, b.out, 64); },
            [](Buffers &b, int) { own_once<<<BLOCKS, THREADS>>>(b.in, b.out, 64); }}},
        {"uncoalesced_access", {"uncoalesced_access",
            [](Buffers &b, int) { field<<<LARGE / 8 / THREADS, THREADS>>>(b.in, b.out, 8); },
            [](Buffers &b, int) { field<<<LARGE / 8 / THREADS, THREADS>>>(b.in, b.out, 1); }}},
        {"atomic_wait", {"atomic_wait",
            [](Buffers &b, int) { histogram<<<BLOCKS, THREADS>>>(b.in, b.out, LARGE / 8); },
            [](Buffers &b, int) { histogram_by_block<<<BLOCKS, THREADS>>>(b.in, b.out, LARGE / 8); }}},
        {"scattered_access", {"scattered_access",
            [](Buffers &b, int) { gather<<<LARGE / 4 / THREADS, THREADS>>>(b.in, b.shuffled, b.out); },
            [](Buffers &b, int) { gather<<<LARGE / 4 / THREADS, THREADS>>>(b.in, b.sorted, b.out); }}},
        {"too_few_blocks", {"too_few_blocks",
            [](Buffers &b, int) { units<<<33, THREADS>>>(b.in, b.out, 1056, 64); },
            [](Buffers &b, int) { units<<<1056, THREADS>>>(b.in, b.out, 1056, 64); }}},
        {"tail_wave", {"tail_wave",
            [](Buffers &b, int) { units<<<300, THREADS, HALF_TILE>>>(b.in, b.out, 300, 16384); },
            [](Buffers &b, int) { small_units<<<264, THREADS, HALF_TILE>>>(b.in, b.out, 2400, 2048); }}},
        {"barrier_wait", {"barrier_wait",
            [](Buffers &b, int) { unequal_warps<<<1056, THREADS>>>(b.in, b.out, 64); },
            [](Buffers &b, int) { equal_warps<<<1056, THREADS>>>(b.in, b.out, 64); }}},
        {"instruction_fetch", {"instruction_fetch",
            [](Buffers &b, int) { launch_unrolled(b.in, b.out); },
            [](Buffers &b, int) { launch_rolled(b.in, b.out); }}},
        {"busy_memory", {"busy_memory",
            [](Buffers &b, int) {
                scale<<<LARGE / 4 / THREADS, THREADS>>>(b.four(b.in), b.four(b.other));
                shift<<<LARGE / 4 / THREADS, THREADS>>>(b.four(b.other), b.four(b.out));
            },
            [](Buffers &b, int) { scale_and_shift<<<LARGE / 4 / THREADS, THREADS>>>(b.four(b.in), b.four(b.out)); }}},
        {"small_kernels", {"small_kernels",
            [](Buffers &b, int) {
                short_part<0><<<64, THREADS>>>(b.in, b.other);
                short_part<1><<<64, THREADS>>>(b.other, b.out);
                short_part<2><<<64, THREADS>>>(b.out, b.other);
                short_part<3><<<64, THREADS>>>(b.other, b.out);
                short_part<4><<<64, THREADS>>>(b.out, b.other);
                short_part<5><<<64, THREADS>>>(b.other, b.out);
                short_part<6><<<64, THREADS>>>(b.out, b.other);
                short_part<7><<<64, THREADS>>>(b.other, b.out);
            },
            [](Buffers &b, int) { short_parts<<<64, THREADS>>>(b.in, b.out); }, LARGE / 64}},
        {"row_per_thread", {"uncoalesced_access",
            [](Buffers &b, int) { sum_own_row<<<264, THREADS>>>(b.in, b.out, 128); },
            [](Buffers &b, int) { sum_rows_by_warp<<<264, THREADS>>>(b.in, b.out, 128); }}},
        {"records_of_three", {"uncoalesced_access",
            [](Buffers &b, int) { field<<<LARGE / 4 / THREADS, THREADS>>>(b.in, b.out, 3); },
            [](Buffers &b, int) { field<<<LARGE / 4 / THREADS, THREADS>>>(b.in, b.out, 1); }}},
        {"one_counter", {"atomic_wait",
            [](Buffers &b, int) { count_by_thread<<<BLOCKS, THREADS>>>(b.in, b.out, LARGE / 4); },
            [](Buffers &b, int) { count_by_block<<<BLOCKS, THREADS>>>(b.in, b.out, LARGE / 4); }}},
        {"strided_sums", {"bank_conflict",
            [](Buffers &b, int) { sum_in_shared<32><<<BLOCKS, 1024>>>(b.in, b.out); },
            [](Buffers &b, int) { sum_in_shared<33><<<BLOCKS, 1024>>>(b.in, b.out); }}},
        {"stencil", {"redundant_load",
            [](Buffers &b, int) { stencil<<<LARGE / 2 / THREADS, THREADS>>>(b.in, b.out); },
            [](Buffers &b, int) { stencil_by_tile<<<LARGE / 2 / THREADS, THREADS>>>(b.in, b.out); }}},
        {"spills", {"local_memory",
            [](Buffers &b, int) { few_registers<<<BLOCKS, THREADS>>>(b.in, b.out); },
            [](Buffers &b, int) { enough_registers<<<BLOCKS, THREADS>>>(b.in, b.out); }}},
        {"small_blocks", {"low_occupancy",
            [](Buffers &b, int) { waiting_rows<<<BLOCKS * 2, 32, 128>>>(b.in, b.out, 64); },
            [](Buffers &b, int) { waiting_rows<<<BLOCKS / 4, 256, 1024>>>(b.in, b.out, 64); }}},
        {"half_of_the_gpu", {"too_few_blocks",
            [](Buffers &b, int) { rest<<<66, 1024>>>(b.in, b.other, LARGE / 2); },
            [](Buffers &b, int) { rest<<<264, 1024>>>(b.in, b.other, LARGE / 2); }}},
        {"host_waits", {"cpu_bound",
            [](Buffers &b, int) { launch_tiny(b, nullptr, true); },
            [](Buffers &b, int) { launch_tiny(b, nullptr, false); }, LARGE / 64}},
        {"launches", {"cpu_bound",
            [](Buffers &b, int) { launch_tiny(b, nullptr, false, true); },
            [](Buffers &b, int) { launch_graph(b); }, LARGE / 64}},
        {"input", {"cpu_bound",
            [](Buffers &b, int step) {
                make_input(b, b.pageable, step);
                check(cudaMemcpyAsync(b.in, b.pageable, sizeof(Word) * Buffers::INPUT, cudaMemcpyHostToDevice));
                units<<<1056, THREADS>>>(b.in, b.out, 4096, 4096);
                check(cudaStreamSynchronize(nullptr));
            },
            [](Buffers &b, int step) {
                // The next step's input is made while this step runs.
                if (step == 0) make_input(b, b.pinned[0], 0);
                check(cudaMemcpyAsync(b.in, b.pinned[step % 2], sizeof(Word) * Buffers::INPUT, cudaMemcpyHostToDevice));
                units<<<1056, THREADS>>>(b.in, b.out, 4096, 4096);
                make_input(b, b.pinned[(step + 1) % 2], step + 1);
                check(cudaStreamSynchronize(nullptr));
            }, LARGE / 64}},
    };
    return all;
}

void run_step(Buffers &b, const Piece &piece, bool is_good, int step) {
    nvtxRangePushA("step");
    (is_good ? piece.good : piece.bad)(b, step);
    rest<<<BLOCKS / 4, THREADS>>>(b.out, b.sums, piece.rest_words);
    nvtxRangePop();
}

void allow_shared_memory() {
    for (auto kernel : {reinterpret_cast<const void *>(waiting_rows), reinterpret_cast<const void *>(units),
                        reinterpret_cast<const void *>(small_units)})
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGE_TILE));
}

// Nanoseconds of a step, of some that follow each other.
double time_steps(Buffers &b, const Piece &piece, bool is_good, int steps) {
    check(cudaDeviceSynchronize());
    const auto begin = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; step++) run_step(b, piece, is_good, step);
    check(cudaDeviceSynchronize());
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / steps;
}

double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int time_all(Buffers &b) {
    b.with_indices();
    b.with_host_memory();
    for (const auto &[name, piece] : pieces()) {
        std::vector<double> bad, good;
        for (int turn = 0; turn < 9; turn++) {
            bad.push_back(time_steps(b, piece, false, 20));
            good.push_back(time_steps(b, piece, true, 20));
        }
        // The first turn warms up.
        bad.erase(bad.begin()), good.erase(good.begin());
        std::printf("{\"pair\": \"%s\", \"finding\": \"%s\", \"bad_ns\": %.0f, \"good_ns\": %.0f}\n", name.c_str(),
                    piece.finding, median(bad), median(good));
        std::fflush(stdout);
    }
    return 0;
}

} // namespace

int main(int count, char **arguments) {
    Buffers b;
    allow_shared_memory();
    if (count == 2 && !std::strcmp(arguments[1], "--time")) return time_all(b);
    const auto found = count > 2 ? pieces().find(arguments[1]) : pieces().end();
    if (found == pieces().end()) {
        std::fprintf(stderr, "usage: pairs PIECE bad|good [STEPS], or pairs --time\n");
        return 2;
    }
    const std::string name = found->first;
    if (name == "scattered_access") b.with_indices();
    if (name == "input") b.with_host_memory();
    const bool is_good = !std::strcmp(arguments[2], "good");
    const int steps = count > 3 ? std::atoi(arguments[3]) : 12;
    for (int step = 0; step < steps; step++) run_step(b, found->second, is_good, step);
    check(cudaDeviceSynchronize());
    std::vector<Word> words(1 << 16);
    check(cudaMemcpy(words.data(), b.out, sizeof(Word) * words.size(), cudaMemcpyDeviceToHost));
    std::printf("{\"pair\": \"%s\", \"version\": \"%s\", \"sum\": %u}\n", name.c_str(), arguments[2],
                std::accumulate(words.begin(), words.end(), Word(0)));
}

// Kernels in which the rate of memory decides, not the load that a warp waits for: experiments show what each buffer costs.
//
// No address depends on a buffer's content, so each buffer can be left out. Outputs exceed the L2 of an H100.
//
//   widen   24 MiB of bytes become 96 MiB of floats, with a scale for 256 bytes: device memory, mostly by stores
//   blend   two arrays of 48 MiB give a third: device memory, in equal parts
//   fill    a table of 1 KiB gives 80 MiB: stores alone, while warps wait for the table
//   weave   three arrays of 8 MiB become one of 24 MiB, whose stores write parts of sectors: requests to L2
//   again   a table of 8 MiB is read 16 times, past L1, and an array of 16 MiB once: L2
//   meet    2^19 values are added to 256 places: atomics that meet
//   bins    2^18 values are added to 1,024 places in random order: atomics at the slices of L2 that hold these
//   rows    each lane reads the bytes of its own row, so a request has 32 lines: L1
//   alone   few warps read rows of 256 MiB, and a table of 4 KiB: nothing is busy, so waits decide
//
// Prints one JSON object a kernel: exact counts of accesses by lanes, and the buffer that experiments name first.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o traffic_truth traffic_truth.cu

#include "truth.h"

constexpr size_t MIB = 1 << 20;
constexpr uint32_t BLOCK = 256;
constexpr uint32_t TABLE_READS = 8;
constexpr uint32_t STEPS = 64;
constexpr uint32_t BINS = 1024;
constexpr uint32_t ROW_BYTES = 128;
constexpr uint32_t FEW_WARPS = 128;

__global__ void widen(const uchar4 *bytes, const float *scale, float4 *out) {
    size_t at = blockIdx.x * (size_t)BLOCK + threadIdx.x;
    uchar4 value = bytes[at];
    float factor = scale[at / 64];
    out[at] = {value.x * factor, value.y * factor, value.z * factor, value.w * factor};
}

__global__ void blend(const float4 *a, const float4 *b, float4 *out) {
    size_t at = blockIdx.x * (size_t)BLOCK + threadIdx.x;
    float4 x = a[at], y = b[at];
    out[at] = {x.x + 2 * y.x, x.y + 2 * y.y, x.z + 2 * y.z, x.w + 2 * y.w};
}

__global__ void fill(const float *table, float4 *out) {
    size_t at = blockIdx.x * (size_t)BLOCK + threadIdx.x;
    float value = table[threadIdx.x];
    out[at] = {value, value, value, value};
}

__global__ void weave(const float *x, const float *y, const float *z, float *out) {
    size_t at = blockIdx.x * (size_t)BLOCK + threadIdx.x;
    out[3 * at] = x[at];
    out[3 * at + 1] = y[at];
    out[3 * at + 2] = z[at];
}

__global__ void again(const float4 *table, const float4 *once, float *out, uint32_t mask) {
    uint32_t at = blockIdx.x * BLOCK + threadIdx.x;
    float sum = once[at].x;
    for (uint32_t read = 0; read < TABLE_READS; read++) sum += __ldcg(&table[(at + read * 33 * BLOCK) & mask]).x;
    out[at] = sum;
}

__global__ void meet(const float *values, float *places) {
    uint32_t at = blockIdx.x * BLOCK + threadIdx.x;
    atomicAdd(&places[at % BLOCK], values[at]);
}

__global__ void bins(const float *values, float *places) {
    uint32_t at = blockIdx.x * BLOCK + threadIdx.x;
    atomicAdd(&places[scatter(at) % BINS], values[at]);
}

__global__ void rows(const uint8_t *bytes, const float *weights, float *out) {
    uint32_t row = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (uint32_t at = 0; at < ROW_BYTES; at++) sum += bytes[row * (size_t)ROW_BYTES + at] * weights[at];
    out[row] = sum;
}

__global__ void alone(const float *far, const float *table, float *out, uint32_t rows) {
    float sum = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t row = scatter(blockIdx.x * STEPS + step) & (rows - 1);
        sum += far[row * (size_t)32 + threadIdx.x] * table[(step & 31) * 32 + threadIdx.x];
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}

// Device memory of one byte everywhere.
template <class T> static T *filled(size_t bytes, int byte) {
    void *data = nullptr;
    CHECK(cudaMalloc(&data, bytes));
    CHECK(cudaMemset(data, byte, bytes));
    return static_cast<T *>(data);
}

// The last element that a kernel wrote.
template <class T> static float last(const T *data, size_t bytes) {
    float value;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&value, (const char *)data + bytes - sizeof value, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void report(const char *kernel, size_t reads, size_t writes, size_t atomics, const char *first, bool is_right) {
    if (!is_right) {
        fprintf(stderr, "%s: wrong result\n", kernel);
        exit(1);
    }
    printf("{\"kernel\": \"%s\", \"reads\": %zu, \"writes\": %zu, \"atomics\": %zu, \"first\": \"%s\"}\n", kernel, reads, writes,
           atomics, first);
}

int main() {
    float small; // a float whose bytes are all 1
    memset(&small, 1, sizeof small);
    {
        size_t threads = 6 * MIB;
        auto *bytes = filled<uchar4>(4 * threads, 3);
        auto *scale = filled<float>(threads / 64 * 4, 1);
        auto *out = filled<float4>(16 * threads, 0);
        widen<<<threads / BLOCK, BLOCK>>>(bytes, scale, out);
        report("widen", 2 * threads, threads, 0, "out", last(out, 16 * threads) == 3 * small);
    }
    {
        size_t threads = 3 * MIB;
        auto *a = filled<float4>(16 * threads, 1), *b = filled<float4>(16 * threads, 1), *out = filled<float4>(16 * threads, 0);
        blend<<<threads / BLOCK, BLOCK>>>(a, b, out);
        report("blend", 2 * threads, threads, 0, "any", last(out, 16 * threads) == small + 2 * small);
    }
    {
        size_t threads = 5 * MIB;
        auto *table = filled<float>(4 * BLOCK, 1);
        auto *out = filled<float4>(16 * threads, 0);
        fill<<<threads / BLOCK, BLOCK>>>(table, out);
        report("fill", threads, threads, 0, "out", last(out, 16 * threads) == small);
    }
    {
        size_t threads = 2 * MIB;
        auto *x = filled<float>(4 * threads, 1), *y = filled<float>(4 * threads, 1), *z = filled<float>(4 * threads, 1);
        auto *out = filled<float>(12 * threads, 0);
        weave<<<threads / BLOCK, BLOCK>>>(x, y, z, out);
        report("weave", 3 * threads, 3 * threads, 0, "out", last(out, 12 * threads) == small);
    }
    {
        size_t threads = MIB, entries = MIB / 2;
        auto *table = filled<float4>(16 * entries, 0), *once = filled<float4>(16 * threads, 1);
        auto *out = filled<float>(4 * threads, 0);
        again<<<threads / BLOCK, BLOCK>>>(table, once, out, entries - 1);
        report("again", (TABLE_READS + 1) * threads, threads, 0, "table", last(out, 4 * threads) == small);
    }
    {
        size_t threads = MIB / 2;
        auto *values = filled<float>(4 * threads, 0), *places = filled<float>(4 * BLOCK, 0);
        meet<<<threads / BLOCK, BLOCK>>>(values, places);
        report("meet", threads, 0, threads, "places", last(places, 4 * BLOCK) == 0);
    }
    {
        size_t threads = MIB / 4;
        auto *values = filled<float>(4 * threads, 0), *places = filled<float>(4 * BINS, 0);
        bins<<<threads / BLOCK, BLOCK>>>(values, places);
        report("bins", threads, 0, threads, "places", last(places, 4 * BINS) == 0);
    }
    {
        size_t count = 33 * 1024;
        auto *bytes = filled<uint8_t>(count * ROW_BYTES, 1);
        auto *weights = filled<float>(4 * ROW_BYTES, 1), *out = filled<float>(4 * count, 0);
        float sum = 0;
        for (uint32_t at = 0; at < ROW_BYTES; at++) sum += small;
        rows<<<count / 32, 32>>>(bytes, weights, out);
        report("rows", 2 * count * ROW_BYTES, count, 0, "bytes", last(out, 4 * count) == sum);
    }
    {
        size_t rows = 2 * MIB;
        auto *far = filled<float>(128 * rows, 0), *table = filled<float>(4096, 1);
        auto *out = filled<float>(FEW_WARPS * 128, 1);
        alone<<<FEW_WARPS, 32>>>(far, table, out, rows);
        report("alone", 2 * STEPS * FEW_WARPS * 32, FEW_WARPS * 32, 0, "far", last(out, FEW_WARPS * 128) == 0);
    }
}

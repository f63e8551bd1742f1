// Kernels whose accesses and stalls are known before they are recorded.
//
//   chase             nearly all memory stalls wait for A: each thread reads its start in B (unit stride), follows 32
//                     links in A, each known only when the one before has arrived, and writes where it ended to C
//   chase_loop        the same as a loop: the waiting instruction stands before the load that it waits for
//   gather            32 independent reads of 4 bytes at random places of a table, one read and one write in order
//   copy_unit         reads and writes in order: 4 sectors per request
//   copy_strided      reads one element in 32, writes in order: 32 sectors per read request, 4 per write request
//   transpose_padded  a tile of shared memory with rows of 33 words: 1 wavefront a request
//   transpose_naive   the same with rows of 32 words: 32 wavefronts for each read of a column
//   histogram         one atomic a thread on 64 bins
//
// Prints one JSON object a kernel: its grid, launches, exact counts of accesses by lanes, and buffers. With --time the
// kernels are timed (one warm-up, then the fastest of the launches) and their results are checked all the same.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o known_truth known_truth.cu

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t code = (call);                                                                       \
        if (code != cudaSuccess) {                                                                       \
            fprintf(stderr, "known_truth: %s: %s\n", #call, cudaGetErrorString(code));                   \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

constexpr uint32_t BLOCK = 256;
constexpr uint32_t STEPS = 32;
constexpr uint32_t BINS = 64;
constexpr uint32_t TILE = 32;

// A permutation of 2^bits numbers in one cycle (Hull and Dobell): multiplier 1 modulo 4, odd increment.
__host__ __device__ inline uint32_t link(uint32_t index, uint32_t mask) { return (index * 1664525u + 1013904223u) & mask; }

// Spreads consecutive numbers over all bits.
__host__ __device__ inline uint32_t scatter(uint32_t value) {
    value = (value ^ (value >> 16)) * 0x7feb352du;
    value = (value ^ (value >> 15)) * 0x846ca68bu;
    return value ^ (value >> 16);
}

extern "C" __global__ void chase(const uint32_t *A, const uint32_t *B, uint32_t *C) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t place = B[thread];
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++) place = A[place];
    C[thread] = place;
}

extern "C" __global__ void chase_loop(const uint32_t *A, const uint32_t *B, uint32_t *C) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t place = B[thread];
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) place = A[place];
    C[thread] = place;
}

extern "C" __global__ void gather(const uint32_t *table, const uint32_t *start, uint32_t *sum, uint32_t mask) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t seed = start[thread], total = 0;
#pragma unroll 8
    for (uint32_t step = 0; step < STEPS; step++) total += table[scatter(seed + step) & mask];
    sum[thread] = total;
}

extern "C" __global__ void copy_unit(const uint32_t *from, uint32_t *to) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    to[thread] = from[thread];
}

extern "C" __global__ void copy_strided(const uint32_t *from, uint32_t *to) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    to[thread] = from[(size_t)thread * 32];
}

template <uint32_t ROW> __device__ void transpose(const uint32_t *from, uint32_t *to, uint32_t side) {
    __shared__ uint32_t tile[TILE * ROW];
    uint32_t x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    tile[threadIdx.y * ROW + threadIdx.x] = from[y * side + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    to[y * side + x] = tile[threadIdx.x * ROW + threadIdx.y];
}

extern "C" __global__ void transpose_padded(const uint32_t *from, uint32_t *to, uint32_t side) {
    transpose<TILE + 1>(from, to, side);
}

extern "C" __global__ void transpose_naive(const uint32_t *from, uint32_t *to, uint32_t side) {
    transpose<TILE>(from, to, side);
}

extern "C" __global__ void histogram(const uint32_t *values, uint32_t *bins) {
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&bins[values[thread] % BINS], 1u);
}

struct Options {
    uint32_t threads = 1u << 13;
    uint32_t table_bits = 26;
    uint32_t gather_bits = 20;
    uint32_t side = 128;
    uint32_t launches = 1;
    bool time = false;
    std::string only;
};

// A device buffer with a name, filled from the host: no extra kernel runs.
struct Buffer {
    std::string name;
    uint32_t *data = nullptr;
    size_t bytes = 0;
    Buffer(std::string name, const std::vector<uint32_t> &values) : name(name), bytes(values.size() * 4) {
        CHECK(cudaMalloc(&data, bytes));
        CHECK(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice));
    }
    std::vector<uint32_t> read() const {
        std::vector<uint32_t> values(bytes / 4);
        CHECK(cudaMemcpy(values.data(), data, bytes, cudaMemcpyDeviceToHost));
        return values;
    }
};

struct Kernel {
    const char *name;
    dim3 grid, block;
    uint64_t reads, writes, atomics, shared_reads, shared_writes; // by lanes, of one launch
    std::vector<const Buffer *> buffers;
    std::function<void()> launch;
    std::function<bool(uint32_t launches)> is_right;
};

static double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Launches once, and waits. Gives the GPU's own time and the time that passed for the host.
static void timed(const Kernel &kernel, double *event_ms, double *wall_ms) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    double before = now_ms();
    CHECK(cudaEventRecord(begin));
    kernel.launch();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    *wall_ms = now_ms() - before;
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    *event_ms = milliseconds;
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
}

static bool run(const Kernel &kernel, const Options &options) {
    uint32_t launches = options.launches + (options.time ? 1 : 0);
    double best_event = 1e30, best_wall = 1e30;
    for (uint32_t index = 0; index < launches; index++) {
        double event_ms, wall_ms;
        timed(kernel, &event_ms, &wall_ms);
        if (index > 0 || !options.time) {
            best_event = event_ms < best_event ? event_ms : best_event;
            best_wall = wall_ms < best_wall ? wall_ms : best_wall;
        }
    }
    CHECK(cudaGetLastError());
    bool right = kernel.is_right(launches);
    printf("{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"launches\": %u, ", kernel.name,
           kernel.grid.x, kernel.grid.y, kernel.grid.z, kernel.block.x, kernel.block.y, kernel.block.z, launches);
    printf("\"reads\": %llu, \"writes\": %llu, \"atomics\": %llu, \"shared_reads\": %llu, \"shared_writes\": %llu, ",
           (unsigned long long)kernel.reads, (unsigned long long)kernel.writes, (unsigned long long)kernel.atomics,
           (unsigned long long)kernel.shared_reads, (unsigned long long)kernel.shared_writes);
    printf("\"buffers\": {");
    const char *separator = "";
    for (const Buffer *buffer : kernel.buffers) {
        printf("%s\"%s\": {\"address\": %llu, \"bytes\": %zu}", separator, buffer->name.c_str(),
               (unsigned long long)(uintptr_t)buffer->data, buffer->bytes);
        separator = ", ";
    }
    printf("}, \"right\": %s", right ? "true" : "false");
    if (options.time) printf(", \"event_ms\": %.4f, \"wall_ms\": %.4f", best_event, best_wall);
    printf("}\n");
    return right;
}

static bool wanted(const Options &options, const char *name) {
    return options.only.empty() || ("," + options.only + ",").find("," + std::string(name) + ",") != std::string::npos;
}

static uint32_t number(const char *text, uint32_t low, uint32_t high) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < low || value > high) {
        fprintf(stderr, "known_truth: `%s` is no number from %u to %u\n", text, low, high);
        exit(2);
    }
    return (uint32_t)value;
}

static Options parse(int count, char **words) {
    Options options;
    for (int index = 1; index < count; index++) {
        std::string word = words[index];
        const char *value = index + 1 < count ? words[index + 1] : "";
        if (word == "--time") { options.time = true; continue; }
        if (word == "--threads") options.threads = number(value, BLOCK, 1u << 24) / BLOCK * BLOCK;
        else if (word == "--table-bits") options.table_bits = number(value, 10, 30);
        else if (word == "--gather-bits") options.gather_bits = number(value, 10, 30);
        else if (word == "--side") options.side = number(value, TILE, 1u << 14) / TILE * TILE;
        else if (word == "--launches") options.launches = number(value, 1, 1000000);
        else if (word == "--only") options.only = value;
        else {
            fprintf(stderr, "usage: known_truth [--threads N] [--table-bits N] [--gather-bits N] [--side N]\n"
                            "                   [--launches N] [--only KERNEL,...] [--time]\n");
            exit(2);
        }
        index++;
    }
    return options;
}

static std::vector<uint32_t> made(size_t count, std::function<uint32_t(uint32_t)> value) {
    std::vector<uint32_t> values(count);
    for (size_t index = 0; index < count; index++) values[index] = value((uint32_t)index);
    return values;
}

static bool equal(const Buffer &buffer, std::function<uint32_t(uint32_t)> value) {
    std::vector<uint32_t> values = buffer.read();
    for (size_t index = 0; index < values.size(); index++)
        if (values[index] != value((uint32_t)index)) return false;
    return true;
}

static bool run_chases(const Options &options) {
    if (!wanted(options, "chase") && !wanted(options, "chase_loop")) return true;
    uint64_t threads = options.threads;
    uint32_t mask = (1u << options.table_bits) - 1;
    Buffer A("A", made(size_t(mask) + 1, [=](uint32_t index) { return link(index, mask); }));
    Buffer B("B", made(threads, [=](uint32_t index) { return scatter(index) & mask; }));
    Buffer C("C", std::vector<uint32_t>(threads));
    dim3 grid(threads / BLOCK), block(BLOCK);
    auto end = [=](uint32_t index) {
        uint32_t place = scatter(index) & mask;
        for (uint32_t step = 0; step < STEPS; step++) place = link(place, mask);
        return place;
    };
    auto is_right = [&](uint32_t) { return equal(C, end); };
    bool right = true;
    if (wanted(options, "chase"))
        right &= run({"chase", grid, block, threads * (STEPS + 1), threads, 0, 0, 0, {&A, &B, &C},
                      [&] { chase<<<grid, block>>>(A.data, B.data, C.data); }, is_right},
                     options);
    if (wanted(options, "chase_loop"))
        right &= run({"chase_loop", grid, block, threads * (STEPS + 1), threads, 0, 0, 0, {&A, &B, &C},
                      [&] { chase_loop<<<grid, block>>>(A.data, B.data, C.data); }, is_right},
                     options);
    return right;
}

static bool run_gather(const Options &options) {
    if (!wanted(options, "gather")) return true;
    uint64_t threads = options.threads;
    uint32_t mask = (1u << options.gather_bits) - 1;
    Buffer table("table", made(size_t(mask) + 1, scatter));
    Buffer start("start", made(threads, [](uint32_t index) { return index * STEPS; }));
    Buffer sum("sum", std::vector<uint32_t>(threads));
    dim3 grid(threads / BLOCK), block(BLOCK);
    auto total = [=](uint32_t index) {
        uint32_t total = 0;
        for (uint32_t step = 0; step < STEPS; step++) total += scatter(scatter(index * STEPS + step) & mask);
        return total;
    };
    return run({"gather", grid, block, threads * (STEPS + 1), threads, 0, 0, 0, {&table, &start, &sum},
                [&] { gather<<<grid, block>>>(table.data, start.data, sum.data, mask); },
                [&](uint32_t) { return equal(sum, total); }},
               options);
}

static bool run_copies(const Options &options) {
    uint64_t threads = options.threads;
    Buffer from("from", made(threads * 32, scatter)), to("to", std::vector<uint32_t>(threads));
    dim3 grid(threads / BLOCK), block(BLOCK);
    bool right = true;
    if (wanted(options, "copy_unit"))
        right &= run({"copy_unit", grid, block, threads, threads, 0, 0, 0, {&from, &to},
                      [&] { copy_unit<<<grid, block>>>(from.data, to.data); },
                      [&](uint32_t) { return equal(to, scatter); }},
                     options);
    if (wanted(options, "copy_strided"))
        right &= run({"copy_strided", grid, block, threads, threads, 0, 0, 0, {&from, &to},
                      [&] { copy_strided<<<grid, block>>>(from.data, to.data); },
                      [&](uint32_t) { return equal(to, [](uint32_t index) { return scatter(index * 32); }); }},
                     options);
    return right;
}

static bool run_transposes(const Options &options) {
    uint32_t side = options.side;
    uint64_t cells = uint64_t(side) * side;
    Buffer from("from", made(cells, scatter)), to("to", std::vector<uint32_t>(cells));
    dim3 grid(side / TILE, side / TILE), block(TILE, TILE);
    auto is_right = [&](uint32_t) {
        return equal(to, [=](uint32_t index) { return scatter(index % side * side + index / side); });
    };
    bool right = true;
    if (wanted(options, "transpose_padded"))
        right &= run({"transpose_padded", grid, block, cells, cells, 0, cells, cells, {&from, &to},
                      [&] { transpose_padded<<<grid, block>>>(from.data, to.data, side); }, is_right},
                     options);
    if (wanted(options, "transpose_naive"))
        right &= run({"transpose_naive", grid, block, cells, cells, 0, cells, cells, {&from, &to},
                      [&] { transpose_naive<<<grid, block>>>(from.data, to.data, side); }, is_right},
                     options);
    return right;
}

static bool run_histogram(const Options &options) {
    if (!wanted(options, "histogram")) return true;
    uint64_t threads = options.threads;
    std::vector<uint32_t> numbers = made(threads, scatter);
    Buffer values("values", numbers), bins("bins", std::vector<uint32_t>(BINS));
    dim3 grid(threads / BLOCK), block(BLOCK);
    auto is_right = [&](uint32_t launches) {
        std::vector<uint32_t> expected(BINS);
        for (uint32_t value : numbers) expected[value % BINS] += launches;
        return bins.read() == expected;
    };
    return run({"histogram", grid, block, threads, 0, threads, 0, 0, {&values, &bins},
                [&] { histogram<<<grid, block>>>(values.data, bins.data); }, is_right},
               options);
}

int main(int count, char **words) {
    Options options = parse(count, words);
    bool right = run_chases(options);
    right &= run_gather(options);
    right &= run_copies(options);
    right &= run_transposes(options);
    right &= run_histogram(options);
    return right ? 0 : 1;
}

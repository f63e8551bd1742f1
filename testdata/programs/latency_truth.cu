// Kernels in which one instruction waits for several loads at once: the load that comes last decides, and this program
// measures which one that is. With --time each kernel also runs without the reads of one buffer: the time that is saved
// is what these reads cost.
//
// A and B have 2^23 rows of 128 bytes each: a row that nothing has touched yet comes from device memory. `near` has 4096
// rows, which the kernel warm_up brings into L2 before each kernel that reads them. `hot` has 4 rows: all but the first
// touch of a row come from L1. `small` has 32 rows, also from L1. `counters` has a row for each warp, for atomics, in L2.
// A block is a warp (4 warps in pipelined), and all elements of a row hold the same number, so a warp follows one path.
// No address depends on A or B.
//
//   pipelined      a row of A, loaded one step ahead, and one of `small`, loaded beside its use
//   two_levels     a row of A and one of `near`: device memory against L2
//   past_l1        a row of `near` and one of `hot`: L2 against L1
//   cached_past_l1 a row of `small` by a load that bypasses L1, and one of `hot`: L2 against L1, though both would fit
//   ahead_1 to 8   rows of A loaded so many steps ahead, `hot` beside their use, after arithmetic of some 200 cycles. The
//                  compiler gives all rows ahead one scoreboard, so the first wait of so many steps is for the newest row
//   covered        a row of A loaded one step ahead, `hot` beside its use, after arithmetic of some 1500 cycles
//   shared_global  a row of A and one in shared memory
//   two_streams    rows of A and of B: equal
//   atomic_load    a row of A and an atomic addition to `counters`: device memory against an atomic in L2
//   atomic_cached  a row of `hot` and an atomic addition to `counters`: L1 against an atomic in L2
//   copies         cp.async of rows of A and of `hot`, as one group
//
// Prints one JSON object a kernel: exact counts of accesses by lanes, buffers, and the least and most share of the stalls
// of a reason that each buffer may be charged: what the ablation on an H100 saved, ten points up and down. --time adds the medians and quartiles of its times in microseconds.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o latency_truth latency_truth.cu

#include <algorithm>

#include "truth.h"

constexpr uint32_t LANES = 32;
constexpr uint32_t WARPS = 128;
constexpr uint32_t STEPS = 64;
constexpr uint32_t ROUNDS = 12;  // of arithmetic in ahead_*
constexpr uint32_t COVER = 8;    // times that of `covered`
constexpr uint32_t ROW_BITS = 23;
constexpr uint32_t MASK = (1u << ROW_BITS) - 1;
constexpr uint32_t NEAR_ROWS = 4096;
constexpr uint32_t SMALL_ROWS = 32;
constexpr uint32_t HOT_ROWS = 4;
constexpr uint32_t THREADS = WARPS * LANES;
constexpr uint32_t REPETITIONS = 41;

// Content of a row of each buffer.
__host__ __device__ inline uint32_t in_a(uint32_t row) { return link(row, MASK); }
__host__ __device__ inline uint32_t in_b(uint32_t row) { return (row * 22695477u + 12345u) & MASK; }
__host__ __device__ inline uint32_t in_near(uint32_t row) { return row * 13u + 5u; }
__host__ __device__ inline uint32_t in_small(uint32_t row) { return row * 11u + 3u; }
__host__ __device__ inline uint32_t in_hot(uint32_t row) { return row * 7u + 1u; }
// Where a warp begins, and its next row.
__host__ __device__ inline uint32_t start(uint32_t warp) { return scatter(warp + 1) & MASK; }
__host__ __device__ inline uint32_t onward(uint32_t row) { return (row * 747796405u + 2891336453u) & MASK; }
// A sum whose terms keep their order.
__host__ __device__ inline uint32_t fold(uint32_t sum, uint32_t term) { return (sum ^ (sum >> 7)) * 5u + term; }
// Arithmetic that takes some 200 cycles.
__host__ __device__ inline uint32_t churn(uint32_t value) {
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; round++) value = (value ^ (value >> 5)) * 9u;
    return value;
}

// The arguments of all kernels.
struct Given {
    const uint32_t *A, *B, *near, *small, *hot;
    uint32_t *counters, *out;
    uint32_t first;
};

// Which reads a kernel leaves out.
enum Without { NOTHING, FIRST, SECOND };

__device__ inline uint32_t thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline uint32_t lane() { return threadIdx.x % LANES; }
__device__ inline uint32_t warp() { return thread() / LANES; }
__device__ inline uint32_t at(uint32_t row) { return row * LANES + lane(); }
__device__ inline uint32_t begin(const Given &given) { return start(given.first + warp()); }

// An element of a row, or if it is left out a number that costs next to nothing.
template <bool is_left_out> __device__ inline uint32_t load(const uint32_t *buffer, uint32_t row) {
    return is_left_out ? row ^ 1 : buffer[at(row)];
}

// The same, from L2.
template <bool is_left_out> __device__ inline uint32_t load_past_l1(const uint32_t *buffer, uint32_t row) {
    return is_left_out ? row ^ 1 : __ldcg(buffer + at(row));
}

template <bool is_left_out> __device__ inline uint32_t add_zero(uint32_t *buffer, uint32_t row, uint32_t zero) {
    return is_left_out ? row ^ 1 : atomicAdd(buffer + at(row), zero);
}

template <Without without> __device__ inline void pipelined_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
    uint32_t next = load<without == FIRST>(given.A, row);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t now = next;
        row = onward(row);
        next = load<without == FIRST>(given.A, row);
        sum = fold(sum, now ^ load<without == SECOND>(given.small, (sum + step) % SMALL_ROWS));
    }
    given.out[thread()] = fold(sum, next);
}

template <Without without> __device__ inline void two_levels_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t far = load<without == FIRST>(given.A, row);
        sum = fold(sum, far ^ load<without == SECOND>(given.near, row % NEAR_ROWS));
    }
    given.out[thread()] = sum;
}

template <Without without> __device__ inline void past_l1_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t near = load<without == FIRST>(given.near, row % NEAR_ROWS);
        sum = fold(sum, near ^ load<without == SECOND>(given.hot, row % HOT_ROWS));
    }
    given.out[thread()] = sum;
}

template <Without without> __device__ inline void cached_past_l1_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t small = load_past_l1<without == FIRST>(given.small, row % SMALL_ROWS);
        sum = fold(sum, small ^ load<without == SECOND>(given.hot, row % HOT_ROWS));
    }
    given.out[thread()] = sum;
}

template <Without without, uint32_t distance, uint32_t times = 1> __device__ inline void ahead_steps(const Given &given) {
    uint32_t row = begin(given), sum = row, ring[distance];
#pragma unroll
    for (uint32_t place = 0; place < distance; place++, row = onward(row)) ring[place] = load<without == FIRST>(given.A, row);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step += distance) {
#pragma unroll
        for (uint32_t place = 0; place < distance; place++, row = onward(row)) {
            for (uint32_t time = 0; time < times; time++) sum = churn(sum);
            sum = fold(sum, ring[place] ^ load<without == SECOND>(given.hot, sum % HOT_ROWS));
            ring[place] = load<without == FIRST>(given.A, row);
            __syncwarp(); // The compiler moves no load past it.
        }
    }
#pragma unroll
    for (uint32_t place = 0; place < distance; place++) sum = fold(sum, ring[place]);
    given.out[thread()] = sum;
}

template <Without without> __device__ inline void ahead_1_steps(const Given &given) { ahead_steps<without, 1>(given); }
template <Without without> __device__ inline void ahead_2_steps(const Given &given) { ahead_steps<without, 2>(given); }
template <Without without> __device__ inline void ahead_4_steps(const Given &given) { ahead_steps<without, 4>(given); }
template <Without without> __device__ inline void ahead_8_steps(const Given &given) { ahead_steps<without, 8>(given); }
template <Without without> __device__ inline void covered_steps(const Given &given) { ahead_steps<without, 1, COVER>(given); }

template <Without without> __device__ inline void shared_global_steps(const Given &given) {
    __shared__ uint32_t tile[LANES * SMALL_ROWS];
#pragma unroll 1
    for (uint32_t small = 0; small < SMALL_ROWS; small++) tile[at(small)] = given.small[at(small)];
    __syncwarp();
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t far = load<without == FIRST>(given.A, row);
        sum = fold(sum, far ^ load<without == SECOND>(tile, row % SMALL_ROWS));
    }
    given.out[thread()] = sum;
}

template <Without without> __device__ inline void two_streams_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t left = load<without == FIRST>(given.A, row);
        sum = fold(sum, left ^ load<without == SECOND>(given.B, row));
    }
    given.out[thread()] = sum;
}

template <Without without> __device__ inline void atomic_load_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t old = add_zero<without == SECOND>(given.counters, warp(), step / STEPS);
        sum = fold(sum, old ^ load<without == FIRST>(given.A, row));
    }
    given.out[thread()] = sum;
}

template <Without without> __device__ inline void atomic_cached_steps(const Given &given) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t old = add_zero<without == FIRST>(given.counters, warp(), step / STEPS);
        sum = fold(sum, old ^ load<without == SECOND>(given.hot, row % HOT_ROWS));
    }
    given.out[thread()] = sum;
}

__device__ inline void copy_async(uint32_t *to, const uint32_t *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

template <Without without> __device__ inline void copies_steps(const Given &given) {
    __shared__ uint32_t tile_a[LANES], tile_hot[LANES];
    uint32_t row = begin(given), sum = row;
    tile_a[lane()] = tile_hot[lane()] = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        if (without != FIRST) copy_async(&tile_a[lane()], &given.A[at(row)]);
        if (without != SECOND) copy_async(&tile_hot[lane()], &given.hot[at(row % HOT_ROWS)]);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        sum = fold(sum, tile_a[lane()] ^ tile_hot[lane()]);
    }
    given.out[thread()] = sum;
}

// A kernel, and the same without the reads of its first and of its second buffer.
#define KERNEL(name)                                                                            \
    extern "C" __global__ void name(Given given) { name##_steps<NOTHING>(given); }              \
    extern "C" __global__ void name##_without_first(Given given) { name##_steps<FIRST>(given); } \
    extern "C" __global__ void name##_without_second(Given given) { name##_steps<SECOND>(given); }

KERNEL(pipelined)
KERNEL(two_levels)
KERNEL(past_l1)
KERNEL(cached_past_l1)
KERNEL(ahead_1)
KERNEL(ahead_2)
KERNEL(ahead_4)
KERNEL(ahead_8)
KERNEL(covered)
KERNEL(shared_global)
KERNEL(two_streams)
KERNEL(atomic_load)
KERNEL(atomic_cached)
KERNEL(copies)

// Reads all rows of `near`, which nothing else has touched.
extern "C" __global__ void warm_up(Given given) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t row = warp(); row < NEAR_ROWS; row += WARPS) sum += given.near[at(row)];
    given.out[thread()] = sum;
}

// What the kernels compute, step by step on the host. A step gets its number, the sum and the row.
using Step = std::function<uint32_t(uint32_t step, uint32_t sum, uint32_t row)>;

static uint32_t steps(uint32_t thread, Step step) {
    uint32_t row = start(thread / LANES), sum = row;
    for (uint32_t index = 0; index < STEPS; index++, row = onward(row)) sum = step(index, sum, row);
    return sum;
}

static uint32_t pipelined_result(uint32_t thread) {
    uint32_t last = 0;
    uint32_t sum = steps(thread, [&](uint32_t step, uint32_t sum, uint32_t row) {
        last = onward(row);
        return fold(sum, in_a(row) ^ in_small((sum + step) % SMALL_ROWS));
    });
    return fold(sum, in_a(last));
}

static std::function<uint32_t(uint32_t)> ahead_result(uint32_t distance, uint32_t times = 1) {
    return [=](uint32_t thread) {
        uint32_t last = 0;
        uint32_t sum = steps(thread, [&](uint32_t, uint32_t sum, uint32_t row) {
            last = onward(row);
            for (uint32_t time = 0; time < times; time++) sum = churn(sum);
            return fold(sum, in_a(row) ^ in_hot(sum % HOT_ROWS));
        });
        for (uint32_t place = 0; place < distance; place++, last = onward(last)) sum = fold(sum, in_a(last));
        return sum;
    };
}

// One row of each of two buffers a step. The content of the second is a function of the row of the first.
static std::function<uint32_t(uint32_t)> beside(uint32_t (*first)(uint32_t), uint32_t rows, uint32_t (*second)(uint32_t), uint32_t second_rows) {
    return [=](uint32_t thread) {
        return steps(thread, [&](uint32_t, uint32_t sum, uint32_t row) { return fold(sum, first(row % rows) ^ second(row % second_rows)); });
    };
}

static uint32_t in_counters(uint32_t) { return 0; }

struct Buffers {
    Buffer A{"A", made(size_t(LANES) << ROW_BITS, [](uint32_t index) { return in_a(index / LANES); })};
    Buffer B{"B", made(size_t(LANES) << ROW_BITS, [](uint32_t index) { return in_b(index / LANES); })};
    Buffer near{"near", made(LANES * NEAR_ROWS, [](uint32_t index) { return in_near(index / LANES); })};
    Buffer small{"small", made(LANES * SMALL_ROWS, [](uint32_t index) { return in_small(index / LANES); })};
    Buffer hot{"hot", made(LANES * HOT_ROWS, [](uint32_t index) { return in_hot(index / LANES); })};
    Buffer counters{"counters", std::vector<uint32_t>(THREADS)};
    Buffer out{"out", std::vector<uint32_t>(THREADS)};
    Given given(uint32_t first) const { return {A.data, B.data, near.data, small.data, hot.data, counters.data, out.data, first}; }
};

// A kernel of one signature, its variants, and what it needs.
struct Experiment {
    Kernel kernel;
    uint32_t block;  // threads
    bool needs_near; // in L2
    void (*whole)(Given), (*without[2])(Given);
    const char *buffers[2];
};

static std::vector<Experiment> experiments() {
    const uint32_t rows = MASK + 1;
    const uint64_t one = uint64_t(THREADS) * STEPS, two = 2 * one;
    std::vector<Experiment> all;
#define EXPERIMENT(name, block, needs_near, first, second, reads, atomics, low, high, why, result)                              \
    all.push_back({{#name, reads, THREADS, atomics, "memory", {{first, low, high}, {second, 0, 1 - low}}, why, nullptr, result}, \
                   block, needs_near, name, {name##_without_first, name##_without_second}, {first, second}})
    EXPERIMENT(pipelined, 4 * LANES, false, "A", "small", two + THREADS, 0, 0.9, 1,
               "A's row is loaded a step ahead, but a step takes less than device memory", pipelined_result);
    EXPERIMENT(two_levels, LANES, true, "A", "near", two, 0, 0.88, 1, "when A's row has come from device memory, L2's is there",
               beside(in_a, rows, in_near, NEAR_ROWS));
    EXPERIMENT(past_l1, LANES, true, "near", "hot", two, 0, 0.9, 1, "when near's row has come from L2, hot's is there",
               beside(in_near, NEAR_ROWS, in_hot, HOT_ROWS));
    EXPERIMENT(cached_past_l1, LANES, false, "small", "hot", two, 0, 0.88, 1, "small's load bypasses L1, hot's does not",
               beside(in_small, SMALL_ROWS, in_hot, HOT_ROWS));
    EXPERIMENT(ahead_1, LANES, false, "A", "hot", two + THREADS, 0, 0.9, 1, "one step does not cover device memory", ahead_result(1));
    EXPERIMENT(ahead_2, LANES, false, "A", "hot", two + 2 * THREADS, 0, 0.8, 1, "two loads of A share a scoreboard", ahead_result(2));
    EXPERIMENT(ahead_4, LANES, false, "A", "hot", two + 4 * THREADS, 0, 0.72, 0.92, "four loads of A share a scoreboard", ahead_result(4));
    EXPERIMENT(ahead_8, LANES, false, "A", "hot", two + 8 * THREADS, 0, 0.59, 0.79, "eight loads of A share a scoreboard", ahead_result(8));
    EXPERIMENT(covered, LANES, false, "A", "hot", two + THREADS, 0, 0.1, 0.4, "a step takes longer than device memory, which only the last row waits for",
               ahead_result(1, COVER));
    EXPERIMENT(shared_global, LANES, false, "A", "small", one + THREADS * SMALL_ROWS, 0, 0.85, 1,
               "when A's row has come, the one in shared memory is there; small is only read to fill it",
               beside(in_a, rows, in_small, SMALL_ROWS));
    EXPERIMENT(two_streams, LANES, false, "A", "B", two, 0, 0.4, 0.6, "rows of buffers of one size, loaded side by side",
               beside(in_a, rows, in_b, rows));
    EXPERIMENT(atomic_load, LANES, false, "A", "counters", one, one, 0.85, 1, "when A's row has come, L2 has added",
               beside(in_a, rows, in_counters, 1));
    EXPERIMENT(atomic_cached, LANES, false, "counters", "hot", one, one, 0.9, 1, "when L2 has added, hot's row is there",
               beside(in_counters, 1, in_hot, HOT_ROWS));
    EXPERIMENT(copies, LANES, false, "A", "hot", two, 0, 0.9, 1, "one group holds both copies; when A's row has come hot's is there",
               beside(in_a, rows, in_hot, HOT_ROWS));
#undef EXPERIMENT
    return all;
}

// Every launch begins with rows that no launch before has begun with.
static uint32_t first_warp() {
    static uint32_t first = 0;
    return (first += WARPS) - WARPS;
}

static void prepare(const Experiment &experiment, const Buffers &buffers) {
    if (experiment.needs_near) warm_up<<<WARPS, LANES>>>(buffers.given(0));
}

static bool launch(const Experiment &experiment, const Buffers &buffers) {
    uint32_t first = first_warp();
    prepare(experiment, buffers);
    experiment.whole<<<THREADS / experiment.block, experiment.block>>>(buffers.given(first));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    return equal(buffers.out, [&](uint32_t thread) { return experiment.kernel.result(first * LANES + thread); });
}

static float timed_us(const Experiment &experiment, const Buffers &buffers, void (*kernel)(Given)) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    prepare(experiment, buffers);
    CHECK(cudaEventRecord(begin));
    kernel<<<THREADS / experiment.block, experiment.block>>>(buffers.given(first_warp()));
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaGetLastError());
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return 1000 * milliseconds;
}

// Times of the whole kernel and of its variants, taken in turn. The first turn warms up.
static void print_ablation(const Experiment &experiment, const Buffers &buffers) {
    std::vector<float> times[3];
    for (uint32_t turn = 0; turn <= REPETITIONS; turn++)
        for (int variant = 0; variant < 3; variant++) {
            float time_us = timed_us(experiment, buffers, variant ? experiment.without[variant - 1] : experiment.whole);
            if (turn > 0) times[variant].push_back(time_us);
        }
    const char *names[3] = {"whole", experiment.buffers[0], experiment.buffers[1]};
    printf("{\"ablation\": \"%s\", \"repetitions\": %u, \"us\": {", experiment.kernel.name, REPETITIONS);
    for (int variant = 0; variant < 3; variant++) {
        std::vector<float> &sorted = times[variant];
        std::sort(sorted.begin(), sorted.end());
        printf("%s\"%s%s\": [%.2f, %.2f, %.2f]", variant ? ", " : "", variant ? "without " : "", names[variant],
               sorted[REPETITIONS / 4], sorted[REPETITIONS / 2], sorted[REPETITIONS * 3 / 4]);
    }
    printf("}}\n");
}

static bool run(const Experiment &experiment, const Buffers &buffers, bool is_timed) {
    const Kernel &kernel = experiment.kernel;
    bool right = launch(experiment, buffers);
    printf("{\"kernel\": \"%s\", \"reads\": %llu, \"writes\": %llu, \"atomics\": %llu, ", kernel.name,
           (unsigned long long)kernel.reads, (unsigned long long)kernel.writes, (unsigned long long)kernel.atomics);
    print_shares(kernel);
    printf(", ");
    print_buffers({&buffers.A, &buffers.B, &buffers.near, &buffers.small, &buffers.hot, &buffers.counters, &buffers.out});
    printf(", \"right\": %s}\n", right ? "true" : "false");
    if (is_timed) print_ablation(experiment, buffers);
    return right;
}

int main(int count, char **words) {
    bool is_timed = count == 2 && !strcmp(words[1], "--time");
    if (count > 1 && !is_timed) {
        fprintf(stderr, "usage: latency_truth [--time]\n");
        return 2;
    }
    Buffers buffers;
    bool right = true;
    for (const Experiment &experiment : experiments()) right &= run(experiment, buffers, is_timed);
    return right ? 0 : 1;
}

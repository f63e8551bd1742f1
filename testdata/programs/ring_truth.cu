// Rings of tiles as matrix kernels of Hopper have them: one warp asks for tiles of two operands by tensor maps, groups of
// warps use them, an mbarrier of each stage says that it is full, and another that it is empty. One operand is large and
// comes from device memory, the other is small and stays in L2. Which one is measured: the same launch is timed again with
// the copies of one operand led to a few rows.
//
//   ring_S           S stages, one group of four warps
//   ring_S_pair      two groups, which use each stage together
//   ring_S_turns     two groups, which use whole products in turn: each waits for the other at mbarriers of its own
//   ring_S_multicast clusters of two blocks, of which each asks for a half of the second operand, for both
//
// Each runs three times: with a large first operand, with a large second one (`_swapped`), and with so much arithmetic
// for each stage that memory is idle (`_busy`).
//
// Prints one JSON object a launch: the operands' addresses, and the quartiles of the times in microseconds: as it is, and
// with the copies of the first and of the second operand led to a few rows.
//
// --only leaves out experiments whose name does not contain a text.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o ring_truth ring_truth.cu

#include <algorithm>

#include <cuda.h>

#include "truth.h"

constexpr uint32_t WORDS = 32;                     // of a row
constexpr uint32_t TILE_ROWS = 32;                 // of an operand and a stage
constexpr uint32_t TILE_BYTES = TILE_ROWS * WORDS * 4;
constexpr uint32_t LARGE_ROWS = 1u << 22;          // 512 MiB
constexpr uint32_t SMALL_ROWS = 1u << 12;          // 512 KiB
constexpr uint32_t FEW_ROWS = TILE_ROWS;           // where copies are led
constexpr uint32_t BLOCKS = 128;
constexpr uint32_t PRODUCTS = 6;                   // of a block
constexpr uint32_t STEPS = 16;                     // of a product
constexpr uint32_t GROUP = 128;                    // threads that use tiles
constexpr uint32_t WARPS = GROUP / 32;
constexpr uint32_t REPETITIONS = 15;
constexpr uint32_t ONE_AS_WORD = 0x3f800000;       // 1.0f

// How groups share the work of a block.
enum Groups { ONE, PAIR, TURNS };

struct Given {
    CUtensorMap first, second;
    uint32_t first_mask, second_mask; // of the rows of a tile
    uint32_t seed, work;              // multiplications of a thread and a stage
    float *out;
};

__device__ inline uint32_t shared_address(const void *pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }
__device__ inline uint32_t block_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

struct __align__(8) Mbarrier {
    uint64_t state;
    __device__ void begin(uint32_t arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(arrivals) : "memory");
    }
    __device__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
    }
    __device__ void arrive_at(uint32_t rank) {
        asm volatile("{\n\t.reg .b32 remote;\n\tmapa.shared::cluster.u32 remote, %0, %1;\n\t"
                     "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(shared_address(&state)),
                     "r"(rank)
                     : "memory");
    }
    __device__ void expect(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)), "r"(bytes) : "memory");
    }
    __device__ void wait(uint32_t parity) {
        asm volatile("{\n\t.reg .pred done;\n\tagain:\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@done bra over;\n\tbra again;\n\tover:\n\t}" ::"r"(
                         shared_address(&state)),
                     "r"(parity)
                     : "memory");
    }
};

// The stage of a step, and how often the ring has come around.
struct Position {
    uint32_t stage, parity;
    template <uint32_t stages> __device__ void advance(uint32_t steps = 1) {
        for (uint32_t step = 0; step < steps; step++)
            if (++stage == stages) stage = 0, parity ^= 1;
    }
};

template <uint32_t stages> struct __align__(128) Ring {
    float first[stages][TILE_ROWS * WORDS], second[stages][TILE_ROWS * WORDS];
    Mbarrier full[stages], empty[stages], turn[2];
};

__device__ inline void copy_tile(void *to, const CUtensorMap *map, uint32_t row, Mbarrier *arrival) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     shared_address(to)),
                 "l"(map), "r"(0), "r"(row), "r"(shared_address(&arrival->state))
                 : "memory");
}

__device__ inline void copy_tile_for_both(void *to, const CUtensorMap *map, uint32_t row, Mbarrier *arrival) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
                 "l"(map), "r"(0), "r"(row), "r"(shared_address(&arrival->state)), "h"((uint16_t)3)
                 : "memory");
}

// The first row of a tile, anywhere in the operand.
__device__ inline uint32_t tile_row(uint32_t seed, uint32_t which, uint32_t mask) {
    return scatter(seed + which * 0x9e3779b9u) & mask & ~(TILE_ROWS - 1);
}

template <uint32_t stages, bool multicast> __device__ void produce(const Given &given, Ring<stages> &ring) {
    Position position{0, 1};
    uint32_t block = multicast ? blockIdx.x / 2 : blockIdx.x;
#pragma unroll 1
    for (uint32_t step = 0; step < PRODUCTS * STEPS; step++, position.advance<stages>()) {
        Mbarrier *full = &ring.full[position.stage];
        ring.empty[position.stage].wait(position.parity);
        full->expect(2 * TILE_BYTES);
        uint32_t first = tile_row(given.seed + blockIdx.x * 4096, step, given.first_mask);
        uint32_t second = tile_row(given.seed + block * 4096 + 77, step, given.second_mask);
        copy_tile(ring.first[position.stage], &given.first, first, full);
        if (multicast) {
            uint32_t half = TILE_ROWS / 2 * block_rank();
            copy_tile_for_both(&ring.second[position.stage][half * WORDS], &given.second, second + half, full);
        } else {
            copy_tile(ring.second[position.stage], &given.second, second, full);
        }
    }
}

// Uses a stage. `work` multiplications follow that depend on nothing in memory.
__device__ inline float used(const float *first, const float *second, float sum, uint32_t work) {
    uint32_t thread = threadIdx.x % GROUP;
    for (uint32_t row = thread / WORDS; row < TILE_ROWS; row += GROUP / WORDS)
        sum += first[row * WORDS + thread % WORDS] * second[row * WORDS + thread % WORDS];
#pragma unroll 1
    for (uint32_t step = 0; step < work; step++) sum = sum * 0.999f + 0.5f;
    return sum;
}

template <uint32_t stages, Groups groups, bool multicast> __device__ void consume(const Given &given, Ring<stages> &ring, uint32_t group) {
    Position position{0, 0};
    if (groups == TURNS && group == 1) position.advance<stages>(STEPS);
    for (uint32_t product = groups == TURNS ? group : 0; product < PRODUCTS; product += groups == TURNS ? 2 : 1) {
        if (groups == TURNS) ring.turn[group].wait((product / 2 & 1) ^ (group == 0));
        float sum = 0;
#pragma unroll 1
        for (uint32_t step = 0; step < STEPS; step++, position.advance<stages>()) {
            ring.full[position.stage].wait(position.parity);
            sum = used(ring.first[position.stage], ring.second[position.stage], sum, given.work);
            __syncwarp();
            if (multicast) {
                if (threadIdx.x % 32 < 2) ring.empty[position.stage].arrive_at(threadIdx.x % 32);
            } else {
                if (threadIdx.x % 32 == 0) ring.empty[position.stage].arrive();
            }
        }
        if (groups == TURNS) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) ring.turn[1 - group].arrive();
            position.advance<stages>(STEPS);
        }
        given.out[(blockIdx.x * PRODUCTS + product) * 2 * GROUP + group * GROUP + threadIdx.x % GROUP] = sum;
    }
}

template <uint32_t stages, Groups groups, bool multicast> __device__ void ring_kernel(const Given &given) {
    extern __shared__ __align__(128) unsigned char memory[];
    Ring<stages> &ring = *(Ring<stages> *)memory;
    if (threadIdx.x == 0) {
        // Every warp says that it is done: one that lags by a round would wait for a phase that is over.
        uint32_t users = WARPS * (groups == PAIR ? 2 : 1) * (multicast ? 2 : 1);
        for (uint32_t stage = 0; stage < stages; stage++) ring.full[stage].begin(1), ring.empty[stage].begin(users);
        ring.turn[0].begin(WARPS), ring.turn[1].begin(WARPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (multicast) cluster_sync();
    else __syncthreads();
    uint32_t group = threadIdx.x / GROUP;
    if (group == (groups == ONE ? 1 : 2)) {
        if (threadIdx.x % GROUP == 0) produce<stages, multicast>(given, ring);
    } else {
        consume<stages, groups, multicast>(given, ring, group);
    }
    if (multicast) cluster_sync();
}

#define RING(stages, name, groups, multicast, cluster)                                                      \
    extern "C" __global__ void __cluster_dims__(cluster) ring_##stages##name(const __grid_constant__ Given given) { \
        ring_kernel<stages, groups, multicast>(given);                                                      \
    }
#define RINGS(stages)                              \
    RING(stages, , ONE, false, 1)                  \
    RING(stages, _pair, PAIR, false, 1)            \
    RING(stages, _turns, TURNS, false, 1)          \
    RING(stages, _multicast, ONE, true, 2)         \
    RING(stages, _pair_multicast, PAIR, true, 2)
RINGS(2)
RINGS(3)
RINGS(4)
RINGS(5)
RINGS(6)
RINGS(7)
RINGS(8)

struct Experiment {
    const char *name;
    void (*kernel)(Given);
    uint32_t threads, bytes;
};

#define LISTED(stages, name, groups) \
    {"ring_" #stages #name, ring_##stages##name, GROUP * ((groups) + 1), (uint32_t)sizeof(Ring<stages>) + 128}
#define LISTS(stages)                                                                                          \
    LISTED(stages, , 1), LISTED(stages, _pair, 2), LISTED(stages, _turns, 2), LISTED(stages, _multicast, 1), \
        LISTED(stages, _pair_multicast, 2)
static const Experiment EXPERIMENTS[] = {LISTS(2), LISTS(3), LISTS(4), LISTS(5), LISTS(6), LISTS(7), LISTS(8)};

// A tensor map of tiles of rows. The driver's entry point is asked for, so nothing links to it.
static CUtensorMap tiles_of(const Buffer &buffer, uint32_t box_rows) {
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    CUtensorMap map;
    cuuint64_t sizes[2] = {WORDS, buffer.bytes / (WORDS * 4)}, strides[1] = {WORDS * 4};
    cuuint32_t box[2] = {WORDS, box_rows}, each[2] = {1, 1};
    auto encode = (decltype(&cuTensorMapEncodeTiled))entry;
    CUresult code = !entry ? CUDA_ERROR_NOT_FOUND
                           : encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, buffer.data, sizes, strides, box, each,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "ring_truth: cuTensorMapEncodeTiled gives %d\n", (int)code);
        exit(1);
    }
    return map;
}

static float timed_us(const Experiment &experiment, const Given &given) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    experiment.kernel<<<BLOCKS, experiment.threads, experiment.bytes>>>(given);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return 1000 * milliseconds;
}

// All elements are 1: a thread adds one for each of its rows.
static bool is_right(const Experiment &experiment, const Buffer &out) {
    const uint32_t groups = experiment.threads / GROUP - 1;
    const float sum = STEPS * TILE_ROWS * WORDS / GROUP;
    std::vector<uint32_t> words = out.read();
    bool is_turns = strstr(experiment.name, "turns");
    for (size_t index = 0; index < words.size(); index++) {
        uint32_t group = index / GROUP % 2, product = index / (2 * GROUP) % PRODUCTS;
        float value;
        memcpy(&value, &words[index], sizeof value);
        if (is_turns ? product % 2 == group && value != sum : group < groups && value != sum) return false;
    }
    return true;
}

// One launch that is recorded. With --time, and two more kinds of launches: the copies of an operand led to a few rows.
static void run(const Experiment &experiment, const char *suffix, Given given, bool is_timed) {
    static uint32_t seed = 1;
    CHECK(cudaFuncSetAttribute(experiment.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, experiment.bytes));
    std::vector<float> times[3];
    uint32_t repetitions = is_timed ? REPETITIONS : 0;
    for (uint32_t turn = 0; turn <= repetitions; turn++)
        for (int variant = 0; variant < (is_timed ? 3 : 1); variant++) {
            Given changed = given;
            changed.seed = seed++ * 1000003u;
            if (variant == 1) changed.first_mask = FEW_ROWS - 1;
            if (variant == 2) changed.second_mask = FEW_ROWS - 1;
            float time_us = timed_us(experiment, changed);
            if (turn || !is_timed) times[variant].push_back(time_us);
        }
    printf("{\"kernel\": \"%s\", \"case\": \"%s\"", experiment.name, suffix);
    const char *names[3] = {"us", "us_first_led", "us_second_led"};
    for (int variant = 0; variant < 3 && !times[variant].empty(); variant++) {
        std::vector<float> &sorted = times[variant];
        std::sort(sorted.begin(), sorted.end());
        size_t count = sorted.size();
        printf(", \"%s\": [%.2f, %.2f, %.2f]", names[variant], sorted[count / 4], sorted[count / 2], sorted[count * 3 / 4]);
    }
    printf("}\n");
}

int main(int count, char **words) {
    bool is_timed = count > 1 && !strcmp(words[1], "--time");
    if (is_timed) count--, words++;
    const char *only = count == 3 && !strcmp(words[1], "--only") ? words[2] : nullptr;
    if (count > 1 && !only) {
        fprintf(stderr, "usage: ring_truth [--time] [--only PART_OF_A_NAME]\n");
        return 2;
    }
    Buffer large("large", std::vector<uint32_t>(size_t(LARGE_ROWS) * WORDS, ONE_AS_WORD));
    Buffer small("small", std::vector<uint32_t>(size_t(SMALL_ROWS) * WORDS, ONE_AS_WORD));
    Buffer out("out", std::vector<uint32_t>(BLOCKS * PRODUCTS * 2 * GROUP));
    printf("{");
    print_buffers({&large, &small, &out});
    printf("}\n");
    bool right = true;
    for (const Experiment &experiment : EXPERIMENTS) {
        if (only && !strstr(experiment.name, only)) continue;
        // The second operand's boxes are halves of tiles where blocks share them.
        uint32_t second_rows = strstr(experiment.name, "multicast") ? TILE_ROWS / 2 : TILE_ROWS;
        Given given{tiles_of(large, TILE_ROWS), tiles_of(small, second_rows), LARGE_ROWS - 1, SMALL_ROWS - 1, 0, 0, (float *)out.data};
        Given swapped{tiles_of(small, TILE_ROWS), tiles_of(large, second_rows), SMALL_ROWS - 1, LARGE_ROWS - 1, 0, 0, (float *)out.data};
        Given busy = given;
        busy.work = 2000;
        run(experiment, "", given, is_timed);
        right &= is_right(experiment, out);
        run(experiment, "_swapped", swapped, is_timed);
        right &= is_right(experiment, out);
        run(experiment, "_busy", busy, is_timed);
    }
    return right ? 0 : 1;
}

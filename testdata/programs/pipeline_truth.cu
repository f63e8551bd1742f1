// Pipelines of copies: one part of a kernel asks for rows ahead, another waits at an mbarrier until they are there. Each
// step needs a row of two buffers, of which one comes late, and this program measures which one that is. With --time each
// kernel also runs without the reads of one buffer: the time that is saved is what these reads cost, and a buffer's share
// is its part of what both save.
//
// A has 2^22 rows of 128 bytes: a row that nothing has touched yet comes from device memory. `near` has 4096 rows, which
// the kernel warm_up brings into L2 before each launch. `hot` has 4 rows, `counters` a row for each block. All elements
// of a row hold the same number, and no address depends on A.
//
//   maps_2 to 4    a ring of so many stages, filled by tensor maps: a row of A and one of `near` at each stage's mbarrier.
//                  One warp asks for rows and uses them
//   bulk_2 to 4    the same by bulk copies, whose addresses are in registers
//   specialized    a warp that asks by tensor maps, at most four stages ahead, and one that uses the rows. An mbarrier of
//                  each stage says that it is full, another that it is empty
//   specialized_bulk   the same by bulk copies
//   two_waits      the same with two warps that use rows: one those of A, the other those of `near`. Both copies of a
//                  stage signal one mbarrier, at which each of the two waits in its own code
//   loading        a warp that loads both rows as any warp does, stores them into the stage, and arrives at its mbarrier
//   adding         the same with an atomic addition to `counters` and a row of `hot`: an atomic in L2 against L1
//   stored_maps    specialized, with tensor maps that the host left in device memory
//   made_maps      specialized, with tensor maps that each block makes in device memory: it stores the buffer's address
//                  into a copy of a parameter, which holds the address of the other buffer
//
// Prints one JSON object a kernel: exact counts of accesses by lanes (those of copies are made by no lane), buffers, and
// the least and most share of the memory stalls that each buffer may be charged. --time adds the quartiles of the times
// in microseconds, and the shares that they give.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o pipeline_truth pipeline_truth.cu

#include <algorithm>

#include <cuda.h>

#include "truth.h"

constexpr uint32_t LANES = 32;
constexpr uint32_t BLOCKS = 128;
constexpr uint32_t STEPS = 64;
constexpr uint32_t ROW_BITS = 22;
constexpr uint32_t MASK = (1u << ROW_BITS) - 1;
constexpr uint32_t NEAR_ROWS = 4096;
constexpr uint32_t HOT_ROWS = 4;
constexpr uint32_t ROW_BYTES = LANES * 4;
constexpr uint32_t STAGES = 4; // of the kernels with warps of two kinds
constexpr uint32_t THREADS = BLOCKS * LANES; // that write a result
constexpr uint32_t REPETITIONS = 41;

// Content of a row of each buffer.
__host__ __device__ inline uint32_t in_a(uint32_t row) { return link(row, MASK); }
__host__ __device__ inline uint32_t in_near(uint32_t row) { return row * 13u + 5u; }
__host__ __device__ inline uint32_t in_hot(uint32_t row) { return row * 7u + 1u; }
// Where a block begins, and its next row.
__host__ __device__ inline uint32_t start(uint32_t block) { return scatter(block + 1) & MASK; }
__host__ __device__ inline uint32_t onward(uint32_t row) { return (row * 747796405u + 2891336453u) & MASK; }
// A sum whose terms keep their order.
__host__ __device__ inline uint32_t fold(uint32_t sum, uint32_t term) { return (sum ^ (sum >> 7)) * 5u + term; }

// The arguments of all kernels.
struct Given {
    CUtensorMap map_a, map_near;
    CUtensorMap other_a, other_near; // the same with each other's address
    const CUtensorMap *stored;       // map_a and map_near in device memory
    CUtensorMap *made;               // room for two in each block
    const uint32_t *A, *near, *hot;
    uint32_t *counters, *out;
    uint32_t first;
};

// Which reads a kernel leaves out.
enum Without { NOTHING, FIRST, SECOND };
// Where copies find their rows.
enum How { BY_PARAMETER, BY_POINTER, BY_STORED_MAP, BY_MADE_MAP };

__device__ inline uint32_t lane() { return threadIdx.x % LANES; }
__device__ inline uint32_t warp() { return threadIdx.x / LANES; }
__device__ inline uint32_t at(uint32_t row) { return row * LANES + lane(); }
__device__ inline uint32_t begin(const Given &given) { return start(given.first + blockIdx.x); }
__device__ inline uint32_t shared_address(const void *pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }

struct __align__(8) Mbarrier {
    uint64_t state;
    __device__ void begin(uint32_t arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(arrivals) : "memory");
    }
    __device__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
    }
    __device__ void expect(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)), "r"(bytes) : "memory");
    }
    __device__ void wait(uint32_t parity) {
        asm volatile("{\n\t"
                     ".reg .pred done;\n\t"
                     "again:\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                     "@!done bra again;\n\t"
                     "}" ::"r"(shared_address(&state)), "r"(parity)
                     : "memory");
    }
};

// Makes mbarriers known to the unit that copies.
__device__ inline void publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void copy_row(uint32_t *to, const CUtensorMap *map, uint32_t row, Mbarrier *arrival) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     shared_address(to)),
                 "l"(map), "r"(0), "r"(row), "r"(shared_address(&arrival->state))
                 : "memory");
}

__device__ inline void copy_row(uint32_t *to, const uint32_t *from, Mbarrier *arrival) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(ROW_BYTES), "r"(shared_address(&arrival->state))
                 : "memory");
}

// Rows of both buffers, and the mbarriers that say that they are there, or used.
template <uint32_t stages> struct Ring {
    alignas(128) uint32_t a[stages][LANES], near[stages][LANES];
    Mbarrier full[stages], empty[stages];

    __device__ void begin(uint32_t users) {
        for (uint32_t stage = 0; stage < stages; stage++) full[stage].begin(1), empty[stage].begin(users);
        publish();
    }
};

// Asks for the rows of a stage. One lane does.
template <Without without, How how, uint32_t stages>
__device__ inline void fill(const Given &given, Ring<stages> &ring, uint32_t stage, uint32_t row) {
    Mbarrier *full = &ring.full[stage];
    uint32_t near_row = row % NEAR_ROWS;
    full->expect(without == NOTHING ? 2 * ROW_BYTES : ROW_BYTES);
    if (how == BY_POINTER) {
        if (without != FIRST) copy_row(ring.a[stage], &given.A[row * LANES], full);
        if (without != SECOND) copy_row(ring.near[stage], &given.near[near_row * LANES], full);
    } else {
        const CUtensorMap *made = given.made + 2 * blockIdx.x;
        const CUtensorMap *of_a = how == BY_STORED_MAP ? given.stored : how == BY_MADE_MAP ? made : &given.map_a;
        const CUtensorMap *of_near = how == BY_STORED_MAP ? given.stored + 1 : how == BY_MADE_MAP ? made + 1 : &given.map_near;
        if (without != FIRST) copy_row(ring.a[stage], of_a, row, full);
        if (without != SECOND) copy_row(ring.near[stage], of_near, near_row, full);
    }
}

// A row of a stage, or if it is left out a number that costs next to nothing.
template <bool is_left_out> __device__ inline uint32_t taken(const uint32_t *tile, uint32_t row) {
    return is_left_out ? row ^ 1 : tile[lane()];
}

template <Without without, How how, uint32_t stages> __device__ inline void ring_steps(const Given &given) {
    __shared__ Ring<stages> ring;
    if (lane() == 0) ring.begin(1);
    __syncwarp();
    uint32_t row = begin(given), ahead = row, sum = row;
#pragma unroll
    for (uint32_t stage = 0; stage + 1 < stages; stage++, ahead = onward(ahead))
        if (lane() == 0) fill<without, how>(given, ring, stage, ahead);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row), ahead = onward(ahead)) {
        uint32_t stage = step % stages, newest = (step + stages - 1) % stages;
        if (lane() == 0 && step + stages - 1 < STEPS) fill<without, how>(given, ring, newest, ahead);
        ring.full[stage].wait(step / stages & 1);
        sum = fold(sum, taken<without == FIRST>(ring.a[stage], row) ^ taken<without == SECOND>(ring.near[stage], row));
        __syncwarp();
    }
    given.out[blockIdx.x * LANES + lane()] = sum;
}

template <Without without> __device__ inline void maps_2_steps(const Given &given) { ring_steps<without, BY_PARAMETER, 2>(given); }
template <Without without> __device__ inline void maps_3_steps(const Given &given) { ring_steps<without, BY_PARAMETER, 3>(given); }
template <Without without> __device__ inline void maps_4_steps(const Given &given) { ring_steps<without, BY_PARAMETER, 4>(given); }
template <Without without> __device__ inline void bulk_2_steps(const Given &given) { ring_steps<without, BY_POINTER, 2>(given); }
template <Without without> __device__ inline void bulk_3_steps(const Given &given) { ring_steps<without, BY_POINTER, 3>(given); }
template <Without without> __device__ inline void bulk_4_steps(const Given &given) { ring_steps<without, BY_POINTER, 4>(given); }

// Waits until the stage of a step has been used by all.
template <uint32_t stages> __device__ inline void until_empty(Ring<stages> &ring, uint32_t step) {
    if (step >= stages) ring.empty[step % stages].wait((step / stages - 1) & 1);
}

// The first warp asks for rows.
template <Without without, How how> __device__ inline void produce(const Given &given, Ring<STAGES> &ring) {
    if (lane() != 0) return;
    uint32_t row = begin(given);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        until_empty(ring, step);
        fill<without, how>(given, ring, step % STAGES, row);
    }
}

// Another warp uses both rows, or those of one buffer.
template <Without without, bool uses_a = true, bool uses_near = true>
__device__ inline uint32_t use(const Given &given, Ring<STAGES> &ring) {
    uint32_t row = begin(given), sum = row;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        uint32_t stage = step % STAGES, term = 0;
        ring.full[stage].wait(step / STAGES & 1);
        if (uses_a) term ^= taken<without == FIRST>(ring.a[stage], row);
        if (uses_near) term ^= taken<without == SECOND>(ring.near[stage], row);
        sum = fold(sum, term);
        __syncwarp();
        if (lane() == 0) ring.empty[stage].arrive();
    }
    return sum;
}

// A tensor map in device memory: a parameter with another address. 128 bytes, of which the first 8 are the address.
__device__ inline void make_map(CUtensorMap *made, const CUtensorMap &other, const uint32_t *address) {
    for (uint32_t word = 1; word < sizeof(CUtensorMap) / 8; word++) ((uint64_t *)made)[word] = ((const uint64_t *)&other)[word];
    *(uint64_t *)made = (uint64_t)address;
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(made) : "memory");
}

template <Without without, How how> __device__ inline void specialized_kernel(const Given &given) {
    __shared__ Ring<STAGES> ring;
    if (threadIdx.x == 0) {
        ring.begin(1);
        CUtensorMap *made = given.made + 2 * blockIdx.x;
        if (how == BY_MADE_MAP) make_map(made, given.other_a, given.A), make_map(made + 1, given.other_near, given.near);
    }
    __syncthreads();
    if (warp() == 0) produce<without, how>(given, ring);
    else given.out[blockIdx.x * LANES + lane()] = use<without>(given, ring);
}

template <Without without> __device__ inline void specialized_steps(const Given &given) { specialized_kernel<without, BY_PARAMETER>(given); }
template <Without without> __device__ inline void specialized_bulk_steps(const Given &given) { specialized_kernel<without, BY_POINTER>(given); }
template <Without without> __device__ inline void stored_maps_steps(const Given &given) { specialized_kernel<without, BY_STORED_MAP>(given); }
template <Without without> __device__ inline void made_maps_steps(const Given &given) { specialized_kernel<without, BY_MADE_MAP>(given); }

template <Without without> __device__ inline void two_waits_steps(const Given &given) {
    __shared__ Ring<STAGES> ring;
    __shared__ uint32_t of_near[LANES];
    if (threadIdx.x == 0) ring.begin(2);
    __syncthreads();
    uint32_t sum = 0;
    if (warp() == 0) produce<without, BY_PARAMETER>(given, ring);
    else if (warp() == 1) sum = use<without, true, false>(given, ring);
    else of_near[lane()] = use<without, false, true>(given, ring);
    __syncthreads();
    if (warp() == 1) given.out[blockIdx.x * LANES + lane()] = fold(sum, of_near[lane()]);
}

// A row of the first buffer and one of the second, by the lanes of a warp.
template <Without without, bool is_adding> __device__ inline uint32_t loaded(const Given &given, uint32_t row, uint32_t zero) {
    uint32_t first = row ^ 1, second = row ^ 1;
    if (is_adding) {
        if (without != FIRST) first = atomicAdd(given.counters + at(blockIdx.x), zero);
        if (without != SECOND) second = given.hot[at(row % HOT_ROWS)];
    } else {
        if (without != FIRST) first = given.A[at(row)];
        if (without != SECOND) second = given.near[at(row % NEAR_ROWS)];
    }
    return first ^ second;
}

template <Without without, bool is_adding> __device__ inline void loading_kernel(const Given &given) {
    __shared__ Ring<STAGES> ring;
    if (threadIdx.x == 0) ring.begin(1);
    __syncthreads();
    uint32_t row = begin(given);
    if (warp() == 0) {
#pragma unroll 1
        for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
            uint32_t value = loaded<without, is_adding>(given, row, step / STEPS);
            until_empty(ring, step);
            ring.a[step % STAGES][lane()] = value;
            __syncwarp();
            if (lane() == 0) ring.full[step % STAGES].arrive();
        }
    } else {
        given.out[blockIdx.x * LANES + lane()] = use<NOTHING, true, false>(given, ring);
    }
}

template <Without without> __device__ inline void loading_steps(const Given &given) { loading_kernel<without, false>(given); }
template <Without without> __device__ inline void adding_steps(const Given &given) { loading_kernel<without, true>(given); }

// A kernel, and the same without the reads of its first and of its second buffer.
#define KERNEL(name)                                                                                                         \
    extern "C" __global__ void name(const __grid_constant__ Given given) { name##_steps<NOTHING>(given); }                  \
    extern "C" __global__ void name##_without_first(const __grid_constant__ Given given) { name##_steps<FIRST>(given); }     \
    extern "C" __global__ void name##_without_second(const __grid_constant__ Given given) { name##_steps<SECOND>(given); }

KERNEL(maps_2)
KERNEL(maps_3)
KERNEL(maps_4)
KERNEL(bulk_2)
KERNEL(bulk_3)
KERNEL(bulk_4)
KERNEL(specialized)
KERNEL(specialized_bulk)
KERNEL(two_waits)
KERNEL(loading)
KERNEL(adding)
KERNEL(stored_maps)
KERNEL(made_maps)

// Reads all rows of `near`.
extern "C" __global__ void warm_up(const __grid_constant__ Given given) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t row = blockIdx.x; row < NEAR_ROWS; row += BLOCKS) sum += given.near[at(row)];
    given.out[blockIdx.x * LANES + lane()] = sum;
}

// What the kernels compute, step by step on the host. `term` is that of a row.
static uint32_t folded(uint32_t thread, std::function<uint32_t(uint32_t row)> term) {
    uint32_t row = start(thread / LANES), sum = row;
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) sum = fold(sum, term(row));
    return sum;
}

static uint32_t of_a(uint32_t row) { return in_a(row); }
static uint32_t of_near(uint32_t row) { return in_near(row % NEAR_ROWS); }
static uint32_t both_result(uint32_t thread) {
    return folded(thread, [](uint32_t row) { return of_a(row) ^ of_near(row); });
}
static uint32_t two_waits_result(uint32_t thread) { return fold(folded(thread, of_a), folded(thread, of_near)); }
static uint32_t adding_result(uint32_t thread) {
    return folded(thread, [](uint32_t row) { return in_hot(row % HOT_ROWS); });
}

// A tensor map of rows at an address, one row a copy. The driver's entry point is asked for, so nothing links to it.
static CUtensorMap rows_of(const uint32_t *address, size_t rows) {
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (!entry || found != cudaDriverEntryPointSuccess) {
        fprintf(stderr, "pipeline_truth: the driver has no cuTensorMapEncodeTiled\n");
        exit(1);
    }
    CUtensorMap map;
    cuuint64_t sizes[2] = {LANES, rows}, strides[1] = {ROW_BYTES};
    cuuint32_t box[2] = {LANES, 1}, each[2] = {1, 1};
    auto encode = (decltype(&cuTensorMapEncodeTiled))entry;
    CUresult code = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, (void *)address, sizes, strides, box, each,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "pipeline_truth: cuTensorMapEncodeTiled gives %d\n", (int)code);
        exit(1);
    }
    return map;
}

static std::vector<uint32_t> words_of(const CUtensorMap &first, const CUtensorMap &second) {
    std::vector<uint32_t> words(2 * sizeof(CUtensorMap) / 4);
    memcpy(words.data(), &first, sizeof first);
    memcpy(words.data() + words.size() / 2, &second, sizeof second);
    return words;
}

struct Buffers {
    Buffer A{"A", made(size_t(LANES) << ROW_BITS, [](uint32_t index) { return in_a(index / LANES); })};
    Buffer near{"near", made(LANES * NEAR_ROWS, [](uint32_t index) { return in_near(index / LANES); })};
    Buffer hot{"hot", made(LANES * HOT_ROWS, [](uint32_t index) { return in_hot(index / LANES); })};
    Buffer counters{"counters", std::vector<uint32_t>(THREADS)};
    Buffer out{"out", std::vector<uint32_t>(THREADS)};
    CUtensorMap map_a = rows_of(A.data, MASK + 1), map_near = rows_of(near.data, NEAR_ROWS);
    CUtensorMap other_a = rows_of(near.data, MASK + 1), other_near = rows_of(A.data, NEAR_ROWS);
    Buffer stored{"stored", words_of(map_a, map_near)};
    Buffer made_maps{"made", std::vector<uint32_t>(2 * BLOCKS * sizeof(CUtensorMap) / 4)};
    Given given(uint32_t first) const {
        return {map_a, map_near, other_a, other_near, (const CUtensorMap *)stored.data, (CUtensorMap *)made_maps.data,
                A.data, near.data, hot.data, counters.data, out.data, first};
    }
};

// A kernel, its variants, and the threads of its blocks.
struct Experiment {
    Kernel kernel;
    uint32_t block;
    void (*whole)(Given), (*without[2])(Given);
    const char *buffers[2];
};

static std::vector<Experiment> experiments() {
    const uint64_t one = uint64_t(THREADS) * STEPS;
    const uint64_t map_words = 2 * BLOCKS * sizeof(CUtensorMap) / 8; // stored by made_maps
    std::vector<Experiment> all;
#define EXPERIMENT(name, warps, first, second, reads, writes, atomics, low, why, result)                                     \
    all.push_back({{#name, reads, writes, atomics, "memory", {{first, low, 1}, {second, 0, 1 - low}}, why, nullptr, result}, \
                   (warps) * LANES, name, {name##_without_first, name##_without_second}, {first, second}})
    const char *ring = "both copies of a stage signal its mbarrier, and when A's row has come from device memory, near's is there";
    EXPERIMENT(maps_2, 1, "A", "near", 0, THREADS, 0, 0.75, ring, both_result);
    EXPERIMENT(maps_3, 1, "A", "near", 0, THREADS, 0, 0.75, ring, both_result);
    EXPERIMENT(maps_4, 1, "A", "near", 0, THREADS, 0, 0.75, ring, both_result);
    EXPERIMENT(bulk_2, 1, "A", "near", 0, THREADS, 0, 0.75, ring, both_result);
    EXPERIMENT(bulk_3, 1, "A", "near", 0, THREADS, 0, 0.75, ring, both_result);
    EXPERIMENT(bulk_4, 1, "A", "near", 0, THREADS, 0, 0.75, ring, both_result);
    const char *wait = "the warp that uses the rows waits for A's; the one that asks waits until it has used them";
    EXPERIMENT(specialized, 2, "A", "near", 0, THREADS, 0, 0.75, wait, both_result);
    EXPERIMENT(specialized_bulk, 2, "A", "near", 0, THREADS, 0, 0.75, wait, both_result);
    EXPERIMENT(two_waits, 3, "A", "near", 0, THREADS, 0, 0.75, "both warps wait for both copies, whichever rows they use", two_waits_result);
    EXPERIMENT(loading, 2, "A", "near", 2 * one, THREADS, 0, 0.75,
               "one warp waits for A's row, and the other one until it has come and the first has arrived", both_result);
    EXPERIMENT(adding, 2, "counters", "hot", one, THREADS, one, 0.75,
               "one warp waits until L2 has added, and the other one for that warp", adding_result);
    EXPERIMENT(stored_maps, 2, "A", "near", 0, THREADS, 0, 0.75, wait, both_result);
    EXPERIMENT(made_maps, 2, "A", "near", 0, THREADS + map_words, 0, 0.75, wait, both_result);
#undef EXPERIMENT
    return all;
}

// Every launch begins with rows that no launch before has begun with.
static uint32_t first_block() {
    static uint32_t first = 0;
    return (first += BLOCKS) - BLOCKS;
}

static void launch(const Experiment &experiment, const Buffers &buffers, void (*kernel)(Given), uint32_t first) {
    kernel<<<BLOCKS, experiment.block>>>(buffers.given(first));
    CHECK(cudaGetLastError());
}

static bool is_right(const Experiment &experiment, const Buffers &buffers) {
    uint32_t first = first_block();
    warm_up<<<BLOCKS, LANES>>>(buffers.given(0));
    launch(experiment, buffers, experiment.whole, first);
    CHECK(cudaDeviceSynchronize());
    return equal(buffers.out, [&](uint32_t thread) { return experiment.kernel.result(first * LANES + thread); });
}

static float timed_us(const Experiment &experiment, const Buffers &buffers, void (*kernel)(Given)) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    warm_up<<<BLOCKS, LANES>>>(buffers.given(0));
    CHECK(cudaEventRecord(begin));
    launch(experiment, buffers, kernel, first_block());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
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
    double medians[3];
    printf("{\"ablation\": \"%s\", \"repetitions\": %u, \"us\": {", experiment.kernel.name, REPETITIONS);
    for (int variant = 0; variant < 3; variant++) {
        std::vector<float> &sorted = times[variant];
        std::sort(sorted.begin(), sorted.end());
        medians[variant] = sorted[REPETITIONS / 2];
        printf("%s\"%s%s\": [%.2f, %.2f, %.2f]", variant ? ", " : "", variant ? "without " : "", names[variant],
               sorted[REPETITIONS / 4], sorted[REPETITIONS / 2], sorted[REPETITIONS * 3 / 4]);
    }
    double saved[2] = {std::max(medians[0] - medians[1], 0.0), std::max(medians[0] - medians[2], 0.0)};
    double both = saved[0] + saved[1];
    printf("}, \"saved_shares\": {\"%s\": %.3f, \"%s\": %.3f}}\n", names[1], both > 0 ? saved[0] / both : 0, names[2],
           both > 0 ? saved[1] / both : 0);
}

static bool run(const Experiment &experiment, const Buffers &buffers, bool is_timed) {
    const Kernel &kernel = experiment.kernel;
    bool right = is_right(experiment, buffers);
    printf("{\"kernel\": \"%s\", \"reads\": %llu, \"writes\": %llu, \"atomics\": %llu, ", kernel.name,
           (unsigned long long)kernel.reads, (unsigned long long)kernel.writes, (unsigned long long)kernel.atomics);
    print_shares(kernel);
    printf(", ");
    print_buffers({&buffers.A, &buffers.near, &buffers.hot, &buffers.counters, &buffers.out, &buffers.stored, &buffers.made_maps});
    printf(", \"right\": %s}\n", right ? "true" : "false");
    if (is_timed) print_ablation(experiment, buffers);
    return right;
}

int main(int count, char **words) {
    bool is_timed = count == 2 && !strcmp(words[1], "--time");
    if (count > 1 && !is_timed) {
        fprintf(stderr, "usage: pipeline_truth [--time]\n");
        return 2;
    }
    Buffers buffers;
    bool right = true;
    for (const Experiment &experiment : experiments()) right &= run(experiment, buffers, is_timed);
    return right ? 0 : 1;
}
